"""Linear systems and the factors that solve them: triangles, Cholesky's, and elimination.

As in ``jax.scipy.linalg``, of which these functions are part.  Start at :func:`solve`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims import factorisations
from functrax.core.prims.linear_systems import solve_each, triangular_solve
from functrax.core.prims.matrices import adjoint, check_matrix, is_complex, rows_taken
from functrax.core.tracing.primitive import Value
from functrax.numpy import linalg as la
from functrax.numpy.factoring import matrices_of
from functrax.numpy.promote import result, to_array
from functrax.numpy.solving import same_batches
from functrax.typing import ArrayLike

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "lu", "lu_factor", "lu_solve", "solve",
    "solve_triangular",
]  # fmt: skip

_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def _transposition(name: str, trans: Any) -> int:
    if trans not in _TRANS:
        raise ArgumentError(
            f"{name}: unknown trans", got=repr(trans), fix="0 or 'N', 1 or 'T', 2 or 'C'"
        )
    return _TRANS[trans]


def _system(name: str, a: Any, b: Any) -> tuple[Value, Value, bool]:
    """Both sides, with the leading axes of both or one matrix; whether the right is of vectors."""
    x, y = matrices_of(name, a, b)
    check_matrix(name, x.aval, square=True)
    several = y.aval.ndim == x.aval.ndim - 1 and y.aval.shape[-1:] == x.aval.shape[-1:]
    is_vector = y.aval.ndim == 1 or several
    if y.aval.ndim == 0 or y.aval.shape[-1 if is_vector else -2] != x.aval.shape[-1]:
        raise ShapeError(
            f"{name}: the sizes of the matrix and of the other side differ",
            got=f"a {x.aval.str_short()}, b {y.aval.str_short()}",
            fix="as many rows in b as in a",
        )
    x, y = same_batches(name, x, y[..., None] if is_vector else y)
    return x, y, is_vector


def _triangular(a: Value, b: Value, lower: bool, trans: int, unit: bool = False) -> Value:
    how = {
        "left_side": True,
        "lower": lower,
        "transpose_a": trans > 0,
        "conjugate_a": trans == 2 and is_complex(a),
        "unit_diagonal": unit,
    }
    return result(solve_each(triangular_solve, a, b, **how))


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """``x`` with ``op(a) x = b`` for triangles ``a``.

    Args:
      a: square matrices ``[..., n, n]``, of which one triangle is read.
      b: a vector ``[n]``, vectors ``[..., n]`` for each of several ``a``, or matrices
        ``[..., n, k]``; leading axes broadcast.
      trans: 0 or "N" for ``a`` itself, 1 or "T" for the transpose, 2 or "C" for the conjugate one.
      lower: which triangle is read.
      unit_diagonal: whether the diagonal counts as ones.
      overwrite_b, debug, check_finite: accepted; they change nothing.

    Returns:
      Floats or complex numbers of the shape of ``b``, its leading axes those that were broadcast.

    Raises:
      ShapeError: if the sizes do not go together.
      ArgumentError: for another ``trans``.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import solve_triangular
    >>> a = jnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> solve_triangular(a, jnp.array([2.0, 9.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    how = _transposition("solve_triangular", trans)
    x, y, is_vector = _system("solve_triangular", a, b)
    out = _triangular(x, y, lower, how, unit_diagonal)
    return out[..., 0] if is_vector else out


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The upper triangle ``U`` with ``U^H U = a``, or with ``lower`` ``L`` with ``L L^H = a``.

    Args:
      a: Hermitian, positive definite matrices ``[..., n, n]``, of which that triangle is read.
      lower: which triangle to return.
      overwrite_a, check_finite: accepted; they change nothing.

    Returns:
      Triangles ``[..., n, n]``; NaN where a matrix is not positive definite.

    Raises:
      ShapeError: if the matrices are not square.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import cholesky
    >>> a = jnp.array([[4.0, 2.0], [2.0, 3.0]])
    >>> cholesky(a, lower=True).round(4)
    Array([[2.    , 0.    ],
           [1.    , 1.4142]], dtype=float32)
    """
    return la.cholesky(a, upper=not lower, symmetrize_input=False)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """What :func:`cho_solve` takes: the triangle of Cholesky, and which one it is.

    Args:
      a: Hermitian, positive definite matrices ``[..., n, n]``, of which that triangle is read.
      lower: which triangle to return.
      overwrite_a, check_finite: accepted; they change nothing.

    Returns:
      ``(c, lower)``; the other triangle of ``c`` holds zeros, where SciPy leaves what was in ``a``.

    Raises:
      ShapeError: if the matrices are not square.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import cho_factor
    >>> a = jnp.array([[4.0, 2.0], [2.0, 3.0]])
    >>> c, lower = cho_factor(a)
    >>> c.round(4)
    Array([[2.    , 1.    ],
           [0.    , 1.4142]], dtype=float32)
    """
    return cholesky(a, lower=lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """``x`` with ``a x = b``, for the Cholesky factor of ``a``.

    Args:
      c_and_lower: what :func:`cho_factor` returned.
      b: a vector ``[n]`` or matrices ``[..., n, k]``; leading axes broadcast.
      overwrite_b, check_finite: accepted; they change nothing.

    Returns:
      Floats or complex numbers of the shape of ``b``, its leading axes those that were broadcast.

    Raises:
      ShapeError: if the sizes do not go together.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import cho_factor, cho_solve
    >>> a = jnp.array([[4.0, 2.0], [2.0, 3.0]])
    >>> cho_solve(cho_factor(a), jnp.array([8.0, 8.0])).round(4)
    Array([1., 2.], dtype=float32)
    """
    c, lower = c_and_lower
    x, y, is_vector = _system("cho_solve", c, b)
    y = _triangular(x, y, lower, 0 if lower else 2)
    y = _triangular(x, y, lower, 2 if lower else 0)
    return y[..., 0] if is_vector else y


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """``x`` with ``a x = b``.

    Args:
      a: square matrices ``[..., n, n]``.
      b: a vector ``[n]`` or matrices ``[..., n, k]``; leading axes broadcast.
      lower: for positive definite ``a``, which triangle is read.
      overwrite_a, overwrite_b, debug, check_finite: accepted; they change nothing.
      assume_a: ``"gen"``, ``"sym"``, ``"her"``, or ``"pos"`` for Hermitian positive definite ones.

    Returns:
      Floats or complex numbers of the shape of ``b``, its leading axes those that were broadcast.

    Raises:
      ShapeError: if the sizes do not go together.
      ArgumentError: for another ``assume_a``.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import solve
    >>> a = jnp.array([[4.0, 2.0], [2.0, 3.0]])
    >>> solve(a, jnp.array([8.0, 8.0]), assume_a="pos").round(4)
    Array([1., 2.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ArgumentError(
            "solve: unknown assume_a", got=repr(assume_a), fix="'gen', 'sym', 'her' or 'pos'"
        )
    if assume_a != "pos":
        return la.solve(a, b)
    x, y, is_vector = _system("solve", a, b)
    half = la.cholesky(x if lower else adjoint(x), symmetrize_input=False)
    out = cho_solve((half, True), y)
    return out[..., 0] if is_vector else out


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """Elimination with partial pivoting: both triangles in one matrix, and the pivots.

    Args:
      a: matrices ``[..., m, n]``.
      overwrite_a, check_finite: accepted; they change nothing.

    Returns:
      ``(lu, piv)``: matrices ``[..., m, n]``, and int32 ``[..., min(m, n)]``, the row that was
      swapped with each.

    Raises:
      ShapeError: if they are not matrices.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import lu_factor
    >>> lu_factor(jnp.array([[1.0, 2.0], [2.0, 6.0]]))
    (Array([[ 2. ,  6. ],
           [ 0.5, -1. ]], dtype=float32), Array([1, 1], dtype=int32))
    """
    (x,) = matrices_of("lu_factor", a)
    packed, pivots, _ = lax.linalg.lu(x)
    return packed, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """``x`` with ``op(a) x = b``, for the elimination of ``a``.

    Args:
      lu_and_piv: what :func:`lu_factor` returned.
      b: a vector ``[n]`` or matrices ``[..., n, k]``; leading axes broadcast.
      trans: 0 for ``a`` itself, 1 for the transpose, 2 for the conjugate transpose.
      overwrite_b, check_finite: accepted; they change nothing.

    Returns:
      Floats or complex numbers of the shape of ``b``, its leading axes those that were broadcast.

    Raises:
      ShapeError: if the sizes do not go together.
      ArgumentError: for another ``trans``.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import lu_factor, lu_solve
    >>> a = jnp.array([[1.0, 2.0], [2.0, 6.0]])
    >>> lu_solve(lu_factor(a), jnp.array([3.0, 8.0])).round(4)
    Array([1., 1.], dtype=float32)
    """
    packed, pivots = lu_and_piv
    how = _transposition("lu_solve", trans)
    x, y, is_vector = _system("lu_solve", packed, b)
    size = x.aval.shape[-1]
    order = factorisations.lu_pivots_to_permutation(
        to_array("lu_solve", pivots, 1), permutation_size=size
    )
    order = jnp.broadcast_to(result(order), (*y.aval.shape[:-2], size))
    if how == 0:
        y = _triangular(x, rows_taken(y, order), True, 0, unit=True)
        y = _triangular(x, y, False, 0)
    else:
        y = _triangular(x, y, False, how)
        y = _triangular(x, y, True, how, unit=True)
        places = lax.broadcasted_iota(np.int32, order.shape, order.ndim - 1)
        y = rows_taken(y, lax.sort_key_val(order, places)[1])
    return y[..., 0] if is_vector else y


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """``a = P L U``, with a permutation, a lower and an upper triangle.

    Args:
      a: matrices ``[..., m, n]``; ``k`` is ``min(m, n)``.
      permute_l: whether to return ``(P L, U)`` instead of ``(P, L, U)``.
      overwrite_a, check_finite: accepted; they change nothing.

    Returns:
      Matrices ``[..., m, m]``, ``[..., m, k]`` and ``[..., k, n]``.

    Raises:
      ShapeError: if they are not matrices.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import lu
    >>> p, l, u = lu(jnp.array([[1.0, 2.0], [2.0, 6.0]]))
    >>> u
    Array([[ 2.,  6.],
           [ 0., -1.]], dtype=float32)
    """
    (x,) = matrices_of("lu", a)
    packed, _, order = lax.linalg.lu(x)
    m, n = packed.shape[-2:]
    k = min(m, n)
    unit = jnp.eye(m, k, dtype=packed.dtype)
    left = jnp.tril(packed, -1)[..., :, :k] + unit
    right = jnp.triu(packed)[..., :k, :]
    permutation = (jnp.arange(m)[:, None] == order[..., None, :]).astype(_real_dtype(packed))
    if permute_l:
        return jnp.matmul(permutation.astype(packed.dtype), left), right
    return permutation, left, right


def _real_dtype(x: Value) -> Any:
    return x.real.dtype if is_complex(x) else x.dtype
