"""Factorisations of matrices in the last two axes, as ``jax.lax.linalg`` has them.

Strict, as all of ``functrax.lax``: arrays of floats or complex numbers of 32 bits and more, of one
dtype.  Leading axes are batches.  ``functrax.numpy.linalg`` promotes and broadcasts.
"""

from __future__ import annotations

from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.lazy import listing as _listing
from functrax.core.prims import condensed, factorisations, linear_systems, spectra
from functrax.core.prims.arithmetic import add, mul, stop_gradient
from functrax.core.prims.matrices import (
    adjoint,
    check_matrix,
    is_complex,
    rows_taken,
    transposed,
)
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import slice_
from functrax.core.tracing.primitive import Value, like
from functrax.lax.algorithms import (
    EighImplementation,
    EigImplementation,
    SvdAlgorithm,
    check_algorithm,
)
from functrax.lax.operands import as_array, as_ints, value_of
from functrax.lax.reflections import (
    geqp3 as geqp3,
    geqrf as geqrf,
    hessenberg,
    householder_product,
    ormqr,
    schur,
    tridiagonal,
)
from functrax.lax.tridiagonal import tridiagonal_solve
from functrax.lax.updates import cholesky_update, qdwh, symmetric_product
from functrax.typing import ArrayLike

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_update",
    "eig",
    "eigh",
    "hessenberg",
    "householder_product",
    "lu",
    "lu_pivots_to_permutation",
    "ormqr",
    "qdwh",
    "qr",
    "schur",
    "svd",
    "symmetric_product",
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
]


