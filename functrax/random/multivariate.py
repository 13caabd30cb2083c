"""Samples of the multivariate normal distribution: a factor of the covariance times normal ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax import numpy as jnp
from functrax.core.errors import ArgumentError, ShapeError
from functrax.core.operators import Array
from functrax.core.prims.linear_systems import cholesky
from functrax.core.prims.spectra import eigh, svd
from functrax.lax.operands import as_array
from functrax.numpy.promote import inexact, promote_dtypes
from functrax.random.continuous import normal_sample
from functrax.random.keys import key_words
from functrax.random.shapes import broadcast_shape, float_dtype

_METHODS = ("cholesky", "eigh", "svd")


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Array:
    """Normally distributed vectors with a mean and a covariance matrix.

    Args:
      key: a key.
      mean: vectors, ``[..., n]``.
      cov: symmetric positive semi-definite matrices, ``[..., n, n]``.
      shape: the shape of the batch of vectors; that of ``mean`` and ``cov`` if omitted.
      dtype: a floating point dtype; that of ``mean`` and ``cov`` if omitted.
      method: the factor of the covariance: ``"cholesky"``, which needs it to be definite,
        ``"eigh"`` or ``"svd"``.

    Returns:
      ``[*shape, n]``.

    Raises:
      ShapeError: if the mean is no vector, or the covariance no matrix of its size.
      ArgumentError: if there is no such method.

    >>> from functrax import numpy as jnp, random
    >>> random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2), (5,)).shape
    (5, 2)
    """
    words = key_words("multivariate_normal", key)
    centre, matrix = promote_dtypes("multivariate_normal", mean, cov, kind=inexact)
    n = centre.aval.shape[-1:]
    if not n or matrix.aval.shape[-2:] != n * 2:
        raise ShapeError(
            "multivariate_normal: the mean is a vector, the covariance a matrix of its size",
            got=f"mean {centre.aval.str_short()}, cov {matrix.aval.str_short()}",
            fix="mean [..., n] and cov [..., n, n]",
        )
    if method not in _METHODS:
        raise ArgumentError(
            "multivariate_normal: there is no such method",
            got=repr(method),
            fix=" or ".join(map(repr, _METHODS)),
        )
    batches = centre.aval.shape[:-1], matrix.aval.shape[:-2]
    sizes = broadcast_shape("multivariate_normal", shape, *batches)
    of_type = float_dtype("multivariate_normal", centre.aval.dtype if dtype is None else dtype)
    drawn = normal_sample(words, (*sizes, *n), of_type)
    moved = jnp.einsum("...ij,...j->...i", _factor(as_array(matrix), method), drawn)
    return as_array(jnp.add(as_array(centre), moved))


def _factor(cov: Any, method: str) -> Any:
    """Matrices ``f`` with ``f f^T = cov``."""
    if method == "cholesky":
        return cholesky.bind((cov + jnp.matrix_transpose(cov)) * np.asarray(0.5, cov.dtype))
    if method == "eigh":
        values, vectors = eigh.bind((cov + jnp.matrix_transpose(cov)) / 2, lower=True)
    else:
        values, vectors, _ = svd.bind(cov, full_matrices=True, compute_uv=True)
    return vectors * jnp.sqrt(as_array(values))[..., None, :]
