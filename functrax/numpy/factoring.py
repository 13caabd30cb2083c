"""Factorisations of matrices: cholesky, qr, svd, eigh, eig and what they give.

Matrices stand in the last two axes, and leading axes are batches.  Integers are computed in
float32.  Start at :func:`matrices_of`, which every function here and in ``solving`` begins with.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

import numpy as np

from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims import factorisations
from functrax.core.prims.matrices import adjoint, check_matrix, transposed
from functrax.core.tracing.primitive import Value
from functrax.lax import linalg as lax_linalg
from functrax.numpy.promote import inexact, promote_dtypes, result, to_array
from functrax.numpy.selecting import take_along_axis
from functrax.numpy.ufuncs import absolute, sign
from functrax.typing import ArrayLike

__all__ = ["cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors in columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Real eigenvalues, upwards, and orthonormal eigenvectors in columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values downwards, right ones in rows."""

    U: Array
    S: Array
    Vh: Array


def matrices_of(name: str, *xs: Any) -> list[Array]:
    """Operands as arrays of one inexact dtype.

    Raises:
      DTypeError: for lists, and for what does not promote.
    """
    return [result(x) for x in promote_dtypes(name, *(to_array(name, x) for x in xs), kind=inexact)]


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The triangle ``L`` with ``L L^H = a``, or with ``upper`` ``U`` with ``U^H U = a``.

    Args:
      a: Hermitian positive definite matrices.
      upper: which triangle to return.
      symmetrize_input: whether to take ``(a + a^H) / 2``; else one triangle of it is read.

    Returns:
      An array of the same shape; NaN where a matrix is not positive definite.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    (x,) = matrices_of("cholesky", a)
    check_matrix("cholesky", x.aval, square=True)
    if upper and not symmetrize_input:
        x = adjoint(x)
    factor = lax_linalg.cholesky(x, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


def _is_lower(name: str, uplo: Any) -> bool:
    if uplo is None or uplo in ("L", "U"):
        return bool(uplo != "U")
    raise ArgumentError(f"{name}: UPLO is neither 'L' nor 'U'", got=repr(uplo), fix="UPLO='L'")


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, upwards, and eigenvectors of Hermitian matrices.

    Args:
      a: the matrices.
      UPLO: ``"L"`` or ``"U"``: the triangle that is read, where ``symmetrize_input`` is False.
      symmetrize_input: whether to take ``(a + a^H) / 2``.

    Returns:
      ``(eigenvalues, eigenvectors)``.  Where eigenvalues are equal, derivatives of the vectors are
      infinite or NaN; those of the values are right.

    Raises:
      ShapeError: if the matrices are not square.
      ArgumentError: for another ``UPLO``.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    (x,) = matrices_of("eigh", a)
    lower = _is_lower("eigh", UPLO)
    v, w = lax_linalg.eigh(x, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Eigenvalues of Hermitian matrices, upwards.

    Args:
      a: the matrices.
      UPLO: as for :func:`eigh`.
      symmetrize_input: whether to take ``(a + a^H) / 2``.

    Returns:
      Real numbers, a vector for each matrix.

    Raises:
      ShapeError: if the matrices are not square.
      ArgumentError: for another ``UPLO``.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.eigvalsh(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
    Array([1., 2.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: ArrayLike) -> EigResult:
    """Complex eigenvalues and eigenvectors of square matrices, in no particular order.

    Without derivatives; :func:`eigvals` and :func:`eigh` have them.

    Args:
      a: square matrices.

    Returns:
      ``(eigenvalues, eigenvectors)``, complex also for real matrices; the vectors are columns of
        length 1.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    (x,) = matrices_of("eig", a)
    w, v = lax_linalg.eig(x, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: ArrayLike) -> Array:
    """Complex eigenvalues of square matrices, in no particular order; differentiable once.

    Args:
      a: square matrices.

    Returns:
      Complex numbers, a vector for each matrix.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.eigvals(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    (x,) = matrices_of("eigvals", a)
    return lax_linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@overload
def qr(a: ArrayLike, mode: Literal["reduced", "complete", "full"] = ...) -> QRResult: ...
@overload
def qr(a: ArrayLike, *, mode: Literal["r"]) -> Array: ...
@overload
def qr(a: ArrayLike, mode: str = ...) -> Array | QRResult: ...
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """``a = Q R``, with orthonormal columns in ``Q`` and an upper triangle ``R``.

    Args:
      a: matrices of ``m`` rows and ``n`` columns.
      mode: ``"reduced"`` (or ``"full"``, as NumPy has it) for ``min(m, n)`` columns in ``Q``,
        ``"complete"`` for ``m``, ``"r"`` for ``R`` alone, ``"raw"`` for what LAPACK leaves.

    Returns:
      ``(Q, R)``, or ``R``; with ``"raw"`` ``(h, tau)``, of which ``h`` is transposed: what
      ``functrax.lax.linalg.ormqr`` takes is ``h.mT``.

    Raises:
      ArgumentError: for another mode.
      ShapeError: if ``a`` is no matrix.

    >>> import functrax.numpy as jnp
    >>> q, r = jnp.linalg.qr(jnp.ones((3, 2)))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    (x,) = matrices_of("qr", a)
    if mode == "raw":
        h, tau = lax_linalg.geqrf(x)
        return QRResult(result(transposed(h)), tau)
    if mode not in ("reduced", "complete", "full", "r"):
        fix = "'reduced', 'complete', 'r' or 'raw'"
        raise ArgumentError("qr: unknown mode", got=repr(mode), fix=fix)
    if mode == "r":
        return result(*factorisations.qr(x, full_matrices=False, compute_q=False))
    return QRResult(*lax_linalg.qr(x, full_matrices=mode == "complete"))


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> SVDResult: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    *,
    compute_uv: Literal[False],
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> Array: ...
@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: bool = ...,
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> Array | SVDResult: ...
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular values, downwards, and vectors: ``a = U diag(S) Vh``.

    Args:
      a: matrices of ``m`` rows and ``n`` columns.
      full_matrices: whether ``U`` and ``Vh`` are square; else there are ``min(m, n)`` vectors,
        which have derivatives.
      compute_uv: whether to return the vectors.
      hermitian: whether the matrices are Hermitian, which is quicker.
      subset_by_index: the first value to return, and the one after the last.

    Returns:
      ``(U, S, Vh)``, or ``S``.

    Raises:
      ShapeError: if ``a`` is no matrix, or not square with ``hermitian``.
      ArgumentError: if there are no such values as ``subset_by_index`` says.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.svd(jnp.array([[0.0, 2.0], [1.0, 0.0]])).S
    Array([2., 1.], dtype=float32)
    """
    (x,) = matrices_of("svd", a)
    if hermitian and subset_by_index is None:
        return _hermitian_svd(x, compute_uv)
    outs = lax_linalg.svd(
        x,
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        subset_by_index=subset_by_index,
    )
    return SVDResult(*outs) if compute_uv else outs


def _hermitian_svd(x: Value, compute_uv: bool) -> Any:
    """By eigenvalues: their sizes, with their signs moved into the right vectors."""
    v, w = lax_linalg.eigh(x)
    size = absolute(w)
    places = lax.broadcasted_iota(np.int32, size.shape, size.ndim - 1)
    order = lax.sort_key_val(-size, places)[1]
    s = take_along_axis(size, order, -1)
    if not compute_uv:
        return s
    u = take_along_axis(v, order[..., None, :], -1)
    signs = take_along_axis(sign(w), order, -1)
    signs = signs + (signs == 0)
    return SVDResult(u, s, adjoint(u * signs[..., None, :].astype(u.dtype)))


def svdvals(x: ArrayLike, /) -> Array:
    """Singular values, downwards.

    Args:
      x: matrices of ``m`` rows and ``n`` columns.

    Returns:
      ``min(m, n)`` real numbers, a vector for each matrix.

    Raises:
      ShapeError: if ``x`` is no matrix.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.svdvals(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    Array([2., 1.], dtype=float32)
    """
    return svd(x, compute_uv=False)
