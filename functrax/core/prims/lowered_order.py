"""Which of two elements comes first, in scalar operations.

Floats are compared as integers that have their order, so that no subnormal number is taken for 0.

Start at :func:`sorts_before` and :func:`total_order_before`; what is sorted by digits of integers
begins at :func:`ascending_words` and :func:`total_order_words`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

#: The integers that an element is ordered by, given its key.
Words: TypeAlias = "Callable[[Builder, Scalar], list[Scalar]]"
#: Whether an element comes before another one, given the keys of both, the most important first,
#: and whether it comes earlier in the row.
Precedes: TypeAlias = "Callable[[Builder, Sequence[Scalar], Sequence[Scalar], Scalar], Scalar]"


def sorts_before(
    b: Builder, x: Sequence[Scalar], y: Sequence[Scalar], is_earlier: Scalar
) -> Scalar:
    """The order of ``sort``: rising, the zeros equal and all NaN equal and last; complex numbers by
    real part first.
    """

    def parts(keys: Sequence[Scalar]) -> list[Scalar]:
        return [_ascending(b, part) for key in keys for part in b.parts(key)]

    return _lexicographic(b, "lt", parts(x), parts(y), is_earlier)


def total_order_before(
    b: Builder, x: Sequence[Scalar], y: Sequence[Scalar], is_earlier: Scalar
) -> Scalar:
    """The order of ``top_k``: falling in IEEE's total order, where 0 is larger than -0, and a NaN
    larger or smaller than all numbers by its sign.
    """
    keys = [_total(b, key) for key in x], [_total(b, key) for key in y]
    return _lexicographic(b, "gt", *keys, is_earlier)


def ascending_words(b: Builder, key: Scalar) -> list[Scalar]:
    """Unsigned integers that rise in the order of :func:`sorts_before`, the important one first."""
    return [_unsigned(b, _ascending(b, part)) for part in b.parts(key)]


def total_order_words(b: Builder, key: Scalar) -> list[Scalar]:
    """Those that rise in the order of :func:`total_order_before`."""
    return [b.logic("not", _unsigned(b, _total(b, key)))]


def _unsigned(b: Builder, x: Scalar) -> Scalar:
    """An unsigned integer that is as large as an integer, or a bool, in their order."""
    if x.dtype.kind == "b":
        return b.select(x, b.const(1, dtypes.uint8), b.const(0, dtypes.uint8))
    if x.dtype.kind == "u":
        return x
    word = b.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
    return b.logic("xor", word, b.like(word, 1 << (8 * x.dtype.itemsize - 1)))


def _lexicographic(
    b: Builder, comes_first: str, x: Sequence[Scalar], y: Sequence[Scalar], is_earlier: Scalar
) -> Scalar:
    found = is_earlier
    for one, other in zip(x[::-1], y[::-1], strict=True):
        tied = b.both(b.compare("eq", one, other), found)
        found = b.logic("or", b.compare(comes_first, one, other), tied)
    return found


def _bits(b: Builder, x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Of a float its bits, those without the sign, and the sign in all bits, as integers."""
    bits = b.bitcast(x, np.dtype(f"i{x.dtype.itemsize}"))
    most = b.like(bits, np.iinfo(bits.dtype).max)
    sign = b.logic("shr", bits, b.like(bits, 8 * x.dtype.itemsize - 1))
    return bits, b.logic("and", bits, most), sign


def _ascending(b: Builder, x: Scalar) -> Scalar:
    """A number that is as large as a real one in the order of ``sort``."""
    if not dtypes.is_float(x.dtype):
        return x
    bits, magnitude, sign = _bits(b, x)
    signed = b.sub(b.logic("xor", magnitude, sign), sign)  # -0 becomes 0
    infinity = b.bitcast(b.like(x, np.inf), bits.dtype)
    most = b.like(bits, np.iinfo(bits.dtype).max)
    return b.select(b.compare("gt", magnitude, infinity), most, signed)


def _total(b: Builder, x: Scalar) -> Scalar:
    """The same in the total order."""
    if not dtypes.is_float(x.dtype):
        return x
    bits, _, sign = _bits(b, x)
    most = b.like(bits, np.iinfo(bits.dtype).max)
    return b.logic("xor", bits, b.logic("and", sign, most))
