"""Matrices of a known structure, as ``jax.scipy.linalg`` makes them, and the polar decomposition.

Vectors stand in the last axis of an argument; leading axes are batches.

Start at :func:`toeplitz`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.prims.mapped import reindex
from functrax.core.prims.matrices import adjoint
from functrax.core.tracing.primitive import Value, like
from functrax.numpy import linalg as la
from functrax.numpy.axes import integer
from functrax.numpy.promote import promote_dtypes, promoting, result, to_array
from functrax.typing import ArrayLike

__all__ = [
    "circulant",
    "companion",
    "convolution_matrix",
    "fiedler",
    "fiedler_companion",
    "hankel",
    "leslie",
    "polar",
    "toeplitz",
]


def _vector(name: str, x: Any) -> Value:
    """An array of at least one axis."""
    return jnp.atleast_1d(to_array(name, x))


def _chosen(values: Value, index: Any) -> Value:
    """The matrix of the elements of vectors that a matrix of positions names."""
    return jnp.take(values, index, axis=-1)


@promoting
def _batches(c: Value, r: Value) -> list[Value]:
    """Vectors whose leading axes are broadcast to those of both."""
    batch = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    return [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (c, r)]


def _joined(c: Value, r: Value) -> Value:
    """The vectors of a batch one after the other."""
    return jnp.concatenate(_batches(c, r), axis=-1)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix of constant diagonals that has ``c`` as first column and ``r`` as first row.

    Args:
      c: ``[..., m]``.
      r: ``[..., n]``, whose first element is not used; the conjugate of ``c`` if None.

    Returns:
      ``[..., m, n]``.

    Raises:
      ShapeError: if the leading axes do not broadcast.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import toeplitz
    >>> toeplitz(jnp.array([1, 2, 3]), jnp.array([9, 5]))
    Array([[1, 5],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    column = _vector("toeplitz", c)
    row = jnp.conj(column) if r is None else _vector("toeplitz", r)
    m, n = column.shape[-1], row.shape[-1]
    values = _joined(jnp.flip(row[..., 1:], -1), column)  # those of the diagonals, from the top
    return _chosen(values, jnp.arange(m)[:, None] - jnp.arange(n)[None] + max(n - 1, 0))


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix of constant antidiagonals that has ``c`` as first column and ``r`` as last row.

    Args:
      c: ``[..., m]``.
      r: ``[..., n]``, whose first element is not used; zeros like ``c`` if None.

    Returns:
      ``[..., m, n]``.

    Raises:
      ShapeError: if the leading axes do not broadcast.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import hankel
    >>> hankel(jnp.array([1, 2, 3]), jnp.array([9, 5]))
    Array([[1, 2],
           [2, 3],
           [3, 5]], dtype=int32)
    """
    column = _vector("hankel", c)
    row = jnp.zeros_like(column) if r is None else _vector("hankel", r)
    m, n = column.shape[-1], row.shape[-1]
    values = _joined(column, row[..., 1:])
    return _chosen(values, jnp.arange(m)[:, None] + jnp.arange(n)[None])


