"""The code of each equation of a program, found before any instruction is written.

Lowering is Python's work and making machine code is LLVM's, in other threads: so all kernels of a
program are asked for first, once, those of loops' bodies and branches among them.  The assembly
(``backends/compilation/assembly.py``) finds them here, or the reason why an equation is no kernel.

Start at :class:`KernelTable`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from functrax.backends.compilation.codegen import GroupCode, group_code, made_together
from functrax.backends.compile_log import found
from functrax.backends.device import current_device
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.machine_code.kernel_jit import kept_texts
from functrax.backends.passes.groups import Group, fused, parts_of
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Literal
from functrax.core.options.config import state as options
from functrax.core.prims.control import Choice, LoopPrimitive
from functrax.core.prims.cumulative import Cumulative
from functrax.core.prims.ordering import Ordering


class KernelTable:
    """The codes of the equations of a program that went through the passes, when it is made.

    Args:
      jaxpr: the program.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        # equations are kept, so that no other gets the number of one that is gone
        self._codes: dict[int, tuple[Eqn, GroupCode | Refusal]] = {}
        self._parts: dict[int, list[Eqn]] = {}
        #: Of loops by what they do, for many of a program are equal.
        self._loops: dict[Hashable, GroupCode | Refusal] = {}
        with made_together():
            self._ask(jaxpr.eqns)

    def code(self, eqn: Eqn) -> GroupCode | Refusal | None:
        """What computes an equation, or why it is no kernel; None if it is none by its kind."""
        known = self._codes.get(id(eqn))
        return None if known is None else known[1]

    def parts(self, eqn: Eqn) -> list[Eqn]:
        """Smaller groups that do what a group does that is no kernel; none if it has no parts."""
        return self._parts.get(id(eqn), [])

    def refused(self) -> tuple[tuple[Eqn, Refusal], ...]:
        """The equations that were asked about and are no kernel, with the reasons."""
        answers = self._codes.values()
        return tuple([(eqn, answer) for eqn, answer in answers if isinstance(answer, Refusal)])

    def _ask(self, eqns: Iterable[Eqn]) -> None:
        """Ask for the code of equations, and of what is in those that have none."""
        for eqn in eqns:
            primitive, params = eqn.primitive, eqn.params
            if id(eqn) in self._codes:
                continue
            if isinstance(primitive, Choice):
                for branch in params["branches"]:
                    self._ask(branch.eqns)
            sorts = isinstance(primitive, Ordering) and target().warp > 0
            if not sorts and not isinstance(primitive, Group | LoopPrimitive | Cumulative):
                continue
            code = self._found(eqn)
            self._codes[id(eqn)] = eqn, code
            if isinstance(code, GroupCode):
                continue
            if isinstance(primitive, LoopPrimitive):
                for program in primitive.programs(params):
                    self._ask(program.eqns)
            elif primitive is fused and len(params["jaxpr"].eqns) > 1:
                parts = self._parts[id(eqn)] = parts_of(params["jaxpr"])
                self._ask(parts)

    def _found(self, eqn: Eqn) -> GroupCode | Refusal:
        """The code of an equation, which equal ones share; of a group kept with its program."""
        known: dict[Any, Any]
        if isinstance(eqn.primitive, Group):
            known = eqn.params["jaxpr"].memo
            how = (current_device().name, options.strict, options.strict_tiles, kept_texts())
            key: Hashable = (
                eqn.primitive,
                *how,
                options.schedule_off,
                options.opt_limit,
                options.autotune,
            )
        else:
            known, key = self._loops, _meaning(eqn)
        code: GroupCode | Refusal | None = known.get(key)
        if code is None:
            code = known[key] = group_code(eqn)
        elif isinstance(code, GroupCode):
            for _ in code.kernels:
                found("memory")
        return code


def _meaning(eqn: Eqn) -> Hashable:
    """What is equal for equations that do the same with operands of the same types.

    Operands that are one variable are told from those that are several.
    """
    first = {x: n for n, x in reversed(list(enumerate(eqn.invars)))}
    operands = tuple([x if isinstance(x, Literal) else (first[x], x.aval) for x in eqn.invars])
    results = tuple([v.aval for v in eqn.outvars])
    return eqn.primitive, tuple(sorted(eqn.params.items())), operands, results
