"""Matrices as products with Householder's reflections, as ``jax.lax.linalg`` has them.

Reflections are stored as LAPACK does: vectors below a diagonal, where zeros were made, and a factor
``tau`` for each.  Their product is ``I - V T V^H`` with a triangle ``T`` (C. Puglisi, "Modification
of the Householder method based on the compact WY representation", 1992), so it is applied by
contractions, and has derivatives; the factorisations themselves have none.

Start at :func:`geqrf`, and at :func:`ormqr`, which applies what it gives.
"""

from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims import condensed
from functrax.core.prims.arithmetic import add, mul, select_n, sub
from functrax.core.prims.linear_systems import solve_triangle
from functrax.core.prims.matrices import (
    across_rows,
    adjoint,
    check_matrix,
    identity,
    matmul,
    on_diagonal,
    triangle,
    with_diagonal,
)
from functrax.core.prims.slicing import slice_
from functrax.core.tracing.primitive import Value, like
from functrax.lax.operands import as_array, check_same_dtype, value_of
from functrax.typing import ArrayLike

__all__ = [
    "geqp3",
    "geqrf",
    "hessenberg",
    "householder_product",
    "ormqr",
    "schur",
    "tridiagonal",
]


def geqrf(a: ArrayLike) -> tuple[Array, Array]:
    """The QR decomposition as LAPACK leaves it.

    Args:
      a: matrices ``[..., m, n]``.

    Returns:
      ``(a, taus)``: ``R`` in the upper triangle, the reflections of ``Q`` below it, and their
      factors ``[..., min(m, n)]``.  No derivatives.
    """
    packed, taus = condensed.geqrf(value_of("geqrf", a))
    return as_array(packed), as_array(taus)


