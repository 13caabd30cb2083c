"""Keys for XLA's generator of random bits, as JAX makes and uses them.

Bits come from the generator, by Philox.  Keys of ``rbg`` are two keys of threefry, each of which
makes its half of new keys; ``unsafe_rbg`` makes new keys of bits, too.  Under ``vmap`` over keys
the first key makes the bits of all, as in JAX.

Start at :func:`rbg_bits`.
"""

from __future__ import annotations

import math
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.prims.comparisons import xor
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.generators import RandomAlgorithm, generated

_U32 = dtypes.uint32
#: Of so many rows of bits one is a new key.
_ROWS = 10


def rbg_bits(words: Value, dtype: Any, shape: tuple[int, ...]) -> Array:
    """Uniform unsigned integers of a dtype."""
    state = reshape.bind(words, shape=(4,))
    return generated(state, shape, dtype, RandomAlgorithm.RNG_DEFAULT)[1]


def unsafe_split(words: Value, shape: tuple[int, ...]) -> Value:
    """The words of new keys, ``uint32[*shape, 4]``."""
    count = math.prod(shape)
    bits = rbg_bits(words, _U32, (_ROWS * count, 4))
    rows = slice_.bind(bits, start=(0, 0), limit=(_ROWS * count, 4), strides=(_ROWS, 1))
    out: Value = reshape.bind(rows, shape=(*shape, 4))
    return out


def unsafe_fold(words: Value, state: Value) -> Value:
    """The words of the new key, ``uint32[4]``, for the state that a number is the seed of."""
    bits = rbg_bits(state, _U32, (_ROWS, 4))
    last = slice_.bind(bits, start=(_ROWS - 1, 0), limit=(_ROWS, 4), strides=(1, 1))
    out: Value = xor.bind(words, reshape.bind(last, shape=(4,)))
    return out


def halves(words: Value) -> list[Value]:
    """The two keys of threefry that a key of ``rbg`` is made of."""
    return [
        reshape.bind(slice_.bind(words, start=(i, 0), limit=(i + 1, 2), strides=(1, 1)), shape=(2,))
        for i in (0, 1)
    ]


def beside(first: Value, second: Value) -> Value:
    """Halves of keys, ``uint32[..., 2]``, as keys, ``uint32[..., 2, 2]``."""
    shape = (*first.aval.shape[:-1], 1, 2)
    pair = (reshape.bind(half, shape=shape) for half in (first, second))
    out: Value = concatenate.bind(*pair, axis=len(shape) - 2)
    return out
