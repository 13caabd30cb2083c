"""Linear algebra with the names, signatures and meaning of ``jax.scipy.linalg``.

Matrices stand in the last two axes, and leading axes are batches.  Arguments that speak of memory
or of checks (``overwrite_a``, ``check_finite``) are accepted and change nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

import functrax.numpy as jnp
from functrax import lax
from functrax.backends.eager.cached_traces import with_long_recipe as _with_long_recipe
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.prims import factorisations
from functrax.core.prims.linear_systems import solve_each, triangular_solve
from functrax.core.prims.matrices import adjoint, check_matrix, is_complex, rows_taken
from functrax.core.tracing.primitive import Value
from functrax.numpy import linalg as la
from functrax.numpy.factoring import matrices_of
from functrax.numpy.promote import result, to_array
from functrax.numpy.solving import same_batches
from functrax.numpy.trace_cached import record_all as _record_all
from functrax.scipy.counting_matrices import (
    dft as dft,
    hadamard as hadamard,
    helmert as helmert,
    hilbert as hilbert,
    invhilbert as invhilbert,
    invpascal as invpascal,
    pascal as pascal,
)
from functrax.scipy.matrix_functions import (
    eigh_tridiagonal as eigh_tridiagonal,
    sqrtm as sqrtm,
)
from functrax.scipy.schur_form import (
    funm as funm,
    rsf2csf as rsf2csf,
    schur as schur,
    solve_sylvester as solve_sylvester,
)
from functrax.scipy.special.exponentials import expm as expm, expm_frechet as expm_frechet
from functrax.scipy.special.orthogonal import (
    hessenberg as hessenberg,
    qr as qr,
    qr_multiply as qr_multiply,
)
from functrax.scipy.structured import (
    circulant as circulant,
    companion as companion,
    convolution_matrix as convolution_matrix,
    fiedler as fiedler,
    fiedler_companion as fiedler_companion,
    hankel as hankel,
    leslie as leslie,
    polar as polar,
    toeplitz as toeplitz,
)
from functrax.typing import ArrayLike

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion",
    "convolution_matrix", "det", "dft", "eigh", "eigh_tridiagonal", "expm", "expm_frechet",
    "fiedler", "fiedler_companion", "funm", "hadamard", "hankel", "helmert", "hessenberg",
    "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve", "pascal",
    "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester",
    "solve_triangular", "sqrtm", "svd", "toeplitz",
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
      a: square matrices, of which one triangle is read.
      b: a vector, vectors for each of several ``a``, or matrices; leading axes broadcast.
      trans: 0 or "N" for ``a`` itself, 1 or "T" for the transpose, 2 or "C" for the conjugate one.
      lower: which triangle is read.
      unit_diagonal: whether the diagonal counts as ones.
      overwrite_b, debug, check_finite: accepted.

    Raises:
      ShapeError: if the sizes do not go together.

    >>> import functrax, functrax.numpy as jnp
    >>> a = jnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> functrax.scipy.linalg.solve_triangular(a, jnp.array([2.0, 9.0]), lower=True)
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

    Only that triangle of ``a`` is read.
    """
    return la.cholesky(a, upper=not lower, symmetrize_input=False)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """What :func:`cho_solve` takes: the triangle, and which one it is."""
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
      b: a vector or matrices.
      overwrite_b, check_finite: accepted.
    """
    c, lower = c_and_lower
    x, y, is_vector = _system("cho_solve", c, b)
    y = _triangular(x, y, lower, 0 if lower else 2)
    y = _triangular(x, y, lower, 2 if lower else 0)
    return y[..., 0] if is_vector else y


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Determinants; see :func:`functrax.numpy.linalg.det`."""
    return la.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverses; see :func:`functrax.numpy.linalg.inv`."""
    return la.inv(a)


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
      a: square matrices.
      b: a vector or matrices; leading axes broadcast.
      lower: for positive definite ``a``, which triangle is read.
      overwrite_a, overwrite_b, debug, check_finite: accepted.
      assume_a: ``"gen"``, ``"sym"``, ``"her"``, or ``"pos"`` for Hermitian positive definite ones.

    Raises:
      ShapeError: if the sizes do not go together.
      ArgumentError: for another ``assume_a``.
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
    """Elimination with partial pivoting: both triangles in one matrix, and the pivots (int32)."""
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
      b: a vector or matrices; leading axes broadcast.
      trans: 0 for ``a`` itself, 1 for the transpose, 2 for the conjugate transpose.
      overwrite_b, check_finite: accepted.
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
      a: matrices of ``m`` rows and ``n`` columns.
      permute_l: whether to return ``(P L, U)`` instead of ``(P, L, U)``.
      overwrite_a, check_finite: accepted.
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


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    *,
    compute_uv: Literal[False],
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> Array: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    overwrite_a: bool = ...,
    check_finite: bool = ...,
    lapack_driver: str = ...,
) -> Array | tuple[Array, Array, Array]: ...
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Singular values and vectors: ``(U, s, Vh)``, or ``s``; see functrax.numpy.linalg.svd."""
    out = la.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(out) if compute_uv else out


