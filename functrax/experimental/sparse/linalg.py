"""Linear algebra with sparse matrices: the largest eigenvalues, and systems of equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functrax.numpy as jnp
from functrax import lax, random
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.experimental.sparse.base import JAXSparse
from functrax.experimental.sparse.bcsr import BCSR
from functrax.transforms.staging.jit import jit


def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: Any = None) -> tuple[Any, Any, Any]:
    """The largest eigenvalues of a symmetric matrix, by LOBPCG.

    A block of ``k`` vectors is improved by the best ones in the span of itself, of its residuals,
    and of the direction of the last step (Knyazev 2001).  The blocks are kept orthonormal, with
    zeros in place of directions that are not independent (Stathopoulos and Wu 2002).

    Args:
      A: an array ``[n, n]``, a sparse one, or a function that applies it to ``[n, j]``.
      X: ``[n, k]`` vectors to begin with, linearly independent; ``5 k < n``.
      m: the largest number of steps.
      tol: a pair has converged if ``|A v - w v| < 10 n tol (|A v| + w)``; the dtype's epsilon if
        None.

    Returns:
      ``(w, V, steps)``: eigenvalues ``[k]`` from the largest, eigenvectors ``[n, k]``, and how many
      steps were made.

    Raises:
      ShapeError, DTypeError: if ``A`` and ``X`` do not go together, or ``k`` is 0 or too large.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax.experimental.sparse import linalg
    >>> start = functrax.random.normal(functrax.random.key(0), (20, 2))
    >>> w, _, _ = linalg.lobpcg_standard(jnp.diag(jnp.arange(20.0)), start)
    >>> w.round(3)
    Array([19., 18.], dtype=float32)
    """
    start = jnp.asarray(X)
    if callable(A) and not isinstance(A, JAXSparse):
        return _lobpcg(A, start, m, tol)
    return _of_matrix(A if isinstance(A, JAXSparse) else jnp.asarray(A), start, m=m, tol=tol)


def _of_matrix(matrix: Any, start: Any, *, m: int, tol: Any) -> tuple[Any, Any, Any]:
    found: tuple[Any, Any, Any] = jit(
        lambda matrix, start: _lobpcg(lambda v: _times(matrix, v), start, m, tol)
    )(matrix, start)
    return found


def _times(a: Any, b: Any) -> Any:
    if isinstance(a, JAXSparse):
        return a @ b
    return jnp.matmul(a, b, precision="highest")


def _check(apply: Callable[[Any], Any], start: Any) -> None:
    if start.ndim != 2 or not 0 < 5 * start.shape[1] < start.shape[0]:
        raise ShapeError(
            "lobpcg_standard: the vectors do not go with the size of the matrix",
            got=f"X {start.shape}",
            fix="X of shape [n, k] with 0 < 5 k < n",
        )
    one = apply(jnp.zeros((start.shape[0], 1), start.dtype))
    if one.dtype != start.dtype:
        raise DTypeError(
            "lobpcg_standard: A and X have different dtypes",
            got=f"{one.dtype} and {start.dtype}",
            fix=f"X.astype('{one.dtype}')",
        )
    if one.shape != (start.shape[0], 1):
        raise ShapeError(
            "lobpcg_standard: A is not a square matrix of the size of X",
            got=f"A makes {one.shape} of {(start.shape[0], 1)}",
            fix=f"A of shape {(start.shape[0],) * 2}",
        )


def _lobpcg(apply: Callable[[Any], Any], start: Any, steps: int, tol: Any) -> tuple[Any, Any, Any]:
    _check(apply, start)
    n, k = start.shape
    tolerance = float(jnp.finfo(start.dtype).eps) if tol is None else tol

    def residuals(x: Any, values: Any) -> tuple[Any, Any]:
        image = apply(x)
        rest = image - values[None] * x
        size = 10 * n * (_lengths(image)[0] + values)
        return rest, (_lengths(rest)[0] < tolerance * size).sum()

    def step(state: Any) -> Any:
        i, x, p, rest, _, _ = state
        rest = _beside(jnp.concatenate([x, p], axis=1), rest)
        basis = jnp.concatenate([x, p, rest], axis=1)
        values, inner = _ascending(_times(basis.T, apply(basis)))
        best = _normal(_times(basis, _normal(inner[:, :k])))
        # The part of the new block that the old one does not have, made orthogonal to the new one.
        turned, _ = jnp.linalg.qr(inner[:k, k:].T)
        direction = _normal(_times(basis, _times(inner[:, k:], turned)))
        rest, done = residuals(best, values[:k])
        return i + 1, best, direction, rest, done, values[:k]

    x = _orthonormal(start)
    values = (x * apply(x)).sum(0)
    rest, _ = residuals(x, values)
    # Other directions, which the first step has in place of those of a step before it.
    other = _beside(x, random.normal(random.key(0), x.shape, x.dtype))
    state = (0, x, other, rest, 0, values)
    i, x, _, _, _, values = lax.while_loop(
        lambda state: (state[0] < steps) & (state[4] < k), step, state
    )
    return values, x, i


def _lengths(x: Any) -> Any:
    return jnp.linalg.norm(x, axis=0, keepdims=True)


def _normal(x: Any) -> Any:
    """Columns of length 1; those that are zero stay so."""
    lengths = _lengths(x)
    return x / jnp.where(lengths == 0, 1, lengths)


def _ascending(matrix: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors, from the largest."""
    values, vectors = jnp.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def _orthonormal(x: Any) -> Any:
    """An orthonormal basis of the columns' span; zeros where they are dependent."""
    for _ in range(2):
        x = _normal(x)
        values, vectors = _ascending(_times(x.T, x))
        least = jnp.finfo(x.dtype).eps * values[0]
        scale = jnp.where(least > 0, jnp.maximum(values, least), 1) ** -0.5
        x = _times(x, vectors * scale[None])
        x = _normal(x * (values > least)[None].astype(x.dtype))
    return x


