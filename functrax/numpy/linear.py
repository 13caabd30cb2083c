"""Products of vectors and matrices that are no contractions: kron and cross."""

from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.prims.arithmetic import mul, neg, sub
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Value
from functrax.numpy.axes import one_axis
from functrax.numpy.promote import broadcast_values, promote_dtypes, result
from functrax.numpy.shaping import join, moveaxis, reshape_to, slice_axis
from functrax.typing import ArrayLike

__all__ = ["cross", "kron"]


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: each element of ``a`` times the whole of ``b``, as blocks.

    Args:
      a: an array.
      b: another; the one of fewer axes gets axes of size 1 in front.

    Returns:
      An array whose sizes are the products of theirs.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
      Array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = promote_dtypes("kron", a, b)
    ndim = max(x.aval.ndim, y.aval.ndim)
    p, q = ndim - x.aval.ndim, ndim - y.aval.ndim
    left, right = (1,) * p + x.aval.shape, (1,) * q + y.aval.shape
    pairs = tuple(n for pair in zip(left, right, strict=True) for n in pair)
    wide = broadcast_in_dim.bind(x, shape=pairs, dims=tuple(range(2 * p, 2 * ndim, 2)))
    other = broadcast_in_dim.bind(y, shape=pairs, dims=tuple(range(2 * q + 1, 2 * ndim, 2)))
    shape = tuple(m * n for m, n in zip(left, right, strict=True))
    return result(reshape_to(mul.bind(wide, other), shape))


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors of 3 elements; of 2, only its third element.

    Args:
      a: an array of vectors.
      b: an array of vectors, which broadcasts against ``a``.
      axisa: the axis of ``a`` that holds the vectors.
      axisb: the same of ``b``.
      axisc: where the vectors stand in the result.
      axis: all three at once.

    Returns:
      An array of the broadcast shape; for vectors of 2 elements without the last axis.

    Raises:
      ShapeError: if the vectors have neither 2 nor 3 elements.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = (result(v) for v in promote_dtypes("cross", a, b))
    x = moveaxis(x, one_axis("cross", axisa, x.aval.ndim, "axisa"), -1)
    y = moveaxis(y, one_axis("cross", axisb, y.aval.ndim, "axisb"), -1)
    sizes = x.aval.shape[-1], y.aval.shape[-1]
    if not {2, 3}.issuperset(sizes):
        raise ShapeError(
            "cross: takes vectors of 2 or 3 elements",
            got=f"{x.aval.str_short()}, {y.aval.str_short()}",
            fix="give axisa and axisb",
        )
    x0, x1, *x2 = _elements(x)
    y0, y1, *y2 = _elements(y)
    third = _minus(_times(x0, y1), _times(x1, y0))
    if not x2 and not y2:
        return result(reshape_to(third, third.aval.shape[:-1]))
    first = _minus(_product(x1, y2), _product(y1, x2))
    second = _minus(_product(y0, x2), _product(x0, y2))
    parts = [part for part in (first, second, third) if part is not None]
    vectors = join(broadcast_values("cross", *parts), third.aval.ndim - 1)
    return moveaxis(vectors, -1, one_axis("cross", axisc, vectors.aval.ndim, "axisc"))


def _elements(x: Value) -> list[Value]:
    last = x.aval.ndim - 1
    return [slice_axis(x, last, k, k + 1) for k in range(x.aval.shape[-1])]


def _times(x: Value, y: Value) -> Value:
    return mul.bind(*broadcast_values("cross", x, y))


def _product(x: Value, y: list[Value]) -> Value | None:
    """``x`` times the third element, or None where that is missing and so zero."""
    return _times(x, y[0]) if y else None


def _minus(x: Value | None, y: Value | None) -> Value:
    """The difference; None stands for zero."""
    if y is None:
        return x
    return neg.bind(y) if x is None else sub.bind(*broadcast_values("cross", x, y))
