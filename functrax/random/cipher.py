"""Random bits: counters enciphered with a key.

The element at flat index ``i`` of a sample is made from the pair of words that threefry-2x32 gives
for the counter ``i``, whatever the rest of the shape; so every element can be made on its own.
This is the scheme that JAX calls partitionable, its default.  Two words make 64 bits, or 32 by xor,
of which 16 and 8 bits are the lowest.

JAX's older scheme, which ``threefry_partitionable=False`` asks for, enciphers the first half of the
flat indices together with the second: the words of a pair go to both halves.  All of a sample is
made for any of it, and the numbers are others.

Start at :func:`encipher`, and :func:`random_bits` on top of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.backends.eager.cached_traces import with_recipe
from functrax.core.errors.typed import UnavailableError
from functrax.core.options.config import state as options
from functrax.core.prims.bitwise import shift_left, shift_right_logical, threefry2x32
from functrax.core.prims.comparisons import and_, or_, xor
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim, iota, reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.tracing.primitive import Value, literal
from functrax.core.types import dtypes
from functrax.random.implementations import RBG, THREEFRY, UNSAFE_RBG

_U32, _U64 = dtypes.uint32, dtypes.uint64
_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: _U32, 64: _U64}
_ZERO = literal(0, _U32)
_LOW_WORD = 0xFFFFFFFF
_THREEFRY = THREEFRY.inside


def unsigned(width: int) -> np.dtype[Any]:
    """The dtype of unsigned integers of so many bits."""
    return _UNSIGNED[width]


def encipher(
    words: Value, shape: tuple[int, ...], counter: Value | None = None
) -> tuple[Value, Value]:
    """Two random words for each place of a shape.

    Args:
      words: the key, ``uint32[2]``.
      shape: the shape.
      counter: what to encipher, ``uint32[*shape]``; the flat index if omitted.
    """
    high = _ZERO
    if counter is None:
        high, counter = _counters(shape)
    first, second = (broadcast_in_dim.bind(_word(words, i), shape=shape, dims=()) for i in (0, 1))
    out = threefry2x32.bind(first, second, high, counter)
    return out[0], out[1]


def _word(words: Value, i: int) -> Value:
    return reshape.bind(slice_.bind(words, start=(i,), limit=(i + 1,), strides=(1,)), shape=())


def _counters(shape: tuple[int, ...]) -> tuple[Value, Value]:
    """The high and the low word of each flat index."""
    size = math.prod(shape)
    if not shape:
        return _ZERO, _ZERO
    if size <= 1 << 32:
        low = iota.bind(shape=(size,), dtype=_U32, axis=0)
        return _ZERO, reshape.bind(low, shape=shape)
    index = reshape.bind(iota.bind(shape=(size,), dtype=_U64, axis=0), shape=shape)
    high = shift_right_logical.bind(index, literal(32, _U64))
    low = and_.bind(index, literal(0xFFFFFFFF, _U64))
    return _narrowed(high, _U32), _narrowed(low, _U32)


def _narrowed(x: Value, dtype: np.dtype[Any]) -> Value:
    return convert_element_type.bind(x, dtype=dtype, weak_type=False)


@with_recipe
def random_bits(words: Value, width: int, shape: tuple[int, ...]) -> Value:
    """Uniform unsigned integers of 8, 16, 32 or 64 bits.

    Args:
      words: the key, of any generator.
      width: how many bits.
      shape: the shape of the result.
    """
    if words.aval.shape != _THREEFRY:
        from functrax.random.rbg import rbg_bits

        return rbg_bits(words, _UNSIGNED[width], shape)
    if not options.threefry_partitionable:
        return _bits_of_halves(words, width, shape)
    first, second = encipher(words, shape)
    if width == 64:
        high = shift_left.bind(_narrowed(first, _U64), literal(32, _U64))
        return or_.bind(high, _narrowed(second, _U64))
    mixed = xor.bind(first, second)
    return mixed if width == 32 else _narrowed(mixed, _UNSIGNED[width])


@with_recipe
def split_words(words: Value, shape: tuple[int, ...] = (2,)) -> Value:
    """The words of new keys, ``uint32[*shape, 2]``: the place of each, enciphered.

    Those of another generator have more axes or more words, as the old one has.
    """
    if words.aval.shape == UNSAFE_RBG.inside:
        from functrax.random.rbg import unsafe_split

        return unsafe_split(words, shape)
    if words.aval.shape == RBG.inside:
        from functrax.random.rbg import beside, halves

        return beside(*(split_words(half, shape) for half in halves(words)))
    if not options.threefry_partitionable:
        return reshape.bind(_enciphered_halves(words, 2 * math.prod(shape)), shape=(*shape, 2))
    return joined(*encipher(words, shape))


def folded_words(words: Value, number: Value) -> Value:
    """The words of a new key, made from an old one and a number, ``uint32[]``."""
    if words.aval.shape == UNSAFE_RBG.inside:
        from functrax.random.rbg import unsafe_fold

        return unsafe_fold(words, joined(_ZERO, number, _ZERO, number))
    if words.aval.shape == RBG.inside:
        from functrax.random.rbg import beside, halves

        return beside(*(folded_words(half, number) for half in halves(words)))
    return joined(*encipher(words, (), number))


def joined(*words: Value) -> Value:
    """Arrays of words as a new last axis."""
    shape = words[0].aval.shape
    columns = [reshape.bind(word, shape=(*shape, 1)) for word in words]
    return concatenate.bind(*columns, axis=len(shape))


def _enciphered_halves(words: Value, count: int) -> Value:
    """Words ``uint32[count]`` of the older scheme."""
    if count > _LOW_WORD:
        raise UnavailableError(
            "random: the older scheme counts with 32 bits, and does not reach as far",
            got=f"{count} words with threefry_partitionable=False",
            fix="functrax.config.update('threefry_partitionable', True), or smaller samples",
        )
    half = (count + 1) // 2
    places = iota.bind(shape=(count,), dtype=_U32, axis=0)
    if count % 2:
        last = broadcast_in_dim.bind(_ZERO, shape=(1,), dims=())
        places = concatenate.bind(places, last, axis=0)
    low, high = (_part(places, i * half, (i + 1) * half) for i in (0, 1))
    first, second = (broadcast_in_dim.bind(_word(words, i), shape=(half,), dims=()) for i in (0, 1))
    out = concatenate.bind(*threefry2x32.bind(first, second, low, high), axis=0)
    return _part(out, 0, count)


def _part(x: Value, start: int, limit: int) -> Value:
    return slice_.bind(x, start=(start,), limit=(limit,), strides=(1,))


def _bits_of_halves(words: Value, width: int, shape: tuple[int, ...]) -> Value:
    """As :func:`random_bits`, by the older scheme."""
    size = math.prod(shape)
    count = -(-size * width // 32)
    bits = _enciphered_halves(words, count)
    if width == 64:
        high, low = (_narrowed(_part(bits, i * size, (i + 1) * size), _U64) for i in (0, 1))
        bits = or_.bind(shift_left.bind(high, literal(32, _U64)), low)
    elif width < 32:
        rows = 32 // width
        places = iota.bind(shape=(count, rows), dtype=_U32, axis=1)
        by = shift_left.bind(places, literal(width.bit_length() - 1, _U32))
        each = broadcast_in_dim.bind(bits, shape=(count, rows), dims=(0,))
        narrow = _narrowed(shift_right_logical.bind(each, by), _UNSIGNED[width])
        bits = _part(reshape.bind(narrow, shape=(rows * count,)), 0, size)
    return reshape.bind(bits, shape=shape)
