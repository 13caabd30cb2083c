"""Diagonals and triangles of matrices: tril, triu, diag, diagonal, trace, fill_diagonal.

Each is one ``reindex``: a triangle keeps the points where a condition on row and column holds,
and fills the others with zeros; a diagonal reads ``x[i, i + k]``.
"""

from __future__ import annotations

from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError, UnavailableError
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.prims.mapped import reindex, scatter
from functrax.core.prims.reduce import reduce_sum
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.at import cast_update
from functrax.numpy.axes import integer, many_axes
from functrax.numpy.logic import no_out
from functrax.numpy.promote import broadcast_value, convert, result, to_array
from functrax.numpy.rearranging import resize
from functrax.numpy.reductions import sum_dtype
from functrax.numpy.shaping import reshape_to
from functrax.typing import ArrayLike, DTypeLike

__all__ = ["diag", "diagflat", "diagonal", "fill_diagonal", "trace", "tril", "triu"]


def tril(m: ArrayLike, k: int = 0) -> Array:
    """Zeros above the ``k``-th diagonal of the last two axes.

    Args:
      m: an array of at least two axes.
      k: which diagonal: 0 the main one, above it if positive.

    Returns:
      An array of the same shape.

    Raises:
      ShapeError: if ``m`` has fewer than two axes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.tril(jnp.ones((2, 3)))
      Array([[1., 0., 0.],
             [1., 1., 0.]], dtype=float32)
    """
    return _triangle("tril", m, k, lower=True)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """Zeros below the ``k``-th diagonal of the last two axes.

    Args:
      m: an array of at least two axes.
      k: which diagonal: 0 the main one, above it if positive.

    Returns:
      An array of the same shape.

    Raises:
      ShapeError: if ``m`` has fewer than two axes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.triu(jnp.ones((2, 3)))
      Array([[1., 1., 1.],
             [0., 1., 1.]], dtype=float32)
    """
    return _triangle("triu", m, k, lower=False)


