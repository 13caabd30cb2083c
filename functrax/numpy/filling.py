"""Arrays full of a value, diagonals, and arrays computed from their indices.

Start at :func:`full`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends.device import bound_to
from functrax.backends.places import known
from functrax.backends.sharding.placement import device_put
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.reindex import full as full_p, iota
from functrax.core.tracing.primitive import Primitive, Value, literal
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.numpy.creation import asarray, checked_dtype, checked_shape, float_or
from functrax.numpy.promote import (
    broadcast_value,
    convert,
    result,
    scalar_literal,
    to_array,
)
from functrax.typing import ArrayLike, DTypeLike, ShapeLike

if TYPE_CHECKING:
    from functrax.backends.device import Device
    from functrax.backends.sharding.shardings import Sharding


def zeros(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device | Sharding | None = None
) -> Array:
    """An array full of 0.

    Args:
      shape: an integer or a sequence of integers.
      dtype: float32 by default (float64 when x64 is on).
      device: a device or a sharding to put the array on, or None.

    Returns:
      An array of that shape.

    Raises:
      ShapeError: for negative sizes.
      ConcretizationError: for traced sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.zeros((2, 2), int)
      Array([[0, 0],
             [0, 0]], dtype=int32)
    """
    return _filled("zeros", shape, 0, dtype, device)


def ones(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device | Sharding | None = None
) -> Array:
    """An array full of 1.

    Args:
      shape: an integer or a sequence of integers.
      dtype: float32 by default (float64 when x64 is on).
      device: a device or a sharding to put the array on, or None.

    Returns:
      An array of that shape.

    Raises:
      ShapeError: for negative sizes.
      ConcretizationError: for traced sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ones(3)
      Array([1., 1., 1.], dtype=float32)
    """
    return _filled("ones", shape, 1, dtype, device)


def empty(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device | Sharding | None = None
) -> Array:
    """An array full of 0, for nothing here is left uninitialised.

    Args:
      shape: an integer or a sequence of integers.
      dtype: float32 by default (float64 when x64 is on).
      device: a device or a sharding to put the array on, or None.

    Returns:
      An array of that shape.

    Raises:
      ShapeError: for negative sizes.
      ConcretizationError: for traced sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.empty(2)
      Array([0., 0.], dtype=float32)
    """
    return _filled("empty", shape, 0, dtype, device)


def _filled(name: str, shape: Any, value: float, dtype: Any, device: Any) -> Value:
    sizes = checked_shape(name, shape)
    exact = float_or(dtype)
    if exact == dtypes.float0:
        return np.zeros(sizes, exact)  # as derivatives of integers are
    made = result(full_p(sizes, literal(value, exact)))
    return made if device is None else device_put(made, device)


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """An array full of a value.

    Args:
      shape: an integer or a sequence of integers.
      fill_value: a scalar, or an array that broadcasts to ``shape``.
      dtype: that of ``fill_value`` by default.
      device: a device or a sharding to put the array on, or None.

    Returns:
      An array of that shape; of a Python number without ``dtype``, of a weak type.

    Raises:
      ShapeError: for negative sizes, and a value that does not broadcast to ``shape``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.full((2,), 0.5)
      Array([0.5, 0.5], dtype=float32, weak_type=True)
    """
    sizes = checked_shape("full", shape)
    if dtype is None:
        value = asarray(fill_value)
    else:
        value = _converted(fill_value, ShapedArray((), checked_dtype(dtype)))
    made = result(_spread("full", value, sizes))
    return made if device is None else device_put(made, device)


def _converted(value: Any, aval: ShapedArray) -> Value:
    """A fill value in the dtype and weak type of ``aval``; Python integers wrap around."""
    if type(value) is int:
        return result(scalar_literal(value, aval.update(shape=())))
    return convert(asarray(value), aval.dtype, aval.weak_type)


def _spread(name: str, value: Value, shape: tuple[int, ...]) -> Value:
    own = value.aval.shape
    lead = len(shape) - len(own)
    if lead < 0 or any(n not in (1, m) for n, m in zip(own, shape[lead:], strict=False)):
        raise ShapeError(
            f"{name}: the fill value does not broadcast to the shape",
            got=f"{value.aval.str_short()} to {shape}",
            fix="a scalar, or an array of that shape",
        )
    return broadcast_value(value, shape)


def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """Zeros of the shape and dtype of ``a``, unless others are given.

    Args:
      a: an array, a scalar, or something with a shape and a dtype.
      dtype: that of ``a`` if None.
      shape: that of ``a`` if None.
      device: a device or a sharding to put the array on; that of ``a`` if None.

    Returns:
      An array.

    Raises:
      DTypeError: for lists.
      ShapeError: for negative sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.zeros_like(jnp.array([1, 2]))
      Array([0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device)


def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """Ones of the shape and dtype of ``a``, unless others are given.

    Args:
      a: an array, a scalar, or something with a shape and a dtype.
      dtype: that of ``a`` if None.
      shape: that of ``a`` if None.
      device: a device or a sharding to put the array on; that of ``a`` if None.

    Returns:
      An array.

    Raises:
      DTypeError: for lists.
      ShapeError: for negative sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ones_like(jnp.array([1, 2]), dtype=float)
      Array([1., 1.], dtype=float32)
    """
    return _like("ones_like", a, 1, dtype, shape, device)


def empty_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """Zeros of the shape and dtype of ``prototype``, unless others are given.

    Args:
      prototype: an array, a scalar, or something with a shape and a dtype.
      dtype: that of ``prototype`` if None.
      shape: that of ``prototype`` if None.
      device: a device or a sharding to put the array on; that of ``prototype`` if None.

    Returns:
      An array full of 0, for nothing here is left uninitialised.

    Raises:
      DTypeError: for lists.
      ShapeError: for negative sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.empty_like(jnp.array([1, 2]))
      Array([0, 0], dtype=int32)
    """
    return _like("empty_like", prototype, 0, dtype, shape, device)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """An array full of a value, of the shape and dtype of ``a``, unless others are given.

    Args:
      a: an array, a scalar, or something with a shape and a dtype.
      fill_value: a scalar, or an array that broadcasts to the shape.
      dtype: that of ``a`` if None.
      shape: that of ``a`` if None.
      device: a device or a sharding to put the array on; that of ``a`` if None.

    Returns:
      An array.

    Raises:
      DTypeError: for lists.
      ShapeError: for negative sizes, and a value that does not broadcast to the shape.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.full_like(jnp.array([1, 2]), 7.9)
      Array([7, 7], dtype=int32)
    """
    aval = _type_like("full_like", a, dtype, shape)
    value = _converted(fill_value, aval)
    return _on_device_of(a, result(_spread("full_like", value, aval.shape)), device)


def _like(name: str, a: Any, value: float, dtype: Any, shape: Any, device: Any) -> Value:
    aval = _type_like(name, a, dtype, shape)
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, aval.dtype)
    made = result(full_p(aval.shape, Literal(value, aval.update(shape=()))))
    return _on_device_of(a, made, device)


