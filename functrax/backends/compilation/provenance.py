"""Which equations a group stands for.

Equal groups share one inner program, whose lines are those of the group that was made first.  The
equations that a certain group was made of, with their own lines, are in the program before the
pass that made it.  Start at :class:`Members`.
"""

from __future__ import annotations

from collections.abc import Iterable

from functrax.backends.compilation.stage import CompiledStages
from functrax.backends.passes.groups import Group, contraction
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var, all_eqns
from functrax.core.tracing.primitive import Primitive


def expanded(jaxpr: Jaxpr) -> tuple[Eqn, ...]:
    """The equations of a program, those of groups in it in place of the groups."""
    return tuple(e for e in all_eqns(jaxpr) if not isinstance(e.primitive, Group))


def _primitives(eqns: Iterable[Eqn]) -> list[Primitive]:
    return [e.primitive for e in eqns]


class Members:
    """The equations of groups.

    Args:
      stages: the program after each pass.
    """

    def __init__(self, stages: CompiledStages) -> None:
        self._stages = stages
        self._definitions: dict[str, dict[Var, tuple[int, Eqn]]] = {}

    def of(self, group: Eqn) -> tuple[Eqn, ...]:
        """The equations of a group, in order; an equation that is no group stands for itself."""
        # those of a contraction before it was recognised
        return self._of(group, ("fuse", "recognise")[: 1 + (group.primitive is contraction)])

    def _of(self, group: Eqn, passes: tuple[str, ...]) -> tuple[Eqn, ...]:
        """The equations of a group before the first pass, and of groups in it before the others."""
        if not isinstance(group.primitive, Group):
            return (group,)
        known_as = expanded(group.params["jaxpr"])
        first, *others = passes
        eqns = self._between(group, self._before(first))
        if others:
            eqns = tuple([e for eqn in eqns for e in self._of(eqn, tuple(others))])
        return known_as if _primitives(eqns) != _primitives(known_as) else eqns

    def _between(self, group: Eqn, definitions: dict[Var, tuple[int, Eqn]]) -> tuple[Eqn, ...]:
        """The equations that lead from a group's operands to its results."""
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
        return tuple(found[place] for place in sorted(found))

    def _before(self, name: str) -> dict[Var, tuple[int, Eqn]]:
        """What defines each variable in the program before a pass, and its place."""
        found = self._definitions.get(name)
        if found is None:
            program = self._stages.source
            for stage in self._stages.stages:
                if stage.name == name:
                    break
                program = stage.program
            eqns = enumerate(all_eqns(program))
            found = {v: (place, eqn) for place, eqn in eqns for v in eqn.outvars}
            self._definitions[name] = found
        return found