def circulant(c: ArrayLike) -> Array:
    """The matrix whose columns are ``c``, turned by 0, 1, 2, ...

    Args:
      c: ``[..., n]``.

    Returns:
      ``[..., n, n]``.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import circulant
    >>> circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    column = _vector("circulant", c)
    places = jnp.arange(column.shape[-1])
    return _chosen(column, (places[:, None] - places[None]) % max(column.shape[-1], 1))


def companion(a: ArrayLike) -> Array:
    """The matrix whose eigenvalues are the roots of a polynomial.

    Args:
      a: ``[..., n + 1]``, its coefficients from the highest power on; ``n`` is at least 1.

    Returns:
      ``[..., n, n]``.

    Raises:
      ShapeError: for fewer than two coefficients.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import companion
    >>> companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    coefficients = _vector("companion", a)
    n = coefficients.shape[-1] - 1
    if n < 1:
        raise ShapeError(
            "companion: the length of `a` along the last axis is below 2",
            got=coefficients.aval.str_short(),
            fix="at least two coefficients",
        )
    row = -coefficients[..., 1:] / coefficients[..., :1]
    below = jnp.broadcast_to(jnp.eye(n - 1, n, dtype=row.dtype), (*row.shape[:-1], n - 1, n))
    return jnp.concatenate([row[..., None, :], below], axis=-2)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix that makes of a vector of ``n`` elements its convolution with ``a``.

    Args:
      a: ``[..., m]``.
      n: the length of the vectors, at least 1.
      mode: as for :func:`functrax.numpy.convolve`: ``"full"`` for ``m + n - 1`` rows, ``"same"``
        for ``max(m, n)`` of these, ``"valid"`` for ``max(m, n) - min(m, n) + 1``.

    Returns:
      A matrix ``[..., rows, n]`` of the dtype of ``a``.

    Raises:
      ArgumentError: for another mode, or an ``n`` that is not positive.
      ShapeError: if ``a`` is empty, or has no axis.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import convolution_matrix
    >>> convolution_matrix(jnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    name = "convolution_matrix"
    x, columns = to_array(name, a), integer(name, "n", n)
    if columns < 1:
        raise ArgumentError(f"{name}: n must be a positive integer", got=f"n={n!r}", fix="n=1")
    if not x.aval.ndim:
        raise ShapeError(
            f"{name}: a must be at least 1-dimensional", got=x.aval.str_short(), fix="a[None]"
        )
    m = x.aval.shape[-1]
    if not m:
        raise ShapeError(f"{name}: len(a) must be at least 1", got=x.aval.str_short(), fix="[1]")
    least, rows = min(m, columns) - 1, m + columns - 1
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(
            f"{name}: mode must be one of 'full', 'same', 'valid'", got=repr(mode), fix="'full'"
        )
    first, last = {
        "full": (0, rows),
        "same": (least // 2, rows - (least - least // 2)),
        "valid": (least, rows - least),
    }[mode]
    row, column = Dim(x.aval.ndim - 1), Dim(x.aval.ndim)
    batch = tuple(Dim(k) for k in range(x.aval.ndim - 1))
    domain = (*x.aval.shape[:-1], last - first, columns)
    diagonals = IndexMap(domain, x.aval.shape, (*batch, row + first - column))
    return result(reindex.bind(x, map=diagonals, fill=like(x, 0)))


def leslie(f: ArrayLike, s: Sequence[int] | None) -> Array:
    """The matrix that makes of a population's numbers by age those after one step of time.

    Args:
      f: ``[..., n]``, the birth rates, its first row; ``n`` is at least 2.
      s: ``[..., n - 1]``, the rates of survival, below its diagonal.

    Returns:
      ``[..., n, n]``.

    Raises:
      ShapeError: if the lengths do not go together.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import leslie
    >>> leslie(jnp.array([0.0, 2.0]), jnp.array([0.5]))
    Array([[0. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    births, lives = promote_dtypes("leslie", _vector("leslie", f), _vector("leslie", s))
    births, lives = result(births), result(lives)
    n = births.shape[-1]
    given = f"f {births.aval.str_short()}, s {lives.aval.str_short()}"
    if n < 2:
        raise ShapeError(
            "leslie: The length of f along the last axis must be at least 2", got=given, fix="n=2"
        )
    if lives.shape[-1] != n - 1:
        raise ShapeError(
            "leslie: Incorrect lengths for f and s", got=given, fix="s shorter than f by one"
        )
    births, lives = _batches(births, lives)
    rows = jnp.arange(n - 1)
    below = jnp.zeros((*lives.shape, n), lives.dtype).at[..., rows, rows].set(lives)
    return jnp.concatenate([births[..., None, :], below], -2)


def fiedler(a: ArrayLike) -> Array:
    """The symmetric matrix of ``|a[i] - a[j]|``.

    Args:
      a: ``[..., n]``.

    Returns:
      ``[..., n, n]``.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import fiedler
    >>> fiedler(jnp.array([1, 4, 6]))
    Array([[0, 3, 5],
           [3, 0, 2],
           [5, 2, 0]], dtype=int32)
    """
    x = _vector("fiedler", a)
    return jnp.abs(x[..., :, None] - x[..., None, :])


def fiedler_companion(a: ArrayLike) -> Array:
    """A matrix of five diagonals whose eigenvalues are the roots of a polynomial.

    M. Fiedler, "A note on companion matrices", 2003.

    Args:
      a: ``[..., n + 1]``, its coefficients from the highest power on.

    Returns:
      ``[..., n, n]``.

    Raises:
      ShapeError: if there are no coefficients.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import fiedler_companion
    >>> fiedler_companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    x = _vector("fiedler_companion", a)
    n = x.shape[-1] - 1
    if n < 0:
        raise ShapeError(
            "fiedler_companion: the last axis must have a nonzero length",
            got=x.aval.str_short(),
            fix="at least one coefficient",
        )
    scaled = -(x[..., 1:] / x[..., :1])
    # Which of the numbers 0, 1, -a[1], -a[2], ... stands where.
    i, beside = jnp.arange(n)[:, None], jnp.arange(n) - jnp.arange(n)[:, None]
    even = jnp.select([beside == 1, beside == 2, (beside == -1) & (i > 0)], [i + 3, 1, i + 2], 0)
    odd = jnp.where(beside == -jnp.minimum(i, 2), 1, 0)
    which = jnp.where(i % 2 == 0, even, odd)
    which = jnp.where((i == 0) & (beside == 0), 2, which)
    constants = jnp.broadcast_to(jnp.array([0, 1], scaled.dtype), (*scaled.shape[:-1], 2))
    return _chosen(jnp.concatenate([constants, scaled], -1), which)


@promoting
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """A matrix as the product of one of orthonormal columns or rows, and a Hermitian one.

    Args:
      a: ``[..., m, n]``.
      side: ``"right"`` for ``a = u @ p``, ``"left"`` for ``a = p @ u``.
      method: ``"qdwh"`` or ``"svd"``; the singular values are taken either way.
      eps: accepted for compatibility.
      max_iterations: accepted for compatibility.

    Returns:
      ``(u, p)``; ``p`` has no negative eigenvalues.

    Raises:
      ArgumentError: for another side or method.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.linalg.polar(jnp.array([[0.0, 2.0], [-3.0, 0.0]]))[1].round(4)
    Array([[3., 0.],
           [0., 2.]], dtype=float32)
    """
    if side not in ("right", "left") or method not in ("qdwh", "svd"):
        raise ArgumentError(
            "polar: unknown side or method",
            got=f"side={side!r}, method={method!r}",
            fix="'right' or 'left'; 'qdwh' or 'svd'",
        )
    u, s, vh = la.svd(a, full_matrices=False)
    left, right = adjoint(u), adjoint(vh)
    p = (right * s[..., None, :]) @ vh if side == "right" else (u * s[..., None, :]) @ left
    return u @ vh, p
