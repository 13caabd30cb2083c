"""Functions of floats as functions of the module, for kernels that have many of one kind.

A function such as ``sin`` is some forty instructions, which are written in place: they share what
they can with their neighbours, and keep their operands in registers.  What LLVM does with a long
block takes more than proportional time, so where a kernel has more than ``IN_PLACE`` of one kind
they are calls of one function, in the text of the same module.  It does the same operations.

Start at :meth:`MathCalls.call`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.llvm.instructions import constant, emit, llvm_type
from functrax.core.lowering import MATH, Builder, Scalar

#: So many of one kind are written in place, at most.
IN_PLACE: Final = 6
#: What the names of the functions begin with; then come the operation, the dtype and the lanes.
_PREFIX: Final = "functrax.math"

#: A function of floats, by the name of the operation and the dtype.
Kind: TypeAlias = tuple[str, np.dtype[Any]]


class MathCalls:
    """The functions that one kernel calls.

    Args:
      nodes: of the kernel.
      contract: whether a product and a sum of different operations may become one fma.

    Attributes:
      texts: of the functions that were called, by name.
    """

    def __init__(self, nodes: Iterable[Scalar], contract: bool) -> None:
        count = Counter((node.op, node.dtype) for node in nodes if node.op in EXPANSIONS)
        self._kinds: set[Kind] = {kind for kind, n in count.items() if n > IN_PLACE}
        self._contract = contract
        self.texts: dict[str, str] = {}

    def calls(self, node: Scalar) -> bool:
        """Whether an operation is a call."""
        return (node.op, node.dtype) in self._kinds

    def call(self, node: Scalar, operands: Sequence[str], lanes: int) -> str:
        """The right hand side of an instruction.

        Args:
          node: an operation that :meth:`calls` is true of.
          operands: the names (or constants) that are its operands.
          lanes: how many elements a register holds.
        """
        name = f"{_PREFIX}.{node.op}.{node.dtype.name}.{lanes}"
        if name not in self.texts:
            self.texts[name] = _function(name, node.op, node.dtype, lanes, self._contract)
        type_ = llvm_type(node.dtype, lanes)
        return f"call {type_} @{name}({', '.join(f'{type_} {x}' for x in operands)})"


@lru_cache(maxsize=256)
def _function(name: str, op: str, dtype: np.dtype[Any], lanes: int, contract: bool) -> str:
    """The text of a function."""
    builder = Builder()
    parameters = [builder.node("given", dtype, (), n) for n in range(MATH[op])]
    names = {id(x): f"%x{n}" for n, x in enumerate(parameters)}
    lines: list[str] = []
    result = _write(EXPANSIONS[op](builder, *parameters), builder, names, lines, lanes, contract)
    type_ = llvm_type(dtype, lanes)
    taken = ", ".join(f"{type_} {names[id(x)]}" for x in parameters)
    head = f"define internal {type_} @{name}({taken}) nounwind {{"
    return "\n".join([head, "entry:", *lines, f"  ret {type_} {result}", "}"])


def _write(
    root: Scalar,
    builder: Builder,
    names: dict[int, str],
    lines: list[str],
    lanes: int,
    contract: bool,
) -> str:
    """Write the instructions of an expression; the name of its value."""

    def name_of(x: Scalar) -> str:
        return constant(x.attr, x.dtype, lanes) if x.op == "const" else names[id(x)]

    def fresh() -> str:
        return f"%v{len(lines)}"

    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in names or node.op == "const":
            stack.pop()
            continue
        expansion = EXPANSIONS.get(node.op)
        args = node.args if expansion is None else (expansion(builder, *node.args),)
        missing = [x for x in args if id(x) not in names and x.op != "const"]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        operands = [name_of(x) for x in args]
        found = operands[0]
        if expansion is None:
            found = emit(node, operands, lanes, fresh, lines, contract)
        names[id(node)] = found
    return name_of(root)
