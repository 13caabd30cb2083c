"""Random bits: a function that kernels share which need them at several places.

``threefry`` is some hundred instructions.  A small kernel that needs it more often than once, as
programs that split keys have many of, calls a function with a module of its own, which is compiled
once for all kernels:

    {words, words} threefry(k0, k1, x0, x1)

where each is a vector of as many lanes as the kernel's, or a scalar.  Kernels of many points have
the instructions in place, where several of them overlap: calls would make them a fifth slower.

Start at :class:`Threefry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from functrax.backends.kernels.ir import Kernel
from functrax.backends.llvm.function_bodies import FunctionBody
from functrax.backends.llvm.math_calls import MANY_POINTS
from functrax.backends.llvm.templates import llvm_type
from functrax.backends.llvm.writer import NAME, Writer
from functrax.backends.loops.tree import Function
from functrax.core.prims.lowered_bits import threefry2x32
from functrax.core.scalars.scalar import THREEFRY, Builder, Scalar
from functrax.core.types import dtypes


class Threefry:
    """The random bits of one kernel."""

    def __init__(self, kernel: Kernel | Function) -> None:
        several = sum([node.op == THREEFRY for node in kernel.nodes()]) > 1
        self._called = several and kernel.points < MANY_POINTS
        self._written: dict[Scalar, tuple[Scalar, Scalar]] = {}

    def word(self, b: Builder, node: Scalar) -> Scalar | None:
        """A word, in basic operations; None if a call gives it."""
        if self._called:
            return None
        (both,) = node.args
        if both not in self._written:
            self._written[both] = threefry2x32(b, *both.args)
        return self._written[both][node.attr]


def call(w: Writer, operands: Sequence[str], lanes: int) -> str:
    """The right hand side of an instruction that gives both words."""
    type_ = llvm_type(dtypes.uint32, lanes)
    given = ", ".join([f"{type_} {x}" for x in operands])
    return f"call {{{type_}, {type_}}} {w.function(threefry_text(lanes))}({given})"


@cache
def threefry_text(lanes: int) -> str:
    """The function as a module of LLVM IR, for so many lanes."""
    b, body = Builder(), FunctionBody(lanes)
    operands = [b.node("argument", dtypes.uint32, (), k) for k in range(4)]
    type_ = llvm_type(dtypes.uint32, lanes)
    taken = ", ".join([f"{type_} {body.parameter(x)}" for x in operands])
    words = threefry2x32(b, *operands)
    for word in words:
        body.write(word)
    first, second = map(body.name, words)
    pair = f"{{{type_}, {type_}}}"
    return "\n".join(
        [
            f"define {pair} @{NAME}({taken}) nounwind {{",
            "entry:",
            *body.lines,
            f"  %first = insertvalue {pair} poison, {type_} {first}, 0",
            f"  %both = insertvalue {pair} %first, {type_} {second}, 1",
            f"  ret {pair} %both",
            "}",
            "",
        ]
    )
