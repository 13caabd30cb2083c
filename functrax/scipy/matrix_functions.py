"""The square root of a matrix, and the eigenvalues of a tridiagonal one."""

from __future__ import annotations

from typing import Any, Literal, overload

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.matrices import check_matrix
from functrax.core.tracing.primitive import Value
from functrax.numpy import linalg as la
from functrax.numpy.factoring import matrices_of
from functrax.numpy.promote import promoting
from functrax.scipy.schur_form import as_complex
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a matrix: ``X`` with ``X X = A``, of a complex dtype.

    By the eigenvectors, so matrices without a basis of them have no root here.  A derivative costs
    the solution of ``n * n`` equations.

    Args:
      A: a square matrix.
      blocksize: accepted; it changes nothing.

    Returns:
      A complex matrix ``[n, n]``.

    Raises:
      ShapeError: if ``A`` is not one square matrix.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import sqrtm
    >>> sqrtm(jnp.diag(jnp.array([4.0, 9.0]))).real.round(3)
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    (a,) = matrices_of("sqrtm", A)
    check_matrix("sqrtm", a.aval, square=True)
    if a.ndim != 2:
        raise ShapeError("sqrtm: takes one matrix", got=a.aval.str_short(), fix="functrax.vmap")
    root: Value = _sqrtm(as_complex(a))
    return root


@custom_jvp
@promoting
def _sqrtm(a: Value) -> Value:
    values, vectors = la.eig(a)
    return (vectors * jnp.sqrt(values)) @ la.inv(vectors)


@_sqrtm.defjvp
@promoting
def _sqrtm_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    """``X dX + dX X = dA``, as one system of equations for all elements of ``dX``."""
    (a,), (da,) = primals, tangents
    x = _sqrtm(a)
    one = jnp.eye(x.shape[0], dtype=x.dtype)
    system = jnp.kron(x, one) + jnp.kron(one, x.T)
    return x, la.solve(system, da.reshape(-1)).reshape(da.shape)


@overload
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: Literal[False] = ...,
    select: str = ...,
    select_range: tuple[float, float] | None = ...,
    tol: float | None = ...,
    key: ArrayLike | None = ...,
) -> tuple[Array, Array]: ...
@overload
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: Literal[True],
    select: str = ...,
    select_range: tuple[float, float] | None = ...,
    tol: float | None = ...,
    key: ArrayLike | None = ...,
) -> Array: ...
@overload
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = ...,
    select: str = ...,
    select_range: tuple[float, float] | None = ...,
    tol: float | None = ...,
    key: ArrayLike | None = ...,
) -> tuple[Array, Array] | Array: ...
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: ArrayLike | None = None,
) -> Any:
    """Eigenvalues, and eigenvectors, of a symmetric tridiagonal matrix, in increasing order.

    Args:
      d: the diagonal ``[n]``.
      e: the diagonal beside it ``[n - 1]``.
      eigvals_only: whether to leave the eigenvectors out.
      select: "a" for all, "i" for those numbered ``select_range[0]`` to ``select_range[1]``, "v"
        for those above the one and not above the other (not inside ``jit``).
      select_range: two numbers.
      tol, key: accepted; they change nothing.

    Returns:
      ``(w, v)``, the vectors in the columns of ``v``, or ``w``.

    Raises:
      ShapeError: if the diagonals do not go together.
      ArgumentError: for another ``select``, or without a range for it.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import eigh_tridiagonal
    >>> eigh_tridiagonal(jnp.zeros(2), jnp.ones(1), eigvals_only=True)
    Array([-1.,  1.], dtype=float32)
    """
    main, beside = jnp.asarray(d), jnp.asarray(e)
    if main.ndim != 1 or beside.ndim != 1 or beside.shape[0] != max(main.shape[0] - 1, 0):
        raise ShapeError(
            "eigh_tridiagonal: the diagonals do not go together",
            got=f"d {main.aval.str_short()}, e {beside.aval.str_short()}",
            fix="vectors, e shorter by one",
        )
    if select not in ("a", "i", "v") or (select != "a" and select_range is None):
        raise ArgumentError(
            "eigh_tridiagonal: unknown select, or no range for it",
            got=f"select={select!r}, select_range={select_range}",
            fix="'a'; 'i' or 'v' with select_range",
        )
    dtype = jnp.result_type(main, beside, float)
    matrix = jnp.diag(main.astype(dtype)) + jnp.diag(beside.astype(dtype), 1)
    matrix = matrix + jnp.diag(jnp.conj(beside.astype(dtype)), -1)
    values, vectors = la.eigh(matrix)
    if select == "i" and select_range is not None:
        first, last = int(select_range[0]), int(select_range[1])
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    if select == "v" and select_range is not None:
        mask = (values > select_range[0]) & (values <= select_range[1])
        values, vectors = values[mask], vectors[:, mask]
    return values if eigvals_only else (values, vectors)
