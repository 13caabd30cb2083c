"""Updates of matrices, and the polar decomposition by iteration, as ``jax.lax.linalg`` has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.prims import factorisations
from functrax.core.prims.matrices import (
    adjoint,
    check_matrix,
    hermitian,
    identity,
    matmul,
    transposed,
)
from functrax.core.types import dtypes
from functrax.lax.conversion import convert_element_type
from functrax.lax.creation import iota
from functrax.lax.elementwise import cbrt, sqrt
from functrax.lax.joining import concatenate
from functrax.lax.operands import as_array, check_same_dtype, value_of
from functrax.lax.shapes import transpose
from functrax.transforms.control.user_loops import scan, while_loop
from functrax.typing import ArrayLike

__all__ = ["cholesky_update", "qdwh", "symmetric_product"]


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangle ``S`` with ``S^T S = R^T R + w w^T``, in ``n * n`` steps.

    Args:
      r_matrix: ``R``, an upper triangle ``[..., n, n]`` of floats.
      w_vector: ``w``, ``[..., n]``.

    Returns:
      An array of the shape of ``r_matrix``.

    Raises:
      ShapeError: if the sizes do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax
    >>> lax.linalg.cholesky_update(3.0 * jnp.eye(2), jnp.array([4.0, 0.0]))
    Array([[5., 0.],
           [0., 3.]], dtype=float32)
    """
    name = "cholesky_update"
    r, w = as_array(value_of(name, r_matrix)), as_array(value_of(name, w_vector))
    check_matrix(name, r.aval, square=True)
    check_same_dtype(name, (r, w), "convert with .astype(...)")
    if w.shape != r.shape[:-1]:
        raise ShapeError(
            f"{name}: the vector does not go with the matrix",
            got=f"{r.aval.str_short()}, {w.aval.str_short()}",
            fix="a vector of as many elements as rows",
        )

    def step(vector: Array, rows: tuple[Array, Array]) -> tuple[Array, Array]:
        """A rotation of row ``k`` of the matrix and of the vector, which makes its element 0."""
        k, row = rows
        a, b = row[..., k], vector[..., k]
        size = sqrt(a * a + b * b)
        cos, sin = (a / size)[..., None], (b / size)[..., None]
        return cos * vector - sin * row, cos * row + sin * vector

    order = (r.ndim - 2, *range(r.ndim - 2), r.ndim - 1)
    back = (*range(1, r.ndim - 1), 0, r.ndim - 1)
    found = scan(step, w, (iota(np.int32, w.shape[-1]), transpose(r, order)))[1]
    return transpose(found, back)


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """``alpha a a^T + beta c``.

    Args:
      a_matrix: ``[..., m, n]``.
      c_matrix: symmetric, ``[..., m, m]``.
      alpha, beta: numbers.
      symmetrize_output: whether the lower triangle stands in the upper one too, bit by bit; it
        does up to rounding in any case.

    Returns:
      Symmetric matrices ``[..., m, m]``.

    Raises:
      ShapeError: if the sizes do not go together.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.symmetric_product(np.array([[1.0], [2.0]]), np.zeros((2, 2)))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    name = "symmetric_product"
    a, c = value_of(name, a_matrix), value_of(name, c_matrix)
    check_matrix(name, a.aval)
    check_matrix(name, c.aval, square=True)
    check_same_dtype(name, (a, c), "convert with .astype(...)")
    if c.aval.shape[:-1] != a.aval.shape[:-1]:
        raise ShapeError(
            f"{name}: the sizes of the matrices differ",
            got=f"{a.aval.str_short()}, {c.aval.str_short()}",
            fix="as many rows in both, and equal leading axes",
        )
    out = alpha * as_array(matmul(a, transposed(a))) + beta * as_array(c)
    return as_array(hermitian(out, lower=True)) if symmetrize_output else out


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Any, Any]:
    """The polar decomposition ``x = u h`` by a Halley iteration with dynamic weights.

    Y. Nakatsukasa, Z. Bai and F. Gygi, "Optimizing Halley's iteration for computing the matrix
    polar decomposition", 2010, by QR decompositions.

    Args:
      x: a matrix of full rank, of at least as many rows as columns.
      is_hermitian: whether ``x`` is; the iteration is the same.
      max_iterations: how many there may be; 10 if None.
      eps: the iteration ends where changes are below ``(4 eps) ** (1 / 3)``; the dtype's precision
        if None.
      dynamic_shape: must be None: shapes are known here.

    Returns:
      ``(u, h, iterations, converged)``; ``iterations`` is int32 and ``converged`` a boolean.

    Raises:
      ShapeError: for a batch, or more columns than rows.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.qdwh(np.array([[-3.0, 0.0], [0.0, 2.0]]))[1].round(3)
    Array([[3., 0.],
           [0., 2.]], dtype=float32)
    """
    a = as_array(value_of("qdwh", x))
    check_matrix("qdwh", a.aval)
    if a.ndim != 2 or a.shape[0] < a.shape[1] or dynamic_shape is not None:
        raise ShapeError(
            "qdwh: takes one matrix of at least as many rows as columns, of a known shape",
            got=f"{a.aval.str_short()}, dynamic_shape={dynamic_shape}",
            fix="the adjoint of a wide matrix; functrax.vmap for several; a slice",
        )
    real = dtypes.real_dtype(a.dtype)
    small = float(dtypes.finfo(real).eps) if eps is None else float(eps)
    most = 10 if max_iterations is None else int(max_iterations)
    size = abs(a)
    scale = sqrt(size.sum(0).max() * size.sum(1).max())
    start = a / (scale + (scale == 0)).astype(a.dtype)
    lowest = convert_element_type(small, real)

    def goes_on(state: Any) -> Any:
        return ~state[3] & (state[2] < most)

    def step(state: Any) -> Any:
        u, low, count, _ = state
        new, above = _halley(u, low)
        change, length = _length(new - u), _length(new)
        near = (change <= length * (4 * small) ** (1 / 3)) & (abs(above - 1) <= 5 * small)
        return new, above, count + 1, near

    first = (start, lowest, np.int32(0), np.bool_(False))
    u, _, count, converged = while_loop(goes_on, step, first)
    h = as_array(matmul(adjoint(u), a))
    h = (h + as_array(adjoint(h))) / 2
    return u, h, count, converged


def _length(x: Array) -> Any:
    """Frobenius' norm."""
    return sqrt((abs(x) ** 2).sum())


def _halley(u: Array, low: Array) -> tuple[Array, Array]:
    """One step, and the new lower bound of the singular values, by a QR decomposition."""
    square = low * low
    d = cbrt(4 * (1 - square) / (square * square))
    root = sqrt(1 + d)
    a = root + sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2
    b = (a - 1) ** 2 / 4
    c = a + b - 1
    above = low * (a + b * square) / (1 + c * square)
    m, n = u.shape
    eye = as_array(identity(u[:n]))
    stacked = concatenate([sqrt(c).astype(u.dtype) * u, eye], 0)
    q = as_array(factorisations.qr(stacked, full_matrices=False, compute_q=True)[0])
    product = as_array(matmul(q[:m], adjoint(q[m:])))
    first, second = b / c, (a - b / c) / sqrt(c)
    return first.astype(u.dtype) * u + second.astype(u.dtype) * product, above
