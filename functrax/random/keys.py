"""Keys: what random numbers are made from, and how keys are made from keys.

A key is two words of 32 bits.  Typed keys (:func:`key`) are :class:`KeyArray` objects, arrays of
keys around an array of words, ``uint32[..., 2]``; raw keys (:func:`PRNGKey`) are that array itself.
Every function of ``functrax.random`` takes both.

A :class:`KeyArray` is a pytree with the array of words as its leaf, so it goes through ``jit``,
``vmap`` and the rest as any container of arrays does.

New keys are counters enciphered with the old one, by threefry-2x32 (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", SC 2011): ``split`` enciphers the place of the new key, ``fold_in``
the number given.  All words are JAX's, bit for bit.

Start at :func:`key_words`, which every sampler calls on its key.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functrax.core import dtypes
from functrax.core.array import ConcreteArray, from_numpy
from functrax.core.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from functrax.core.inputs import as_value
from functrax.core.operators import Array
from functrax.core.primitive import Value
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import concatenate, reshape
from functrax.core.promotion import IntegerOverflowError
from functrax.core.pytree import GetAttrKey, register_pytree_node
from functrax.lax import bitwise_and, convert_element_type as as_dtype, shift_right_logical
from functrax.random.bits import encipher
from functrax.random.shapes import checked_shape

_IMPLEMENTATION = "threefry2x32"
_U32 = dtypes.uint32
_LOW_WORD = 0xFFFFFFFF


class KeyDType:
    """The dtype of typed keys; it prints as ``key<fry>`` and equals only itself."""

    name = "key<fry>"
    itemsize = 8

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is KeyDType

    def __hash__(self) -> int:
        return hash(KeyDType)


class KeyArray:
    """An array of typed keys, as made by :func:`key` and :func:`split`.

    It has a shape, can be indexed, iterated over and reshaped, and compared elementwise; it has no
    arithmetic.  :func:`key_data` gives its words.

    Args:
      words: the words of the keys, ``uint32[..., 2]``; nothing is checked here.

    >>> from functrax import random
    >>> keys = random.split(random.key(0), 3)
    >>> keys.shape, keys.dtype
    ((3,), key<fry>)
    >>> keys[1]
    Array((), dtype=key<fry>) overlaying:
    [ 928981903 3453687069]
    """

    __slots__ = ("words",)
    __array_priority__ = 100
    words: Any

    def __init__(self, words: Any) -> None:
        self.words = words

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(self.words.shape[:-1])

    @property
    def dtype(self) -> KeyDType:
        """The type of keys."""
        return KeyDType()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.words.shape) - 1

    @property
    def size(self) -> int:
        """The number of keys."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes of one key."""
        return KeyDType.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all keys."""
        return self.size * KeyDType.itemsize

    @property
    def T(self) -> KeyArray:
        """The keys with the axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: Any) -> KeyArray:
        """The keys with the axes in another order; reversed if none is given."""
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes
        order = [operator.index(a) for a in given] or list(reversed(range(self.ndim)))
        from_front = [a + self.ndim if a < 0 else a for a in order]
        return KeyArray(self.words.transpose(*from_front, self.ndim))

    def reshape(self, *shape: Any) -> KeyArray:
        """The same keys in another shape; one size may be -1."""
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        sizes = [operator.index(n) for n in given]
        known = int(np.prod([n for n in sizes if n != -1], dtype=np.int64))
        whole = [self.size // max(known, 1) if n == -1 else n for n in sizes]
        return KeyArray(reshape.bind(self.words, shape=(*whole, 2)))

    def ravel(self) -> KeyArray:
        """All keys along one axis."""
        return self.reshape(-1)

    flatten = ravel

    def squeeze(self, axis: Any = None) -> KeyArray:
        """Without axes of size 1; all of them, or those given."""
        ones = [i for i, n in enumerate(self.shape) if n == 1] if axis is None else axis
        dropped = [ones] if isinstance(ones, int) else list(ones)
        return KeyArray(self.words.squeeze(tuple(a + self.ndim if a < 0 else a for a in dropped)))

    def copy(self) -> KeyArray:
        """The same keys: they are immutable."""
        return self

    def block_until_ready(self) -> KeyArray:
        """Wait until the words are computed; returns the keys themselves."""
        self.words.block_until_ready()
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a single key")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise TypeError("iteration over a single key; random.split(key) makes several")
        return (KeyArray(self.words[i]) for i in range(len(self)))

    def __getitem__(self, index: Any) -> KeyArray:
        entries = index if isinstance(index, tuple) else (index,)
        if sum(_axes_taken(entry) for entry in entries) > self.ndim:
            raise IndexingError(
                "keys: too many indices",
                got=f"{len(entries)} for keys of shape {self.shape}",
                fix=f"at most {self.ndim}; random.key_data(keys) gives the words of the keys",
            )
        if any(entry is Ellipsis for entry in entries):
            entries = (*entries, slice(None))
        return KeyArray(self.words[entries])

    def __eq__(self, other: object) -> Any:
        return (self.words == other.words).all(-1) if isinstance(other, KeyArray) else False

    def __ne__(self, other: object) -> Any:
        return (self.words != other.words).any(-1) if isinstance(other, KeyArray) else True

    def __hash__(self) -> int:
        raise TypeError("unhashable type: KeyArray; keys are compared elementwise")

    def __bool__(self) -> bool:
        raise TypeError("a key has no truth value")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise DTypeError(
            "numpy: keys cannot become a NumPy array",
            got=f"keys of shape {self.shape}",
            fix="numpy.asarray(random.key_data(keys))",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (KeyArray, (self.words,))

    def __repr__(self) -> str:
        if not isinstance(self.words, Array):
            return f"KeyArray({self.words!r})"
        shown = str(self.words) if isinstance(self.words, ConcreteArray) else repr(self.words)
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{shown}"


def _axes_taken(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return int(entry.ndim) if getattr(entry, "dtype", None) == np.bool_ else 1


register_pytree_node(
    KeyArray,
    lambda keys: ((keys.words,), None),
    lambda _, children: KeyArray(*children),
    lambda keys: (((GetAttrKey("words"), keys.words),), None),
)


def key_words(name: str, key: Any, *, many: bool = False) -> Value:
    """The words of a key that was given to the function ``name``.

    Args:
      name: the function, for errors.
      key: a typed key, or a raw one.
      many: whether an array of keys will do.

    Returns:
      ``uint32[2]``, or ``uint32[..., 2]`` with ``many``.

    Raises:
      DTypeError: if ``key`` is not a key.
      ShapeError: if it is many keys, or its last axis does not have size 2.
    """
    if isinstance(key, KeyArray):
        words = key.words
    elif hasattr(key, "dtype") and hasattr(key, "shape"):
        words = _checked_words(name, key)
    else:
        raise DTypeError(
            f"{name}: the first argument is not a key",
            got=f"{key!r} of type {type(key).__name__}",
            fix=f"random.{name}(random.key(0), ...)",
        )
    if not many and words.aval.ndim != 1:
        raise ShapeError(
            f"{name} takes a single key",
            got=f"keys of shape {words.aval.shape[:-1]}",
            fix=f"functrax.vmap(lambda key: random.{name}(key, ...))(keys)",
        )
    return words


def _checked_words(name: str, given: Any) -> Value:
    if given.dtype != _U32:
        raise DTypeError(
            f"{name}: the words of a key are of type uint32",
            got=f"{given.dtype}{list(given.shape)}",
            fix="a key made by random.key(seed), or words.astype('uint32')",
        )
    if given.shape[-1:] != (2,):
        raise ShapeError(
            f"{name}: a key has two words, along the last axis",
            got=f"an array of shape {tuple(given.shape)}",
            fix="a key made by random.key(seed), or an array of shape (..., 2)",
        )
    return as_value(given, f"the key of {name}")


def _check_implementation(name: str, impl: Any, dtype: Any) -> None:
    if impl is not None and dtype is not None:
        raise ArgumentError(
            f"{name}: impl and dtype say the same thing",
            got=f"impl={impl!r}, dtype={dtype!r}",
            fix="give one of them, or neither",
        )
    given = dtype if impl is None else impl
    if given is None or given == _IMPLEMENTATION or given == KeyDType():
        return
    raise ArgumentError(
        f"{name}: unknown generator of random bits",
        got=repr(given),
        fix=f"{_IMPLEMENTATION!r}, the only one, which is also the default",
    )


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """A typed key made from a seed.

    Args:
      seed: an integer, or an integer array of rank 0.  64 bits of it count, 32 while x64 is off.
      impl: None or ``"threefry2x32"``.
      dtype: the same, or ``key_dtype()``.

    Returns:
      A key of shape ().

    Raises:
      DTypeError: if the seed is not an integer, or is itself a key.
      ShapeError: if it is an array of several.
      IntegerOverflowError: for a Python integer that does not fit 64 bits.

    >>> from functrax import random
    >>> random.key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    _check_implementation("key", impl, dtype)
    return KeyArray(_seeded("key", seed))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """A raw key made from a seed: the words of :func:`key`, ``uint32[2]``.

    Args:
      seed: as for :func:`key`.
      impl: None or ``"threefry2x32"``.

    >>> from functrax import random
    >>> random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    _check_implementation("PRNGKey", impl, None)
    return _seeded("PRNGKey", seed)  # type: ignore[no-any-return]


def _seeded(name: str, seed: Any) -> Value:
    if isinstance(seed, KeyArray):
        raise DTypeError(
            f"{name}: the seed is a key already",
            got=repr(seed),
            fix="random.split(key) or random.fold_in(key, number) for new keys",
        )
    if isinstance(seed, int):
        return _seeded_by_python(name, seed)
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
        return _joined(from_numpy(np.zeros((), np.uint32)), low)
    low = as_dtype(bitwise_and(value, _LOW_WORD), _U32)
    return _joined(as_dtype(shift_right_logical(value, 32), _U32), low)


def _seeded_by_python(name: str, seed: int) -> Value:
    if not -(1 << 63) <= seed < 1 << 63:
        raise IntegerOverflowError(
            f"{name}: the seed does not fit 64 bits",
            got=repr(int(seed)),
            fix=f"random.{name}(seed % 2**63)",
        )
    high = seed >> 32 & _LOW_WORD if dtypes.default_int() == dtypes.int64 else 0
    return from_numpy(np.array([high, seed & _LOW_WORD], np.uint32))


def _joined(*words: Value) -> Value:
    """Arrays of words as a new last axis."""
    shape = words[0].aval.shape
    columns = [reshape.bind(word, shape=(*shape, 1)) for word in words]
    return concatenate.bind(*columns, axis=len(shape))


def key_data(keys: Any) -> Array:
    """The words of keys, ``uint32[*keys.shape, 2]``.

    >>> from functrax import random
    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return key_words("key_data", keys, many=True)  # type: ignore[no-any-return]


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Typed keys from their words, the inverse of :func:`key_data`.

    Args:
      key_bits_array: the words, ``uint32[..., 2]``.
      impl: None or ``"threefry2x32"``.
      dtype: the same, or ``key_dtype()``.

    Raises:
      DTypeError, ShapeError: if they are not the words of keys.

    >>> import numpy as np
    >>> from functrax import random
    >>> random.wrap_key_data(np.zeros((3, 2), "uint32")).shape
    (3,)
    """
    _check_implementation("wrap_key_data", impl, dtype)
    if isinstance(key_bits_array, KeyArray):
        raise DTypeError("wrap_key_data: these are typed keys already", got=repr(key_bits_array))
    return KeyArray(key_words("wrap_key_data", key_bits_array, many=True))


def key_impl(keys: Any) -> str:
    """The name of the generator of random bits: ``"threefry2x32"``."""
    key_words("key_impl", keys, many=True)
    return _IMPLEMENTATION


def key_dtype(impl: Any = None) -> KeyDType:
    """The dtype of typed keys.

    Args:
      impl: None or ``"threefry2x32"``.
    """
    _check_implementation("key_dtype", impl, None)
    return KeyDType()


def clone(key: Any) -> Any:
    """The same key, for a reader who should know that it is used twice on purpose."""
    key_words("clone", key, many=True)
    return key


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
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
    return _like(key, split_words(words, shape))


def split_words(words: Value, shape: tuple[int, ...] = (2,)) -> Value:
    """The words of new keys: the place of each, enciphered."""
    return _joined(*encipher(words, shape))


def split_pair(words: Value) -> tuple[Value, Value]:
    """The words of two new keys."""
    both = split_words(words)
    return both[0], both[1]


def fold_in(key: Any, data: Any) -> Any:
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
    words = key_words("fold_in", key)
    if isinstance(data, int) and not 0 <= data <= _LOW_WORD:
        raise IntegerOverflowError(
            "fold_in: the number does not fit 32 bits without a sign",
            got=repr(data),
            fix="random.fold_in(key, data % 2**32)",
        )
    if isinstance(data, int):
        low = from_numpy(np.asarray(data, np.uint32))
    else:
        value = as_value(data, "the number of fold_in")
        if value.aval.shape:
            raise ShapeError(
                "fold_in takes a single number",
                got=value.aval.str_short(),
                fix="functrax.vmap(random.fold_in, (None, 0))(key, numbers)",
            )
        low = convert_element_type.bind(value, dtype=_U32, weak_type=False)
    return _like(key, _joined(*encipher(words, (), low)))


def _like(key: Any, words: Value) -> Any:
    return KeyArray(words) if isinstance(key, KeyArray) else words
