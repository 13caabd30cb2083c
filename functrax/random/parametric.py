"""Samples of continuous distributions with parameters, from simpler samples of the same key.

Parameters are numbers or arrays that broadcast to the shape; without a shape, the result has
theirs.  The formulas are those of ``jax.random``.

Start at :func:`lognormal`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.lax.operands import as_array
from functrax.random.continuous import checked, normal_sample, prepared, uniform_sample
from functrax.random.discrete import rademacher
from functrax.random.keys import split_pair
from functrax.random.shapes import repeated
from functrax.typing import ArrayLike, DTypeLike, ShapeLike


@with_out_sharding
def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats whose logarithm has mean 0 and standard deviation ``sigma``, normally distributed.

    Args:
      key: a key.
      sigma: the standard deviation of the logarithm.
      shape: the shape of the result; that of ``sigma`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.lognormal(random.key(0), 0.5, (2,)).shape
    (2,)
    """
    words, sizes, of_type, (scale,) = prepared("lognormal", key, shape, dtype, sigma)
    return as_array(jnp.exp(normal_sample(words, sizes, of_type) * scale))


@with_out_sharding
def pareto(
    key: ArrayLike, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Floats from 1 on with the density ``b / x**(b + 1)``.

    Args:
      key: a key.
      b: the parameter.
      shape: the shape of the result; that of ``b`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.pareto(random.key(0), 2.5, (3,)).shape
    (3,)
    """
    words, sizes, of_type, (power,) = prepared("pareto", key, shape, dtype, b)
    u = uniform_sample(words, sizes, of_type)
    return as_array(jnp.exp(-jnp.log1p(-u) / power))


@with_out_sharding
def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Floats from 0 on with a density in proportion to ``x exp(-x**2 / (2 scale**2))``.

    Args:
      key: a key.
      scale: the parameter.
      shape: the shape of the result; that of ``scale`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.rayleigh(random.key(0), 2.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type, (sigma,) = prepared("rayleigh", key, shape, dtype, scale)
    u = uniform_sample(words, sizes, of_type)
    return as_array(jnp.sqrt(jnp.log(u) * -2.0) * sigma)


def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats from 0 on with the distribution function ``1 - exp(-(x / scale)**concentration)``.

    Args:
      key: a key.
      scale, concentration: the parameters.
      shape: the shape of the uniform numbers; the result broadcasts with the parameters.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of the shape to which ``shape`` and the parameters broadcast.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.weibull_min(random.key(0), 2.0, 1.5, (3,)).shape
    (3,)
    """
    words, sizes, of_type = checked("weibull_min", key, shape, dtype)
    u = uniform_sample(words, sizes, of_type)
    return as_array(jnp.power(-jnp.log1p(-u), 1.0 / concentration) * scale)


@with_out_sharding
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats between ``left`` and ``right`` whose density rises to ``mode`` and falls again.

    Args:
      key: a key.
      left, mode, right: the parameters, in this order of size.
      shape: the shape of the result; that of the parameters if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.triangular(random.key(0), 0.0, 1.0, 3.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type, (a, c, b) = prepared("triangular", key, shape, dtype, left, mode, right)
    u = uniform_sample(words, sizes, of_type)
    rising = a + jnp.sqrt(u * (b - a) * (c - a))
    falling = b - jnp.sqrt((1 - u) * (b - a) * (b - c))
    return as_array(jnp.where(u < (c - a) / (b - a), rising, falling))


@with_out_sharding
def maxwell(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """The length of vectors of three normally distributed floats.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, bad shapes, and what is not a key.

    >>> from functrax import random
    >>> random.maxwell(random.key(0), (3,)).shape
    (3,)
    """
    words, sizes, of_type = checked("maxwell", key, shape, dtype)
    parts = normal_sample(words, (*sizes, 3), of_type)
    return as_array(jnp.sqrt(jnp.sum(parts * parts, axis=-1)))


def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """``loc`` plus or minus ``scale`` times samples of :func:`maxwell`.

    Args:
      key: a key.
      loc, scale: the parameters.
      shape: what stands before the parameters' shape in that of the result.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of shape ``(*shape, *parameters' shape)``; the parameters' shape twice if ``shape``
        is empty.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.double_sided_maxwell(random.key(0), 0.0, 1.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type = checked("double_sided_maxwell", key, shape, dtype)
    inner = lax.broadcast_shapes(np.shape(loc), np.shape(scale))
    whole = (*(sizes or inner), *inner)
    first, second = split_pair(words)
    signs: Any = rademacher(second, whole, of_type)
    return as_array(signs * maxwell(first, whole, of_type) * scale + loc)


@with_out_sharding
def wald(
    key: ArrayLike, mean: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Floats above 0, inverse Gaussian: when a Brownian motion with drift 1 first reaches ``mean``.

    The variance is ``mean**3``.  Michael, Schucany and Haas, "Generating random variates using
    transformations with multiple roots" (1976).

    Args:
      key: a key.
      mean: the mean, above 0: a number or an array.
      shape: the shape of the result; that of ``mean`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.wald(random.key(0), 2.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type, (given,) = prepared("wald", key, shape, dtype, mean)
    centre: Any = as_array(repeated(given, sizes))
    by_root, by_side = split_pair(words)
    square = lax.integer_pow(normal_sample(by_root, sizes, of_type), 2)
    u = uniform_sample(by_side, sizes, of_type)
    area = lax.integer_pow(centre, 2)
    width = lax.sqrt(4 * centre * square + area * lax.integer_pow(square, 2))
    root = centre + area * square / 2 - centre / 2 * width
    return as_array(jnp.where(u <= centre / (centre + root), root, area / root))
