"""Permutations, and elements chosen from an array.

An array is shuffled by sorting it by random keys, several times over so that equal keys do not
matter.  The orders for a key are those of ``jax.random``.

Start at :func:`permutation`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.eager.cached_traces import with_long_recipe_of_keys
from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError
from functrax.core.prims.ordering import sort, top_k
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.operands import as_array
from functrax.random.cipher import random_bits
from functrax.random.continuous import gumbel_sample, uniform_sample
from functrax.random.discrete import randint
from functrax.random.key_array import KeyArray
from functrax.random.keys import key_words, split_pair
from functrax.random.shapes import Shape, checked_shape
from functrax.typing import ArrayLike

#: Sorting by 32 bits this often leaves ties as good as never: rounds = 3 log(size) / log(2**32).
_ROUNDS_PER_LOG = 3 / math.log(0xFFFFFFFF)


@with_long_recipe_of_keys
@with_out_sharding
def permutation(
    key: ArrayLike, x: int | ArrayLike, axis: int = 0, independent: bool = False
) -> Array:
    """An array in random order.

    Args:
      key: a key.
      x: an array, also of keys, or an integer, which stands for the integers below it.
      axis: the axis along which elements change places.
      independent: whether each vector along the axis gets an order of its own.

    Returns:
      An array of the shape and dtype of ``x``; of an integer, a vector.

    Raises:
      AxisError: if there is no such axis.
      DTypeError: if ``x`` is a number but not an integer, or ``key`` not a key.

    >>> from functrax import random
    >>> random.permutation(random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    words = key_words("permutation", key)
    if isinstance(x, KeyArray):
        return _permuted_keys(key, x, axis, independent)
    values, place = _population("permutation", x), _axis("permutation", x, axis)
    if independent or values.ndim == 1:
        return as_array(_shuffled(words, values, place))
    order = _shuffled(words, jnp.arange(values.shape[place]), 0)
    return as_array(_taken(values, order, place))


def _permuted_keys(key: Any, keys: KeyArray, axis: int, independent: bool) -> Any:
    if independent and keys.ndim > 1:
        raise ArgumentError(
            "permutation: keys are shuffled together, not independently",
            got=f"keys of shape {keys.shape} and independent=True",
            fix="functrax.vmap(random.permutation)(random.split(key, n), keys) over n rows",
        )
    return type(keys)(permutation(key, keys.words, _axis("permutation", keys, axis)))


def _population(name: str, x: Any) -> Any:
    """What is permuted or chosen from; an integer stands for the integers below it."""
    value = as_value(x, f"the array of {name}")
    if value.aval.shape:
        return value
    if not dtypes.is_integer(value.aval.dtype):
        raise DTypeError(
            f"{name} takes an array or an integer", got=f"{x!r}", fix="an array of rank 1 or more"
        )
    return jnp.arange(operator.index(x))


def _axis(name: str, x: Any, axis: int) -> int:
    ndim = np.ndim(x) or 1
    if -ndim <= axis < ndim:
        return axis % ndim
    raise AxisError(
        f"{name}: no such axis",
        got=f"axis {axis} of an array of rank {ndim}",
        fix=f"an axis from {-ndim} to {ndim - 1}",
    )


def _taken(x: Any, places: Any, axis: int) -> Any:
    return x[(slice(None),) * axis + (places,)]


def _shuffled(words: Value, x: Any, axis: int) -> Any:
    rounds = math.ceil(_ROUNDS_PER_LOG * math.log(max(1, x.size)))
    for _ in range(rounds):
        words, once = split_pair(words)
        by = random_bits(once, 32, x.shape)
        _, x = sort.bind(by, x, dimension=axis, is_stable=True, num_keys=1)
    return x


@with_long_recipe_of_keys
def choice(
    key: ArrayLike,
    a: int | ArrayLike,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Elements chosen from an array.

    Args:
      key: a key.
      a: an array, also of keys, or an integer, which stands for the integers below it.
      shape: how many to choose, as a shape.
      replace: whether an element may be chosen twice.
      p: the probability of each place along ``axis``, an array of rank 1; all alike if omitted.
      axis: the axis along which to choose; the result has the axes of ``shape`` instead.
      mode: as for :func:`gumbel`; matters with ``p`` and without replacement.

    Returns:
      An array of the dtype of ``a``.

    Raises:
      AxisError: if there is no such axis.
      ShapeError: if ``shape`` is no sequence, ``p`` has another size than the axis, or there are
        too few elements.
      DTypeError: if ``a`` is a number but not an integer, or ``key`` not a key.

    >>> from functrax import random
    >>> random.choice(random.key(0), 10, (3,), replace=False)
    Array([0, 1, 8], dtype=int32)
    """
    words = key_words("choice", key)
    if isinstance(a, KeyArray):
        chosen_words = choice(key, a.words, shape, replace, p, _axis("choice", a, axis), mode)
        return type(a)(chosen_words)
    if not isinstance(shape, (tuple, list)):
        raise ShapeError("choice: the shape is not a sequence", got=repr(shape), fix="a tuple")
    sizes = checked_shape("choice", shape)
    single = not np.ndim(a)
    values, place = _population("choice", a), _axis("choice", a, axis)
    count, size = math.prod(sizes), values.shape[place]
    whole = (*values.shape[:place], *sizes, *values.shape[place + 1 :])
    if count == 0:
        return as_array(jnp.zeros(sizes if single else whole, values.dtype))
    _check_sizes(count, size, replace)
    chosen: Any
    if p is not None:
        chosen = _places_by_weight(words, _weights(p, size), sizes, replace, mode)
    elif replace:
        chosen = randint(words, sizes, 0, size)
    else:
        order = permutation(words, a, place)
        return as_array(_taken(order, slice(count), place).reshape(whole))
    picked = chosen if single else _taken(values, chosen, place)
    return as_array(picked.reshape(whole))


def _check_sizes(count: int, size: int, replace: bool) -> None:
    if size <= 0:
        raise ShapeError(
            "choice: nothing to choose from",
            got=f"{count} of {size} elements",
            fix="a larger array",
        )
    if not replace and count > size:
        raise ShapeError(
            "choice: more to choose without replacement than there are",
            got=f"{count} of {size} elements",
            fix="replace=True, or a smaller shape",
        )


def _weights(p: Any, size: int) -> Any:
    value = as_value(p, "the probabilities of choice")
    if value.aval.shape != (size,):
        raise ShapeError(
            "choice: needs one probability for each element",
            got=f"p of shape {value.aval.shape} for {size} elements",
            fix=f"an array of shape ({size},)",
        )
    if dtypes.is_float(value.aval.dtype):
        return value
    return lax.convert_element_type(value, dtypes.default_float())


def _places_by_weight(
    words: Value, weights: Any, shape: Shape, replace: bool, mode: str | None
) -> Any:
    if not replace:
        noise = gumbel_sample(words, weights.shape, weights.dtype, mode, "choice")
        scores = lax.add(noise, lax.log(weights))
        _, places = top_k.bind(scores, k=math.prod(shape), axis=0)
        return lax.convert_element_type(places, dtypes.default_int())
    total = jnp.cumsum(weights)
    drawn = total[-1] * (1 - uniform_sample(words, shape, total.dtype))
    return _count_below(total, drawn)


def _count_below(ascending: Any, values: Any) -> Any:
    """How many of some numbers in ascending order are below each value, by bisection."""
    size = ascending.shape[0]
    count = jnp.zeros(values.shape, dtypes.default_int())
    for bit in reversed(range(size.bit_length())):
        tried = count + (1 << bit)
        last = ascending[jnp.minimum(tried, size) - 1]
        count = jnp.where((tried <= size) & (last < values), tried, count)
    return count
