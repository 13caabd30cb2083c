"""Keys: what random numbers are made from, and how keys are made from keys.

A key is two words of 32 bits.  Typed keys (:func:`key`) are ``KeyArray`` objects around an array of
words, ``uint32[..., 2]``; raw keys (:func:`PRNGKey`) are that array itself.  Every function of
``functrax.random`` takes both.  Other generators (``implementations``) have keys of four words; raw
keys are of the generator that the option ``default_prng_impl`` names.

New keys are counters enciphered with the old one, by threefry-2x32 (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", SC 2011): ``split`` enciphers the place of the new key, ``fold_in``
the number given.  All words are JAX's, bit for bit.

Start at :func:`key_words`, which every sampler calls on its key.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from functrax.backends.eager.cached_traces import with_recipe_of_keys
from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.options.config import state as options
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.promotion import IntegerOverflowError
from functrax.lax import bitwise_and, convert_element_type as as_dtype, shift_right_logical
from functrax.lax.operands import as_array
from functrax.random.cipher import folded_words, joined, split_words
from functrax.random.implementations import IMPLEMENTATIONS, Implementation
from functrax.random.key_array import KeyArray, KeyDType, keys_of
from functrax.random.shapes import checked_shape
from functrax.typing import ArrayLike

_U32 = dtypes.uint32
_LOW_WORD = 0xFFFFFFFF

T = TypeVar("T")


def key_words(name: str, key: Any, *, many: bool = False) -> Value:
    """The words of a key that was given to the function ``name``.

    Args:
      name: the function, for errors.
      key: a typed key, or a raw one.
      many: whether an array of keys will do.

    Returns:
      ``uint32[2]``, or ``uint32[..., 2]`` with ``many``.  For another generator a single key has
      the shape that says so; many have the shape in which they are kept.

    Raises:
      DTypeError: if ``key`` is not a key.
      ShapeError: if it is many keys, or its last axis does not have size 2.
    """
    if isinstance(key, KeyArray):
        words, made = key.words, key.implementation
    elif hasattr(key, "dtype") and hasattr(key, "shape"):
        made = IMPLEMENTATIONS[options.default_prng_impl]
        words = _checked_words(name, key, made)
        if not many and options.legacy_prng_key != "allow":
            _check_raw_key(name, words)
    else:
        raise DTypeError(
            f"{name}: the first argument is not a key",
            got=f"{key!r} of type {type(key).__name__}",
            fix=f"random.{name}(random.key(0), ...)",
        )
    if not many and words.aval.ndim != 1:
        raise ShapeError(
            f"{name} accepts a single key, but was given a key array of shape "
            f"{words.aval.shape[:-1]}",
            got=f"keys of shape {words.aval.shape[:-1]}",
            fix=f"functrax.vmap(lambda key: random.{name}(key, ...))(keys)",
        )
    if not many and made.inside != words.aval.shape:
        words = reshape.bind(words, shape=made.inside)
    return words


def _check_raw_key(name: str, words: Value) -> None:
    what = f"{name}: the key is an array of uint32, and the option legacy_prng_key "
    if options.legacy_prng_key == "error":
        raise ArgumentError(
            what + "forbids that",
            got=words.aval.str_short(),
            fix="a key made by random.key(seed), or random.wrap_key_data(words)",
        )
    warnings.warn(what + "warns of it; random.key(seed) makes typed ones", stacklevel=4)


def _checked_words(name: str, given: Any, made: Implementation) -> Value:
    if given.dtype != _U32:
        raise DTypeError(
            f"{name}: the words of a key are of type uint32",
            got=f"{given.dtype}{list(given.shape)}",
            fix="a key made by random.key(seed), or words.astype('uint32')",
        )
    if given.shape[-1:] != (made.size,):
        words = {2: "two", 4: "four"}[made.size]
        of = "" if made.name == "threefry2x32" else f" of {made.name}"
        raise ShapeError(
            f"{name}: a key{of} has {words} words, along the last axis",
            got=f"an array of shape {tuple(given.shape)}",
            fix=f"a key made by random.key(seed), or an array of shape (..., {made.size})",
        )
    return as_value(given, f"the key of {name}")


def _implementation(name: str, impl: Any, dtype: Any = None) -> Implementation:
    """The generator that is asked for; by default that of the option ``default_prng_impl``."""
    if impl is not None and dtype is not None:
        raise ArgumentError(
            f"{name}: impl and dtype say the same thing",
            got=f"impl={impl!r}, dtype={dtype!r}",
            fix="give one of them, or neither",
        )
    given = dtype if impl is None else impl
    if given is None:
        return IMPLEMENTATIONS[options.default_prng_impl]
    if isinstance(given, Implementation):
        return given
    if isinstance(given, KeyDType):
        return given.implementation
    found = IMPLEMENTATIONS.get(given) if isinstance(given, str) else None
    if found is None:
        raise ArgumentError(
            f"{name}: unknown generator of random bits",
            got=repr(given),
            fix=", ".join(map(repr, IMPLEMENTATIONS)),
        )
    return found


def key(
    seed: int | ArrayLike, *, impl: str | Implementation | None = None, dtype: Any = None
) -> KeyArray:
    """A typed key made from a seed.

    Args:
      seed: an integer, or an integer array of rank 0.  64 bits of it count, 32 while x64 is off.
      impl: ``"threefry2x32"``, ``"rbg"`` or ``"unsafe_rbg"``; by default what the option
        ``default_prng_impl`` says.
      dtype: the same, or ``key_dtype()``.

    Returns:
      A key of shape ().

    Raises:
      DTypeError: if the seed is not an integer, or is itself a key.
      ShapeError: if it is an array of several.
      IntegerOverflowError: for a Python integer that does not fit 64 bits.
      ArgumentError: for an unknown generator.

    >>> from functrax import random
    >>> random.key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    made = _implementation("key", impl, dtype)
    return keys_of(made)(_seeded("key", seed, made))


