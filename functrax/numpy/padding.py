"""``pad``: values put around an array.

A constant is the ``pad`` primitive.  ``edge``, ``reflect``, ``symmetric`` and ``wrap`` read the
array in runs (:mod:`functrax.numpy.runs`), those of odd type in
:mod:`functrax.numpy.odd_reflections`.  The others compute a block before and one after, and join
them.
Axes are padded one after the other, as in NumPy, so that corners follow from the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.arithmetic import add, div, floor, mul, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, iota
from functrax.core.prims.rounding import RoundingMethod, round_
from functrax.core.prims.slicing import pad as _pad
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.numpy import reductions
from functrax.numpy.axes import integer, one_axis
from functrax.numpy.odd_reflections import pad_odd
from functrax.numpy.promote import convert, inexact, result, to_array
from functrax.numpy.quantiles import median
from functrax.numpy.rearranging import is_known
from functrax.numpy.runs import read_periodic, read_runs
from functrax.numpy.shaping import join, reshape_to, slice_axis
from functrax.numpy.vectorizing import apply_along_axis
from functrax.typing import ArrayLike

__all__ = ["pad"]

Widths = list[tuple[int, int]]
_OPTIONS: Final = {
    "constant": "constant_values",
    "empty": "",
    "edge": "",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "wrap": "",
    "linear_ramp": "end_values",
    "maximum": "stat_length",
    "minimum": "stat_length",
    "mean": "stat_length",
    "median": "stat_length",
}


def pad(
    array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any
) -> Array:
    """The array with values put around it.

    Args:
      array: an array.
      pad_width: how many before and after: a number, ``(before, after)`` for all axes, one such
        pair for each axis, or a mapping from axes to pairs.
      mode: ``"constant"``, ``"edge"``, ``"reflect"``, ``"symmetric"``, ``"wrap"``,
        ``"linear_ramp"``, ``"maximum"``, ``"minimum"``, ``"mean"``, ``"median"`` or ``"empty"``
        (zeros); or a function ``f(vector, width, axis, kwargs)``, called for each line of each
        axis, padded with zeros, which returns the padded line.
      **kwargs: ``constant_values``, ``end_values`` or ``stat_length``, in the forms that
        ``pad_width`` has; ``reflect_type``, ``"even"`` or ``"odd"``.

    Returns:
      An array of the dtype of ``array``.

    Raises:
      ArgumentError: for another mode, or a keyword that the mode does not take.
      ShapeError: for negative widths, and for padding an axis without elements from itself.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.pad(jnp.arange(1, 4), (2, 1), mode="reflect")
      Array([3, 2, 1, 2, 3, 2], dtype=int32)
    """
    x = to_array("pad", array)
    widths = _widths(pad_width, x.aval.ndim)
    if callable(mode):
        return _pad_by(mode, x, widths, kwargs)
    _check_options(mode, kwargs)
    if mode == "constant":
        return result(_pad_constant(x, widths, kwargs.get("constant_values", 0)))
    if mode == "empty":
        return result(_pad_constant(x, widths, 0))
    _refuse_empty(x, widths, mode)
    if mode in _STATISTICS:
        return _pad_statistic(x, widths, mode, kwargs.get("stat_length"))
    if mode == "linear_ramp":
        return _pad_ramp(x, widths, kwargs.get("end_values", 0))
    odd = kwargs.get("reflect_type", "even") == "odd"
    for axis, width in enumerate(widths):
        if width != (0, 0):
            x = pad_odd(x, axis, width, mode) if odd else _pad_from_itself(x, axis, width, mode)
    return x


def _pad_from_itself(x: Value, axis: int, width: tuple[int, int], mode: str) -> Value:
    before, after = width
    size = x.aval.shape[axis]
    if mode == "edge":
        return read_runs(x, axis, [(0, 0, before), (0, 1, size), (size - 1, 0, after)])
    period = [(0, 1, size)]
    if mode == "symmetric":
        period.append((size - 1, -1, size))
    elif mode == "reflect" and size > 2:
        period.append((size - 2, -1, size - 2))
    return read_periodic(x, axis, period, -before, before + size + after)


def _pad_by(function: Callable[..., Any], x: Value, widths: Widths, options: Any) -> Value:
    out = result(_pad_constant(x, widths, 0))
    for axis, width in enumerate(widths):
        out = apply_along_axis(function, axis, out, width, axis, options)
    return out


def _check_options(mode: Any, options: Mapping[str, Any]) -> None:
    if mode not in _OPTIONS:
        raise ArgumentError(
            "pad: unknown mode", got=repr(mode), fix="one of " + ", ".join(map(repr, _OPTIONS))
        )
    for name in options:
        if name != _OPTIONS[mode]:
            takes = _OPTIONS[mode] or "no keyword"
            raise ArgumentError(
                f"pad: unsupported keyword arguments for mode {mode!r}: {name}",
                got=f"{name} with mode={mode!r}",
                fix=f"it takes {takes}",
            )


def _refuse_empty(x: Value, widths: Widths, mode: str) -> None:
    for axis, width in enumerate(widths):
        if width != (0, 0) and not x.aval.shape[axis]:
            raise ShapeError(
                f"pad: mode {mode!r} takes values from axis {axis}, which has no elements",
                got=x.aval.str_short(),
                fix="mode='constant'",
            )


def _widths(pad_width: Any, ndim: int) -> Widths:
    if isinstance(pad_width, Mapping):
        given = dict.fromkeys(range(ndim), (0, 0))
        for axis, width in pad_width.items():
            pair = (width, width) if np.ndim(width) == 0 else tuple(width)
            given[one_axis("pad", axis, ndim)] = pair
        pad_width = [given[k] for k in range(ndim)]
    widths = [
        (integer("pad", "a width", a), integer("pad", "a width", b))
        for a, b in _pairs("pad_width", pad_width, ndim)
    ]
    if min((w for pair in widths for w in pair), default=0) < 0:
        raise ShapeError(
            "pad: a width is negative", got=f"pad_width {pad_width}", fix="slice instead"
        )
    return widths


def _pairs(what: str, given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """One pair for each axis, from a number, a pair, or a pair for each axis."""
    if not isinstance(given, (list, tuple, np.ndarray)) or np.ndim(given) == 0:
        return [(given, given)] * ndim
    items = [list(x) if isinstance(x, (list, tuple, np.ndarray)) else x for x in given]
    nested = any(isinstance(x, list) for x in items)
    if not nested and len(items) in (1, 2):
        return [(items[0], items[-1])] * ndim
    if nested and len(items) in (1, ndim) and all(isinstance(x, list) for x in items):
        pairs = [(x[0], x[-1]) for x in items if len(x) in (1, 2)]
        if len(pairs) == len(items):
            return pairs * ndim if len(pairs) == 1 else pairs
    raise ArgumentError(
        f"pad: {what} is a number, a pair, or one pair for each axis",
        got=f"{given!r} for an array of rank {ndim}",
        fix=f"{ndim} pairs (before, after)",
    )


def _pad_constant(x: Value, widths: Widths, values: Any) -> Value:
    pairs = _pairs("constant_values", values, x.aval.ndim)
    if all(is_known(v) for pair in pairs for v in pair):
        fills = {np.asarray(v).astype(x.aval.dtype).tobytes() for pair in pairs for v in pair}
        if len(fills) <= 1:
            value = np.asarray(pairs[0][0]).astype(x.aval.dtype) if pairs else 0
            low, high = tuple(w[0] for w in widths), tuple(w[1] for w in widths)
            fill = literal(value, x.aval.dtype)
            return _pad.bind(x, low=low, high=high, interior=(0,) * len(low), fill=fill)

    def blocks(x: Value, axis: int) -> tuple[Value, Value]:
        first, last = (convert(to_array("pad", v), x.aval.dtype) for v in pairs[axis])
        return first, last

    return _pad_blocks(x, widths, blocks)


def _pad_blocks(
    x: Value, widths: Widths, blocks: Callable[[Value, int], tuple[Value, Value]]
) -> Value:
    """Join what ``blocks`` gives, repeated, before and after each axis."""
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        first, last = blocks(x, axis)
        parts = [_repeated(first, x, axis, before), x, _repeated(last, x, axis, after)]
        x = join([part for part in parts if part.aval.shape[axis]], axis)
    return x


def _repeated(block: Value, x: Value, axis: int, count: int) -> Value:
    shape = tuple(count if k == axis else size for k, size in enumerate(x.aval.shape))
    dims = tuple(range(len(shape))) if block.aval.ndim else ()
    return broadcast_in_dim.bind(block, shape=shape, dims=dims)


_STATISTICS: Final = frozenset({"maximum", "minimum", "mean", "median"})


def _pad_statistic(x: Value, widths: Widths, mode: str, stat_length: Any) -> Value:
    lengths = _pairs("stat_length", stat_length, x.aval.ndim)

    def blocks(x: Value, axis: int) -> tuple[Value, Value]:
        size = x.aval.shape[axis]
        first, last = (size if n is None else min(int(n), size) for n in lengths[axis])
        if min(first, last) < 1:
            raise ArgumentError(
                "pad: stat_length is at least 1",
                got=repr(stat_length),
                fix="1 or more, or None for the whole axis",
            )
        before = _statistic(slice_axis(x, axis, 0, first), axis, mode)
        return before, _statistic(slice_axis(x, axis, size - last, size), axis, mode)

    return _pad_blocks(x, widths, blocks)


def _statistic(x: Value, axis: int, mode: str) -> Value:
    kept = tuple(1 if k == axis else size for k, size in enumerate(x.aval.shape))
    if mode == "median":
        middle = convert(median(result(x), axis), inexact(x.aval.dtype))
        return reshape_to(_back(middle, x, _nearest(middle)), kept)
    if mode != "mean":
        return (reductions.max if mode == "maximum" else reductions.min)(x, axis, keepdims=True)
    y = x if dtypes.is_inexact(x.aval.dtype) else convert(x, dtypes.float32)
    count = like(y, x.aval.shape[axis])
    mean = div.bind(reduce_sum.bind(y, axes=(axis,)), count)
    return reshape_to(_back(mean, x, _nearest(mean)), kept)


def _nearest(y: Value) -> Value:
    """The nearest whole number, of two the even one."""
    return round_.bind(y, rounding_method=RoundingMethod.TO_NEAREST_EVEN)


def _back(y: Value, x: Value, rounded: Value) -> Value:
    """A value computed in floats in the dtype of ``x``; integers are rounded."""
    if y.aval.dtype == x.aval.dtype:
        return y
    return convert_element_type.bind(floor.bind(rounded), dtype=x.aval.dtype)


def _pad_ramp(x: Value, widths: Widths, end_values: Any) -> Value:
    """Linear from the end value, outside, to the edge."""
    ends = _pairs("end_values", end_values, x.aval.ndim)
    for axis, (before, after) in enumerate(widths):
        size = x.aval.shape[axis]
        first = _ramp(slice_axis(x, axis, 0, 1), axis, before, ends[axis][0])
        last = _ramp(slice_axis(x, axis, size - 1, size), axis, after, ends[axis][1], after=True)
        x = join([part for part in (first, x, last) if part.aval.shape[axis]], axis)
    return x


def _ramp(x: Value, axis: int, count: int, end: Any, *, after: bool = False) -> Value:
    """From the end value to the edge ``x``, or away from it if it comes after."""
    kind = x.aval.dtype if dtypes.is_inexact(x.aval.dtype) else dtypes.float32
    border = _repeated(convert(x, kind), x, axis, count)
    target = broadcast_in_dim.bind(
        convert(to_array("pad", end), kind), shape=border.aval.shape, dims=()
    )
    steps = iota.bind(shape=border.aval.shape, dtype=kind, axis=axis)
    if after:
        steps = sub.bind(like(border, count - 1), steps)
    share = div.bind(steps, like(border, max(count, 1)))
    ramp = add.bind(target, mul.bind(sub.bind(border, target), share))
    return _back(ramp, x, ramp)
