"""Samples of integers and truth values.

The formulas, and with them the numbers for a key, are those of ``jax.random``.

Start at :func:`randint`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.eager.cached_traces import with_long_recipe_of_keys, with_recipe_of_keys
from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError
from functrax.core.prims.ordering import top_k
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.operands import as_array
from functrax.random.cipher import random_bits, unsigned
from functrax.random.continuous import gumbel_sample, uniform_sample
from functrax.random.keys import key_words, split_pair
from functrax.random.shapes import (
    DType,
    Shape,
    broadcast_shape,
    checked_shape,
    integer_dtype,
    parameter,
    repeated,
)
from functrax.typing import ArrayLike, DTypeLike, ShapeLike


@with_long_recipe_of_keys
@with_out_sharding
def randint(
    key: ArrayLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
) -> Array:
    """Integers from ``minval`` (included) to ``maxval`` (not included), nearly all as likely.

    Args:
      key: a key.
      shape: the shape of the result.
      minval, maxval: integers, or arrays that broadcast to the shape; cut to what the dtype can
        hold.  Where ``maxval`` is not above ``minval`` the result is ``minval``.
      dtype: an integer dtype; the default integer if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError: for another kind of dtype, or if ``key`` is not a key.
      ShapeError: if a size is negative, or the bounds do not broadcast to the shape.
      IntegerOverflowError: for a bound that the default integer cannot hold.

    The remainder of twice as many random bits as the dtype has; of 64 bits at least.

    >>> from functrax import random
    >>> random.randint(random.key(0), (4,), 0, 10)
    Array([9, 0, 2, 3], dtype=int32)
    """
    words, sizes = key_words("randint", key), checked_shape("randint", shape)
    of_type = integer_dtype("randint", dtype)
    low, high = (_integer(x) for x in (minval, maxval))
    broadcast_shape("randint", sizes, low.aval.shape, high.aval.shape)
    working = of_type
    if of_type.itemsize < 4:
        working, info = dtypes.int32, dtypes.iinfo(of_type)
        low, high = (parameter("randint", x, working) for x in (low, high))
        low = jnp.clip(low, int(info.min), int(info.max))
        high = jnp.clip(high, int(info.min), int(info.max) + 1)
    if low.aval.shape or high.aval.shape:
        low, high = repeated(low, sizes), repeated(high, sizes)
    return as_array(parameter("randint", _between(words, sizes, low, high, working), of_type))


def _integer(given: Any) -> Value:
    """A bound as an integer array of its own dtype; numbers of other kinds lose their fraction."""
    value = as_value(given, "a bound of randint")
    known = dtypes.is_integer(value.aval.dtype)
    return parameter("randint", value, value.aval.dtype if known else dtypes.default_int())


def _clipped(x: Any, dtype: DType) -> Any:
    """Integers in another dtype; those outside of it become its ends."""
    own, new = dtypes.iinfo(x.dtype), dtypes.iinfo(dtype)
    inside = jnp.clip(x, max(int(own.min), int(new.min)), min(int(own.max), int(new.max)))
    return lax.convert_element_type(inside, dtype)


def _between(words: Value, shape: Shape, minval: Any, maxval: Any, dtype: DType) -> Any:
    """:func:`randint` of checked arguments and at least 32 bits."""
    highest = min(int(dtypes.iinfo(dtype).max), int(dtypes.iinfo(maxval.dtype).max))
    beyond = lax.gt(maxval, np.asarray(highest, maxval.dtype)[()])
    low, high = _clipped(minval, dtype), _clipped(maxval, dtype)
    width = 8 * dtype.itemsize
    whole = unsigned(width)
    more, less = (as_array(random_bits(w, width, shape)) for w in split_pair(words))
    span = lax.convert_element_type(lax.sub(high, low), whole)
    span = jnp.where(lax.le(high, low), whole.type(1), span)
    # A span of all the numbers there are wraps to 0, and a remainder by 0 changes nothing.
    span = span + lax.convert_element_type(lax.bitwise_and(beyond, lax.gt(high, low)), whole)
    half = lax.rem(whole.type(1 << width // 2), span)
    factor = lax.rem(lax.mul(half, half), span)
    offset = lax.add(lax.mul(lax.rem(more, span), factor), lax.rem(less, span))
    return lax.add(low, lax.convert_element_type(lax.rem(offset, span), dtype))


@with_recipe_of_keys
@with_out_sharding
def bernoulli(
    key: ArrayLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None, mode: str = "low"
) -> Array:
    """Truth values that hold with probability ``p``.

    Args:
      key: a key.
      p: the probability, a float or an array of floats, whose dtype the work is done in.
      shape: the shape of the result; that of ``p`` if omitted.
      mode: ``"low"``, in which float32 probabilities below 1e-7 count as 0, or ``"high"``, which
        takes twice the bits.

    Returns:
      An array of bool, of that shape.

    Raises:
      ArgumentError: for another mode.
      DTypeError: if ``p`` is not floating point, or ``key`` not a key.
      ShapeError: if ``p`` does not broadcast to the shape.

    >>> from functrax import random
    >>> random.bernoulli(random.key(0), 0.95, (3,))
    Array([ True, False,  True], dtype=bool)
    """
    words = key_words("bernoulli", key)
    if mode not in ("low", "high"):
        raise ArgumentError("bernoulli: unknown mode", got=repr(mode), fix="'low' or 'high'")
    given = as_value(p, "the probability of bernoulli")
    dtype = given.aval.dtype
    if not dtypes.is_float(dtype):
        raise DTypeError(
            "bernoulli: the probability is not floating point",
            got=given.aval.str_short(),
            fix="a float such as 0.5, or p.astype(float)",
        )
    sizes = broadcast_shape("bernoulli", shape, given.aval.shape)
    limit: Any = repeated(parameter("bernoulli", given, dtype), sizes)
    if mode == "low":
        return lax.lt(uniform_sample(words, sizes, dtype), limit)
    first, second = uniform_sample(words, (2, *sizes), dtype)
    return lax.lt(lax.mul(second, 2.0 ** -dtypes.finfo(dtype).nmant), lax.sub(limit, first))


@with_recipe_of_keys
@with_out_sharding
def rademacher(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """1 or -1, both as likely.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the dtype of the result; the default integer if omitted.

    Returns:
      An array of that shape and dtype.

    Raises:
      DTypeError, ShapeError: for unknown dtypes, bad shapes, and what is not a key.

    >>> from functrax import random
    >>> random.rademacher(random.key(0), (4,))
    Array([-1, -1,  1,  1], dtype=int32)
    """
    asked = dtypes.canonicalize_dtype(dtypes.as_dtype(int if dtype is None else dtype))
    heads: Any = bernoulli(key, 0.5, checked_shape("rademacher", shape))
    return as_array((2 * heads.astype(asked) - 1).astype(asked))


@with_out_sharding
def geometric(
    key: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None
) -> Array:
    """How many trials it takes until one succeeds, if each does with probability ``p``.

    Args:
      key: a key.
      p: the probability, between 0 and 1.
      shape: the shape of the result; that of ``p`` if omitted.
      dtype: an integer dtype; the default integer if omitted.

    Returns:
      An array of that shape and dtype; 1 and more.

    Raises:
      DTypeError, ShapeError: for other dtypes, shapes that do not fit, and what is not a key.

    ``floor(log(u) / log(1 - p)) + 1`` of a uniform ``u``.

    >>> from functrax import random
    >>> random.geometric(random.key(0), 0.3, (3,)).shape
    (3,)
    """
    words, of_type = key_words("geometric", key), integer_dtype("geometric", dtype)
    given = as_value(p, "the probability of geometric")
    known = dtypes.is_float(given.aval.dtype)
    chance: Any = parameter(
        "geometric", given, given.aval.dtype if known else dtypes.default_float()
    )
    sizes = broadcast_shape("geometric", shape, chance.shape)
    u = uniform_sample(words, sizes, chance.dtype)
    u = jnp.where(u == 0, 1.0, u)
    trials = jnp.floor(jnp.log(u) / jnp.log1p(-chance)) + 1
    return lax.convert_element_type(trials, of_type)


@with_recipe_of_keys
@with_out_sharding
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Classes drawn with given logarithms of probabilities.

    Args:
      key: a key.
      logits: a floating point array; along ``axis`` the logarithms of the classes' probabilities,
        up to a constant.
      axis: the axis of the classes, which the result does not have.
      shape: the shape of the result, which ends in that of ``logits`` without ``axis``; just that
        if omitted.
      replace: whether a class may be drawn twice by the draws that ``shape`` adds in front.
      mode: as for :func:`gumbel`.

    Returns:
      Numbers of classes, of the default integer dtype.

    Raises:
      AxisError: if there is no such axis.
      ShapeError: if the shape does not fit, or if there are too few classes.
      DTypeError: if ``logits`` is not floating point, or ``key`` not a key.

    The place of the largest sum of logit and Gumbel sample (or of the largest ones).

    >>> import numpy as np
    >>> from functrax import random
    >>> random.categorical(random.key(0), np.log(np.float32([0.1, 0.2, 0.7])), shape=(5,))
    Array([1, 2, 2, 1, 2], dtype=int32)
    """
    words = key_words("categorical", key)
    values = _logits(logits)
    ndim = values.aval.ndim
    if not -ndim <= axis < ndim:
        raise AxisError(
            "categorical: no such axis",
            got=f"axis {axis} of {values.aval.str_short()}",
            fix=f"an axis from {-ndim} to {ndim - 1}",
        )
    axis %= ndim
    batch = values.aval.shape[:axis] + values.aval.shape[axis + 1 :]
    sizes = broadcast_shape("categorical", shape, batch)
    prefix, inner = sizes[: len(sizes) - len(batch)], sizes[len(sizes) - len(batch) :]
    if not replace:
        return _without_replacement(words, values, axis, prefix, inner, mode)
    drawn = (*prefix, *inner[:axis], values.aval.shape[axis], *inner[axis:])
    noise = gumbel_sample(words, drawn, values.aval.dtype, mode, "categorical")
    scores = lax.add(noise, repeated(values, drawn))
    return lax.argmax(scores, len(prefix) + axis, dtypes.default_int())


def _logits(given: Any) -> Value:
    value = as_value(given, "the logits of categorical")
    if dtypes.is_float(value.aval.dtype):
        return value
    raise DTypeError(
        "categorical: the logits are not floating point",
        got=value.aval.str_short(),
        fix="logits.astype(float)",
    )


def _without_replacement(
    words: Value, values: Value, axis: int, prefix: Shape, inner: Shape, mode: str | None
) -> Array:
    count, dtype = math.prod(prefix), values.aval.dtype
    classes = values.aval.shape[axis]
    if count > classes:
        raise ShapeError(
            "categorical: Number of samples without replacement is above that of the classes",
            got=f"{count} draws of {classes} classes",
            fix="replace=True, or fewer draws",
        )
    noise = gumbel_sample(words, values.aval.shape, dtype, mode, "categorical")
    scores = jnp.moveaxis(lax.add(noise, values), axis, -1)
    _, places = top_k.bind(scores, k=count, axis=scores.ndim - 1)
    return as_array(jnp.moveaxis(places, -1, 0).reshape((*prefix, *inner)))
