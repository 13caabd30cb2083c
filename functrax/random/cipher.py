"""Random bits: counters enciphered with a key.

The element at flat index ``i`` of a sample is made from the pair of words that threefry-2x32 gives
for the counter ``i``, whatever the rest of the shape; so every element can be made on its own.
This is the scheme that JAX calls partitionable, its default.  Two words make 64 bits, or 32 by xor,
of which 16 and 8 bits are the lowest.

Start at :func:`encipher`, and :func:`random_bits` on top of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.backends.recipes import with_recipe
from functrax.core import dtypes
from functrax.core.primitive import Value, literal
from functrax.core.prims.arithmetic import and_, or_, xor
from functrax.core.prims.bitwise import shift_left, shift_right_logical, threefry2x32
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim, iota, reshape
from functrax.core.prims.slicing import slice_

_U32, _U64 = dtypes.uint32, dtypes.uint64
_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: _U32, 64: _U64}
_ZERO = literal(0, _U32)


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
      words: the key, ``uint32[2]``.
      width: how many bits.
      shape: the shape of the result.
    """
    first, second = encipher(words, shape)
    if width == 64:
        high = shift_left.bind(_narrowed(first, _U64), literal(32, _U64))
        return or_.bind(high, _narrowed(second, _U64))
    mixed = xor.bind(first, second)
    return mixed if width == 32 else _narrowed(mixed, _UNSIGNED[width])
