"""Gamma distributed samples, and those made of them: beta, Dirichlet, chi-square, t and F.

Each element has a key of its own, split from the given one, and :func:`_element` draws it by
rejection: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).  The
derivative by the parameter is that of the sample at a fixed value of the distribution function
(implicit reparameterisation: Figurnov et al., arXiv:1805.08498), ``lax.random_gamma_grad``.

The beta, Dirichlet, chi-square and F distributions start from logarithms of gamma samples, which
neither vanish nor overflow for small parameters.

Start at :func:`gamma`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from functrax import lax, numpy as jnp
from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.operands import as_array
from functrax.random.cipher import split_words
from functrax.random.continuous import normal_sample, prepared, uniform_sample
from functrax.random.implementations import THREEFRY
from functrax.random.keys import key_words, split_pair
from functrax.random.shapes import DType, Shape, broadcast_shape, float_dtype, parameter, repeated
from functrax.transforms.control.user_loops import map_, while_loop
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike, DTypeLike, ShapeLike

_SQUEEZE = 0.0331


@with_out_sharding
def gamma(
    key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Floats from 0 on with a density in proportion to ``x**(a - 1) exp(-x)``.

    Differentiable by ``a``.

    Args:
      key: a key.
      a: the parameter, above 0: a number or an array.  Mean and variance are ``a`` both.
      shape: the shape of the result; that of ``a`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.gamma(random.key(0), 2.0, (3,)).shape
    (3,)
    """
    words, sizes, _, (given,) = prepared("gamma", key, shape, dtype, a)
    return as_array(_samples(words, repeated(given, sizes)))


