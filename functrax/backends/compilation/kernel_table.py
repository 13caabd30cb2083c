"""The code of each equation of a program, found once, before any instruction is written.

Lowering is Python's work and making machine code is LLVM's, in other threads: so all kernels of a
program are asked for first (:meth:`Codes.begin`), those of loops' bodies and branches among them.
The assembly (``backends/compilation/compiler.py``) then asks again, equation by equation, and finds
them here, or the reason why an equation is no kernel.

Start at :class:`Codes`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from functrax.backends.compilation.codegen import GroupCode, contraction_code, group_code, loop_code
from functrax.backends.compile_log import found
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.passes.fusion.contraction_groups import has_few_parts, is_small
from functrax.backends.passes.groups import contraction, fused
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Literal
from functrax.core.options.config import state as options
from functrax.core.prims.control import Choice, Loop
from functrax.core.prims.cumulative import Cumulative


class Codes:
    """The codes of equations."""

    def __init__(self) -> None:
        # equations are kept, so that no other gets the number of one that is gone
        self._found: dict[tuple[int, str], tuple[Eqn, GroupCode | Refusal]] = {}
        #: Of loops by what they do, for many of a program are equal.
        self._loops: dict[Hashable, GroupCode | Refusal] = {}

    def begin(self, jaxpr: Jaxpr) -> None:
        """Ask for the code of all equations of a program that went through the pipeline."""
        for eqn in jaxpr.eqns:
            for inner in self._begin(eqn):
                self.begin(inner)

    def _begin(self, eqn: Eqn) -> Iterator[Jaxpr]:
        """Ask for the code of an equation, and yield the programs in it if it has none."""
        primitive, params = eqn.primitive, eqn.params
        if primitive is fused:
            self.group(eqn)
        elif primitive is contraction:
            self.contraction(eqn)
        elif isinstance(primitive, Choice):
            yield from params["branches"]
        elif isinstance(primitive, Cumulative):
            self.loop(eqn)
        elif isinstance(primitive, Loop) and isinstance(self.loop(eqn), Refusal):
            yield from primitive.programs(params)

    def group(self, eqn: Eqn) -> GroupCode | Refusal:
        """The loops that compute a group; refused if it does not fit the form of a kernel."""
        return self._of(eqn, "group", lambda: group_code(eqn.params["jaxpr"], eqn.params["name"]))

    def contraction(self, eqn: Eqn) -> GroupCode | Refusal:
        """What computes a sum of products: tiles of it, else loops if they are few.

        It is refused where a host call is better.
        """
        jaxpr, name = eqn.params["jaxpr"], eqn.params["name"]

        def find() -> GroupCode | Refusal:
            tiled = not options.strict or options.strict_tiles
            if tiled and not has_few_parts(jaxpr):
                code = contraction_code(jaxpr, name)
                if isinstance(code, GroupCode):
                    return code
            if not is_small(jaxpr):
                return Refusal("a product of matrices, which the host computes")
            return group_code(jaxpr, name)

        return self._of(eqn, "contraction", find)

    def loop(self, eqn: Eqn) -> GroupCode | Refusal:
        """A loop, or a cumulative operation, as one kernel.

        It is refused if the points of a loop depend on one another, or a step is too large.
        """
        return self._of(eqn, "loop", lambda: self._loop(eqn))

    def refused(self) -> tuple[tuple[Eqn, Refusal], ...]:
        """The equations that were asked about and are no kernel, with the reasons."""
        answers = self._found.values()
        return tuple([(eqn, answer) for eqn, answer in answers if isinstance(answer, Refusal)])

    def _loop(self, eqn: Eqn) -> GroupCode | Refusal:
        key = _meaning(eqn)
        code = self._loops.get(key)
        if code is None:
            code = self._loops[key] = loop_code(eqn)
        elif isinstance(code, GroupCode):
            for _ in code.kernels:
                found("memory")
        return code

    def _of(
        self, eqn: Eqn, what: str, find: Callable[[], GroupCode | Refusal]
    ) -> GroupCode | Refusal:
        key = (id(eqn), what)
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = (eqn, find())
        return known[1]


def _meaning(eqn: Eqn) -> Hashable:
    """What is equal for equations that do the same with operands of the same types.

    Operands that are one variable are told from those that are several.
    """
    first = {x: n for n, x in reversed(list(enumerate(eqn.invars)))}
    operands = tuple([x if isinstance(x, Literal) else (first[x], x.aval) for x in eqn.invars])
    results = tuple([v.aval for v in eqn.outvars])
    return eqn.primitive, tuple(sorted(eqn.params.items())), operands, results
