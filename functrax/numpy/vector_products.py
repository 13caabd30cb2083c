"""Products with vectors: inner, outer, vdot, vecdot, matvec, vecmat.

Each is one contraction (:mod:`functrax.numpy.contraction`).  Start at :func:`vecdot`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from functrax.core.arrays.operators import Array
from functrax.core.prims.convert import conj
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.axes import one_axis
from functrax.numpy.contraction import (
    axes_product,
    batched_product,
    contract,
    dot,
    finish,
    operands_of,
    refuse_few_axes,
)
from functrax.numpy.shaping import moveaxis, reshape_to
from functrax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from functrax.lax.precision import PrecisionLike

__all__ = ["inner", "matvec", "outer", "vdot", "vecdot", "vecmat"]


def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of products over the last axes of both; a scalar multiplies.

    Args:
      a: an array.
      b: another, of the same last size.
      precision: as for :func:`dot`.
      preferred_element_type: the dtype of the sums and of the result.

    Returns:
      An array of shape ``(*a.shape[:-1], *b.shape[:-1])``.

    Raises:
      ShapeError: if the last sizes differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.inner(jnp.array([1, 2]), jnp.array([[3, 4], [5, 6]]))
      Array([11, 17], dtype=int32)
    """
    (x, y), dtype = operands_of("inner", preferred_element_type, a, b, precision=precision)
    if x.aval.ndim == 0 or y.aval.ndim == 0:
        return dot(x, y, preferred_element_type=preferred_element_type)
    axes = ((x.aval.ndim - 1,), (y.aval.ndim - 1,))
    return finish(axes_product("inner", x, y, *axes), dtype)


def outer(a: ArrayLike, b: ArrayLike) -> Array:
    """``result[i, j] = a[i] * b[j]`` of all elements of ``a`` and all of ``b``.

    Args:
      a: an array.
      b: another.

    Returns:
      A matrix of shape ``(a.size, b.size)``, in the dtype in which the two meet.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4, 5]))
      Array([[ 3,  4,  5],
             [ 6,  8, 10]], dtype=int32)
    """
    (x, y), dtype = operands_of("outer", None, a, b)
    x, y = (reshape_to(v, (v.aval.size,)) for v in (x, y))
    sizes: dict[Hashable, int] = {0: x.aval.size, 1: y.aval.size}
    return finish(contract((x, y), ((0,), (1,)), (0, 1), sizes), dtype)


def conjugated(x: Value) -> Value:
    """The complex conjugate; the value itself if it is real."""
    return conj.bind(x) if dtypes.is_complex(x.aval.dtype) else x


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The inner product of all elements, the first operand's conjugated.

    Args:
      a: an array.
      b: another, of as many elements.
      precision: as for :func:`dot`.
      preferred_element_type: the dtype of the sum and of the result.

    Returns:
      A scalar array.

    Raises:
      ShapeError: if the numbers of elements differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.vdot(jnp.array([1j, 2]), jnp.array([1j, 3]))
      Array(7.+0.j, dtype=complex64)
    """
    (x, y), dtype = operands_of("vdot", preferred_element_type, a, b, precision=precision)
    x, y = (reshape_to(v, (v.aval.size,)) for v in (conjugated(x), y))
    return finish(axes_product("vdot", x, y, (0,), (0,)), dtype)


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Inner products along an axis, the first operand's elements conjugated; others broadcast.

    Args:
      x1: an array of at least one axis.
      x2: another; the axes but ``axis`` broadcast.
      axis: the axis of both that is summed.
      precision: as for :func:`dot`.
      preferred_element_type: the dtype of the sums and of the result.

    Returns:
      An array of the broadcast shape of the other axes.

    Raises:
      ShapeError: for scalars, if the sizes along the axis differ, or the other axes do not
        broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([10, 1]))
      Array([12, 34], dtype=int32)
    """
    (x, y), dtype = operands_of("vecdot", preferred_element_type, x1, x2, precision=precision)
    refuse_few_axes("vecdot", x, y)
    if axis != -1:
        x, y = (moveaxis(v, one_axis("vecdot", axis, v.aval.ndim), -1) for v in (x, y))
    return finish(batched_product("vecdot", conjugated(x), y, ("k",), ("k",)), dtype)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of matrices and vectors: ``(…, m, k)`` and ``(…, k)`` give ``(…, m)``.

    Args:
      x1: matrices, an array of shape ``(…, m, k)``.
      x2: vectors, an array of shape ``(…, k)``; leading axes broadcast.

    Returns:
      An array of shape ``(…, m)``.

    Raises:
      ShapeError: for too few axes, if the contracted sizes differ, or the batches do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.matvec(jnp.array([[1, 2], [3, 4]]), jnp.array([10, 1]))
      Array([12, 34], dtype=int32)
    """
    (x, y), dtype = operands_of("matvec", None, x1, x2)
    refuse_few_axes("matvec", x, y, ndim=(2, 1))
    return finish(batched_product("matvec", x, y, ("m", "k"), ("k",)), dtype)


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of conjugated vectors and matrices: ``(…, k)`` and ``(…, k, n)`` give ``(…, n)``.

    Args:
      x1: vectors, an array of shape ``(…, k)``.
      x2: matrices, an array of shape ``(…, k, n)``; leading axes broadcast.

    Returns:
      An array of shape ``(…, n)``.

    Raises:
      ShapeError: for too few axes, if the contracted sizes differ, or the batches do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.vecmat(jnp.array([10, 1]), jnp.array([[1, 2], [3, 4]]))
      Array([13, 24], dtype=int32)
    """
    (x, y), dtype = operands_of("vecmat", None, x1, x2)
    refuse_few_axes("vecmat", x, y, ndim=(1, 2))
    return finish(batched_product("vecmat", conjugated(x), y, ("k",), ("k", "n")), dtype)
