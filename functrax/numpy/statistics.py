"""Means, variances and standard deviations along axes.

Integers are averaged in float32; half precision is averaged in float32 and rounded once.

Start at :func:`mean`.
"""

from __future__ import annotations

import math
import typing
from operator import gt
from typing import Any, overload

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.convert import imag, real
from functrax.core.prims.powers import sqrt, square
from functrax.core.prims.reduce import reduce_sum, respread
from functrax.core.prims.reindex import broadcast_in_dim, transpose
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.core.types.size_bounds import surely
from functrax.core.types.symbolic_sizes import is_symbolic_dim
from functrax.numpy import reductions
from functrax.numpy.axes import many_axes
from functrax.numpy.creation import checked_dtype
from functrax.numpy.logic import choose, no_out
from functrax.numpy.promote import (
    broadcast_value,
    broadcast_values,
    convert,
    inexact,
    promote_dtypes,
    result,
    to_array,
)
from functrax.numpy.reductions import checked_axes, keep, mask_of, masked
from functrax.numpy.ufuncs import multiply, true_divide
from functrax.typing import ArrayLike, Axes, DTypeLike


def working(dtype: DType) -> DType:
    """The dtype in which numbers are averaged."""
    return dtypes.float32 if dtype in dtypes.NARROW else inexact(dtype)


def _count(name: str, x: Value, axes: tuple[int, ...], where: Any) -> Value:
    """How many elements count: a literal, or with ``where`` an array without the axes."""
    shape, dtype = x.aval.shape, x.aval.dtype
    if where is None:
        return literal(math.prod(shape[i] for i in axes), dtype)
    ones = broadcast_value(mask_of(name, where, len(shape)), shape)
    return reduce_sum.bind(convert(ones, dtype), axes=axes)


def _mean(name: str, x: Value, axes: tuple[int, ...], where: Any) -> Value:
    """The mean, without the reduced axes."""
    total = reduce_sum.bind(masked(name, x, where, 0), axes=axes)
    return prims.div.bind(total, _count(name, x, axes, where))


def _result_dtype(own: DType, dtype: Any) -> DType:
    return inexact(own) if dtype is None else checked_dtype(dtype)