@with_out_sharding
def loggamma(
    key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Logarithms of samples of :func:`gamma`, exact where those are too small for the dtype.

    Args:
      key: a key.
      a: the parameter, above 0: a number or an array.
      shape: the shape of the result; that of ``a`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import numpy as jnp, random
    >>> jnp.isfinite(random.loggamma(random.key(0), 1e-4, (100,))).all()
    Array(True, dtype=bool)
    """
    words, sizes, _, (given,) = prepared("loggamma", key, shape, dtype, a)
    return as_array(_log_sample(words, given, sizes))


def _log_sample(words: Value, a: Value, shape: Shape) -> Any:
    return as_array(_log_samples(words, repeated(a, shape)))


def _element(words: Value, a: Any, log_space: bool) -> Any:
    """A gamma sample, or its logarithm, from the words of a key of its own.

    A parameter below 1 is raised by 1 and the sample multiplied by ``u**(1 / a)``.
    """
    large = a >= 1
    d = jnp.where(large, a, a + 1) - 1 / 3
    c = (1 / 3) / lax.sqrt(d)

    def rejected(state: Any) -> Any:
        _, square, cube, u = state
        outside = u >= 1 - _SQUEEZE * (square * square)
        return outside & (lax.log(u) >= square * 0.5 + d * ((1 - cube) + lax.log(cube)))

    def tried(state: Any) -> Any:
        words = split_words(state[0], (3,))
        x, v = _above_zero(words[1], c)
        u = uniform_sample(words[2], (), a.dtype)
        return words[0], lax.mul(x, x), lax.mul(lax.mul(v, v), v), u

    words, by_boost = split_pair(words)
    start = (words, *(jnp.full((), x, a.dtype) for x in (0, 1, 2)))
    cube = while_loop(rejected, tried, start)[2]
    u = uniform_sample(by_boost, (), a.dtype)
    if log_space:
        log_u = lax.log1p(lax.neg(u))
        boost = jnp.where(large | (log_u == 0), 0, log_u * (1 / a))
        return (lax.log(d) + lax.log(cube)) + boost
    return (d * cube) * jnp.where(large, 1, lax.pow(1 - u, 1 / a))


def _above_zero(words: Value, c: Any) -> tuple[Any, Any]:
    """A normal ``x``, and ``1 + c x``, which is above 0."""

    def again(state: Any) -> Any:
        words, once = split_pair(state[0])
        x = normal_sample(once, (), c.dtype)
        return words, x, 1 + x * c

    start = (words, jnp.zeros((), c.dtype), jnp.full((), -1, c.dtype))
    _, x, v = while_loop(lambda state: state[2] <= 0, again, start)
    return x, v


@functools.partial(jit, static_argnames=("log_space",))
def _drawn(words: Value, a: Any, log_space: bool) -> Any:
    """A sample for each element of ``a``."""
    size = math.prod(a.shape)
    if not size:
        return jnp.zeros(a.shape, a.dtype)
    keys = split_words(words, (size,))
    draw = functools.partial(_element, log_space=log_space)
    if words.aval.shape == THREEFRY.inside:
        return vmap(draw)(keys, a.reshape(size)).reshape(a.shape)
    # The bits of other generators' keys are not their own under vmap.
    return map_(lambda given: draw(*given), (keys, a.reshape(size))).reshape(a.shape)


@custom_jvp
def _samples(words: Value, a: Any) -> Any:
    return _drawn(words, a, log_space=False)


@_samples.defjvp
def _samples_jvp(primals: Any, tangents: Any) -> Any:
    a, drawn = primals[1], _samples(*primals)
    return drawn, tangents[1] * lax.random_gamma_grad(a, drawn)


@custom_jvp
def _log_samples(words: Value, a: Any) -> Any:
    return _drawn(words, a, log_space=True)


@_log_samples.defjvp
def _log_samples_jvp(primals: Any, tangents: Any) -> Any:
    a, drawn = primals[1], _log_samples(*primals)
    sample = lax.exp(drawn)
    sample = jnp.where(sample == 0, float(dtypes.finfo(a.dtype).tiny), sample)
    return drawn, tangents[1] * (lax.random_gamma_grad(a, sample) / sample)


@with_out_sharding
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Floats from 0 to 1 with a density in proportion to ``x**(a - 1) (1 - x)**(b - 1)``.

    Args:
      key: a key.
      a, b: the parameters, above 0: numbers or arrays.
      shape: the shape of the result; that of the parameters if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    ``x / (x + y)`` of gamma samples with the parameters ``a`` and ``b``.

    >>> from functrax import random
    >>> random.beta(random.key(0), 2.0, 3.0, (3,)).shape
    (3,)
    """
    words, sizes, _, parameters = prepared("beta", key, shape, dtype, a, b)
    pairs = zip(split_pair(words), parameters, strict=True)
    logs = [_log_sample(w, x, sizes) for w, x in pairs]
    highest = lax.max(*logs)
    first, second = (lax.exp(x - highest) for x in logs)
    return as_array(first / (first + second))


@with_out_sharding
def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Vectors of floats from 0 on with the sum 1, and a density of ``prod(x**(alpha - 1))``.

    Args:
      key: a key.
      alpha: the parameters, above 0: vectors, ``[..., n]``.
      shape: the shape of the batch of vectors; that of ``alpha`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      ``[*shape, n]``.

    Raises:
      DTypeError, ShapeError: for other dtypes, if ``alpha`` is a number, or does not broadcast.

    Gamma samples over their sum.

    >>> from functrax import numpy as jnp, random
    >>> random.dirichlet(random.key(0), jnp.ones(3), (5,)).shape
    (5, 3)
    """
    words, of_type = key_words("dirichlet", key), float_dtype("dirichlet", dtype)
    given = parameter("dirichlet", alpha, of_type)
    own = given.aval.shape
    if not own:
        raise ShapeError(
            "dirichlet: the parameter is not a vector",
            got=given.aval.str_short(),
            fix="alpha [..., n]",
        )
    sizes = broadcast_shape("dirichlet", shape, own[:-1])
    logs = _log_sample(words, given, (*sizes, own[-1]))
    if not own[-1]:
        return as_array(logs)
    shares = lax.exp(logs - lax.stop_gradient(jnp.max(logs, axis=-1, keepdims=True)))
    return as_array(shares / jnp.sum(shares, axis=-1, keepdims=True))


@with_out_sharding
def chisquare(
    key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """The sum of squares of ``df`` standard normal floats; ``df`` need not be an integer.

    Args:
      key: a key.
      df: the degrees of freedom, above 0: a number or an array.
      shape: the shape of the result; that of ``df`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.chisquare(random.key(0), 4.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type, (freedom,) = prepared("chisquare", key, shape, dtype, df)
    return as_array(_chi_square(words, freedom, sizes, of_type))


def _chi_square(words: Value, df: Value, shape: Shape, dtype: DType) -> Any:
    return lax.exp(_log_sample(words, lax.div(df, dtype.type(2)), shape)) * 2


@with_out_sharding
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The ratio of two samples of :func:`chisquare`, each over its degrees of freedom.

    Args:
      key: a key.
      dfnum, dfden: the degrees of freedom of numerator and denominator, above 0.
      shape: the shape of the result; that of the parameters if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.f(random.key(0), 3.0, 9.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type, (above, below) = prepared("f", key, shape, dtype, dfnum, dfden)
    by_below, by_above = split_pair(words)
    upper = jnp.divide(_chi_square(by_above, above, sizes, of_type), as_array(above))
    lower = jnp.divide(_chi_square(by_below, below, sizes, of_type), as_array(below))
    return as_array(lax.div(upper, lower))


@with_out_sharding
def t(
    key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Floats of Student's t distribution: a normal one over the root of a mean of ``df`` squares.

    Args:
      key: a key.
      df: the degrees of freedom, above 0: a number or an array.
      shape: the shape of the result; that of ``df`` if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.t(random.key(0), 5.0, (3,)).shape
    (3,)
    """
    words, sizes, of_type, (freedom,) = prepared("t", key, shape, dtype, df)
    by_normal, by_gamma = split_pair(words)
    half = as_array(lax.div(freedom, of_type.type(2)))
    drawn = as_array(_samples(by_gamma, repeated(half, sizes)))
    return as_array(normal_sample(by_normal, sizes, of_type) * jnp.sqrt(half / drawn))