def geqp3(a: ArrayLike) -> tuple[Array, Array, Array]:
    """:func:`geqrf` of ``a[..., order]``, each column the longest of what is left of those to come.

    Returns:
      ``(a, taus, order)``, ``order`` of int32 and counted from 0.
    """
    packed, taus, order = condensed.geqp3(value_of("geqp3", a))
    return as_array(packed), as_array(taus), as_array(order)


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Square matrices made zero below the first subdiagonal by reflections from both sides.

    Args:
      a: matrices ``[..., n, n]``.

    Returns:
      ``(a, taus)``: Hessenberg's matrix in the upper triangle and the first subdiagonal, the
      reflections below, and their factors ``[..., n - 1]``.  No derivatives.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.hessenberg(np.eye(3))[1]
    Array([0., 0.], dtype=float32)
    """
    packed, taus = condensed.hessenberg(value_of("hessenberg", a))
    return as_array(packed), as_array(taus)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Hermitian matrices made tridiagonal and real by reflections from both sides.

    Args:
      a: matrices ``[..., n, n]``.
      lower: which triangle is read.

    Returns:
      ``(a, d, e, taus)``: the reflections in that triangle, the diagonal ``[..., n]``, the one
      beside it ``[..., n - 1]``, and the factors ``[..., n - 1]``.  No derivatives.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.tridiagonal(np.array([[2.0, 1.0], [1.0, 3.0]]))[1]
    Array([2., 3.], dtype=float32)
    """
    a_, d, e, taus = condensed.tridiagonal(value_of("tridiagonal", a), lower=bool(lower))
    return as_array(a_), as_array(d), as_array(e), as_array(taus)


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: object = None,
) -> tuple[Array, ...]:
    """``x = z t z^H``, with a unitary ``z`` and an upper triangle ``t``.

    Args:
      x: square matrices.
      compute_schur_vectors: whether to return ``z``.
      sort_eig_vals: must be False.
      select_callable: must be None.

    Returns:
      ``(t, z)``, or ``(t,)``.  Of real matrices both are real, and ``t`` has blocks of two rows
      for pairs of complex eigenvalues.  No derivatives.

    Raises:
      ArgumentError: if the eigenvalues are to be sorted.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.linalg.schur(np.array([[1.0, 2.0], [0.0, 3.0]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise ArgumentError(
            "schur: eigenvalues are not sorted here",
            got=f"sort_eig_vals={sort_eig_vals}, select_callable={select_callable}",
            fix="sort_eig_vals=False, select_callable=None",
        )
    t, z = condensed.schur(value_of("schur", x))
    return (as_array(t), as_array(z)) if compute_schur_vectors else (as_array(t),)


def _reflections(name: str, a: Value, taus: Value) -> tuple[Value, Value]:
    """``V`` and ``T`` of ``I - V T V^H``, the product of all reflections."""
    check_matrix(name, a.aval)
    check_same_dtype(name, (a, taus), "what geqrf returned")
    *lead, m, n = a.aval.shape
    if taus.aval.shape[:-1] != tuple(lead) or not taus.aval.ndim or taus.aval.shape[-1] > min(m, n):
        raise ShapeError(
            f"{name}: the factors do not go with the reflections",
            got=f"{a.aval.str_short()}, taus {taus.aval.str_short()}",
            fix="taus of the same leading axes, at most one for each row and column",
        )
    k, ndim = taus.aval.shape[-1], a.aval.ndim
    first = slice_(a, start=(0,) * ndim, limit=(*lead, m, k), strides=(1,) * ndim)
    v = with_diagonal(triangle(first, lower=True, k=-1), 1)
    scale = across_rows(taus, (*lead, k, k))
    inner = mul(scale, triangle(matmul(adjoint(v), v), lower=False, k=1))
    here = on_diagonal(inner.aval.shape)
    factors = select_n(here, like(a, 0), scale)
    t = solve_triangle(add(identity(inner), inner), factors, lower=False, unit=True)
    return v, t


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of a product of reflections, ``Q`` of :func:`geqrf`.

    Args:
      a: ``[..., m, n]`` with ``m >= n``, the vectors below its diagonal.
      taus: their factors, ``[..., k]`` with ``k <= n``.

    Returns:
      Orthonormal columns, of the shape of ``a``.

    Raises:
      ShapeError: if there are more columns than rows, or more factors than columns.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax
    >>> a, taus = lax.linalg.geqrf(jnp.array([[3.0], [4.0]]))
    >>> lax.linalg.householder_product(a, taus).round(3)
    Array([[-0.6],
           [-0.8]], dtype=float32)
    """
    name = "householder_product"
    x, factors = value_of(name, a), value_of(name, taus)
    check_matrix(name, x.aval)
    if x.aval.shape[-1] > x.aval.shape[-2]:
        raise ShapeError(
            f"{name}: more columns than rows",
            got=x.aval.str_short(),
            fix="a[..., :m], as many columns as rows",
        )
    v, t = _reflections(name, x, factors)
    *lead, _, k = v.aval.shape
    ndim = v.aval.ndim
    top = slice_(v, start=(0,) * ndim, limit=(*lead, x.aval.shape[-1], k), strides=(1,) * ndim)
    return as_array(sub(identity(x), matmul(v, matmul(t, adjoint(top)))))


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """A product with the square ``Q`` of :func:`geqrf`, which is not made.

    Args:
      a: ``[..., m, n]``, the vectors of reflections below its diagonal.
      taus: their factors, ``[..., k]``.
      c: the other factor, ``[..., m, p]``, or ``[..., p, m]`` for products from the right.
      left: ``Q @ c``, else ``c @ Q``.
      transpose: whether ``Q^H`` takes the place of ``Q``.

    Returns:
      An array of the shape of ``c``.

    Raises:
      ShapeError: if the sizes do not go together.

    >>> import numpy as np
    >>> from functrax import lax
    >>> a, taus = lax.linalg.geqrf(np.array([[3.0], [4.0]]))
    >>> lax.linalg.ormqr(a, taus, np.array([[3.0], [4.0]]), transpose=True).round(3)
    Array([[-5.],
           [ 0.]], dtype=float32)
    """
    x, factors, other = (value_of("ormqr", y) for y in (a, taus, c))
    v, t = _reflections("ormqr", x, factors)
    check_matrix("ormqr", other.aval)
    check_same_dtype("ormqr", (x, other), "convert with .astype(...)")
    rows = other.aval.shape[-2 if left else -1]
    if other.aval.shape[:-2] != x.aval.shape[:-2] or rows != x.aval.shape[-2]:
        raise ShapeError(
            "ormqr: the sizes of the reflections and of the other factor differ",
            got=f"a {x.aval.str_short()}, c {other.aval.str_short()}",
            fix="equal leading axes, and as many rows in c (columns, from the right) as in a",
        )
    middle = adjoint(t) if transpose else t
    if left:
        moved = matmul(v, matmul(middle, matmul(adjoint(v), other)))
    else:
        moved = matmul(matmul(matmul(other, v), middle), adjoint(v))
    return as_array(sub(other, moved))