def PRNGKey(seed: int | ArrayLike, *, impl: str | Implementation | None = None) -> Array | KeyArray:
    """A raw key made from a seed: the words of :func:`key`, ``uint32[2]``.

    With the option ``enable_custom_prng`` it is a typed key, as :func:`key` makes.

    Args:
      seed: as for :func:`key`.
      impl: ``"threefry2x32"``, ``"rbg"`` or ``"unsafe_rbg"``; by default what the option
        ``default_prng_impl`` says.

    Returns:
      An array of words: two for ``"threefry2x32"``, four for the others.

    Raises:
      DTypeError, ShapeError, IntegerOverflowError: for other seeds, as :func:`key`.
      ArgumentError: for an unknown generator.

    >>> from functrax import random
    >>> random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    made = _implementation("PRNGKey", impl)
    if options.enable_custom_prng:
        return key(seed, impl=made)
    return as_array(_seeded("PRNGKey", seed, made))


def _seeded(name: str, seed: Any, made: Implementation) -> Value:
    """The words of a key: those of threefry's, as often as they fit."""
    words = _seed_words(name, seed)
    return words if made.size == 2 else concatenate.bind(words, words, axis=0)


def _seed_words(name: str, seed: Any) -> Value:
    if isinstance(seed, KeyArray):
        raise DTypeError(
            f"{name}: the seed is a key already",
            got=repr(seed),
            fix="random.split(key) or random.fold_in(key, number) for new keys",
        )
    if options.random_seed_offset:
        seed = seed + options.random_seed_offset
    if isinstance(seed, int):
        return _seeded_by_python(name, seed)
    if isinstance(seed, (str, bytes)):
        raise DTypeError(
            f"{name}: the seed is not an integer",
            got=f"{seed!r} of type {type(seed).__name__}",
            fix="an integer, such as int(text) or zlib.crc32(text.encode())",
        )
    value = as_value(seed, f"the seed of {name}")
    if not dtypes.is_integer(value.aval.dtype):
        raise DTypeError(
            f"{name}: the seed is not an integer",
            got=value.aval.str_short(),
            fix="an integer, or seed.astype(int)",
        )
    if value.aval.shape:
        raise ShapeError(
            f"{name} takes a single seed",
            got=value.aval.str_short(),
            fix=f"functrax.vmap(random.{name})(seeds)",
        )
    low: Any = as_dtype(value, _U32)
    if value.aval.dtype.itemsize < 8:
        return joined(from_numpy(np.zeros((), np.uint32)), low)
    low = as_dtype(bitwise_and(value, _LOW_WORD), _U32)
    return joined(as_dtype(shift_right_logical(value, 32), _U32), low)


def _seeded_by_python(name: str, seed: int) -> Value:
    if not -(1 << 63) <= seed < 1 << 63:
        raise IntegerOverflowError(
            f"{name}: the seed does not fit 64 bits",
            got=repr(int(seed)),
            fix=f"random.{name}(seed % 2**63)",
        )
    high = seed >> 32 & _LOW_WORD if dtypes.default_int() == dtypes.int64 else 0
    return from_numpy(np.array([high, seed & _LOW_WORD], np.uint32))


