"""Reductions along axes: sums, products, extrema, positions of extrema.

Each takes ``axis`` (an integer, a tuple, None for all), ``keepdims``, ``where`` (which elements
count) and ``initial`` (a value to begin with), as NumPy's do, and gives a result of NumPy's
dtype: small integers are summed in the default integer.  Means and what is made of them are in
``statistics.py``, truth values in ``logical_reductions.py``.

Start at :func:`sum`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims import reduce as prims
from functrax.core.prims.extrema import reduced
from functrax.core.prims.reindex import reshape
from functrax.core.tracing.primitive import Primitive, Value, literal
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.numpy import extrema, ufuncs
from functrax.numpy.axes import many_axes, one_axis
from functrax.numpy.creation import checked_dtype
from functrax.numpy.logic import choose, no_out, truth
from functrax.numpy.promote import (
    convert,
    numeric,
    operand,
    result,
    to_array,
)
from functrax.typing import ArrayLike, Axes, DTypeLike


def checked_axes(name: str, axis: Axes, ndim: int) -> tuple[int, ...]:
    """Axes as non-negative integers, in order; None means all.

    Raises:
      AxisError: for an axis out of range, or named twice.
    """
    return tuple(sorted(many_axes(name, axis, ndim)))


def keep(x: Value, shape: tuple[int, ...], axes: Sequence[int], keepdims: bool) -> Value:
    """Put axes of size 1 where a reduction of an array of ``shape`` removed axes."""
    if not keepdims:
        return x
    return reshape.bind(x, shape=tuple(1 if i in axes else n for i, n in enumerate(shape)))


def mask_of(name: str, where: Any, ndim: int) -> Value:
    """``where`` as booleans of at least ``ndim`` axes, whatever ``numpy_rank_promotion`` says.

    Raises:
      ArgumentError: for another dtype.
    """
    mask = to_array(name, where)
    if mask.aval.dtype != dtypes.bool_:
        raise ArgumentError(
            f"jnp.{name}: where must be None or a boolean array",
            got=f"where of type {mask.aval.str_short()}",
            fix="where != 0",
        )
    shape = mask.aval.shape
    return (
        mask if len(shape) >= ndim else reshape.bind(mask, shape=(1,) * (ndim - len(shape)) + shape)
    )


def masked(name: str, x: Value, where: Any, identity: Any) -> Value:
    """``x`` with ``identity`` where it does not count."""
    if where is None:
        return x
    return choose(mask_of(name, where, x.aval.ndim), x, literal(identity, x.aval.dtype))


def with_initial(name: str, op: Any, x: Value, initial: Any) -> Value:
    """Combine a reduction's result with a value to begin with.

    Raises:
      ShapeError: if that is not a scalar.
    """
    if initial is None:
        return x
    first = convert(operand(f"{name}: initial", 0, initial), x.aval.dtype)
    if first.aval.shape:
        raise ShapeError(
            f"{name}: initial value must be a scalar. Got array of shape {first.aval.shape}",
            got=first.aval.str_short(),
            fix="one value",
        )
    return convert(op(x, result(first)), x.aval.dtype)


def summable(x: Value, wanted: DType) -> Value:
    """``x`` in the dtype in which it is added up: for booleans, whether it is not 0, as 0 or 1."""
    x = convert(x, wanted)
    return convert(x, dtypes.default_int()) if wanted == dtypes.bool_ else x


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which numbers are added up: at least the default integer."""
    if dtype == dtypes.bool_:
        return dtypes.default_int()
    if dtype in dtypes.SIGNED:
        default = dtypes.default_int()
    elif dtype in dtypes.UNSIGNED:
        default = dtypes.canonicalize_dtype(dtypes.uint64)
    else:
        return dtype
    return default if default.itemsize > dtype.itemsize else dtype


def _accumulate(
    name: str, primitive: Primitive, op: Any, identity: int, a: Any, options: Any
) -> Value:
    axis, dtype, out, keepdims, initial, where, promote_integers = options
    no_out(name, out)
    x = to_array(name, a)
    if dtype is not None:
        wanted = checked_dtype(dtype)
    else:
        wanted = sum_dtype(x.aval.dtype) if promote_integers else numeric(x.aval.dtype)
    x = masked(name, summable(x, wanted), where, identity)
    axes = checked_axes(name, axis, x.aval.ndim)
    total = keep(primitive.bind(x, axes=axes), x.aval.shape, axes, keepdims)
    return result(convert(with_initial(name, op, total, initial), wanted))


