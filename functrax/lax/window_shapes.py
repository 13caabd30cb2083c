"""The arithmetic of windows: paddings by name, sizes of results, the index under a window.

One axis of a windowed operation is described by a :class:`WindowAxis`: the array's size, the
window's, stride, padding and the two dilations.  Its result has :attr:`WindowAxis.out` elements,
and element ``k`` of the window at place ``o`` is element ``(o*stride + k*dilation - low) / base``
of the array, if that is one.  Nothing here looks at arrays.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.index.expr import Condition, IndexExpr
from functrax.core.records import record
from functrax.lax.operands import Shape, as_ints


def dilated(size: int, dilation: int) -> int:
    """The size of an axis with ``dilation - 1`` gaps between neighbours."""
    return 0 if size == 0 else (size - 1) * dilation + 1


@record
class WindowAxis:
    """One axis of a windowed operation.

    Args:
      size: the array's size.
      window: the window's size.
      stride: how far apart neighbouring windows are.
      low, high: padding before and after; negative cuts off.
      base: the dilation of the array.
      dilation: the dilation of the window.
    """

    size: int
    window: int
    stride: int = 1
    low: int = 0
    high: int = 0
    base: int = 1
    dilation: int = 1

    @property
    def out(self) -> int:
        """How many windows there are."""
        room = dilated(self.size, self.base) + self.low + self.high
        span = dilated(self.window, self.dilation)
        return 0 if room < span else (room - span) // self.stride + 1

    def index(self, place: IndexExpr, tap: IndexExpr) -> tuple[IndexExpr, tuple[Condition, ...]]:
        """The array's index under element ``tap`` of window ``place``, and when there is one.

        Out of bounds means padding.  Without a base dilation there is no division.
        """
        spot = place * self.stride + tap * self.dilation - self.low
        if self.base == 1:
            return spot, ()
        return spot // self.base, ((spot % self.base).eq(0),)


def window_axes(
    name: str,
    shape: Shape,
    window: Shape,
    strides: Sequence[int] | None,
    padding: Any,
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> list[WindowAxis]:
    """The axes of a windowed operation, checked.

    Raises:
      ArgumentError: if an argument does not have a number for each axis, a stride or dilation is
        not above 0, or the padding is unknown.
    """
    rank = len(shape)
    steps = _positive(name, "strides", strides, rank)
    base = _positive(name, "base (lhs) dilation", base_dilation, rank)
    dilation = _positive(name, "window (rhs) dilation", window_dilation, rank)
    if len(window) != rank:
        raise ShapeError(
            f"{name}: the window needs a size for each axis",
            got=f"window {window} for sizes {shape}",
            fix="as many sizes as there are axes; 1 leaves an axis as it is",
        )
    if isinstance(padding, str):
        spans = [dilated(w, d) for w, d in zip(window, dilation, strict=True)]
        wide = [dilated(n, b) for n, b in zip(shape, base, strict=True)]
        pads = padtype_to_pads(wide, spans, steps, padding)
    else:
        pads = pairs(name, padding, rank)
    rows = zip(shape, window, steps, pads, base, dilation, strict=True)
    return [WindowAxis(n, w, s, low, high, b, d) for n, w, s, (low, high), b, d in rows]


def _positive(name: str, what: str, given: Sequence[int] | None, rank: int) -> Shape:
    if given is None:
        return (1,) * rank
    numbers = as_ints(name, given, what)
    if len(numbers) != rank or any(n < 1 for n in numbers):
        raise ArgumentError(
            f"{name}: {what} must be a number above 0 for each axis",
            got=f"{numbers} for {rank} axes",
            fix="as many numbers, each above 0; 1 leaves an axis as it is",
        )
    return numbers


def pairs(name: str, padding: Any, rank: int) -> list[tuple[int, int]]:
    """Padding as pairs of integers, one for each axis."""
    try:
        found = [(operator.index(low), operator.index(high)) for low, high in padding]
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name}: padding argument should be a name or a sequence of (low, high) pairs, "
            f"got {padding}",
            got=repr(padding),
            fix="'SAME', 'SAME_LOWER', 'VALID', or [(1, 1), (0, 2)]",
        ) from error
    if len(found) != rank:
        raise ArgumentError(
            f"{name}: padding needs a pair for each axis",
            got=f"{padding} for {rank} axes",
            fix="[(low, high), ...], one pair for each axis; or 'SAME' or 'VALID'",
        )
    return found


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """The padding that a name stands for.

    Args:
      in_shape: the array's sizes.
      window_shape: the window's sizes, dilated.
      window_strides: the strides.
      padding: ``"VALID"`` for none, ``"SAME"`` for as many windows as strides fit into the array,
        the odd one of padding after it, ``"SAME_LOWER"`` with the odd one before it.

    Returns:
      A pair ``(low, high)`` for each axis.

    Raises:
      ArgumentError: for another name.

    >>> from functrax import lax
    >>> lax.padtype_to_pads((8,), (3,), (2,), "SAME")
    [(0, 1)]
    """
    name = padding.upper() if isinstance(padding, str) else padding
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise ArgumentError(
            "padding: unknown name", got=repr(padding), fix="'SAME', 'SAME_LOWER' or 'VALID'"
        )
    result = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        out = -(-size // stride)
        total = max((out - 1) * stride + window - size, 0)
        less, more = total // 2, total - total // 2
        result.append((less, more) if name == "SAME" else (more, less))
    return result


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """The shape of a ``reduce_window``.

    Args:
      operand_shape: the array's sizes.
      window_dimensions: the window's sizes.
      window_strides: how far apart windows are.
      padding: a name of :func:`padtype_to_pads`, or a pair ``(low, high)`` for each axis.
      base_dilation: the distance of the array's elements; 1 if omitted.
      window_dilation: the distance of the window's elements; 1 if omitted.

    Returns:
      A tuple of sizes.

    Raises:
      ShapeError: if the window does not have a size for each axis.
      ArgumentError: if strides, padding or dilations are not understood.

    >>> from functrax import lax
    >>> lax.reduce_window_shape_tuple((8, 8), (2, 2), (2, 2), "VALID")
    (4, 4)
    """
    axes = window_axes(
        "reduce_window_shape_tuple",
        tuple(operand_shape),
        tuple(window_dimensions),
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    )
    return tuple(axis.out for axis in axes)


def transposed_padding(window: int, stride: int, padding: Any) -> tuple[int, int]:
    """The padding of a fractionally strided convolution, along one axis.

    Args:
      window: the window's dilated size.
      stride: the stride of the convolution that it is the transpose of.
      padding: that convolution's padding: "SAME", "VALID" or a pair.

    Formula: a strided convolution with padding ``(a, b)`` has the transpose with padding
    ``(window - 1 - a, window - 1 - b)`` (Dumoulin and Visin, "A guide to convolution arithmetic",
    2016, relationship 14); "SAME" and "VALID" choose the result's size.
    """
    if not isinstance(padding, str):
        low, high = padding
        return window - 1 - low, window - 1 - high
    if padding not in ("SAME", "VALID"):
        raise ArgumentError(
            "conv_transpose: unknown padding", got=repr(padding), fix="'SAME' or 'VALID'"
        )
    if padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        return window - 1, total - (window - 1)
    total = window + stride - 2
    low = window - 1 if stride > window - 1 else math.ceil(total / 2)
    return low, total - low
