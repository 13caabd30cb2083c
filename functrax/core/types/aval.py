"""Abstract values: all that tracing knows of an array, which is shape, dtype and weak type.

A :class:`ShapedArray` is interned: equal avals are one object, so ``==`` is ``is``, hashing costs
nothing, and caches may be keyed by avals themselves. The table of them only grows; a program has
hundreds, and each takes a few hundred bytes.

In text, an aval is its short dtype name and its shape, ``f32[3,4]``; a tilde in front marks a weak
type, ``~f32[]``. :meth:`ShapedArray.from_short` reads that back.

Start at :class:`ShapedArray`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NoReturn, final

from functrax.core.errors.typed import (
    DTypeError,
    ImmutableError,
    ParseError,
    ShapeError,
    ShardingError,
)
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.core.types.symbolic_sizes import integer, recording_of

_SHORT: Final[dict[DType, str]] = {
    dtypes.bool_: "bool",
    dtypes.int8: "i8",
    dtypes.int16: "i16",
    dtypes.int32: "i32",
    dtypes.int64: "i64",
    dtypes.uint8: "u8",
    dtypes.uint16: "u16",
    dtypes.uint32: "u32",
    dtypes.uint64: "u64",
    dtypes.float16: "f16",
    dtypes.bfloat16: "bf16",
    dtypes.float32: "f32",
    dtypes.float64: "f64",
    dtypes.complex64: "c64",
    dtypes.complex128: "c128",
    dtypes.float0: "float0",
    **{d: d.name.replace("uint", "u").replace("int", "i") for d in dtypes.STORED_INTEGERS},
    **{d: d.name.replace("float", "f") for d in dtypes.STORED_FLOATS},
}
_LONG: Final[dict[str, DType]] = {name: dtype for dtype, name in _SHORT.items()}

_interned: dict[tuple[Any, Any, Any], ShapedArray] = {}


@final
class ShapedArray:
    """The type of an array: a shape, a dtype, and whether that dtype gives way in promotion.

    Args:
      shape: sizes of the axes, integers of at least 0.
      dtype: anything that :func:`functrax.core.types.dtypes.as_dtype` takes.
      weak_type: True for values that came from Python scalars.
      sharding: None, or a sharding on at most one device, as a type's own is; it says nothing.

    Raises:
      ShapeError: if a size is negative or not an integer.
      ShardingError: for a sharding on several devices.
      DTypeError: if the dtype is not one that arrays can have.

    >>> ShapedArray((3, 4), "float32") is ShapedArray([3, 4], dtypes.float32)
    True
    """

    __slots__ = ("__weakref__", "dtype", "ndim", "shape", "size", "weak_type")

    shape: tuple[int, ...]
    dtype: DType
    weak_type: bool
    size: int  # the number of elements
    ndim: int
    sharding: ClassVar[Any]  # a property, which ``backends/sharding/array_places.py`` puts here

    def __new__(
        cls, shape: Sequence[int], dtype: Any, weak_type: bool = False, *, sharding: Any = None
    ) -> ShapedArray:
        if sharding is not None:
            _check_one_device(sharding)
        try:
            return _interned[shape, dtype, weak_type]
        except (KeyError, TypeError):  # not made before, or given as a list
            return _intern(shape, dtype, weak_type)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without padding."""
        return self.size * self.dtype.itemsize

    def update(
        self,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        weak_type: bool | None = None,
    ) -> ShapedArray:
        """The aval with the named parts replaced; what is None stays."""
        return ShapedArray(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
        )

    def strip_weak_type(self) -> ShapedArray:
        """The aval that is not weak."""
        return ShapedArray(self.shape, self.dtype) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        """The type of a tangent of such an array: itself, or float0 where there is none."""
        inexact = dtypes.is_inexact(self.dtype) or self.dtype == dtypes.float0
        return self if inexact else ShapedArray(self.shape, dtypes.float0)

    at_least_vspace = to_tangent_aval  # JAX's older name

    def str_short(self) -> str:
        """``f32[3,4]``, or ``~f32[3,4]`` when weak."""
        sizes = ",".join(map(str, self.shape))
        return f"{'~' if self.weak_type else ''}{_SHORT[self.dtype]}[{sizes}]"

    def str_long(self) -> str:
        """``float32[3,4]``."""
        name = "float0" if self.dtype == dtypes.float0 else self.dtype.name
        return f"{name}[{','.join(map(str, self.shape))}]"

    @staticmethod
    def from_short(text: str) -> ShapedArray:
        """The aval that :meth:`str_short` wrote as ``text``.

        Raises:
          ParseError: if ``text`` has another form.

        >>> ShapedArray.from_short("~f32[2,3]")
        ShapedArray(float32[2,3], weak_type=True)
        """
        name, bracket, sizes = text.removeprefix("~").partition("[")
        inside = sizes[:-1]
        digits = inside.split(",") if inside else []
        well_formed = bracket and sizes.endswith("]") and all(map(_is_size, digits))
        if not well_formed or name not in _LONG:
            raise ParseError("from_short: not an aval", got=repr(text), fix="for example f32[3,4]")
        return ShapedArray(tuple(map(int, digits)), _LONG[name], text.startswith("~"))

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_long()}{', weak_type=True' if self.weak_type else ''})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ImmutableError(
            "ShapedArray: cannot be changed",
            got=f"assignment to .{name} of {self!r}",
            fix="aval.update(...), which makes another",
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise ImmutableError(
            "ShapedArray: cannot be changed",
            got=f"del .{name} of {self!r}",
            fix="x.update(shape=..., dtype=...), which makes another type",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # copying and unpickling give the interned object
        return ShapedArray, (self.shape, self.dtype, self.weak_type)


def _intern(shape: Sequence[int], dtype: Any, weak_type: bool) -> ShapedArray:
    if dtypes.issubdtype(dtype, dtypes.extended):  # which no array of numbers has
        of_handle: ShapedArray = dtype.type_of(shape)
        return of_handle
    exact = dtypes.as_dtype(dtype)
    sizes = _sizes(shape)
    key = (sizes, exact, bool(weak_type))
    recording = recording_of(sizes)
    interned = _interned if recording is None else recording.kept
    found = interned.get(key)
    if found is not None:
        return found
    aval = object.__new__(ShapedArray)
    put = object.__setattr__
    put(aval, "shape", sizes)
    put(aval, "dtype", exact)
    put(aval, "weak_type", key[2])
    put(aval, "size", math.prod(sizes))
    put(aval, "ndim", len(sizes))
    return interned.setdefault(key, aval)  # of two threads, one wins


def _check_one_device(sharding: Any) -> None:
    if sharding.num_devices > 1:
        raise ShardingError(
            "ShapedArray: a type says nothing of several devices",
            got=f"sharding={sharding!r}",
            fix="a sharding on one device, or none",
        )


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(map(integer, shape))
    except TypeError:
        raise ShapeError(
            "ShapedArray: a shape is a sequence of integers", got=repr(shape), fix="(3, 4), or ()"
        ) from None
    if any(size < 0 for size in sizes):
        raise ShapeError(
            "ShapedArray: sizes cannot be negative", got=repr(sizes), fix="sizes of 0 or more"
        )
    return sizes


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit()


def short_dtype_name(dtype: DType) -> str:
    """The short name: ``f32`` for float32, ``bool``, ``u8``, ``bf16``, ``c64``, ``float0``.

    Raises:
      DTypeError: if the dtype is not one that arrays can have.
    """
    found = _SHORT.get(dtype)
    return found if found is not None else _SHORT[dtypes.as_dtype(dtype)]


def dtype_from_short_name(name: str) -> DType:
    """The dtype whose :func:`short_dtype_name` is ``name``.

    Raises:
      DTypeError: if there is none.

    >>> dtype_from_short_name("bf16")
    dtype(bfloat16)
    """
    found = _LONG.get(name)
    if found is None:
        raise DTypeError(
            "dtype_from_short_name: no such name", got=repr(name), fix="one of " + ", ".join(_LONG)
        )
    return found
