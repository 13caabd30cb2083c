"""Linear systems solved by products with their matrix: ``cg``, ``gmres`` and ``bicgstab``.

The matrix is an array or a linear function of a pytree of arrays.  Each solver is a
``custom_linear_solve`` around one ``while_loop``: it runs under ``jit`` and ``vmap``, and its
derivatives, of any order, solve a system with the same matrix, or its transpose, in the same way.

Start at :func:`cg`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.pytree.operations import tree_flatten, tree_leaves, tree_map
from functrax.core.tracing.primitive import Value
from functrax.scipy.linalg import solve_triangular
from functrax.typing import ArrayLike

Operator: TypeAlias = Callable[[Any], Any]
#: ``(A, b, x0, M, maxiter, least) -> x``; ``least`` is the norm of a residual that is small enough.
Method: TypeAlias = Callable[[Operator, Any, Any, Operator, int, Any], Any]


def cg(
    A: Callable[[Any], Any] | ArrayLike,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Callable[[Any], Any] | ArrayLike | None = None,
) -> tuple[Any, None]:
    """Solve ``A x = b`` for a Hermitian, positive definite ``A``, by conjugate gradients.

    Args:
      A: an array of shape ``[n, n]``, or a linear function of pytrees like ``b``.
      b: a pytree of arrays; the right-hand side.
      x0: where to start; zero if None.
      tol: the residual's norm is to be at most ``tol`` times that of ``b``, or
      atol: at most this.
      maxiter: the most steps; ten times the number of unknowns if None.
      M: an approximate inverse of ``A``, given as ``A`` is.

    Returns:
      ``(x, None)``.

    Raises:
      ShapeError: if ``A`` is not square, or ``x0`` not like ``b``.

    Source: Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", 1952.

    >>> import functrax, functrax.numpy as jnp
    >>> a = jnp.array([[4.0, 1.0], [1.0, 3.0]])
    >>> functrax.scipy.sparse.linalg.cg(a, jnp.array([6.0, 7.0]))[0].round(4)
    Array([1., 2.], dtype=float32)
    """
    real = all(not jnp.iscomplexobj(x) for x in tree_leaves(b))
    return _solve("cg", _conjugate_gradients, A, b, x0, M, tol, atol, maxiter, real)


def bicgstab(
    A: Callable[[Any], Any] | ArrayLike,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Callable[[Any], Any] | ArrayLike | None = None,
) -> tuple[Any, None]:
    """Solve ``A x = b`` for any ``A``, by stabilised bi-conjugate gradients.

    Source: van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG", 1992.

    Args:
      A: an array of shape ``[n, n]``, or a linear function of pytrees like ``b``.
      b: a pytree of arrays; the right-hand side.
      x0: where to start; zero if None.
      tol: the residual's norm is to be at most ``tol`` times that of ``b``, or
      atol: at most this.
      maxiter: the most steps; ten times the number of unknowns if None.
      M: an approximate inverse of ``A``, given as ``A`` is.

    Returns:
      ``(x, None)``, with ``x`` a pytree like ``b``; JAX's second part is always None as well.

    Raises:
      ShapeError: if ``A`` is not square, or ``x0`` not like ``b``.

    >>> import functrax, functrax.numpy as jnp
    >>> a = jnp.array([[4.0, 1.0], [2.0, 3.0]])
    >>> functrax.scipy.sparse.linalg.bicgstab(a, jnp.array([6.0, 8.0]))[0].round(4)
    Array([1., 2.], dtype=float32)
    """
    return _solve("bicgstab", _stabilised, A, b, x0, M, tol, atol, maxiter)


def gmres(
    A: Callable[[Any], Any] | ArrayLike,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Callable[[Any], Any] | ArrayLike | None = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """Solve ``A x = b`` for any ``A``, by the least residual in growing Krylov spaces.

    Source: Saad and Schultz, "GMRES: a generalized minimal residual algorithm", 1986.

    Args:
      A: an array of shape ``[n, n]``, or a linear function of pytrees like ``b``.
      b: a pytree of arrays; the right-hand side.
      x0: where to start; zero if None.
      tol: the residual's norm is to be at most ``tol`` times that of ``b``, or
      atol: at most this.
      restart: the dimension of a space; the search then starts again from the best vector in it.
      maxiter: the most restarts; ten times the number of unknowns if None.
      M: an approximate inverse of ``A``, given as ``A`` is.
      solve_method: ``"batched"`` or ``"incremental"``; there is one method here for both.

    Returns:
      ``(x, None)``, with ``x`` a pytree like ``b``.

    Raises:
      ShapeError: if ``A`` is not square, or ``x0`` not like ``b``.
      ArgumentError: for another ``solve_method``.

    >>> import functrax, functrax.numpy as jnp
    >>> a = jnp.array([[4.0, 1.0], [2.0, 3.0]])
    >>> functrax.scipy.sparse.linalg.gmres(a, jnp.array([6.0, 8.0]))[0].round(4)
    Array([1., 2.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise ArgumentError(
            "gmres: unknown solve_method", got=repr(solve_method), fix="'batched' or 'incremental'"
        )
    size = sum(jnp.size(x) for x in tree_leaves(b))
    method = partial(_minimal_residuals, restart=min(restart, size))
    return _solve("gmres", method, A, b, x0, M, tol, atol, maxiter)


def _solve(
    name: str,
    method: Method,
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    tol: float,
    atol: float,
    maxiter: int | None,
    symmetric: bool = False,
) -> tuple[Any, None]:
    """``method`` inside of a ``custom_linear_solve``."""
    dtypes = () if callable(A) else (jnp.asarray(A).dtype,)
    b, x0 = (tree_map(partial(_inexact, dtypes=dtypes), x) for x in (b, x0))
    start = tree_map(jnp.zeros_like, b) if x0 is None else x0
    types = [[(x.shape, x.dtype) for x in tree_leaves(t)] for t in (b, start)]
    if tree_flatten(b)[1] != tree_flatten(start)[1] or types[0] != types[1]:
        raise ShapeError(
            f"{name}: x0 is not like b",
            got=f"{types[1]} for {types[0]}",
            fix="arrays of the same shapes and dtypes in the same containers",
        )
    steps = 10 * sum(x.size for x in tree_leaves(b)) if maxiter is None else maxiter
    approximate_inverse = _identity if M is None else _operator(name, M)

    def solver(matvec: Operator, rhs: Any) -> Any:
        least = jnp.maximum(tol * _norm(rhs), atol)
        return method(matvec, rhs, start, approximate_inverse, steps, least)

    matvec = _operator(name, A)
    return lax.custom_linear_solve(matvec, b, solver, solver, symmetric=symmetric), None


def _inexact(x: Any, dtypes: tuple[Any, ...]) -> Any:
    """``x`` as an array that is not weakly typed, of floats or complex numbers."""
    dtype = jnp.result_type(x, *dtypes)
    return jnp.asarray(x).astype(jnp.result_type(dtype, 1.0) if dtype.kind in "biu" else dtype)


def _operator(name: str, given: Any) -> Operator:
    """The function that multiplies by ``given``, an array or a function."""
    if callable(given):
        function: Operator = given
        return function
    matrix = jnp.asarray(given)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(
            f"{name}: the matrix is not square",
            got=f"shape {matrix.shape}",
            fix="an array of shape (n, n), or a linear function",
        )
    return lambda x: matrix @ x


def _identity(x: Any) -> Any:
    return x


def _dot(x: Any, y: Any) -> Value:
    """The inner product of two pytrees."""
    first, *rest = tree_leaves(tree_map(jnp.vdot, x, y))
    return sum(rest, first)


def _norm(x: Any) -> Value:
    return jnp.sqrt(_dot(x, x).real)


def _plus(x: Any, factor: Any, y: Any) -> Any:
    """``x + factor * y``, in the dtypes of ``x``."""
    return tree_map(lambda x, y: x + factor.astype(x.dtype) * y, x, y)


def _residual(A: Operator, b: Any, x: Any) -> Any:
    return tree_map(jnp.subtract, b, A(x))


def _conjugate_gradients(
    A: Operator, b: Any, x0: Any, M: Operator, maxiter: int, least: Any
) -> Any:
    def go_on(state: Any) -> Any:
        _, r, _, _, k = state
        return (_norm(r) > least) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, k = state
        product = A(p)
        length = gamma / _dot(p, product).real
        r = _plus(r, -length, product)
        z = M(r)
        new_gamma = _dot(r, z).real
        return _plus(x, length, p), r, _plus(z, new_gamma / gamma, p), new_gamma, k + 1

    r = _residual(A, b, x0)
    z = M(r)
    return lax.while_loop(go_on, step, (x0, r, z, _dot(r, z).real, 0))[0]


def _stabilised(A: Operator, b: Any, x0: Any, M: Operator, maxiter: int, least: Any) -> Any:
    """``k`` becomes -1 when the method breaks down, by a division by 0."""
    shadow = r = _residual(A, b, x0)

    def go_on(state: Any) -> Any:
        _, r, _, _, _, k = state
        return (_norm(r) > least) & (k < maxiter) & (k >= 0)

    def step(state: Any) -> Any:
        x, r, p, v, (rho, alpha, omega), k = state
        new_rho = _dot(shadow, r)
        p = _plus(r, new_rho / rho * (alpha / omega), _plus(p, -omega, v))
        p_hat = M(p)
        v = A(p_hat)
        alpha = new_rho / _dot(shadow, v)
        s = _plus(r, -alpha, v)
        s_hat = M(s)
        t = A(s_hat)
        squared = _dot(t, t)
        omega = jnp.where(squared == 0, 0.0, _dot(t, s) / jnp.where(squared == 0, 1.0, squared))
        x = _plus(_plus(x, alpha, p_hat), omega, s_hat)
        broken = (new_rho == 0) | (omega == 0)
        return x, _plus(s, -omega, t), p, v, (new_rho, alpha, omega), jnp.where(broken, -1, k + 1)

    one = jnp.ones_like(_dot(r, r))
    zero = tree_map(jnp.zeros_like, b)
    return lax.while_loop(go_on, step, (x0, r, zero, zero, (one, one, one), 0))[0]


def _minimal_residuals(
    A: Operator, b: Any, x0: Any, M: Operator, maxiter: int, least: Any, *, restart: int
) -> Any:
    """Vectors are flat here; ``M`` multiplies residuals from the left, as the norms take them."""
    leaves, tree = tree_flatten(b)
    dtype = jnp.result_type(*leaves)

    def flat(x: Any) -> Any:
        return jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in tree_leaves(x)])

    def pytree(vector: Any) -> Any:
        ends = [sum(leaf.size for leaf in leaves[: i + 1]) for i in range(len(leaves) - 1)]
        parts = jnp.split(vector, ends)
        return tree.unflatten(
            [p.reshape(x.shape).astype(x.dtype) for p, x in zip(parts, leaves, strict=True)]
        )

    def product(vector: Any) -> Any:
        return flat(M(A(pytree(vector))))

    def residual(x: Any) -> Any:
        return flat(M(_residual(A, b, pytree(x))))

    def go_on(state: Any) -> Any:
        _, r, k = state
        return (_norm(r) > least) & (k < maxiter)

    def cycle(state: Any) -> Any:
        x, r, k = state
        length = _norm(r)
        basis = jnp.zeros((restart + 1, r.size), dtype).at[0].set(r / length)
        columns = jnp.zeros((restart, restart + 1), dtype)
        basis, columns = lax.fori_loop(0, restart, partial(_extend, product), (basis, columns))
        q, triangle = jnp.linalg.qr(columns.T)
        x = x + solve_triangular(triangle, q[0].conj() * length) @ basis[:-1]
        return x, residual(x), k + 1

    start = flat(x0)
    return pytree(lax.while_loop(go_on, cycle, (start, residual(start), 0))[0])


def _extend(product: Operator, k: Any, state: Any) -> Any:
    """A basis of the Krylov space with one more vector, and the image of its last one in it.

    The space may be complete already: then the new vector is 0, and so is all that follows; a
    diagonal entry of 1 keeps the least squares problem solvable.  (A matrix that is singular in
    the space leads to NaN.)
    """
    basis, columns = state
    image = product(basis[k])
    size = _norm(image)
    column = basis.conj() @ image
    image = image - column @ basis
    again = basis.conj() @ image  # rounding has left a little of them
    image = image - again @ basis
    rest = _norm(image)
    complete = rest <= 10 * jnp.finfo(rest.dtype).eps * size
    rest = jnp.where(complete, 0.0, rest)
    new = jnp.where(complete, 0.0, image / jnp.where(complete, 1.0, rest))
    column = (column + again).at[k + 1].set(rest.astype(column.dtype))
    column = column.at[k].add(jnp.all(basis[k] == 0).astype(column.dtype))
    return basis.at[k + 1].set(new.astype(basis.dtype)), columns.at[k].set(column)


__dir__ = _listing(globals())