def _symmetrized(name: str, x: Value) -> Value:
    check_matrix(name, x.aval, square=True)
    return mul(add(x, adjoint(x)), like(x, 0.5))


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangle ``L`` with ``L L^H = x``.

    Args:
      x: Hermitian positive definite matrices.
      symmetrize_input: whether to take ``(x + x^H) / 2``; else only the lower triangle is read.

    Returns:
      An array of the same shape; NaN where a matrix is not positive definite.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    value = value_of("cholesky", x)
    value = _symmetrized("cholesky", value) if symmetrize_input else value
    return as_array(linear_systems.cholesky(value))


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Eigenvalues and eigenvectors of square matrices, in no particular order, complex.

    Args:
      x: the matrices.
      compute_left_eigenvectors, compute_right_eigenvectors: whether to return them.
      enable_eigvec_derivs: whether the vectors have derivatives, which are right where all
        eigenvalues are simple; without it only the eigenvalues have, and only without the vectors.
      implementation: None or ``EigImplementation.LAPACK``.
      use_magma: None or False.

    Returns:
      ``[w, vl, vr]``, without the vectors that are not asked for; vectors stand in columns, have
      length 1, and their largest element is real.

    Raises:
      UnavailableError: for an implementation that is for GPUs.
      ShapeError: if the matrices are not square.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.eig(np.array([[2.0, 0.0], [0.0, 1.0]]))[0]
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    given = EigImplementation.MAGMA if use_magma else implementation
    check_algorithm("eig", given, EigImplementation, (EigImplementation.LAPACK,))
    outs = spectra.eig(
        value_of("eig", x),
        compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs),
    )
    return [as_array(v) for v in outs]


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues of Hermitian matrices.

    Args:
      x: the matrices.
      lower: which triangle is read, where ``symmetrize_input`` is False.
      symmetrize_input: whether to take ``(x + x^H) / 2``.
      sort_eigenvalues: they are sorted in any case, upwards.
      subset_by_index: the first eigenvalue to return, and the one after the last.
      implementation: None or ``EighImplementation.QR``.

    Returns:
      ``(v, w)``: orthonormal eigenvectors in columns, and real eigenvalues.  Where eigenvalues are
      equal, tangents of the vectors are infinite or NaN; those of the values are right.

    Raises:
      UnavailableError: for another implementation.
      ShapeError: if the matrices are not square.
      ArgumentError: if there are no such values as ``subset_by_index`` says.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.eigh(np.array([[2.0, 0.0], [0.0, 1.0]]))[1]
    Array([1., 2.], dtype=float32)
    """
    check_algorithm("eigh", implementation, EighImplementation, (EighImplementation.QR,))
    value = value_of("eigh", x)
    value = _symmetrized("eigh", value) if symmetrize_input else value
    w, v = spectra.eigh(value, lower=bool(lower))
    if subset_by_index is not None:
        w, v = (_last_cut("eigh", a, subset_by_index) for a in (w, v))
    return as_array(v), as_array(w)


def _last_cut(name: str, x: Value, bounds: tuple[int, int]) -> Value:
    """The elements of the last axis between two indices."""
    given = as_ints(name, bounds, "subset_by_index")
    size = x.aval.shape[-1]
    if len(given) != 2 or not 0 <= given[0] <= given[1] <= size:
        raise ArgumentError(
            f"{name}: subset_by_index is not a range of the values",
            got=f"{bounds} of {size} values",
            fix=f"(start, end) with 0 <= start <= end <= {size}",
        )
    ndim = x.aval.ndim
    start = (*(0 for _ in range(ndim - 1)), given[0])
    return slice_(x, start=start, limit=(*x.aval.shape[:-1], given[1]), strides=(1,) * ndim)


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """Elimination with partial pivoting: ``x[permutation] = L U``.

    Args:
      x: matrices of ``m`` rows and ``n`` columns.

    Returns:
      ``(lu, pivots, permutation)``: ``U`` in the upper triangle, and ``L``, whose diagonal is 1,
      below; the row exchanged with row ``i`` in step ``i``; the order of the rows.  Both int32.

    Raises:
      ShapeError: if ``x`` is no matrix.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.lu(np.array([[1.0, 2.0], [2.0, 6.0]]))[0]
    Array([[ 2. ,  6. ],
           [ 0.5, -1. ]], dtype=float32)
    """
    packed, pivots, order = factorisations.lu(value_of("lu", x))
    return as_array(packed), as_array(pivots), as_array(order)


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The order of rows that exchanging rows ``i`` and ``pivots[i]``, in turn, leaves.

    Args:
      pivots: integers, the last axis of which counts steps.
      permutation_size: the number of rows.

    Returns:
      int32, the last axis of which has ``permutation_size`` elements.

    Raises:
      ArgumentError: if the pivots are not integers, or there are more of them than rows.
      ShapeError: if ``permutation_size`` is not a known integer.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.lu_pivots_to_permutation(np.array([2, 1], "int32"), 3)
    Array([2, 1, 0], dtype=int32)
    """
    (size,) = as_ints("lu_pivots_to_permutation", (permutation_size,), "permutation_size")
    value = value_of("lu_pivots_to_permutation", pivots)
    out = factorisations.lu_pivots_to_permutation(value, permutation_size=size)
    return as_array(out)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Array, ...]:
    """``x = q r``, with orthonormal columns in ``q`` and an upper triangle ``r``.

    Args:
      x: matrices of ``m`` rows and ``n`` columns.
      pivoting: whether to decompose ``x[..., order]``, with an order of columns that makes the
        diagonal of ``r`` fall.
      full_matrices: whether ``q`` is square; else it has ``min(m, n)`` columns.
      use_magma: None or False.

    Returns:
      ``(q, r)``, or ``(q, r, order)``, ``order`` of int32.

    Raises:
      UnavailableError: for ``use_magma``, which is for GPUs.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.qr(np.array([[1.0, 3.0], [0.0, 4.0]]), pivoting=True)[2]
    Array([1, 0], dtype=int32)
    """
    magma = EigImplementation.MAGMA if use_magma else None
    check_algorithm("qr", magma, EigImplementation, (EigImplementation.LAPACK,))
    value = value_of("qr", x)
    if not pivoting:
        q, r = factorisations.qr(value, full_matrices=bool(full_matrices), compute_q=True)
        return as_array(q), as_array(r)
    order = condensed.geqp3(stop_gradient(value))[2]
    taken = transposed(rows_taken(transposed(value), order))
    q, r = factorisations.qr(taken, full_matrices=bool(full_matrices), compute_q=True)
    return as_array(q), as_array(r), as_array(order)


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Singular values, downwards, and vectors: ``x = u diag(s) vh``.

    Args:
      x: matrices of ``m`` rows and ``n`` columns.
      full_matrices: whether ``u`` and ``vh`` are square; else ``min(m, n)`` vectors are returned,
        and these have derivatives.
      compute_uv: whether to return the vectors.
      subset_by_index: the first value to return, and the one after the last.
      algorithm: None or a ``SvdAlgorithm`` that LAPACK has: ``DEFAULT``, ``DIVIDE_AND_CONQUER``,
        or ``QR``; all are computed by divide and conquer, to the same precision.

    Returns:
      ``(u, s, vh)``, or ``s``.

    Raises:
      UnavailableError: for another algorithm.
      ShapeError: if ``x`` is no matrix.
      ArgumentError: if there are no such values as ``subset_by_index`` says.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.svd(np.array([[0.0, 2.0], [1.0, 0.0]]), compute_uv=False)
    Array([2., 1.], dtype=float32)
    """
    there = (SvdAlgorithm.DEFAULT, SvdAlgorithm.DIVIDE_AND_CONQUER, SvdAlgorithm.QR)
    check_algorithm("svd", algorithm, SvdAlgorithm, there)
    value = value_of("svd", x)
    outs = spectra.svd(value, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv))
    s = outs[0] if subset_by_index is None else _last_cut("svd", outs[0], subset_by_index)
    if not compute_uv:
        return as_array(s)
    _, u, vh = outs
    if subset_by_index is not None:
        u = _last_cut("svd", u, subset_by_index)
        vh = adjoint(_last_cut("svd", adjoint(vh), subset_by_index))
    return as_array(u), as_array(s), as_array(vh)


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """``x`` with ``op(a) x = b``, or ``x op(a) = b``, for triangles ``a``.

    Args:
      a: square matrices, of which one triangle is read.
      b: matrices, or vectors, with the same leading axes.
      left_side: whether ``op(a)`` stands left of ``x``.
      lower: which triangle is read.
      transpose_a: whether ``op`` transposes.
      conjugate_a: whether ``op`` conjugates.
      unit_diagonal: whether the diagonal counts as ones.

    Returns:
      An array of the shape of ``b``; infinities or NaN where ``a`` is singular.

    Raises:
      ShapeError: if the sizes do not go together.

    >>> import numpy as np
    >>> from functrax import lax
    >>> a = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> lax.linalg.triangular_solve(a, np.array([2.0, 9.0]), left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    matrix, side = value_of("triangular_solve", a), value_of("triangular_solve", b)
    shape = side.aval.shape
    is_vector = len(shape) == matrix.aval.ndim - 1 and len(shape) > 0
    if is_vector:
        wide = (*shape, 1) if left_side else (*shape[:-1], 1, shape[-1])
        side = reshape(side, shape=wide)
    out = linear_systems.triangular_solve(
        matrix,
        side,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and is_complex(matrix),
        unit_diagonal=bool(unit_diagonal),
    )
    return as_array(reshape(out, shape=shape) if is_vector else out)


__dir__ = _listing(globals())