def _triangle(name: str, m: Any, k: int, lower: bool) -> Value:
    x = to_array(name, m)
    shift = integer(name, "k", k)
    if x.aval.ndim < 2:
        raise ShapeError(f"{name}: takes matrices", got=x.aval.str_short(), fix="two axes or more")
    shape = x.aval.shape
    row, column = Dim(len(shape) - 2), Dim(len(shape) - 1)
    kept = row + shift >= column if lower else row + shift <= column
    dims = tuple(Dim(n) for n in range(len(shape)))
    index_map = IndexMap(shape, shape, dims, (kept,))
    return reindex.bind(x, map=index_map, fill=like(x, 0))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The ``k``-th diagonal of a matrix, or the matrix whose ``k``-th diagonal a vector is.

    Args:
      v: a vector or a matrix.
      k: which diagonal: 0 the main one, above it if positive.

    Returns:
      Of a vector a square matrix, of a matrix a vector.

    Raises:
      ShapeError: if ``v`` is neither a vector nor a matrix.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.diag(jnp.array([1, 2]))
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    x = to_array("diag", v)
    shift = integer("diag", "k", k)
    if x.aval.ndim == 2:
        return diagonal(x, shift)
    if x.aval.ndim != 1:
        raise ShapeError("diag: takes a vector or a matrix", got=x.aval.str_short(), fix="ravel it")
    size = x.aval.size + abs(shift)
    row, column = Dim(0), Dim(1)
    on_diagonal = (column - row - shift).eq(0)
    index_map = IndexMap((size, size), x.aval.shape, (row + min(shift, 0),), (on_diagonal,))
    return reindex.bind(x, map=index_map, fill=like(x, 0))


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix whose ``k``-th diagonal the elements are, in row-major order.

    Args:
      v: an array of any shape.
      k: which diagonal: 0 the main one, above it if positive.

    Returns:
      A square matrix.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.diagflat(jnp.array([1, 2]), k=1)
      Array([[0, 1, 0],
             [0, 0, 2],
             [0, 0, 0]], dtype=int32)
    """
    x = to_array("diagflat", v)
    return diag(reshape_to(x, (x.aval.size,)), k)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements ``[i, i + offset]`` of two axes, as a new last axis.

    Args:
      a: an array of at least two axes.
      offset: which diagonal: 0 the main one, above it if positive.
      axis1: the axis of the rows.
      axis2: the axis of the columns.

    Returns:
      An array of the other axes and a last one, the diagonal.

    Raises:
      ShapeError: if ``a`` has fewer than two axes.
      AxisError: if the two axes are one.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)
    """
    x = to_array("diagonal", a)
    shape = x.aval.shape
    if len(shape) < 2:
        raise ShapeError("diagonal: takes matrices", got=x.aval.str_short(), fix="two axes or more")
    first, second = many_axes("diagonal", (axis1, axis2), len(shape))
    shift = integer("diagonal", "offset", offset)
    rest = [n for n in range(len(shape)) if n not in (first, second)]
    top, left = max(-shift, 0), max(shift, 0)
    size = max(min(shape[first] - top, shape[second] - left), 0)
    along = Dim(len(rest))
    exprs: list[IndexExpr] = [as_expr(0)] * len(shape)
    exprs[first], exprs[second] = along + top, along + left
    for n, axis in enumerate(rest):
        exprs[axis] = Dim(n)
    domain = (*(shape[n] for n in rest), size)
    return reindex.bind(x, map=IndexMap(domain, shape, tuple(exprs)), fill=like(x, 0))


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of a diagonal of two axes.

    Args:
      a: an array of at least two axes.
      offset: which diagonal: 0 the main one, above it if positive.
      axis1: the axis of the rows.
      axis2: the axis of the columns.
      dtype: in which to add up; by default that of ``a``, but at least the default integer.
      out: must be None.

    Returns:
      An array of the other axes.

    Raises:
      ShapeError: if ``a`` has fewer than two axes.
      AxisError: if the two axes are one, or out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
      Array(5, dtype=int32)
    """
    no_out("trace", out)
    x = diagonal(a, offset, axis1, axis2)
    if dtype is not None:
        x = convert(x, dtypes.canonicalize_dtype(dtypes.as_dtype(dtype)))
    else:
        x = convert(x, sum_dtype(x.aval.dtype))
    return result(reduce_sum.bind(x, axes=(x.aval.ndim - 1,)))


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """A copy with other values on the main diagonal.

    Args:
      a: an array of at least two axes; of equal sizes, if more than two.
      val: a scalar, or an array, whose elements are repeated along the diagonal.
      wrap: whether the diagonal of a tall matrix begins again after the last column.
      inplace: must be False, for arrays are immutable.

    Returns:
      An array of the shape of ``a``.

    Raises:
      UnavailableError: if ``inplace`` is not False.
      ShapeError: if ``a`` has no diagonal.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 5, inplace=False)
      Array([[5., 0.],
             [0., 5.]], dtype=float32)
    """
    refuse_inplace("fill_diagonal", inplace)
    x = to_array("fill_diagonal", a)
    shape = x.aval.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(
            "fill_diagonal: takes a matrix, or an array of equal sizes",
            got=x.aval.str_short(),
            fix="two axes, or more of one size",
        )
    along = Dim(0)
    size = min(shape)
    exprs: tuple[IndexExpr, ...] = (along,) * len(shape)
    if wrap and len(shape) == 2 and shape[0] > shape[1]:
        step = shape[1] + 1
        size = -(-shape[0] * shape[1] // step)
        exprs = (along * step // shape[1], along * step % shape[1])
    values = cast_update("fill_diagonal", val, x.aval)
    if values.aval.ndim:
        values = resize(result(values), (size,))
    updates = broadcast_value(values, (size,))
    index_map = IndexMap((size,), shape, exprs)
    return result(scatter.bind(x, updates, map=index_map, op="set", unique=True))


def refuse_inplace(name: str, inplace: bool) -> None:
    """Refuse to change an array.

    Raises:
      UnavailableError: if ``inplace`` is not False.
    """
    if inplace:
        raise UnavailableError(
            f"{name}: arrays are immutable, so it cannot work in place",
            got=f"inplace={inplace}",
            fix=f"x = jnp.{name}(x, ..., inplace=False), or x.at[...]",
        )
