"""Samples of counts drawn by rejection: Poisson, binomial and multinomial.

All elements are drawn together, a round of uniform numbers at a time, until each has been accepted.
Small means count the steps of a walk; the others use transformed rejection: Hormann, "The
transformed rejection method for generating Poisson random variables" (1993), and "The generation
of binomial random variates" (1993).  The numbers for a key are those of ``jax.random``.

Start at :func:`poisson`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError, UnavailableError
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.operands import as_array
from functrax.numpy.promote import inexact, promote_dtypes
from functrax.random.cipher import split_words
from functrax.random.continuous import uniform_sample
from functrax.random.implementations import THREEFRY
from functrax.random.keys import key_words, split_pair
from functrax.random.shapes import (
    DType,
    Shape,
    broadcast_shape,
    float_dtype,
    integer_dtype,
    parameter,
    repeated,
)
from functrax.transforms.control.user_loops import scan, while_loop
from functrax.transforms.staging.jit import jit
from functrax.typing import ArrayLike, DTypeLike, ShapeLike

_MOST_ROUNDS = 2**31 - 1
#: ``log(k!)`` less Stirling's formula for ``log(k!)``, from k = 0 to 9.
_STIRLING_REST = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.010411265261972,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip
#: Takes uniform ``u`` from -1/2 to 1/2, ``v`` from 0 to 1, and 1/2 - ``|u|``.
Attempt = Callable[[Any, Any, Any], tuple[Any, Any]]


@with_out_sharding
def poisson(
    key: ArrayLike, lam: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Integers from 0 on with the probabilities ``lam**k exp(-lam) / k!``.

    Knuth's method of multiplied uniform numbers below a mean of 10; from there on PTRS: Hörmann,
    "The transformed rejection method for generating Poisson random variables" (1993).

    Args:
      key: a key.
      lam: mean and variance, 0 or more: a number or an array, used as float32.
      shape: the shape of the result; that of ``lam`` if omitted.
      dtype: an integer dtype; the default integer if omitted.

    Returns:
      An array of that shape and dtype; 0 where ``lam`` is.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.
      UnavailableError: for a key of another generator than threefry2x32.

    >>> from functrax import random
    >>> random.poisson(random.key(0), 4.0, (3,)).dtype
    dtype('int32')
    """
    words, of_type = key_words("poisson", key), integer_dtype("poisson", dtype)
    if words.aval.shape != THREEFRY.inside:
        raise UnavailableError(
            "poisson is only implemented for keys of threefry2x32, as in JAX",
            got=f"a key whose words are {words.aval.str_short()}",
            fix="random.key(seed, impl='threefry2x32')",
        )
    mean = parameter("poisson", lam, dtypes.float32)
    sizes = broadcast_shape("poisson", shape, mean.aval.shape)
    return as_array(_poisson(words, repeated(mean, sizes), dtype=of_type))


@functools.partial(jit, static_argnames=("dtype",))
def _poisson(words: Value, lam: Any, dtype: DType) -> Any:
    rounds = min(int(dtypes.iinfo(dtype).max), _MOST_ROUNDS)
    small = jnp.isnan(lam) | (lam < 10)
    # The means of the other method are replaced by ones that it is quick with.
    few = _poisson_by_walk(words, jnp.where(small, lam, 0), dtype, rounds)
    many = _poisson_by_rejection(words, jnp.where(small, 1e5, lam), rounds)
    drawn = jnp.where(small, few, lax.convert_element_type(many, dtype))
    return jnp.where(lam == 0, 0, drawn)


def _poisson_by_walk(words: Value, lam: Any, dtype: DType, rounds: int) -> Any:
    """How many uniform numbers can be multiplied before the product is below ``exp(-lam)``."""

    def going(state: Any) -> Any:
        return (state[3] > -lam).any() & (state[0] < rounds)

    def step(state: Any) -> Any:
        i, count, words, total = state
        words, once = split_pair(words)
        u = uniform_sample(once, lam.shape, dtypes.float32)
        return i + 1, jnp.where(total > -lam, count + 1, count), words, total + lax.log(u)

    none = jnp.zeros(lam.shape, dtype)
    return while_loop(going, step, (0, none, words, jnp.zeros_like(lam)))[1] - 1


