"""XLA's generators of random bits, bit for bit as XLA computes them on the CPU.

The state is a key of 64 bits and a counter.  Threefry-2x32 enciphers the counter's 64 bits for each
pair of words, Philox-4x32-10 its 128 bits, whose upper half begins as the key, for each four (both
of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).  All of it is made of
elementwise operations.

Under ``vmap`` over states the first state makes the bits of all, as in jax.lax: what differs from
state to state is only where a generator goes on.

Start at :func:`rng_bit_generator`.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.prims.arithmetic import add, mul
from functrax.core.prims.bitwise import mulhi, shift_left, shift_right_logical, threefry2x32
from functrax.core.prims.comparisons import and_, lt, or_, xor
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim, iota, reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.tracing.primitive import Value, literal
from functrax.core.types import dtypes
from functrax.lax.operands import Shape, as_array, as_ints, dtype_of, value_of
from functrax.transforms.user_rules.custom_vmap import custom_vmap
from functrax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from functrax.backends.sharding.shardings import Sharding

_U32, _U64 = dtypes.uint32, dtypes.uint64
_UPPER = literal(32, _U64)
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


class RandomAlgorithm(enum.IntEnum):
    """Which generator :func:`rng_bit_generator` uses; Philox by default."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def rng_bit_generator(
    key: ArrayLike,
    shape: Sequence[int],
    dtype: DTypeLike = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Sharding | None = None,
) -> tuple[Array, Array]:
    """Uniform random bits from a state, and the state that comes after it.

    ``functrax.random`` has more to offer; this is XLA's generator, with XLA's bits.

    Args:
      key: the state, ``uint32[4]`` or ``uint64[2]``.
      shape: the shape of the bits.
      dtype: an unsigned integer dtype.
      algorithm: the generator.
      out_sharding: where the bits are to lie, or None.

    Returns:
      The new state, and the bits.

    Raises:
      DTypeError: for another dtype.
      ShapeError: for what is no state.

    >>> import numpy as np
    >>> from functrax import lax
    >>> state, bits = lax.rng_bit_generator(np.arange(1, 5, dtype="uint32"), (3,))
    >>> state, bits
    (Array([1, 2, 4, 4], dtype=uint32), Array([ 512747620, 1298009047, 1267190206], dtype=uint32))
    """
    name = "rng_bit_generator"
    state = value_of(name, key)
    sizes = as_ints(name, shape)
    wanted = dtype_of(dtype)
    if wanted not in (dtypes.uint8, dtypes.uint16, _U32, _U64):
        raise DTypeError(
            f"{name}: unsupported dtype {wanted}", got=str(wanted), fix="an unsigned integer dtype"
        )
    if (state.aval.dtype, state.aval.shape) not in ((_U32, (4,)), (_U64, (2,))):
        raise ShapeError(
            f"{name}: the key is no state of a generator",
            got=state.aval.str_short(),
            fix="uint32[4], or uint64[2]",
        )
    new, bits = generated(state, sizes, wanted, RandomAlgorithm(algorithm))
    if out_sharding is not None:
        from functrax.backends.sharding.moving import on_sharding

        bits = on_sharding(bits, out_sharding, name)
    return new, bits


def generated(
    state: Value, shape: Shape, dtype: np.dtype[Any], algorithm: RandomAlgorithm
) -> tuple[Array, Array]:
    """As :func:`rng_bit_generator`, of arguments that are known to be right."""

    @custom_vmap
    def generate(given: Any) -> tuple[Array, Array]:
        words = _words(given)
        make = _threefry if algorithm == RandomAlgorithm.RNG_THREE_FRY else _philox
        bits, count = make(words, shape, dtype)
        low = add.bind(words[2], literal(count & 0xFFFFFFFF, _U32))
        carry = _narrow(lt.bind(low, words[2]), _U32)
        high = add.bind(add.bind(words[3], carry), literal(count >> 32, _U32))
        return as_array(_like_state(given, (words[0], words[1], low, high))), as_array(bits)

    @generate.def_vmap
    def rule(size: int, batched: Any, given: Any) -> Any:
        if not batched[0]:
            return generate(given), (False, False)
        rest = given.aval.shape[1:]
        first = _part(given, (0,) * (len(rest) + 1), (1, *rest))
        first = reshape.bind(first, shape=rest)
        new, bits = generated(first, (size, *shape), dtype, algorithm)
        return (_with_first(given, new), bits), (True, True)

    new, bits = generate(as_array(state))
    return new, bits


def _with_first(states: Value, new: Value) -> Value:
    """The states with another first one."""
    rest = states.aval.shape[1:]
    others = _part(states, (1, *(0 for _ in rest)), states.aval.shape)
    return concatenate.bind(reshape.bind(new, shape=(1, *rest)), others, axis=0)


def _part(x: Value, start: Shape, limit: Shape) -> Value:
    out: Value = slice_.bind(x, start=start, limit=limit, strides=(1,) * len(start))
    return out


