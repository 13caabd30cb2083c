"""Which equations a group stands for.

Equal groups share one inner program, whose lines are those of the group that was made first.  The
equations that a certain group was made of, with their own lines, are in the program before the
pass that made it.  Start at :class:`Members`.
"""

from __future__ import annotations

from functools import cached_property

from functrax.backends.passes.groups import Group
from functrax.backends.pipeline import CompiledStages
from functrax.core.jaxpr import Eqn, Jaxpr, Var, all_eqns

#: The pass that makes the groups of each kind.
_MAKERS = {"fused": "fuse", "contraction": "recognise"}


def expanded(jaxpr: Jaxpr) -> tuple[Eqn, ...]:
    """The equations of a program, those of groups in it in place of the groups."""
    return tuple(e for e in all_eqns(jaxpr) if not isinstance(e.primitive, Group))


class Members:
    """The equations of groups.

    Args:
      stages: the program after each pass.
    """

    def __init__(self, stages: CompiledStages) -> None:
        self._stages = stages

    def of(self, group: Eqn) -> tuple[Eqn, ...]:
        """The equations of a group, in order; an equation that is no group stands for itself."""
        maker = _MAKERS.get(group.primitive.name)
        if maker is None:
            return (group,)
        inner: Jaxpr = group.params["jaxpr"]
        definitions = self._fused if maker == "fuse" else self._recognised
        found: dict[int, Eqn] = {}
        known = set(group.invars)
        stack = list(group.outvars)
        while stack:
            v = stack.pop()
            place, eqn = definitions.get(v, (-1, None))
            if v in known or eqn is None or place in found:
                continue
            found[place] = eqn
            stack.extend(x for x in eqn.invars if isinstance(x, Var))
        eqns = tuple(found[place] for place in sorted(found))
        known_as = expanded(inner)
        if [e.primitive for e in eqns] != [e.primitive for e in known_as]:
            return known_as
        return eqns

    @cached_property
    def _fused(self) -> dict[Var, tuple[int, Eqn]]:
        return self._before("fuse")

    @cached_property
    def _recognised(self) -> dict[Var, tuple[int, Eqn]]:
        return self._before("recognise")

    def _before(self, name: str) -> dict[Var, tuple[int, Eqn]]:
        """What defines each variable in the program before a pass, and its place."""
        program = self._stages.source
        for stage in self._stages.stages:
            if stage.name == name:
                break
            program = stage.program
        return {v: (place, eqn) for place, eqn in enumerate(all_eqns(program)) for v in eqn.outvars}
