"""Samples of vectors and matrices: multivariate normal, orthogonal, and in a ball.

Start at :func:`multivariate_normal`, a factor of the covariance times normal samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.linear_systems import cholesky
from functrax.core.prims.spectra import eigh, svd
from functrax.core.tracing.primitive import Value
from functrax.lax.operands import as_array
from functrax.numpy.promote import inexact, promote_dtypes
from functrax.random.continuous import checked, exponential, normal_sample
from functrax.random.discrete import rademacher
from functrax.random.gammas import gamma
from functrax.random.keys import key_words, split_pair
from functrax.random.shapes import (
    DType,
    Shape,
    broadcast_shape,
    checked_shape,
    float_dtype,
    inexact_dtype,
)
from functrax.typing import ArrayLike, DTypeLike, ShapeLike

_METHODS = ("cholesky", "eigh", "svd")


@with_out_sharding
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
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
    return as_array(jnp.add(jnp.broadcast_to(as_array(centre), (*sizes, *n)), moved))


def _factor(cov: Any, method: str) -> Any:
    """Matrices ``f`` with ``f f^T = cov``."""
    if method == "cholesky":
        return cholesky.bind((cov + jnp.matrix_transpose(cov)) * np.asarray(0.5, cov.dtype))
    if method == "eigh":
        values, vectors = eigh.bind((cov + jnp.matrix_transpose(cov)) / 2, lower=True)
    else:
        values, vectors, _ = svd.bind(cov, full_matrices=True, compute_uv=True)
    return vectors * jnp.sqrt(as_array(values))[..., None, :]


@with_out_sharding
def orthogonal(
    key: ArrayLike,
    n: int,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
) -> Array:
    """Orthogonal (or unitary) matrices, all as likely; with orthonormal rows or columns if oblong.

    Args:
      key: a key.
      n: how many rows.
      shape: the shape of the batch of matrices.
      dtype: a floating point or complex dtype; the default float if omitted.
      m: how many columns; ``n`` if omitted.

    Returns:
      ``[*shape, n, m]``: with orthonormal columns if ``n >= m``, else with orthonormal rows.

    Raises:
      DTypeError, ShapeError: for other dtypes, bad sizes, and what is not a key.

    The orthogonal factor of a matrix of normal samples, with the signs that make the diagonal of
    the other factor positive: Mezzadri, "How to generate random matrices from the classical compact
    groups" (2007).

    >>> from functrax import numpy as jnp, random
    >>> q = random.orthogonal(random.key(0), 3)
    >>> jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-6)
    Array(True, dtype=bool)
    """
    words = key_words("orthogonal", key)
    batch, of_type = checked_shape("orthogonal", shape), inexact_dtype("orthogonal", dtype)
    rows, columns = checked_shape("orthogonal", (n, n if m is None else m), "the matrix's shape")
    tall = (*batch, max(rows, columns), min(rows, columns))
    q, r = jnp.linalg.qr(normal_sample(words, tall, of_type))
    out = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return as_array(jnp.matrix_transpose(out) if rows < columns else out)


@with_out_sharding
def generalized_normal(
    key: ArrayLike, p: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Array:
    """Floats with a density in proportion to ``exp(-|x|**p)``.

    Args:
      key: a key.
      p: the power, above 0: a number.
      shape: the shape of the result.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, bad shapes, and what is not a key.

    >>> from functrax import random
    >>> random.generalized_normal(random.key(0), 3.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type = checked("generalized_normal", key, shape, dtype)
    power = _power("generalized_normal", p)
    return as_array(_generalized_normal(words, power, sizes, of_type))


def _power(name: str, p: Any) -> Any:
    (value,) = promote_dtypes(name, p, kind=inexact)
    return as_array(value)


def _generalized_normal(words: Value, power: Any, shape: Shape, dtype: DType) -> Any:
    by_size, by_sign = split_pair(words)
    sizes = gamma(by_size, 1 / power, shape, dtype)
    signs: Any = rademacher(by_sign, shape, dtype)
    return signs * jnp.power(sizes, 1 / power)


@with_out_sharding
def ball(
    key: ArrayLike, d: int, p: ArrayLike = 2, shape: ShapeLike = (), dtype: DTypeLike | None = None
) -> Array:
    """Vectors whose ``p``-norm is at most 1, all as likely.

    Args:
      key: a key.
      d: the size of the vectors.
      p: the power of the norm, above 0: a number.
      shape: the shape of the batch of vectors.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      ``[*shape, d]``.

    Raises:
      DTypeError, ShapeError: for other dtypes, bad sizes, and what is not a key.

    ``g / (sum(|g|**p) + e)**(1 / p)`` of generalised normal ``g`` and exponential ``e``: Barthe et
    al., "A probabilistic approach to the geometry of the l_p^n-ball" (2005).

    >>> from functrax import numpy as jnp, random
    >>> (jnp.linalg.norm(random.ball(random.key(0), 3, shape=(9,)), axis=-1) <= 1).all()
    Array(True, dtype=bool)
    """
    words, sizes, of_type = checked("ball", key, shape, dtype)
    (dimension,) = checked_shape("ball", (d,), "the vectors' size")
    power = _power("ball", p)
    by_direction, by_radius = split_pair(words)
    g = _generalized_normal(by_direction, power, (*sizes, dimension), of_type)
    e: Any = exponential(by_radius, sizes, of_type)
    norm = jnp.power(jnp.power(lax.abs(g), power).sum(-1) + e, 1 / power)
    return as_array(g / norm[..., None])