def mean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean along axes; NaN of no elements.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: that of the result; by default that of ``a``, float32 for integers.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the reduced axes.

    Raises:
      AxisError: for an axis out of range or named twice.
      DTypeError: for lists.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.mean(jnp.array([[1, 2], [3, 5]]), axis=0)
      Array([2. , 3.5], dtype=float32)
    """
    no_out("mean", out)
    x = to_array("mean", a)
    wanted = _result_dtype(x.aval.dtype, dtype)
    axes = checked_axes("mean", axis, x.aval.ndim)
    found = _mean("mean", convert(x, working(wanted)), axes, where)
    return result(convert(keep(found, x.aval.shape, axes, keepdims), wanted))


def var(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """The mean squared distance from the mean, along axes.

    Args:
      a: an array or a scalar; of complex numbers the result is real.
      axis: an axis, a tuple of axes, or None for all.
      dtype: that of the result.
      out: must be None.
      ddof: what is taken from the number of elements; the result is NaN if nothing is left.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.
      mean: the mean, if it is known: it broadcasts to ``a``, as that with ``keepdims`` does.
      correction: the array API's name of ``ddof``.

    Returns:
      A real array without the reduced axes.

    Raises:
      ArgumentError: for both ``ddof`` and ``correction``, and for a real dtype of complex numbers.
      ShapeError: for a ``mean`` that does not broadcast to ``a``.
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.var(jnp.array([1.0, 2.0, 3.0]), ddof=1)
      Array(1., dtype=float32)
    """
    no_out("var", out)
    return _var("var", a, axis, dtype, _ddof("var", ddof, correction), keepdims, where, mean)


def std(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """The standard deviation along axes: the square root of :func:`var`.

    Args:
      a: an array or a scalar; of complex numbers the result is real.
      axis: an axis, a tuple of axes, or None for all.
      dtype: that of the result.
      out: must be None.
      ddof: what is taken from the number of elements; the result is NaN if nothing is left.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.
      mean: the mean, if it is known; it broadcasts to ``a``.
      correction: the array API's name of ``ddof``.

    Returns:
      A real array without the reduced axes.

    Raises:
      ArgumentError: for both ``ddof`` and ``correction``, and for a real dtype of complex numbers.
      ShapeError: for a ``mean`` that does not broadcast to ``a``.
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.std(jnp.array([1.0, 3.0]))
      Array(1., dtype=float32)
    """
    no_out("std", out)
    variance = _var("std", a, axis, dtype, _ddof("std", ddof, correction), keepdims, where, mean)
    return result(sqrt.bind(variance))


def _ddof(name: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if isinstance(ddof, int) and ddof != 0:
        raise ArgumentError(
            f"{name}: ddof and correction are one argument with two names",
            got=f"ddof={ddof}, correction={correction}",
            fix="give one of them",
        )
    return correction


def _var(
    name: str, a: Any, axis: Axes, dtype: Any, ddof: Any, keepdims: bool, where: Any, mean: Any
) -> Value:
    x = to_array(name, a)
    is_complex = x.aval.dtype in dtypes.COMPLEX
    wanted = _result_dtype(x.aval.dtype, dtype)
    exact = dtypes.real_dtype(working(wanted))
    if dtype is None:
        wanted = dtypes.real_dtype(wanted)
    elif is_complex and wanted not in dtypes.COMPLEX:
        raise ArgumentError(
            f"{name}: does not take a real dtype for complex numbers",
            got=f"dtype={wanted} for {x.aval.str_short()}",
            fix=f"{name}(a).astype({wanted})",
        )
    x = convert(x, _complex_of(exact) if is_complex else exact)
    axes = checked_axes(name, axis, x.aval.ndim)
    if mean is None:
        middle = respread(_mean(name, x, axes, where), x, axes)
    else:
        middle = _given_mean(name, mean, x)
    distance = masked(name, prims.sub.bind(x, middle), where, 0)  # NaN squared has no derivative
    squared = _squared_size(distance)
    total = reduce_sum.bind(squared, axes=axes)
    count = _count(name, squared, axes, where)
    found = _divided(name, total, count, ddof)
    return result(convert(keep(found, x.aval.shape, axes, keepdims), wanted))


def _given_mean(name: str, mean: Any, x: Value) -> Value:
    """A mean that the caller knows, in the shape and dtype of ``x``."""
    value = convert(to_array(name, mean), x.aval.dtype)
    try:
        return broadcast_value(value, x.aval.shape)
    except ShapeError:
        raise ShapeError(
            f"{name}: the mean does not broadcast to the array",
            got=f"{value.aval.str_short()} and {x.aval.str_short()}",
            fix=f"jnp.mean(a, axis, keepdims=True); without it, {name} computes that itself",
        ) from None


def _squared_size(x: Value) -> Value:
    if x.aval.dtype not in dtypes.COMPLEX:
        return square.bind(x)
    return prims.add.bind(square.bind(real.bind(x)), square.bind(imag.bind(x)))


def _divided(name: str, total: Value, count: Value, ddof: Any) -> Value:
    """``total / (count - ddof)``, NaN where nothing is left to divide by."""
    if type(count) is Literal and isinstance(ddof, (int, float)):
        left = (count.val if is_symbolic_dim(count.val) else float(count.val)) - ddof
        if surely(gt, left, 0):
            return prims.div.bind(total, like(total, left))
        if not is_symbolic_dim(left):
            return prims.div.bind(total, like(total, np.nan))
    (less,) = promote_dtypes(name, ddof)
    count, less, total = broadcast_values(name, count, convert(less, total.aval.dtype), total)
    rest = prims.sub.bind(count, less)
    enough = compare.gt.bind(rest, like(rest, 0))
    return choose(enough, prims.div.bind(total, rest), like(total, np.nan))


def _complex_of(dtype: DType) -> DType:
    return dtypes.complex128 if dtype == dtypes.float64 else dtypes.complex64


@overload
def average(
    a: ArrayLike,
    axis: Axes = ...,
    weights: ArrayLike | None = ...,
    returned: typing.Literal[False] = ...,
    keepdims: bool = ...,
) -> Array: ...
@overload
def average(
    a: ArrayLike,
    axis: Axes = ...,
    weights: ArrayLike | None = ...,
    *,
    returned: typing.Literal[True],
    keepdims: bool = ...,
) -> tuple[Array, Array]: ...
@overload
def average(
    a: ArrayLike,
    axis: Axes = ...,
    weights: ArrayLike | None = ...,
    returned: bool = ...,
    keepdims: bool = ...,
) -> Array | tuple[Array, Array]: ...
def average(
    a: ArrayLike,
    axis: Axes = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean along an axis.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      weights: an array of the shape of ``a``, or of the sizes of the axes named, in their order.
      returned: also give the sum of the weights.
      keepdims: leave the reduced axes with size 1.

    Returns:
      The mean, or ``(mean, sum of weights)``.

    Raises:
      ShapeError: for weights of another shape.
      AxisError: for an axis out of range or named twice.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0]))
      Array(1.5, dtype=float32)
    """
    x = to_array("average", a)
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        axes = checked_axes("average", axis, x.aval.ndim)
        total: Value = literal(math.prod(x.aval.shape[i] for i in axes), found.aval.dtype)
    else:
        w = to_array("average", weights, 1)
        x, w = promote_dtypes("average", x, w, kind=inexact)
        w = spread_weights("average", x, w, axis)
        total = reductions.sum(w, axis, keepdims=keepdims)
        found = true_divide(reductions.sum(multiply(x, w), axis, keepdims=keepdims), total)
    if not returned:
        return found
    return found, result(broadcast_value(to_array("average", result(total)), found.aval.shape))


def spread_weights(name: str, x: Value, w: Value, axis: Any) -> Value:
    """The weights in the shape of the array; their axes are those named, in their order."""
    shape = x.aval.shape
    if w.aval.shape == shape:
        return w
    if axis is None:
        raise ShapeError(
            f"{name}: weights of another shape need axis=",
            got=f"{x.aval.str_short()}, weights {w.aval.str_short()}",
            fix="weights of the shape of the array, or the axes that they belong to",
        )
    along = many_axes(name, axis, len(shape))
    if w.aval.shape != tuple(shape[i] for i in along):
        raise ShapeError(
            f"{name}: there is not one weight for each element",
            got=f"weights {w.aval.str_short()} along axis {axis} of {x.aval.str_short()}",
            fix=f"weights of shape {tuple(shape[i] for i in along)}",
        )
    order = sorted(range(len(along)), key=along.__getitem__)
    return broadcast_in_dim.bind(
        transpose.bind(w, perm=tuple(order)), shape=shape, dims=tuple(sorted(along))
    )
