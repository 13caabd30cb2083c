"""What the operations of reductions are, in scalar expressions.

Each takes the values accumulated so far and new ones and gives the new accumulated values; each
has an identity, which leaves the other operand as it is.  ``argmax`` and ``argmin`` reduce pairs
of a value and its index: the first of equal values wins, and NaN wins over numbers, so the result
does not depend on the order in which pairs meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core import dtypes
from functrax.core.lowering import Builder, Scalar
from functrax.core.prims.reduce import wider

Values = tuple[Scalar, ...]


def combine(b: Builder, op: str, left: Values, right: Values) -> Values:
    """Two accumulated values as one.

    Args:
      b: makes the expression.
      op: ``add mul min max and or xor set argmax argmin``.
      left: what was accumulated first.
      right: what was accumulated next.
    """
    if op in ("argmax", "argmin"):
        return _extreme_pair(b, op, left, right)
    (x,), (y,) = left, right
    if op == "set":
        return (y,)
    if op in ("and", "or", "xor"):
        return (b.logic(op, x, y),)
    if x.dtype == np.bool_:  # numbers of truth: a sum is "or", a product is "and"
        return (b.logic("or" if op in ("add", "max") else "and", x, y),)
    return (getattr(b, op)(x, y),)


def _extreme_pair(b: Builder, op: str, left: Values, right: Values) -> Values:
    (x, i), (y, j) = left, right
    if x.dtype == np.bool_:
        x, y = b.convert(x, np.dtype(np.uint8)), b.convert(y, np.dtype(np.uint8))
    better = b.compare("gt" if op == "argmax" else "lt", y, x)
    equal = b.compare("eq", x, y)
    if x.dtype.kind not in "iub":
        x_nan, y_nan = b.is_nan(x), b.is_nan(y)
        better = b.logic("or", better, b.logic("and", y_nan, b.logic("not", x_nan)))
        equal = b.logic("or", equal, b.logic("and", x_nan, y_nan))
    first = b.logic("and", equal, b.compare("lt", j, i))
    better = b.logic("or", better, first)
    return b.select(better, right[0], left[0]), b.select(better, j, i)


def identity(b: Builder, op: str, dtype: np.dtype[Any]) -> Scalar:
    """The value that an operation starts from."""
    if op in ("add", "or", "xor"):
        return b.const(0, dtype)
    if op == "mul":
        return b.const(1, dtype)
    if op == "and":
        return b.const(True if dtype == np.bool_ else -1, dtype)
    assert op in ("max", "min", "argmax", "argmin"), op
    low = op in ("max", "argmax")
    if dtype == np.bool_:
        return b.const(not low, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return b.const(limits.min if low else limits.max, dtype)
    return b.const(-np.inf if low else np.inf, dtype)


def accumulator(op: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which values of a dtype are accumulated."""
    return wider(dtype) if op in ("add", "mul") else dtype


#: The index that every pair of a value and an index beats.
LAST_INDEX = np.iinfo(np.int32).max


def identities(b: Builder, op: str, values: Values) -> Values:
    """The values that a reduction starts from."""
    first = identity(b, op, values[0].dtype)
    if len(values) == 1:
        return (first,)
    return first, b.const(LAST_INDEX, values[1].dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a real floating point type."""
    return dtype in dtypes.FLOATING