def sum(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum along axes.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: in which to add up; by default that of ``a``, but at least the default integer.
      out: must be None.
      keepdims: leave the summed axes with size 1.
      initial: a value to begin with.
      where: which elements count; broadcasts with ``a``.
      promote_integers: whether small integers are added up in the default integer.

    Returns:
      An array without the summed axes; a scalar array if ``axis`` is None.

    Raises:
      AxisError: for an axis out of range or named twice.
      DTypeError: for lists.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.sum(jnp.arange(6).reshape(2, 3), axis=1)
      Array([ 3, 12], dtype=int32)
    """
    options = (axis, dtype, out, keepdims, initial, where, promote_integers)
    return _accumulate("sum", prims.reduce_sum, ufuncs.add, 0, a, options)


def prod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product along axes.

    Its derivatives are right with zeros among the factors.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: in which to multiply; by default that of ``a``, but at least the default integer.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      initial: a value to begin with.
      where: which elements count; broadcasts with ``a``.
      promote_integers: whether small integers are multiplied in the default integer.

    Returns:
      An array without the reduced axes.

    Raises:
      AxisError: for an axis out of range or named twice.
      DTypeError: for lists.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.prod(jnp.array([[1, 2], [3, 4]]), axis=0)
      Array([3, 8], dtype=int32)
    """
    options = (axis, dtype, out, keepdims, initial, where, promote_integers)
    return _accumulate("prod", prims.reduce_prod, ufuncs.multiply, 1, a, options)


def _extremum(
    name: str, primitive: Primitive, op: Any, identity: Any, a: Any, options: Any
) -> Value:
    axis, out, keepdims, initial, where = options
    no_out(name, out)
    x = to_array(name, a)
    if where is not None and initial is None:
        raise ArgumentError(
            f"{name}: where= needs initial=, for an empty {name} has no value",
            got="where without initial",
            fix=f"{name}(x, where=mask, initial=...)",
        )
    axes = checked_axes(name, axis, x.aval.ndim)
    if initial is None and 0 in [x.aval.shape[i] for i in axes]:
        raise ShapeError(
            f"{name}: an axis has no elements, and an empty {name} has no value",
            got=f"{x.aval.str_short()} along {axes}",
            fix="give initial=",
        )
    dtype = x.aval.dtype
    found = reduced(primitive, masked(name, x, where, identity(dtype)), axes)
    found = keep(found, x.aval.shape, axes, keepdims)
    return result(convert(with_initial(name, op, found, initial), dtype))


def max(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element along axes; NaN wins, and ties share the derivative.

    Args:
      a: a real array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      initial: the least value of the result; needed for empty axes and with ``where``.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the reduced axes, of the dtype of ``a``.

    Raises:
      ShapeError: for an empty axis without ``initial``.
      ArgumentError: for ``where`` without ``initial``.
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.max(jnp.array([[1, 5], [7, 2]]), axis=0)
      Array([7, 5], dtype=int32)
    """
    options = (axis, out, keepdims, initial, where)
    return _extremum("max", prims.reduce_max, extrema.maximum, prims.lowest, a, options)


def min(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element along axes; NaN wins, and ties share the derivative.

    Args:
      a: a real array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      initial: the greatest value of the result; needed for empty axes and with ``where``.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the reduced axes, of the dtype of ``a``.

    Raises:
      ShapeError: for an empty axis without ``initial``.
      ArgumentError: for ``where`` without ``initial``.
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.min(jnp.array([[1, 5], [7, 2]]), axis=0)
      Array([1, 2], dtype=int32)
    """
    options = (axis, out, keepdims, initial, where)
    return _extremum("min", prims.reduce_min, extrema.minimum, prims.highest, a, options)


amax, amin = max, min


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the largest element along an axis; of the first of several, NaN wins.

    Args:
      a: a real array or a scalar.
      axis: an axis; None for an index into the flattened array.
      out: must be None.
      keepdims: leave the reduced axis with size 1.

    Returns:
      Positions in the default integer, without the reduced axis.

    Raises:
      ShapeError: for an axis without elements.
      AxisError: for an axis out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.argmax(jnp.array([[1, 5], [7, 2]]), axis=1)
      Array([1, 0], dtype=int32)
    """
    return _position("argmax", prims.argmax, a, axis, out, keepdims)


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the smallest element along an axis; of the first of several, NaN wins.

    Args:
      a: a real array or a scalar.
      axis: an axis; None for an index into the flattened array.
      out: must be None.
      keepdims: leave the reduced axis with size 1.

    Returns:
      Positions in the default integer, without the reduced axis.

    Raises:
      ShapeError: for an axis without elements.
      AxisError: for an axis out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.argmin(jnp.array([[1, 5], [7, 2]]), axis=1)
      Array([0, 1], dtype=int32)
    """
    return _position("argmin", prims.argmin, a, axis, out, keepdims)


def _position(
    name: str, primitive: Primitive, a: Any, axis: Any, out: Any, keepdims: bool | None
) -> Value:
    no_out(name, out)
    x = to_array(name, a)
    shape = x.aval.shape
    if axis is None or not shape:
        if axis is not None:
            one_axis(name, axis, 1)
        x = reshape.bind(x, shape=(x.aval.size,))
        axes: tuple[int, ...] = tuple(range(len(shape)))
        along = 0
    else:
        along = one_axis(name, axis, len(shape))
        axes = (along,)
    index = primitive.bind(x, axis=along, index_dtype=dtypes.default_int())
    return result(keep(index, shape, axes, bool(keepdims)))


def count_nonzero(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> Array:
    """The number of elements along axes that are not 0.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      keepdims: leave the reduced axes with size 1.

    Returns:
      Default integers, without the reduced axes.

    Raises:
      AxisError: for an axis out of range or named twice.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.count_nonzero(jnp.array([[0, 2], [3, 1]]), axis=1)
      Array([1, 2], dtype=int32)
    """
    return sum(truth(to_array("count_nonzero", a)), axis, keepdims=keepdims)


def ptp(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> Array:
    """The largest less the smallest element along axes.

    Args:
      a: a real array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      keepdims: leave the reduced axes with size 1.

    Returns:
      An array without the reduced axes, of the dtype of ``a``.

    Raises:
      ShapeError: for an axis without elements.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ptp(jnp.array([3, 9, 4]))
      Array(6, dtype=int32)
    """
    no_out("ptp", out)
    return ufuncs.subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))