def key_data(keys: ArrayLike) -> Array:
    """The words of keys, ``uint32[*keys.shape, 2]``.

    Args:
      keys: a key, or an array of keys, typed or raw.

    Returns:
      An array of uint32 with one axis more than ``keys``; two words for ``"threefry2x32"``, four
        for the others.

    Raises:
      DTypeError, ShapeError: for what is not keys.

    >>> from functrax import random
    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return as_array(key_words("key_data", keys, many=True))


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: str | Implementation | None = None, dtype: Any = None
) -> KeyArray:
    """Typed keys from their words, the inverse of :func:`key_data`.

    Args:
      key_bits_array: the words, ``uint32[..., 2]``.
      impl: ``"threefry2x32"``, ``"rbg"`` or ``"unsafe_rbg"``; by default what the option
        ``default_prng_impl`` says.
      dtype: the same, or ``key_dtype()``.

    Returns:
      Keys of the shape without the last axis.

    Raises:
      DTypeError, ShapeError: if they are not the words of keys.

    >>> import numpy as np
    >>> from functrax import random
    >>> random.wrap_key_data(np.zeros((3, 2), "uint32")).shape
    (3,)
    """
    made = _implementation("wrap_key_data", impl, dtype)
    if isinstance(key_bits_array, KeyArray):
        raise DTypeError(
            "wrap_key_data: these are typed keys already",
            got=repr(key_bits_array),
            fix="use them as they are; key_data gives their bits",
        )
    if not (hasattr(key_bits_array, "dtype") and hasattr(key_bits_array, "shape")):
        key_words("wrap_key_data", key_bits_array)  # which says that these are no words
    return keys_of(made)(_checked_words("wrap_key_data", key_bits_array, made))


def key_impl(keys: ArrayLike) -> str:
    """The name of the keys' generator of random bits, such as ``"threefry2x32"``.

    Args:
      keys: a key, or an array of keys; raw ones are taken to be of ``default_prng_impl``.

    Returns:
      One of ``"threefry2x32"``, ``"rbg"`` and ``"unsafe_rbg"``.

    Raises:
      DTypeError, ShapeError: for what is not keys.

    >>> from functrax import random
    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    key_words("key_impl", keys, many=True)
    made = keys.implementation.name if isinstance(keys, KeyArray) else options.default_prng_impl
    return str(made)


def key_dtype(impl: Any = None) -> KeyDType:
    """The dtype of typed keys.

    Args:
      impl: ``"threefry2x32"``, ``"rbg"`` or ``"unsafe_rbg"``; by default what the option
        ``default_prng_impl`` says.

    Returns:
      A dtype, such as ``key<fry>``.

    Raises:
      ArgumentError: for an unknown generator.

    >>> from functrax import random
    >>> random.key(0).dtype == random.key_dtype()
    True
    """
    return KeyDType(_implementation("key_dtype", impl))


def clone(key: T) -> T:
    """The same key, for a reader who should know that it is used twice on purpose.

    Args:
      key: a key, or an array of keys.

    Returns:
      ``key`` itself.

    Raises:
      DTypeError, ShapeError: for what is not keys.

    >>> from functrax import random
    >>> random.clone(random.key(7))
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    key_words("clone", key, many=True)
    return key


@with_recipe_of_keys
def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """New keys made from one; the old one should not be used again.

    Args:
      key: a single key, typed or raw.
      num: how many keys, or the shape of the array of keys.

    Returns:
      Keys of shape ``(num,)``, or ``num``: typed or raw as ``key`` is.

    Raises:
      DTypeError, ShapeError: if ``key`` is not a single key, or ``num`` not a shape.

    >>> from functrax import random
    >>> key, subkey = random.split(random.key(0))
    >>> subkey
    Array((), dtype=key<fry>) overlaying:
    [ 928981903 3453687069]
    """
    words = key_words("split", key)
    shape = checked_shape("split", num, "num")
    return _like(key, split_words(words, shape), shape)


def split_pair(words: Value) -> tuple[Value, Value]:
    """The words of two new keys."""
    both = split_words(words)
    return both[0], both[1]


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key made from a key and a number, such as the number of a step.

    Args:
      key: a single key, typed or raw.
      data: an integer from 0 to 2**32 - 1, or an array of rank 0, of which 32 bits count.

    Returns:
      A key, typed or raw as ``key`` is.

    Raises:
      DTypeError, ShapeError: if ``key`` is not a single key, or ``data`` not a single number.
      IntegerOverflowError: for a Python integer that does not fit 32 bits.

    >>> from functrax import random
    >>> random.fold_in(random.key(0), 1)
    Array((), dtype=key<fry>) overlaying:
    [ 928981903 3453687069]
    """
    if isinstance(data, int) and 0 <= data <= _LOW_WORD:
        data = from_numpy(np.asarray(data, np.uint32))
    return _folded_in(key, data)


@with_recipe_of_keys
def _folded_in(key: Any, data: Any) -> Any:
    words = key_words("fold_in", key)
    if isinstance(data, int):
        raise IntegerOverflowError(
            "fold_in: the number does not fit 32 bits without a sign",
            got=repr(data),
            fix="random.fold_in(key, data % 2**32)",
        )
    value = as_value(data, "the number of fold_in")
    if value.aval.shape:
        raise ShapeError(
            "fold_in takes a single number",
            got=value.aval.str_short(),
            fix="functrax.vmap(random.fold_in, (None, 0))(key, numbers)",
        )
    low = convert_element_type.bind(value, dtype=_U32, weak_type=False)
    return _like(key, folded_words(words, low), ())


def _like(key: Any, words: Value, shape: tuple[int, ...]) -> Any:
    """Keys of a shape from the words that a function of ``cipher`` made of a key."""
    size = key.implementation.size if isinstance(key, KeyArray) else key.shape[-1]
    if words.aval.shape != (*shape, size):
        words = reshape.bind(words, shape=(*shape, size))
    return type(key)(words) if isinstance(key, KeyArray) else words