def _narrow(x: Value, dtype: np.dtype[Any]) -> Value:
    out: Value = convert_element_type.bind(x, dtype=dtype, weak_type=False)
    return out


def _words(state: Value) -> list[Value]:
    """The four words of a state, scalars."""
    parts = [
        reshape.bind(_part(state, (i,), (i + 1,)), shape=()) for i in range(state.aval.shape[0])
    ]
    if state.aval.dtype == _U32:
        return parts
    halves = ((x, shift_right_logical.bind(x, _UPPER)) for x in parts)
    low = literal(0xFFFFFFFF, _U64)
    return [_narrow(and_.bind(x, low), _U32) for x in itertools.chain(*halves)]


def _like_state(state: Value, words: Sequence[Value]) -> Value:
    parts = list(words)
    if state.aval.dtype == _U64:
        parts = [_wide(parts[0], parts[1]), _wide(parts[2], parts[3])]
    return concatenate.bind(*(reshape.bind(x, shape=(1,)) for x in parts), axis=0)


def _wide(low: Value, high: Value) -> Value:
    """64 bits from two words."""
    upper = shift_left.bind(_narrow(high, _U64), _UPPER)
    out: Value = or_.bind(_narrow(low, _U64), upper)
    return out


def _counters(words: Sequence[Value], count: int) -> list[Value]:
    """A counter of so many words, least significant first, plus 0, 1, ..., ``count - 1``."""
    if count >> 32:
        index = iota.bind(shape=(count,), dtype=_U64, axis=0)
        added = [_narrow(x, _U32) for x in (index, shift_right_logical.bind(index, _UPPER))]
    else:
        added = [iota.bind(shape=(count,), dtype=_U32, axis=0)]
    out: list[Value] = []
    carry: Value | None = None
    for place, word in enumerate(words):
        total = broadcast_in_dim.bind(word, shape=(count,), dims=())
        carries = []
        for more in (added[place] if place < len(added) else None, carry):
            if more is not None:
                total = add.bind(total, more)
                carries.append(lt.bind(total, more))
        carry = _narrow(carries[0] if len(carries) == 1 else or_.bind(*carries), _U32)
        out.append(total)
    return out


def _philox(words: Sequence[Value], shape: Shape, dtype: np.dtype[Any]) -> tuple[Value, int]:
    """Bits of a shape, and by how much the counter went up."""
    size = math.prod(shape)
    per_block = 2 if dtype == _U64 else 4
    count = -(-size // per_block)
    x = _counters((words[2], words[3], words[0], words[1]), count)
    key = list(words[:2])
    for _ in range(_ROUNDS):
        factors = [literal(m, _U32) for m in _MULTIPLIERS]
        keys = [broadcast_in_dim.bind(k, shape=(count,), dims=()) for k in key]
        x = [
            xor.bind(xor.bind(mulhi.bind(x[2], factors[1]), x[1]), keys[0]),
            mul.bind(x[2], factors[1]),
            xor.bind(xor.bind(mulhi.bind(x[0], factors[0]), x[3]), keys[1]),
            mul.bind(x[0], factors[0]),
        ]
        key = [add.bind(k, literal(w, _U32)) for k, w in zip(key, _WEYL, strict=True)]
    if dtype == _U64:
        x = [_wide(x[0], x[1]), _wide(x[2], x[3])]
    columns = (reshape.bind(_narrow(column, dtype), shape=(count, 1)) for column in x)
    flat = reshape.bind(concatenate.bind(*columns, axis=1), shape=(count * per_block,))
    if count * per_block > size:
        flat = _part(flat, (0,), (size,))
    return reshape.bind(flat, shape=shape), count


def _threefry(words: Sequence[Value], shape: Shape, dtype: np.dtype[Any]) -> tuple[Value, int]:
    """As :func:`_philox`.  The two words of a counter go side by side along one axis."""
    sizes = list(shape) or [1]
    axis = next((a for a, n in enumerate(sizes) if n % 2 == 0), sizes.index(max(sizes)))
    half = list(sizes)
    if dtype != _U64:
        half[axis] = -(-half[axis] // 2)
    count = math.prod(half)
    low, high = _counters((words[2], words[3]), count)
    key = (broadcast_in_dim.bind(k, shape=(count,), dims=()) for k in words[:2])
    first, second = threefry2x32.bind(*key, low, high)
    if dtype == _U64:
        return reshape.bind(_wide(first, second), shape=shape), count
    split = (*half[: axis + 1], 1, *half[axis + 1 :])
    pair = [reshape.bind(_narrow(x, dtype), shape=split) for x in (first, second)]
    half[axis] *= 2
    bits = reshape.bind(concatenate.bind(*pair, axis=axis + 1), shape=tuple(half))
    if half != sizes:
        bits = _part(bits, (0,) * len(sizes), tuple(sizes))
    return reshape.bind(bits, shape=shape), count
