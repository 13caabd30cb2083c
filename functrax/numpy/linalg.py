"""Linear algebra: the names, signatures and meaning are those of ``jax.numpy.linalg``.

``factoring`` has the factorisations, ``solving`` linear systems, inverses and determinants,
``norms`` the norms; products are those of ``functrax.numpy``, under the array API's names and
arguments where these differ, which are here.

>>> import functrax.numpy as jnp
>>> jnp.linalg.norm(jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 2.0]])), ord=1)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrax.backends.eager.cached_traces import with_long_recipe as _with_long_recipe
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.numpy import contraction, linear, triangles, vector_products
from functrax.numpy.axes import one_axis as _one_axis
from functrax.numpy.factoring import (
    cholesky as cholesky,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    qr as qr,
    svd as svd,
    svdvals as svdvals,
)
from functrax.numpy.norms import (
    matrix_norm as matrix_norm,
    norm as norm,
    vector_norm as vector_norm,
)
from functrax.numpy.promote import to_array as _to_array
from functrax.numpy.shaping import matrix_transpose as matrix_transpose
from functrax.numpy.solving import (
    cond as cond,
    det as det,
    inv as inv,
    lstsq as lstsq,
    matrix_power as matrix_power,
    matrix_rank as matrix_rank,
    pinv as pinv,
    slogdet as slogdet,
    solve as solve,
    tensorinv as tensorinv,
    tensorsolve as tensorsolve,
)
from functrax.numpy.trace_cached import record_all as _record_all
from functrax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from functrax.lax.precision import PrecisionLike


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The matrix product; see :func:`functrax.numpy.matmul`.

    Args:
      x1: a vector or matrices.
      x2: a vector or matrices; leading axes broadcast.
      precision: as for :func:`functrax.numpy.dot`.
      preferred_element_type: the dtype in which to add up, and of the result.

    Returns:
      The products; an axis that was added for a vector is taken away.

    Raises:
      ShapeError: for scalars, and if the sizes do not go together.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    return contraction.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of products over pairs of axes; see :func:`functrax.numpy.tensordot`.

    Args:
      x1: an array.
      x2: an array.
      axes: how many of the last axes of ``x1`` meet the first of ``x2``, or a pair of sequences of
        axes.
      precision: as for :func:`functrax.numpy.dot`.
      preferred_element_type: the dtype in which to add up, and of the result.

    Returns:
      An array of the axes of ``x1`` that are left, and then those of ``x2``.

    Raises:
      ArgumentError: if there are fewer axes, or the pair has different lengths.
      ShapeError: if the sizes do not go together.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.tensordot(jnp.ones((2, 3, 4)), jnp.ones((3, 4, 5))).shape
    (2, 5)
    """
    return contraction.tensordot(
        x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Inner products along an axis; see :func:`functrax.numpy.vecdot`.

    Args:
      x1: vectors, whose complex conjugates are taken.
      x2: vectors; the other axes broadcast.
      axis: the axis that is summed over.
      precision: as for :func:`functrax.numpy.dot`.
      preferred_element_type: the dtype in which to add up, and of the result.

    Returns:
      An array without the axis.

    Raises:
      ShapeError: if the sizes do not go together.
      AxisError: if the axis is out of range.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    return vector_products.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``result[i, j] = x1[i] * x2[j]`` of two vectors.

    Args:
      x1: ``m`` elements.
      x2: ``n`` elements.

    Returns:
      An array of shape ``(m, n)``.

    Raises:
      ShapeError: if an operand is not a vector.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x, y = _to_array("outer", x1), _to_array("outer", x2, 1)
    if x.aval.ndim != 1 or y.aval.ndim != 1:
        raise ShapeError(
            "outer: takes two vectors",
            got=f"{x.aval.str_short()}, {y.aval.str_short()}",
            fix="functrax.numpy.outer, which flattens",
        )
    return vector_products.outer(x, y)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 elements.

    Args:
      x1: vectors.
      x2: vectors; the other axes broadcast.
      axis: the axis of the elements.

    Returns:
      An array of the shape to which both broadcast.

    Raises:
      ShapeError: if the vectors do not have 3 elements, or the shapes do not broadcast.
      AxisError: for an axis out of range.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x, y = _to_array("cross", x1), _to_array("cross", x2, 1)
    for v in (x, y):
        if v.aval.ndim == 0 or v.aval.shape[_one_axis("cross", axis, v.aval.ndim)] != 3:
            raise ShapeError(
                "cross: takes vectors of 3 elements",
                got=f"{v.aval.str_short()} along axis {axis}",
                fix="functrax.numpy.cross, which takes 2 as well; or give axis",
            )
    return linear.cross(x, y, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices, which are the last two axes, as a new last axis.

    Args:
      x: matrices.
      offset: how far above the main diagonal; negative ones are below.

    Returns:
      An array whose last axis is along the diagonal.

    Raises:
      ShapeError: if ``x`` has fewer than two axes.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return triangles.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of matrices, which are the last two axes.

    Args:
      x: matrices.
      offset: how far above the main diagonal; negative ones are below.
      dtype: the dtype in which to add up, and of the result.

    Returns:
      An array without the last two axes.

    Raises:
      ShapeError: if ``x`` has fewer than two axes.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return triangles.trace(x, offset, -2, -1, dtype)


def multi_dot(arrays: Sequence[Any], *, precision: PrecisionLike = None) -> Array:
    """The product of several matrices, in the order that needs the fewest multiplications.

    Args:
      arrays: matrices; the first and the last may be vectors.
      precision: as for :func:`functrax.numpy.dot`.

    Returns:
      A matrix; without the axis that a vector lacks.

    Raises:
      ArgumentError: for fewer than two arrays.
      ShapeError: if neighbouring sizes differ.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.multi_dot([jnp.ones((2, 9)), jnp.ones((9, 9)), jnp.ones(9)])
    Array([81., 81.], dtype=float32)
    """
    values = [_to_array("multi_dot", x, i) for i, x in enumerate(arrays)]
    if len(values) < 2:
        raise ArgumentError(
            "multi_dot: takes two arrays or more", got=f"{len(values)}", fix="a list of arrays"
        )
    rows = [1 if x.aval.ndim == 1 else x.aval.shape[0] for x in values[:1]]
    sizes = rows + [x.aval.shape[0] for x in values[1:]]
    sizes.append(1 if values[-1].aval.ndim == 1 else values[-1].aval.shape[-1])
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(values))}
    for length in range(1, len(values)):
        for i in range(len(values) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def product(i: int, j: int) -> Value:
        if i == j:
            return values[i]
        k = best[i, j][1]
        return contraction.matmul(product(i, k), product(k + 1, j), precision=precision)

    return product(0, len(values) - 1)


#: Functions that have recipes.
_RECORDED = (
    "cholesky cond cross det diagonal eigh eigvalsh inv lstsq matmul matrix_norm matrix_power "
    "matrix_rank matrix_transpose multi_dot norm outer pinv qr slogdet solve svd svdvals tensordot "
    "tensorinv tensorsolve trace vecdot vector_norm"
)
_record_all(globals(), frozenset(_RECORDED.split()), _with_long_recipe)
_explain_all(globals())
__dir__ = _listing(globals())
