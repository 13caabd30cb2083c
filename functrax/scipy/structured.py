"""Matrices of a known structure, as ``jax.scipy.linalg`` makes them, and the polar decomposition.

Vectors stand in the last axis of an argument; leading axes are batches.

Start at :func:`toeplitz`.
"""

from __future__ import annotations

import operator
from typing import Any

import functrax.numpy as jnp
from functrax.core.errors import ArgumentError, ShapeError
from functrax.core.primitive import Value
from functrax.core.prims.matrices import adjoint
from functrax.numpy import linalg as la
from functrax.numpy.promote import to_array

__all__ = ["circulant", "companion", "dft", "hadamard", "hankel", "hilbert", "polar", "toeplitz"]


def _vector(name: str, x: Any) -> Value:
    """An array of at least one axis."""
    return jnp.atleast_1d(to_array(name, x))


def _chosen(values: Value, index: Any) -> Value:
    """The matrix of the elements of vectors that a matrix of positions names."""
    return jnp.take(values, index, axis=-1)


def _joined(c: Value, r: Value) -> Value:
    """The vectors of a batch one after the other."""
    batch = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    parts = (jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (c, r))
    return jnp.concatenate(list(parts), axis=-1)


def toeplitz(c: Any, r: Any = None) -> Value:
    """The matrix of constant diagonals that has ``c`` as first column and ``r`` as first row.

    Args:
      c: ``[..., m]``.
      r: ``[..., n]``, whose first element is not used; the conjugate of ``c`` if None.

    Returns:
      ``[..., m, n]``.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.linalg.toeplitz(jnp.array([1, 2, 3]), jnp.array([9, 5]))
    Array([[1, 5],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    column = _vector("toeplitz", c)
    row = jnp.conj(column) if r is None else _vector("toeplitz", r)
    m, n = column.shape[-1], row.shape[-1]
    values = _joined(jnp.flip(row[..., 1:], -1), column)  # those of the diagonals, from the top
    return _chosen(values, jnp.arange(m)[:, None] - jnp.arange(n) + max(n - 1, 0))


def hankel(c: Any, r: Any = None) -> Value:
    """The matrix of constant antidiagonals that has ``c`` as first column and ``r`` as last row.

    Args:
      c: ``[..., m]``.
      r: ``[..., n]``, whose first element is not used; zeros like ``c`` if None.

    Returns:
      ``[..., m, n]``.
    """
    column = _vector("hankel", c)
    row = jnp.zeros_like(column) if r is None else _vector("hankel", r)
    m, n = column.shape[-1], row.shape[-1]
    values = _joined(column, row[..., 1:])
    return _chosen(values, jnp.arange(m)[:, None] + jnp.arange(n))


def circulant(c: Any) -> Value:
    """The matrix ``[..., n, n]`` whose columns are ``c``, ``[..., n]``, turned by 0, 1, 2, ...

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.linalg.circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    column = _vector("circulant", c)
    places = jnp.arange(column.shape[-1])
    return _chosen(column, (places[:, None] - places) % max(column.shape[-1], 1))


def companion(a: Any) -> Value:
    """The matrix ``[..., n, n]`` whose eigenvalues are the roots of a polynomial.

    Args:
      a: ``[..., n + 1]``, its coefficients from the highest power on; ``n`` is at least 1.

    Raises:
      ShapeError: for fewer than two coefficients.
    """
    coefficients = _vector("companion", a)
    n = coefficients.shape[-1] - 1
    if n < 1:
        raise ShapeError(
            "companion: a polynomial without roots",
            got=coefficients.aval.str_short(),
            fix="at least two coefficients",
        )
    row = -coefficients[..., 1:] / coefficients[..., :1]
    below = jnp.broadcast_to(jnp.eye(n - 1, n, dtype=row.dtype), (*row.shape[:-1], n - 1, n))
    return jnp.concatenate([row[..., None, :], below], axis=-2)


def hilbert(n: int) -> Value:
    """The matrix ``[n, n]`` of ``1 / (i + j + 1)``, which is hard to invert."""
    places = jnp.arange(operator.index(n)) * 1.0
    return 1.0 / (places[:, None] + places + 1.0)


def hadamard(n: int, dtype: Any = int) -> Value:
    """The matrix ``[n, n]`` of 1 and -1 with orthogonal rows, of Sylvester.

    Args:
      n: a power of 2.
      dtype: of the result.

    Raises:
      ArgumentError: for another ``n``.
    """
    size = operator.index(n)
    if size < 1 or size & (size - 1):
        raise ArgumentError("hadamard: not a power of 2", got=f"n={n!r}", fix="1, 2, 4, 8, ...")
    places = jnp.arange(size)
    odd = jnp.bitwise_count(places[:, None] & places) % 2 == 1
    return jnp.where(odd, -1, 1).astype(dtype)


def dft(n: int, scale: str | None = None) -> Value:
    """The matrix ``[n, n]`` of complex numbers that makes of a vector its Fourier transform.

    Args:
      n: the length of the vectors.
      scale: ``"sqrtn"`` and ``"n"`` divide by the root of ``n``, or by ``n``.

    Raises:
      ArgumentError: for another scale.
    """
    divisors = {None: 1.0, "sqrtn": n**0.5, "n": float(n)}
    if scale not in divisors:
        raise ArgumentError("dft: unknown scale", got=repr(scale), fix="None, 'sqrtn' or 'n'")
    places = jnp.arange(operator.index(n))
    turns = (places[:, None] * places % max(n, 1)) / max(n, 1)
    return jnp.exp(-2j * jnp.pi * turns) / divisors[scale]


def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Value, Value]:
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
