"""The normal distribution of vectors.

>>> import functrax.numpy as jnp
>>> from functrax.scipy.stats import multivariate_normal
>>> multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).round(4)
Array(0.1592, dtype=float32)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.linalg import solve_triangular
from functrax.typing import ArrayLike


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density of the normal distribution of vectors.

    The density is ``exp(-(x - mean)^T cov^-1 (x - mean) / 2) / sqrt(det(2 pi cov))``, by the factor
    of Cholesky.

    Args:
      x: vectors along the last axis.
      mean: vectors along the last axis, or one number.
      cov: positive definite matrices in the last two axes, or one number: that much variance in
        every direction.
      allow_singular: must be None: singular matrices have no density here.

    Returns:
      Floats, of the shape of the arguments without the axes of vectors and matrices.

    Raises:
      ShapeError: if the sizes do not go together.
      ArgumentError: if ``allow_singular`` is given.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import multivariate_normal
    >>> multivariate_normal.logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).round(4)
    Array(-1.8379, dtype=float32)
    """
    if allow_singular is not None:
        raise ArgumentError(
            "multivariate_normal.logpdf: singular matrices have no density here",
            got=f"allow_singular={allow_singular}",
            fix="leave it out; add a small multiple of the identity to the matrix",
        )
    points, center, spread = jnp.asarray(x), jnp.asarray(mean), jnp.asarray(cov)
    dtype = jnp.result_type(points, center, spread, float)
    points, center, spread = (v.astype(dtype) for v in (points, center, spread))
    if center.ndim == 0:
        z = (points - center) / jnp.sqrt(spread)
        if spread.ndim:
            raise _sizes(points, center, spread)
        return -0.5 * z * z - 0.5 * jnp.log(2 * math.pi * spread)
    n = center.shape[-1]
    if spread.ndim == 0:
        spread = spread * jnp.eye(n, dtype=dtype)
    if spread.ndim < 2 or spread.shape[-2:] != (n, n) or (points.ndim and points.shape[-1] != n):
        raise _sizes(points, center, spread)
    lower = jnp.linalg.cholesky(spread)
    away = points - center
    lead = jnp.broadcast_shapes(away.shape[:-1], lower.shape[:-2])
    away = jnp.broadcast_to(away, (*lead, n))
    z = solve_triangular(lower, away[..., None], lower=True)[..., 0]
    log_volume = jnp.sum(jnp.log(jnp.diagonal(lower, axis1=-2, axis2=-1)), -1)
    return -0.5 * jnp.sum(z * z, -1) - log_volume - 0.5 * n * math.log(2 * math.pi)


def _sizes(x: Value, mean: Value, cov: Value) -> ShapeError:
    return ShapeError(
        "multivariate_normal.logpdf: the sizes do not go together",
        got=f"x {x.aval.str_short()}, mean {mean.aval.str_short()}, cov {cov.aval.str_short()}",
        fix="x (..., n), mean (..., n), cov (..., n, n)",
    )


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density of the normal distribution of vectors; see :func:`logpdf`.

    Args:
      x: vectors along the last axis.
      mean: vectors along the last axis, or one number.
      cov: positive definite matrices in the last two axes, or one number: that much variance in
        every direction.

    Returns:
      Floats, of the shape of the arguments without the axes of vectors and matrices.

    Raises:
      ShapeError: if the sizes do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import multivariate_normal
    >>> multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).round(4)
    Array(0.1592, dtype=float32)
    """
    return jnp.exp(logpdf(x, mean, cov))


__dir__ = _listing(globals())
