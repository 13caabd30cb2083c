"""How much work an elementwise equation is for one element, in operations.

An equation is written in scalar operations, as kernels write it, and these are counted: a function
such as ``exp`` as those that it is expanded into, the random bits of a key and a counter as their
rounds, a quotient as the cycles of one.  So ``threefry2x32`` is 119 operations and ``add`` is one.
What fusion does twice costs so many times as much.

Start at :func:`operations_of`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from functrax.backends.kernels.ir import ordered
from functrax.backends.kernels.math import FUNCTION_OPERATIONS
from functrax.core.ir.jaxpr import Eqn, Var
from functrax.core.prims.fused import fma
from functrax.core.scalars.scalar import WORK, Builder, Scalar
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes

#: What takes no instruction, or one that is counted elsewhere.
FREE: Final = frozenset(
    ("acc", "const", "dim", "given", "imag", "int", "lane", "lanes", "real", "result", "tail")
)
#: As how many operations counts what is none of a scalar expression, or one of a kind: a quotient
#: or square root (whose cycles are half hidden behind others; one by a whole number is a product
#: and a shift), a remainder, and each place more of which a view is put together (a comparison, its
#: mask, a load and a choice).
OPERATIONS: Final = {"quotient": 4, "remainder": 40, "piece of a view": 4}
_known: dict[Hashable, float] = {}


def count(node: Scalar) -> int | None:
    """As how many others an operation counts; None of quotients, square roots and remainders."""
    if node.op in ("div", "rem", "sqrt"):
        by_number = node.dtype.kind in "iu" and node.args[-1].op in ("const", "int")
        return OPERATIONS["quotient"] if by_number else None
    if node.op in WORK:
        return WORK[node.op]
    return FUNCTION_OPERATIONS.get(node.op, 1)


def operations_of(eqn: Eqn) -> float:
    """Operations of an equation for an element of its result, those on vectors of 4-byte elements.

    Equations that are not elementwise count as one.  Numbers of a program count alike, whatever
    they are: what is decided by this holds for other sizes.
    """
    if not isinstance(eqn.primitive, Elementwise):
        return 1.0
    last = eqn.invars[-1]  # others are of its dtype, or choose
    key: Hashable = (eqn.primitive, last.aval.dtype, eqn.outvars[0].aval.dtype, type(last) is Var)
    if eqn.params:
        key = (key, *eqn.params.items())
    found = _known.get(key)
    if found is None:
        found = _known[key] = _counted(eqn)
    return found


def _counted(eqn: Eqn) -> float:
    b = Builder()
    operands = [_operand(b, k, x) for k, x in enumerate(eqn.invars)]
    out: Any = eqn.primitive.lower(b, *operands, **eqn.params)
    total = 0.0
    for node in ordered(out if eqn.primitive.multiple_results else (out,)):
        if node.op not in FREE:
            each = count(node)
            if each is None:
                each = OPERATIONS["remainder" if node.op == "rem" else "quotient"]
            total += each * max(node.dtype.itemsize, 4) / 4
    return total


def _operand(b: Builder, number: int, x: Any) -> Scalar:
    """What stands for an operand: for one of integers that is a number, 3."""
    dtype = x.aval.dtype
    if type(x) is not Var and dtype.kind in "iu":
        return b.const(3, dtype)
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        parts = [b.node("given", part, (), (number, k)) for k in range(2)]
        return b.complex(parts[0], parts[1])
    return b.node("given", dtype, (), (number, 0))


def rounded_once(b: Builder, node: Scalar) -> Scalar:
    """A sum of what is carried and a product, rounded once; another value as it is."""
    if node.op != "add" or node.dtype not in fma.accepts:
        return node
    total, value = node.args
    if value.op != "mul":
        return node
    x, y = value.args
    return b.fma(x, y, total)