@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    eigvals_only: Literal[False] = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: Sequence[int] | None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> tuple[Array, Array]: ...
@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    *,
    eigvals_only: Literal[True],
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: Sequence[int] | None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> Array: ...
@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = ...,
    lower: bool = ...,
    eigvals_only: bool = ...,
    overwrite_a: bool = ...,
    overwrite_b: bool = ...,
    turbo: bool = ...,
    eigvals: Sequence[int] | None = ...,
    type: int = ...,
    check_finite: bool = ...,
) -> tuple[Array, Array] | Array: ...
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: Sequence[int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues, upwards, and eigenvectors of Hermitian matrices: ``(w, v)``, or ``w``.

    Args:
      a: the matrices; ``(a + a^H) / 2`` is taken.
      b: must be None: there is no generalised problem here.
      lower: accepted.
      eigvals_only: whether to return the values alone.
      eigvals: must be None.
      type: must be 1.
      overwrite_a, overwrite_b, turbo, check_finite: accepted.
    """
    if b is not None or eigvals is not None or type != 1:
        raise ArgumentError(
            "eigh: only the plain problem of all eigenvalues is solved here",
            got="b, eigvals or type",
            fix="b=None, eigvals=None, type=1; lax.linalg.eigh(..., subset_by_index=) for some",
        )
    w, v = la.eigh(a, "L" if lower else "U")
    return w if eigvals_only else (w, v)


def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with the given ones along its diagonal, and zeros elsewhere.

    Args:
      *arrs: matrices, vectors (rows) and numbers.

    Raises:
      ShapeError: for an array of more than two axes.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.linalg.block_diag(jnp.array(1), jnp.array([2, 3]))
    Array([[1, 0, 0],
           [0, 2, 3]], dtype=int32)
    """
    blocks: list[Any] = [jnp.atleast_2d(to_array("block_diag", x, i)) for i, x in enumerate(arrs)]
    blocks = blocks or [jnp.zeros((1, 0))]
    for block in blocks:
        if block.ndim != 2:
            raise ShapeError(
                "block_diag: takes matrices, vectors and numbers",
                got=block.aval.str_short(),
                fix="vmap block_diag for batches",
            )
    return functools.reduce(_joined, blocks)


def _joined(first: Value, second: Value) -> Value:
    top = jnp.pad(first, ((0, 0), (0, second.shape[1])))
    bottom = jnp.pad(second, ((0, 0), (first.shape[1], 0)))
    return jnp.concatenate([top, bottom])


#: Functions that have recipes.
_RECORDED = (
    "block_diag cho_solve cholesky circulant companion convolution_matrix det eigh expm fiedler "
    "fiedler_companion hankel inv leslie lu_solve polar qr solve solve_triangular svd toeplitz"
)
_record_all(globals(), frozenset(_RECORDED.split()), _with_long_recipe)
_explain_all(globals())
__dir__ = _listing(globals())
