"""``KeyArray``: an array of typed keys around the array of their words.

It is a handle (``core/arrays/operators.py``): an array and a leaf for users, and for
transformations a node with the array of words as its leaf, so it goes through ``jit``, ``vmap`` and
the rest as any container of arrays does.  Functions that move elements about take keys by the rule
of ``moved_keys``.  Keys are made in ``functrax.random.keys``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from functrax.backends.eager.cached_traces import add_wrapper
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array, Handle
from functrax.core.boundaries.tracebacks import deliberate, with_boundaries
from functrax.core.errors.typed import DTypeError, IndexingError, ShapeError
from functrax.core.prims.reindex import reshape
from functrax.core.pytree.registry import register_handle
from functrax.core.tracing.trace import Tracer
from functrax.core.types.dtypes import prng_key, uint32
from functrax.random.implementations import RBG, THREEFRY, UNSAFE_RBG, Implementation
from functrax.random.moved_keys import on_words
from functrax.transforms.arguments.types_of_arrays import ShapeDtypeStruct

_METHODS: Any = Array  # with those that ``functrax.numpy`` gives it


class KeyDType:
    """The dtype of typed keys: ``key<fry>``, or that of another generator's keys.

    Args:
      implementation: the generator.
    """

    type = prng_key

    def __init__(self, implementation: Implementation = THREEFRY) -> None:
        self.implementation = implementation

    @property
    def name(self) -> str:
        """What it prints as."""
        return f"key<{self.implementation.tag}>"

    @property
    def itemsize(self) -> int:
        """Bytes of one key."""
        return 4 * self.implementation.size

    def type_of(self, shape: Sequence[int]) -> ShapeDtypeStruct:
        """The type of an array of keys."""
        return ShapeDtypeStruct(shape, self)

    def handle(self, type_of_keys: ShapeDtypeStruct) -> KeyArray:
        """The keys of a type, whose words are a type."""
        shape = (*type_of_keys.shape, self.implementation.size)
        return keys_of(self.implementation)(ShapeDtypeStruct(shape, uint32))

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is KeyDType and self.implementation == other.implementation

    def __hash__(self) -> int:
        return hash((KeyDType, self.implementation))


@with_boundaries
class KeyArray(Handle):
    """An array of typed keys, as made by :func:`key` and :func:`split`.

    It has a shape, can be indexed, iterated over and reshaped, and compared elementwise; it has no
    arithmetic.  :func:`key_data` gives its words.

    Args:
      words: the words of the keys, ``uint32[..., 2]``; nothing is checked here.  Those of other
        generators (the subclasses) are four.

    >>> from functrax import random
    >>> keys = random.split(random.key(0), 3)
    >>> keys.shape, keys.dtype
    ((3,), key<fry>)
    >>> keys[1]
    Array((), dtype=key<fry>) overlaying:
    [ 928981903 3453687069]
    """

    __slots__ = ("words",)
    advice = "random.key_data(keys), which gives the words of the keys"
    implementation: ClassVar[Implementation] = THREEFRY
    words: Any

    def __init__(self, words: Any) -> None:
        self.words = words

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(self.words.shape[:-1])

    @property
    def dtype(self) -> KeyDType:  # type: ignore[override]
        """The type of keys."""
        return KeyDType(self.implementation)

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
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all keys."""
        return self.size * self.itemsize

    @property
    def T(self) -> KeyArray:
        """The keys with the axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: Any) -> KeyArray:
        """The keys with the axes in another order; reversed if none is given."""
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes
        order = [operator.index(a) for a in given] or list(reversed(range(self.ndim)))
        from_front = [a + self.ndim if a < 0 else a for a in order]
        return type(self)(self.words.transpose(*from_front, self.ndim))

    def reshape(self, *shape: Any) -> KeyArray:  # type: ignore[override]
        """The same keys in another shape; one size may be -1."""
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        sizes = [operator.index(n) for n in given]
        known = int(np.prod([n for n in sizes if n != -1], dtype=np.int64))
        whole = [self.size // max(known, 1) if n == -1 else n for n in sizes]
        if int(np.prod(whole, dtype=np.int64)) != self.size:
            raise ShapeError(
                "reshape: the number of elements differs",
                got=f"{self.dtype}{list(self.shape)} ({self.size}) to shape {tuple(sizes)}",
                fix="a shape with as many elements; one size may be -1",
            )
        return type(self)(reshape.bind(self.words, shape=(*whole, self.implementation.size)))

    def ravel(self) -> KeyArray:  # type: ignore[override]
        """All keys along one axis."""
        return self.reshape(-1)

    flatten = ravel  # type: ignore[assignment]

    def squeeze(self, axis: Any = None) -> KeyArray:
        """Without axes of size 1; all of them, or those given."""
        ones = [i for i, n in enumerate(self.shape) if n == 1] if axis is None else axis
        dropped = [ones] if isinstance(ones, int) else list(ones)
        return type(self)(self.words.squeeze(tuple(a + self.ndim if a < 0 else a for a in dropped)))

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """The keys with two axes exchanged."""
        return on_words(_METHODS.swapaxes, self, axis1, axis2)

    def take(self, indices: Any, axis: int | None = None, **options: Any) -> Any:  # type: ignore[override]
        """The keys at some indices along an axis, or of all; as ``functrax.numpy.take``."""
        return on_words(_METHODS.take, self, indices, axis, **options)

    def repeat(self, repeats: Any, axis: int | None = None, **options: Any) -> Any:
        """Each key several times; as ``functrax.numpy.repeat``."""
        return on_words(_METHODS.repeat, self, repeats, axis, **options)

    @property
    def at(self) -> KeysAt:  # type: ignore[override]
        """``keys.at[index].set(others)`` and ``keys.at[index].get()``."""
        return KeysAt(self)

    def copy(self) -> KeyArray:  # type: ignore[override]
        """The same keys: they are immutable."""
        return self

    @property
    def weak_type(self) -> bool:
        """False: keys are never promoted."""
        return False

    def is_deleted(self) -> bool:
        """Whether the memory of the words was given up."""
        return bool(self.words.is_deleted())

    def delete(self) -> None:
        """Give up the memory of the words."""
        self.words.delete()

    def is_ready(self) -> bool:
        """Whether the words are computed."""
        return bool(self.words.is_ready())

    def block_until_ready(self) -> KeyArray:
        """Wait until the words are computed; returns the keys themselves."""
        self.words.block_until_ready()
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise deliberate(TypeError("len() of a single key"))
        return int(self.shape[0])

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise deliberate(
                TypeError("iteration over a single key; random.split(key) makes several")
            )
        return (type(self)(self.words[i]) for i in range(len(self)))

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
        return type(self)(self.words[entries])

    def __eq__(self, other: object) -> Any:
        return (self.words == other.words).all(-1) if type(other) is type(self) else False

    def __ne__(self, other: object) -> Any:
        return (self.words != other.words).any(-1) if type(other) is type(self) else True

    def __hash__(self) -> int:
        raise deliberate(TypeError("unhashable type: KeyArray; keys are compared elementwise"))

    def __bool__(self) -> bool:
        raise deliberate(TypeError("a key has no truth value"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise DTypeError(
            "numpy: keys cannot become a NumPy array",
            got=f"keys of shape {self.shape}",
            fix="numpy.asarray(random.key_data(keys))",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.words,))

    def __repr__(self) -> str:
        if not isinstance(self.words, Array):
            return f"KeyArray({self.words!r})"
        if isinstance(self.words, Tracer):
            of_keys = f"{self.dtype}[{','.join(map(str, self.shape))}]"
            return repr(self.words).replace(self.words.aval.str_short(), of_keys, 1)
        shown = str(self.words) if isinstance(self.words, ConcreteArray) else repr(self.words)
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{shown}"


@with_boundaries
class KeysAt:
    """``keys.at``: takes an index in brackets."""

    __slots__ = ("keys",)

    def __init__(self, keys: KeyArray) -> None:
        self.keys = keys

    def __getitem__(self, index: Any) -> KeysAtIndex:
        return KeysAtIndex(self.keys, index)


@with_boundaries
class KeysAtIndex:
    """``keys.at[index]``: reads keys, or makes changed copies of the array."""

    __slots__ = ("index", "keys")

    def __init__(self, keys: KeyArray, index: Any) -> None:
        self.keys, self.index = keys, index

    def set(self, values: KeyArray, **options: Any) -> Any:
        """The keys with others in the places of the index; as ``x.at[index].set`` of numbers."""

        def update(keys: Any, values: Any) -> Any:
            return keys.at[self.index].set(values, **options)

        return on_words(update, self.keys, values)

    def get(self, **options: Any) -> Any:
        """The keys in the places of the index; as ``x.at[index].get`` of numbers."""
        return on_words(lambda keys: keys.at[self.index].get(**options), self.keys)


def _axes_taken(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return int(entry.ndim) if getattr(entry, "dtype", None) == np.bool_ else 1


def _add_class(keys: type[KeyArray]) -> None:
    def rebuilt(_: None, words: tuple[Any]) -> Any:
        if type(words[0]) is ShapeDtypeStruct:
            return ShapeDtypeStruct(words[0].shape[:-1], KeyDType(keys.implementation))
        return keys(*words)

    add_wrapper(keys)
    register_handle(keys, lambda keys: ((keys.words,), None), rebuilt)


class RbgKeyArray(KeyArray):
    """Keys of the generator ``rbg``, of four words."""

    __slots__ = ()
    implementation = RBG


class UnsafeRbgKeyArray(KeyArray):
    """Keys of the generator ``unsafe_rbg``, of four words."""

    __slots__ = ()
    implementation = UNSAFE_RBG


_CLASSES: dict[Implementation, type[KeyArray]] = {
    keys.implementation: keys for keys in (KeyArray, RbgKeyArray, UnsafeRbgKeyArray)
}
for _keys in _CLASSES.values():
    _add_class(_keys)


def keys_of(implementation: Implementation) -> type[KeyArray]:
    """The class of a generator's keys."""
    return _CLASSES[implementation]
