"""Running sums and products along an axis: the primitives, with NumPy's dtypes and arguments.

Start at :func:`cumsum`.
"""

from __future__ import annotations

from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.cumulative import cumprod as cumprod_p, cumsum as cumsum_p
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import pad
from functrax.core.tracing.primitive import Primitive, Value, like
from functrax.core.types import dtypes
from functrax.numpy.axes import one_axis
from functrax.numpy.creation import checked_dtype
from functrax.numpy.logic import choose, isnan, no_out
from functrax.numpy.promote import convert, result, to_array
from functrax.numpy.reductions import sum_dtype, summable
from functrax.numpy.ufuncs import like_weak
from functrax.typing import ArrayLike, DTypeLike


def _cumulate(name: str, primitive: Primitive, a: Any, axis: Any, dtype: Any, out: Any) -> Value:
    no_out(name, out)
    x = to_array(name, a)
    if axis is None or not x.aval.shape:
        x = reshape.bind(x, shape=(x.aval.size,))
        axis = one_axis(name, 0 if axis is None else axis, 1)
    else:
        axis = one_axis(name, axis, x.aval.ndim)
    wanted = _dtype_of(x, dtype)
    x = summable(x, wanted)
    return result(convert(primitive.bind(x, axis=axis, reverse=False), wanted))


def _dtype_of(x: Value, dtype: Any) -> Any:
    if dtype is not None:
        return checked_dtype(dtype)
    own = x.aval.dtype
    return dtypes.default_int() if own == dtypes.bool_ else own


def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The sums of the first 1, 2, ... elements along an axis (of the flattened array if None).

    Args:
      a: an array or a scalar.
      axis: an axis, or None.
      dtype: in which to add up; that of ``a`` by default (int32 for booleans).
      out: must be None.

    Returns:
      An array of the shape of ``a``; flat if ``axis`` is None.

    Raises:
      AxisError: for an axis out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.cumsum(jnp.array([1, 2, 3]))
      Array([1, 3, 6], dtype=int32)
    """
    return _cumulate("cumsum", cumsum_p, a, axis, dtype, out)


def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The products of the first 1, 2, ... elements along an axis.

    Args:
      a: an array or a scalar.
      axis: an axis, or None for the flattened array.
      dtype: in which to multiply; that of ``a`` by default (int32 for booleans).
      out: must be None.

    Returns:
      An array of the shape of ``a``; flat if ``axis`` is None.

    Raises:
      AxisError: for an axis out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.cumprod(jnp.array([2, 3, 4]))
      Array([ 2,  6, 24], dtype=int32)
    """
    return _cumulate("cumprod", cumprod_p, a, axis, dtype, out)


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """:func:`cumsum` with NaN counted as 0.

    Args:
      a: an array or a scalar.
      axis: an axis, or None for the flattened array.
      dtype: in which to add up; that of ``a`` by default (int32 for booleans).
      out: must be None.

    Returns:
      An array of the shape of ``a``; flat if ``axis`` is None.

    Raises:
      AxisError: for an axis out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 2.0]))
      Array([1., 1., 3.], dtype=float32)
    """
    return cumsum(_without_nan("nancumsum", a, 0), axis, dtype, out)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """:func:`cumprod` with NaN counted as 1.

    Args:
      a: an array or a scalar.
      axis: an axis, or None for the flattened array.
      dtype: in which to multiply; that of ``a`` by default (int32 for booleans).
      out: must be None.

    Returns:
      An array of the shape of ``a``; flat if ``axis`` is None.

    Raises:
      AxisError: for an axis out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nancumprod(jnp.array([3.0, jnp.nan, 2.0]))
      Array([3., 3., 6.], dtype=float32)
    """
    return cumprod(_without_nan("nancumprod", a, 1), axis, dtype, out)


def _without_nan(name: str, a: Any, value: float) -> Value:
    x = to_array(name, a)
    if x.aval.dtype not in dtypes.INEXACT:
        return x
    return choose(isnan(x), like_weak(x, value), x)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The array API's running sum: small integers are added up in the default integer.

    Args:
      x: an array of at least one axis.
      axis: an axis; may be left out if there is only one.
      dtype: in which to add up.
      include_initial: begin with 0, so that there is one more element.

    Returns:
      An array of the shape of ``x``, with one more element along the axis if the initial one is
      included.

    Raises:
      ArgumentError: for a scalar, and without ``axis`` if there are several.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
      Array([0, 1, 3, 6], dtype=int32)
    """
    return _array_api("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The array API's running product: small integers are multiplied in the default integer.

    Args:
      x: an array of at least one axis.
      axis: an axis; may be left out if there is only one.
      dtype: in which to multiply.
      include_initial: begin with 1, so that there is one more element.

    Returns:
      An array of the shape of ``x``, with one more element along the axis if the initial one is
      included.

    Raises:
      ArgumentError: for a scalar, and without ``axis`` if there are several.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.cumulative_prod(jnp.array([2, 3, 4]), include_initial=True)
      Array([ 1,  2,  6, 24], dtype=int32)
    """
    return _array_api("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def _array_api(
    name: str, function: Any, identity: int, a: Any, axis: Any, dtype: Any, include_initial: bool
) -> Value:
    x = to_array(name, a)
    ndim = x.aval.ndim
    if not ndim or (axis is None and ndim > 1):
        raise ArgumentError(
            f"{name}: The input array has rank {ndim}, however axis was not set to a value"
            if ndim
            else f"{name}: The input must be non-scalar to take a cumulative sum or product",
            got=f"{x.aval.str_short()}, axis={axis}",
            fix=f"{name}(x, axis=0)",
        )
    along = one_axis(name, 0 if axis is None else axis, ndim)
    wanted = checked_dtype(dtype) if dtype is not None else sum_dtype(x.aval.dtype)
    total: Value = function(x, along, wanted)
    if not include_initial:
        return total
    low = tuple(1 if i == along else 0 for i in range(ndim))
    nothing = (0,) * ndim
    first = like(total, identity)
    return result(pad.bind(total, low=low, high=nothing, interior=nothing, fill=first))