def _poisson_by_rejection(words: Value, lam: Any, rounds: int) -> Any:
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)

    def attempt(u: Any, v: Any, edge: Any) -> tuple[Any, Any]:
        k = lax.floor((2 * a / edge + b) * u + lam + 0.43)
        height = lax.log(v * inverse_alpha / (a / (edge * edge) + b))
        log_density = -lam + k * log_lam - lax.lgamma(k + 1)
        outside = (k < 0) | ((edge < 0.013) & (v > edge))
        return k, ((edge >= 0.07) & (v <= quick)) | (~outside & (height <= log_density))

    return _accepted(words, attempt, lam.shape, lam.dtype, rounds)


def _accepted(words: Value, attempt: Attempt, shape: Shape, dtype: DType, rounds: int) -> Any:
    """For each element the first ``k`` of an attempt that was accepted."""

    def going(state: Any) -> Any:
        return (~state[2]).any() & (state[0] < rounds)

    def again(state: Any) -> Any:
        i, drawn, done, words = state
        words = split_words(words, (3,))
        u = uniform_sample(words[1], shape, dtype) - 0.5
        v = uniform_sample(words[2], shape, dtype)
        k, accept = attempt(u, v, 0.5 - lax.abs(u))
        return i + 1, jnp.where(accept, k, drawn), done | accept, words[0]

    start = (0, jnp.full(shape, -1, dtype), jnp.zeros(shape, bool), words)
    return while_loop(going, again, start)[1]


def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """How many of ``n`` trials succeed, if each does with probability ``p``.

    Args:
      key: a key.
      n: the number of trials, 0 or more, of which a fraction is dropped.
      p: the probability; the work is done in its dtype, or the default float for integers.
      shape: the shape of the result; that of the parameters if omitted.
      dtype: a floating point dtype; the default float if omitted.

    Returns:
      Whole numbers; NaN where ``n`` or ``p`` is NaN or below 0, infinity where ``n`` is.  Their
      derivatives are 0.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    >>> from functrax import random
    >>> random.binomial(random.key(0), 10, 0.5, (3,)).shape
    (3,)
    """
    words, of_type = key_words("binomial", key), float_dtype("binomial", dtype)
    (chance,) = promote_dtypes("binomial", p, kind=inexact)
    trials = parameter("binomial", n, chance.aval.dtype)
    trials, chance = lax.stop_gradient((trials, chance))
    sizes = broadcast_shape("binomial", shape, trials.aval.shape, chance.aval.shape)
    chance = parameter("binomial", chance, chance.aval.dtype)
    return as_array(
        _binomial(words, repeated(trials, sizes), repeated(chance, sizes), dtype=of_type)
    )


@functools.partial(jit, static_argnames=("dtype",))
def _binomial(words: Value, n: Any, p: Any, dtype: DType) -> Any:
    rounds = int(min(float(dtypes.finfo(dtype).max), _MOST_ROUNDS))
    rare = p < 0.5
    q = jnp.where(rare, p, 1 - p)
    uncounted, unlikely = jnp.isnan(n) | (n < 0), jnp.isnan(q) | (q < 0)
    q = jnp.where(unlikely, 0.01, q)
    small = uncounted | (n * q <= 10)
    whole = lax.floor(n)
    few = _binomial_by_walk(words, jnp.where(small, whole, 0), q, rounds)
    # The elements of the other method get parameters that this one is quick with.
    many = _binomial_by_rejection(
        words, jnp.where(small, 1e4, whole), jnp.where(small, 0.5, q), rounds
    )
    drawn = lax.convert_element_type(jnp.where(small, few, many), dtype)
    endless = jnp.isinf(n)
    drawn = jnp.where(uncounted | unlikely, np.nan, jnp.where(endless, np.inf, drawn))
    kept = rare | uncounted | jnp.isnan(p) | endless
    return jnp.where(kept, drawn, lax.convert_element_type(whole, dtype) - drawn)


