"""Linear algebra with the names, signatures and meaning of ``jax.scipy.linalg``.

Matrices stand in the last two axes, and leading axes are batches.  Arguments that speak of memory
or of checks (``overwrite_a``, ``check_finite``) are accepted and change nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, overload

import functrax.numpy as jnp
from functrax.backends.eager.cached_traces import with_long_recipe as _with_long_recipe
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.numpy import linalg as la
from functrax.numpy.promote import to_array
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
from functrax.scipy.linear_systems import (
    cho_factor as cho_factor,
    cho_solve as cho_solve,
    cholesky as cholesky,
    lu as lu,
    lu_factor as lu_factor,
    lu_solve as lu_solve,
    solve as solve,
    solve_triangular as solve_triangular,
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


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Determinants, by elimination; see :func:`functrax.numpy.linalg.det`.

    Args:
      a: square matrices ``[..., n, n]``.
      overwrite_a, check_finite: accepted; they change nothing.

    Returns:
      Numbers ``[...]``.

    Raises:
      ShapeError: if the matrices are not square.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import det
    >>> a = jnp.array([[4.0, 2.0], [2.0, 3.0]])
    >>> det(a).round(4)
    Array(8., dtype=float32)
    """
    return la.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverses; see :func:`functrax.numpy.linalg.inv`.

    Args:
      a: square matrices ``[..., n, n]``.
      overwrite_a, check_finite: accepted; they change nothing.

    Returns:
      Matrices ``[..., n, n]``; infinite or NaN where there is no inverse, for which SciPy raises.

    Raises:
      ShapeError: if the matrices are not square.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import inv
    >>> a = jnp.array([[4.0, 2.0], [2.0, 3.0]])
    >>> inv(a).round(4)
    Array([[ 0.375, -0.25 ],
           [-0.25 ,  0.5  ]], dtype=float32)
    """
    return la.inv(a)


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
    """Singular values and vectors; see :func:`functrax.numpy.linalg.svd`.

    Args:
      a: matrices ``[..., m, n]``; ``k`` is ``min(m, n)``.
      full_matrices: whether ``U`` and ``Vh`` are square, or have ``k`` columns and rows.
      compute_uv: whether to return the vectors as well.
      overwrite_a, check_finite, lapack_driver: accepted; they change nothing.

    Returns:
      ``(U, s, Vh)`` with ``a = U @ diag(s) @ Vh``, or ``s`` ``[..., k]``, which falls.

    Raises:
      ShapeError: if they are not matrices.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import svd
    >>> svd(jnp.array([[0.0, 2.0], [3.0, 0.0]]), compute_uv=False)
    Array([3., 2.], dtype=float32)
    """
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
    """Eigenvalues, upwards, and eigenvectors of Hermitian matrices.

    Args:
      a: matrices ``[..., n, n]``; ``(a + a^H) / 2`` is taken.
      b: must be None: there is no generalised problem here.
      lower: accepted; it changes nothing.
      eigvals_only: whether to return the values alone.
      eigvals: must be None.
      type: must be 1.
      overwrite_a, overwrite_b, turbo, check_finite: accepted; they change nothing.

    Returns:
      ``(w, v)``: ``[..., n]`` and, in its columns, the vectors ``[..., n, n]``; or ``w``.

    Raises:
      ArgumentError: for ``b``, ``eigvals`` or another ``type``.
      ShapeError: if the matrices are not square.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import eigh
    >>> eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]), eigvals_only=True).round(4)
    Array([1., 3.], dtype=float32)
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

    Returns:
      A matrix of the sum of their rows and columns, of the dtype in which they meet.

    Raises:
      ShapeError: for an array of more than two axes.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import block_diag
    >>> block_diag(jnp.array(1), jnp.array([2, 3]))
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
