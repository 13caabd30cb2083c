"""Functions that kernels call, where writing their instructions in place would cost more.

A function such as ``sin`` is some forty instructions, which are written in place: they share what
they can with their neighbours, and keep their operands in registers.  What LLVM does with a long
block takes more than proportional time, so where a kernel has more than ``IN_PLACE`` of one kind
they are calls of one function, in the text of the same module.  It does the same operations.  In a
kernel of few points, which LLVM compiles for longer than it runs, more than ``FEW_IN_PLACE`` are.
Functions with a part that is ``unlikely`` are called wherever they are: there they can branch
(``llvm/function_bodies.py``).

Random bits, ``threefry``, are some hundred instructions.  A kernel of few points that needs them
more often than once, as programs that split keys have many of, calls a function with a module of
its own, which is compiled once for all kernels (:func:`threefry_text`).  Kernels of many points
have the instructions in place, where several of them overlap: calls would make them a fifth slower.

Start at :class:`FunctionCalls`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from functrax.backends.kernels.ir import ordered
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.llvm.function_bodies import UNLIKELY, FunctionBody
from functrax.backends.llvm.templates import llvm_type
from functrax.backends.targets import target
from functrax.core.prims.lowered_bits import threefry2x32
from functrax.core.scalars.scalar import MATH, THREEFRY, WORD, Builder, Scalar
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import roughly

#: So many of one kind are written in place, at most.
IN_PLACE: Final = 8
#: And in a kernel of fewer points than these.
FEW_IN_PLACE: Final = 2
MANY_POINTS: Final = 4096
#: What the names of the functions begin with; then come the operation, the dtype and the lanes.
_PREFIX: Final = "functrax.math"


class FunctionCalls:
    """The functions of one kernel: which it calls, and what is written in place of others.

    Args:
      nodes: of the kernel.
      points: how many points its loops have.
      modules: whether functions may have modules of their own.

    Attributes:
      texts: of the functions of floats that were called, by name.
    """

    def __init__(self, nodes: Iterable[Scalar], points: int, modules: bool = True) -> None:
        functions = [node for node in nodes if node.op in EXPANSIONS or node.op == THREEFRY]
        points = roughly(points)
        most = IN_PLACE if points >= MANY_POINTS else FEW_IN_PLACE
        count = Counter((node.op, node.dtype) for node in functions)
        self._kinds = {kind for kind, n in count.items() if n > most}
        often = count[THREEFRY, dtypes.uint32] > 1
        self._calls_bits = modules and often and points < MANY_POINTS
        self._expanded: dict[Scalar, tuple[Scalar, ...]] = {}
        self.texts: dict[str, str] = {}

    def calls(self, node: Scalar) -> bool:
        """Whether an operation is a call of a function of floats."""
        if node.op not in EXPANSIONS:
            return False
        return (node.op, node.dtype) in self._kinds or _branches(node.op, node.dtype)

    def expansion(self, b: Builder, node: Scalar) -> Scalar | None:
        """What is written in place of a function; None if that is called, or it is none."""
        of_bits = node.op == WORD
        if self._calls_bits if of_bits else node.op not in EXPANSIONS or self.calls(node):
            return None
        function = node.args[0] if of_bits else node
        found = self._expanded.get(function)
        if found is None:
            if of_bits:
                found = threefry2x32(b, *function.args)
            else:
                found = (EXPANSIONS[node.op](b, *node.args),)
            self._expanded[function] = found
        return found[node.attr if of_bits else 0]

    def call(self, node: Scalar, operands: Sequence[str], lanes: int) -> str:
        """The right hand side of an instruction.

        Args:
          node: an operation that :meth:`calls` is true of.
          operands: the names (or constants) that are its operands.
          lanes: how many elements a register holds.
        """
        name = f"{_PREFIX}.{node.op}.{node.dtype.name}.{lanes}"
        if name not in self.texts:
            self.texts[name] = _function(name, node.op, node.dtype, lanes, target().functions)
        type_ = llvm_type(node.dtype, lanes)
        return f"call {type_} @{name}({', '.join(f'{type_} {x}' for x in operands)})"


@lru_cache(maxsize=256)
def _function(
    name: str, op: str, dtype: np.dtype[Any], lanes: int, functions: frozenset[str]
) -> str:
    """The text of a function, for processors with these instructions."""
    operands, root = _expression(op, dtype)
    body = FunctionBody(lanes)
    return body.function(name, [body.parameter(x) for x in operands], root)


@cache
def _branches(op: str, dtype: np.dtype[Any]) -> bool:
    """Whether a function has a part that is hardly ever needed."""
    return any(node.op == UNLIKELY for node in ordered((_expression(op, dtype)[1],)))


def _expression(name: str, dtype: np.dtype[Any]) -> tuple[list[Scalar], Scalar]:
    b = Builder()
    operands = [b.node("argument", dtype, (), k) for k in range(MATH[name])]
    return operands, _written(b, EXPANSIONS[name](b, *operands))


def _written(b: Builder, root: Scalar) -> Scalar:
    """An expression in which no function of ``EXPANSIONS`` is left."""
    new: dict[int, Scalar] = {}
    for node in ordered((root,)):
        args = tuple(new[id(x)] for x in node.args)
        if node.op in EXPANSIONS:
            new[id(node)] = _written(b, EXPANSIONS[node.op](b, *args))
        elif all(x is y for x, y in zip(args, node.args, strict=True)):
            new[id(node)] = node
        else:
            new[id(node)] = b.node(node.op, node.dtype, args, node.attr)
    return new[id(root)]


@cache
def threefry_text(lanes: int, name: str) -> str:
    """Random bits as a module of LLVM IR, ``{words, words} threefry(k0, k1, x0, x1)``.

    Each is a vector of so many lanes, or a scalar.
    """
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
            f"define {pair} @{name}({taken}) nounwind {{",
            "entry:",
            *body.lines,
            f"  %first = insertvalue {pair} poison, {type_} {first}, 0",
            f"  %both = insertvalue {pair} %first, {type_} {second}, 1",
            f"  ret {pair} %both",
            "}",
            "",
        ]
    )
