"""Functions that look at a whole axis: softmax and its relatives, standardization, one-hot codes.

Exponentials are taken of differences from the largest element, so that none overflows.  A mask,
``where``, leaves elements out.

Start at :func:`softmax`.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal, overload

import numpy as np

from functrax import lax, numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError, SizeError
from functrax.core.prims.convert import as_positions
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.symbolic_sizes import is_symbolic_dim
from functrax.lax.operands import as_array
from functrax.nn.activations import floating
from functrax.numpy.axes import one_axis
from functrax.numpy.promote import inexact, promote_args, promoting
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike, Axes, DTypeLike


def softmax(x: ArrayLike, axis: Axes = -1, where: ArrayLike | None = None) -> Array:
    """``exp(x) / sum(exp(x))`` along axes.

    Args:
      x: a real array.
      axis: an axis, a tuple of axes, or None for all.
      where: a mask that broadcasts to ``x``; the result is 0 elsewhere.

    Returns:
      An array of the shape of ``x``; all NaN where the largest element is infinite.

    Raises:
      AxisError: if an axis is out of range.
      DTypeError: for lists and what else is no array.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.nn.softmax(jnp.array([0.0, 1.0, 1.0])).round(4)
    Array([0.1554, 0.4223, 0.4223], dtype=float32)
    """
    return _softmax(floating("softmax", x), axis, where)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Any, axis: Axes, where: Any) -> Value:
    largest = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    kept = x if where is None else jnp.where(where, x, -np.inf)
    unscaled = jnp.exp(kept - largest)
    out = unscaled / jnp.sum(unscaled, axis, where=where, keepdims=True)
    return out if where is None else jnp.where(where, out, 0)


@_softmax.defjvp
def _softmax_jvp(axis: Axes, primals: Any, tangents: Any) -> Any:
    (x, where), (t, _) = primals, tangents
    out = _softmax(x, axis, where)
    return out, out * (t - jnp.sum(out * t, axis, where=where, keepdims=True))


def log_softmax(x: ArrayLike, axis: Axes = -1, where: ArrayLike | None = None) -> Array:
    """``x - log(sum(exp(x)))`` along axes.

    Args:
      x: a real array.
      axis: an axis, a tuple of axes, or None for all.
      where: a mask that broadcasts to ``x``; the result is minus infinity elsewhere.

    Returns:
      An array of the shape of ``x``; all NaN where the largest element is infinite.

    Raises:
      AxisError: if an axis is out of range.
      DTypeError: for lists and what else is no array.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.nn.log_softmax(jnp.array([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    value = floating("log_softmax", x)
    largest = jnp.max(value, axis, where=where, initial=-np.inf, keepdims=True)
    kept = value if where is None else jnp.where(where, value, -np.inf)
    shifted = kept - lax.stop_gradient(largest)
    total = jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True)
    out = shifted - jnp.log(total)
    return out if where is None else jnp.where(where, out, -np.inf)


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axes = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: Literal[False] = ...,
    where: ArrayLike | None = ...,
) -> Array: ...
@overload
def logsumexp(
    a: ArrayLike,
    axis: Axes = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    *,
    return_sign: Literal[True],
    where: ArrayLike | None = ...,
) -> tuple[Array, Array]: ...
@overload
def logsumexp(
    a: ArrayLike,
    axis: Axes = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: bool = ...,
    where: ArrayLike | None = ...,
) -> Array | tuple[Array, Array]: ...
def logsumexp(
    a: ArrayLike,
    axis: Axes = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """``log(sum(b exp(a)))`` along axes.

    Args:
      a: an array.
      axis: an axis, a tuple of axes, or None for all.
      b: factors that broadcast with ``a``; 1 if omitted.
      keepdims: whether the axes stay, with size 1.
      return_sign: whether to return the sign of the sum beside the logarithm of its size.
      where: a mask that broadcasts to ``a``; elements elsewhere are left out.

    Returns:
      The logarithms: minus infinity for sums of nothing, NaN for negative sums.  With
      ``return_sign`` a pair.

    Raises:
      AxisError: if an axis is out of range.
      DTypeError: for lists and what else is no array.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.nn.logsumexp(jnp.array([1000.0, 1000.0]))
    Array(1000.6932, dtype=float32)
    """
    if where is not None:
        a = jnp.where(where, a, 0)
    values: Any = floating("logsumexp", a)
    factors: Any = None
    if b is not None:
        values, factors = map(as_array, promote_args("logsumexp", a, b, kind=inexact))
        values = jnp.where(factors != 0, values, -np.inf)
    out, sign = _log_of_sum(values, factors, axis, return_sign, where)
    out, sign = (x if keepdims else jnp.squeeze(x, _axes(axis, x.ndim)) for x in (out, sign))
    return (out, sign) if return_sign else out


@promoting
def _log_of_sum(values: Any, factors: Any, axis: Axes, return_sign: bool, where: Any) -> Any:
    """The logarithm and the sign of :func:`logsumexp`, with all axes."""
    largest = jnp.max(values.real, axis, keepdims=True, where=where, initial=-np.inf)
    # Where all is infinite, the difference would be NaN; 0 is as good a shift as any.
    shift = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0))
    powers = jnp.exp(values - shift)
    if factors is not None:
        powers = powers * factors
    total = jnp.sum(powers, axis, keepdims=True, where=where)
    sign = jnp.sign(total)
    is_complex = dtypes.is_complex(total.dtype)
    size = jnp.abs(total) if return_sign or not is_complex else total
    out = jnp.log(size) + shift
    if factors is not None and not return_sign and not is_complex:
        out = jnp.where(sign < 0, np.nan, out)
    return out, sign


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def logmeanexp(
    a: ArrayLike, axis: Axes = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """``log(mean(exp(a)))`` along axes; see :func:`logsumexp`.

    Args:
      a: an array.
      axis: an axis, a tuple of axes, or None for all.
      where: a mask that broadcasts to ``a``; elements elsewhere are left out.
      keepdims: whether the axes stay, with size 1.

    Returns:
      The logarithms; minus infinity for means of zeros.

    Raises:
      AxisError: if an axis is out of range.
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.logmeanexp(jnp.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    total = logsumexp(a, axis=axis, where=where, keepdims=keepdims)
    mask = True if where is None else where
    counted = jnp.broadcast_to(mask, jnp.shape(a))
    return total - jnp.log(jnp.sum(counted, axis, keepdims=keepdims).astype(total.dtype))


def standardize(
    x: ArrayLike,
    axis: Axes = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """``(x - mean) / sqrt(variance + epsilon)``.

    Args:
      x: an array.
      axis: the axes of which mean and variance are taken: one, a tuple, or None for all.
      mean: the mean; that of ``x`` if omitted.
      variance: the variance; that of ``x`` if omitted.
      epsilon: what keeps the root from 0.
      where: a mask; elements elsewhere are left out of mean and variance.
      algorithm: ``"fast"``, the mean of squares less the square of the mean, or ``"stable"``.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      ArgumentError: for another algorithm.
      AxisError: if an axis is out of range.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.standardize(jnp.array([1.0, 2.0, 3.0]), epsilon=0).round(3)
    Array([-1.225,  0.   ,  1.225], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ArgumentError(
            "standardize: unknown algorithm", got=repr(algorithm), fix="'fast' or 'stable'"
        )
    value = floating("standardize", x)
    if mean is None:
        mean = jnp.mean(value, axis, keepdims=True, where=where)
    if variance is None and algorithm == "stable":
        variance = jnp.mean(jnp.square(value - mean), axis, keepdims=True, where=where)
    elif variance is None:
        squares = jnp.mean(jnp.square(value), axis, keepdims=True, where=where)
        variance = jnp.clip(squares - jnp.square(mean), 0)
    return (value - mean) * lax.rsqrt(jnp.asarray(variance + epsilon))


def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Array:
    """1 at each index along a new axis, 0 elsewhere.

    Args:
      x: an integer array, or a list of integers; all 0 for those that are no class.
      num_classes: the size of the new axis.
      dtype: the dtype of the result; the default float if omitted.
      axis: where the new axis stands in the result.

    Returns:
      An array with one axis more than ``x``.

    Raises:
      ShapeError: if ``num_classes`` is not a known integer of 0 or more.
      AxisError: if there is no such place.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.nn.one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    count = _known_size(num_classes)
    value = jnp.asarray(x)
    place = one_axis("one_hot", axis, value.ndim + 1)
    asked = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    shape = [1] * (value.ndim + 1)
    shape[place] = count
    if dtypes.is_integer(value.dtype):
        value = as_array(as_positions(value, count))
    classes: Any = lax.broadcasted_iota(value.dtype, shape, place)
    return as_array((jnp.expand_dims(value, place) == classes).astype(asked))


def _known_size(given: Any) -> int:
    if is_symbolic_dim(given):
        raise SizeError(
            "one_hot: the number of classes is a symbolic size, which has no value",
            got=repr(given),
            fix="indices[..., None] == functrax.numpy.arange(size), which takes one; or export for "
            "a certain size",
        )
    try:
        count = operator.index(given)
    except TypeError as error:
        raise ShapeError(
            "one_hot: the number of classes is not a known integer",
            got=repr(given),
            fix="a Python integer",
        ) from error
    if count < 0:
        raise ShapeError(
            "one_hot: the number of classes is negative", got=repr(count), fix="0 classes or more"
        )
    return count