def _beside(basis: Any, x: Any) -> Any:
    """What of ``x`` an orthonormal basis has not, as an orthonormal basis itself."""
    for _ in range(2):
        x = _orthonormal(x - _times(basis, _times(basis.T, x)))
    for _ in range(2):  # what is left of a column that was in the span is only rounding
        x = x - _times(basis, _times(basis.T, x))
    return x * (_lengths(x) >= 0.99).astype(x.dtype)


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Any:
    """Solve a system of equations whose matrix is sparse.

    The matrix is made dense and solved by LU factorisation, so it should have a few thousand rows
    at most; derivatives by ``data`` and ``b`` follow.

    Args:
      data, indices, indptr: the matrix, as those of ``CSR``.
      b: the right side ``[n]``, of the dtype of ``data``.
      tol, reorder: of JAX's solver for GPUs, which look for singular matrices and save memory by
        another order; neither changes the solution.

    Raises:
      ShapeError, DTypeError: if the arrays do not go together.
      ArgumentError: if ``reorder`` is not 0, 1, 2 or 3.
    """
    values, right = jnp.asarray(data), jnp.asarray(b)
    if values.dtype != right.dtype:
        raise DTypeError(
            "spsolve: the dtypes differ", got=f"{values.dtype} and {right.dtype}", fix="one dtype"
        )
    if right.ndim != 1:
        raise ShapeError("spsolve: b has more than one axis", got=str(right.shape), fix="vmap")
    if reorder not in (0, 1, 2, 3):
        raise ArgumentError("spsolve: unknown reorder", got=repr(reorder), fix="0, 1, 2 or 3")
    size = right.shape[0]
    matrix = BCSR((values, indices, indptr), shape=(size, size)).todense()
    return jnp.linalg.solve(matrix, right)