def _binomial_by_walk(words: Value, n: Any, p: Any, rounds: int) -> Any:
    """How many geometric waiting times fit into ``n``."""
    log_failure = jnp.log1p(-p)

    def going(state: Any) -> Any:
        return (state[2] <= n).any() & (state[0] < rounds)

    def step(state: Any) -> Any:
        i, count, total, words = state
        once, words = split_pair(words)
        waited = jnp.ceil(lax.log(uniform_sample(once, p.shape, p.dtype)) / log_failure)
        return i + 1, jnp.where(total <= n, count + 1, count), total + waited, words

    none = jnp.zeros_like(p)
    return while_loop(going, step, (0, none, none, words))[1] - 1


def _binomial_by_rejection(words: Value, n: Any, p: Any, rounds: int) -> Any:
    deviation = jnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    quick = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = jnp.floor((n + 1) * p)

    def log_density(k: Any) -> Any:
        """Its logarithm at ``k``, less that at the mode."""
        at_mode = (mode + 0.5) * lax.log((mode + 1) / (odds * (n - mode + 1)))
        between = (n + 1) * lax.log((n - mode + 1) / (n - k + 1))
        at_k = (k + 0.5) * lax.log(odds * (n - k + 1) / (k + 1))
        rest_of_mode = _stirling_rest(mode) + _stirling_rest(n - mode)
        return at_mode + between + at_k + rest_of_mode - _stirling_rest(k) - _stirling_rest(n - k)

    def attempt(u: Any, v: Any, edge: Any) -> tuple[Any, Any]:
        k = jnp.floor((2 * a / edge + b) * u + c)
        height = lax.log(v * alpha / (a / (edge * edge) + b))
        outside = (k < 0) | (k > n)
        return k, ((edge >= 0.07) & (v <= quick)) | (~outside & (height <= log_density(k)))

    return _accepted(words, attempt, p.shape, p.dtype, rounds)


def _stirling_rest(k: Any) -> Any:
    """``log(k!)`` less Stirling's formula; beyond 9 the value at 9 serves, as it does in JAX.

    That is 0.008 too much at most, and enters the density as a difference of such values.
    """
    place = jnp.where(k < 9, lax.max(k, k.dtype.type(0)), 9)  # 9 for NaN as well
    return jnp.asarray(_STIRLING_REST, k.dtype)[lax.convert_element_type(place, dtypes.int32)]


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """How often each of some classes occurs in ``n`` trials.

    Args:
      key: a key.
      n: the number of trials: a number or an array.
      p: the classes' probabilities along the last axis, up to a factor, ``[..., classes]``.
      shape: the shape of the result; that of ``p`` if omitted.
      dtype: a dtype; the default float if omitted.
      unroll: how many classes to draw in one step of the loop, as for ``lax.scan``.

    Returns:
      Counts, which add up to ``n`` along the last axis.

    Raises:
      ShapeError: if ``p`` is a number, or the shapes do not fit.
      DTypeError: if ``key`` is not a key.

    A binomial count for each class, of the trials that the classes before it have left.

    >>> from functrax import numpy as jnp, random
    >>> random.multinomial(random.key(0), 10, jnp.array([0.2, 0.3, 0.5])).sum()
    Array(10., dtype=float32)
    """
    words = key_words("multinomial", key)
    trials, chances = promote_dtypes("multinomial", n, p, kind=inexact)
    if not chances.aval.shape:
        raise ShapeError(
            "multinomial: the probabilities are not a vector",
            got=chances.aval.str_short(),
            fix="p [..., classes]",
        )
    sizes = broadcast_shape("multinomial", shape, chances.aval.shape)
    broadcast_shape("multinomial", sizes[:-1], trials.aval.shape)
    weights = jnp.moveaxis(as_array(repeated(chances, sizes)), -1, 0)
    left = lax.cumsum(weights, 0, reverse=True)
    ratios = weights / jnp.where(left == 0, 1, left)

    def draw(remaining: Any, step: Any) -> tuple[Any, Any]:
        ratio, once = step
        count = binomial(once, remaining, jnp.clip(ratio, 0, 1), dtype=remaining.dtype)
        return remaining - count, count

    start = as_array(repeated(trials, sizes[:-1]))
    each = (ratios, split_words(words, (ratios.shape[0],)))
    counts: Any = scan(draw, start, each, unroll=unroll)[1]
    asked = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    return as_array(jnp.moveaxis(counts, 0, -1).astype(dtypes.canonicalize_dtype(asked)))