def _on_device_of(a: Any, made: Value, device: Any) -> Value:
    """An array on a device, or where None is given on that which ``a`` is bound to."""
    if device is None and known.several:
        device = bound_to(a)
    return made if device is None else device_put(made, device)


def _type_like(name: str, a: Any, dtype: Any, shape: Any) -> ShapedArray:
    own = getattr(a, "aval", None)
    if own is None:
        has_type = hasattr(a, "shape") and hasattr(a, "dtype") and not hasattr(a, "__array__")
        if has_type:  # a ShapeDtypeStruct, say
            own = ShapedArray(
                tuple(a.shape), checked_dtype(a.dtype), getattr(a, "weak_type", False)
            )
        else:
            own = to_array(name, a).aval
    sizes = own.shape if shape is None else checked_shape(name, shape)
    if dtype is None:
        return ShapedArray(sizes, own.dtype, own.weak_type)
    return ShapedArray(sizes, checked_dtype(dtype))


def eye(
    N: int,
    M: int | None = None,
    k: int | ArrayLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """Ones on the ``k``-th diagonal of an N × M matrix, zeros elsewhere.

    Args:
      N: the number of rows.
      M: the number of columns; as many as rows if None.
      k: which diagonal: 0 the main one, above it if positive; may be traced.
      dtype: float32 by default (float64 when x64 is on).
      device: a device or a sharding to put the array on, or None.

    Returns:
      A matrix of shape ``(N, M)``.

    Raises:
      ShapeError: for negative sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.eye(2, 3, k=1, dtype=int)
      Array([[0, 1, 0],
             [0, 0, 1]], dtype=int32)
    """
    made = convert(_diagonals("eye", compare.eq, N, M, k), float_or(dtype))
    return made if device is None else device_put(made, device)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Ones on and below the ``k``-th diagonal of an N × M matrix, zeros above.

    Args:
      N: the number of rows.
      M: the number of columns; as many as rows if None.
      k: which diagonal: 0 the main one, above it if positive.
      dtype: float32 by default (float64 when x64 is on).

    Returns:
      A matrix of shape ``(N, M)``.

    Raises:
      ShapeError: for negative sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.tri(2, 3)
      Array([[1., 0., 0.],
             [1., 1., 0.]], dtype=float32)
    """
    return convert(_diagonals("tri", compare.ge, N, M, k), float_or(dtype))


def _diagonals(name: str, compare: Primitive, n: int, m: int | None, k: Any) -> Value:
    shape = checked_shape(name, (n, n if m is None else m))
    kind = dtypes.position_dtype(sum(shape))
    row, column = (iota.bind(shape=shape, dtype=kind, axis=axis) for axis in (0, 1))
    offset: Any
    if isinstance(k, (int, np.integer)):  # beyond the matrix is beyond it
        offset = literal(max(-shape[0], min(int(k), shape[1])), kind)
    else:
        offset = convert(k, kind)
    moved = prims.add.bind(row, broadcast_value(offset, shape) if isinstance(k, Array) else offset)
    return compare.bind(moved, column)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix of size ``n``.

    Args:
      n: the number of rows and columns.
      dtype: float32 by default (float64 when x64 is on).

    Returns:
      A matrix of shape ``(n, n)``.

    Raises:
      ShapeError: for a negative size.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.identity(2)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, **kwargs: Any
) -> Any:
    """The values of a function at the indices of an array.

    Args:
      function: takes one array of indices for each axis, each of the given shape.
      shape: the shape.
      dtype: the dtype of the indices.
      **kwargs: given to ``function``.

    Returns:
      What the function gives.

    Raises:
      ShapeError: for negative sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fromfunction(lambda i, j: i + 10 * j, (2, 3), dtype=int)
      Array([[ 0, 10, 20],
             [ 1, 11, 21]], dtype=int32)
    """
    sizes = checked_shape("fromfunction", shape)
    exact = checked_dtype(dtype)
    indices = [iota.bind(shape=sizes, dtype=exact, axis=i) for i in range(len(sizes))]
    return function(*indices, **kwargs)
