"""``ShapeDtypeStruct``: the type of an array, as users write it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from functrax.core.boundaries.tracebacks import deliberate, with_boundaries
from functrax.core.errors.typed import ArgumentError, ShardingError
from functrax.core.records import record, replace
from functrax.core.tracing.inputs import as_value
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


@record
class ManualAxisType:
    """How a value inside ``shard_map`` depends on the axes of the mesh.

    Args:
      varying: names of axes along which devices may have different values.
      unreduced: names of axes along which devices have terms of a sum.
      reduced: names of axes along which devices' cotangents are such terms.

    Raises:
      ShardingError: if ``varying`` has a name in common with one of the others.

    >>> ManualAxisType(varying=frozenset({"x"})).varying
    frozenset({'x'})
    """

    varying: frozenset[Any] = frozenset()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()

    def __post_init__(self) -> None:
        names = {key: frozenset(value) for key, value in vars(self).items()}
        vars(self).update(names)
        both = self.varying & (self.unreduced | self.reduced)
        if both:
            raise ShardingError(
                "ManualAxisType: an axis is varying, and unreduced or reduced",
                got=", ".join(sorted(map(repr, both))),
                fix="name it in one of the three",
            )

    @property
    def empty(self) -> bool:
        """Whether no axis is named."""
        return not (self.varying or self.unreduced or self.reduced)

    def update(self, **changes: Any) -> ManualAxisType:
        """The same with other names in some of the three."""
        return replace(self, **changes)


@with_boundaries
class ShapeDtypeStruct:
    """The type of an array, where only the type matters.

    Args:
      shape: sizes of the axes.
      dtype: anything that names a dtype.
      sharding: where the array's parts are to lie: a sharding, a ``functrax.P`` for the mesh that
        is set, a ``Format``, or None.
      weak_type: whether the dtype gives way in promotion.
      manual_axis_type: a :class:`ManualAxisType`, of a value inside ``shard_map``.
      vma: JAX's older name for its ``varying`` axes: a set of names.
      is_ref: whether it is the type of a mutable array; must be False.

    Raises:
      ArgumentError: if the sharding or the axes are not of these types.
      ShardingError: if the sharding does not fit the shape.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_sharding", "dtype", "manual_axis_type", "shape", "weak_type")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: ManualAxisType | None = None,
        vma: Collection[Any] | None = None,
        is_ref: bool = False,
    ) -> None:
        if dtype is None:
            raise ArgumentError(
                "ShapeDtypeStruct: dtype must be specified.",
                got="dtype=None",
                fix="dtype='float32'",
            )
        if is_ref is not False:
            raise ArgumentError(
                "ShapeDtypeStruct: types of mutable arrays are not supported",
                got=f"is_ref={is_ref!r}",
                fix="is_ref=False",
            )
        self.shape = tuple(shape)
        self.dtype = dtype if dtypes.issubdtype(dtype, dtypes.extended) else dtypes.as_dtype(dtype)
        self.weak_type = weak_type
        self._sharding = None if sharding is None else _checked_sharding(sharding, self.shape)
        self.manual_axis_type = _manual(manual_axis_type, vma)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of an array, or of something that has a shape and a dtype.

        The sharding is that of an array that was put on one by name, and else None.

        Args:
          x: the array, a number, a ``ShapeDtypeStruct``.

        >>> ShapeDtypeStruct.like(1.5)
        ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
        """
        from functrax.backends.sharding.placed import given_sharding

        aval = type_of(x, "the argument of ShapeDtypeStruct.like")
        if isinstance(x, ShapeDtypeStruct):
            return x.update()
        sharding = given_sharding(x)
        return cls(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The same type with other values of some of the arguments."""
        kept = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self._sharding,
            "weak_type": self.weak_type,
            "manual_axis_type": self.manual_axis_type,
        }
        return ShapeDtypeStruct(**{**kept, **changes})

    @property
    def sharding(self) -> Any:
        """Where the array's parts are to lie, or None.

        Raises:
          ShardingError: if it was given as a ``functrax.P``, and no mesh is set.
        """
        if self._sharding is None:
            return None
        from functrax.backends.sharding.placed import as_sharding

        return as_sharding(self._sharding, "ShapeDtypeStruct: sharding")

    @property
    def vma(self) -> frozenset[Any]:
        """The axes along which the value may vary, inside ``shard_map``."""
        manual = self.manual_axis_type
        return frozenset() if manual is None else manual.varying

    @property
    def is_ref(self) -> bool:
        """Whether it is the type of a mutable array: False."""
        return False

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return ShapedArray(self.shape, self.dtype).size

    def __len__(self) -> int:
        if not self.shape:
            raise deliberate(TypeError("len() of unsized object: a type of rank 0"))
        return self.shape[0]

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype, self.weak_type, self._sharding, self.manual_axis_type)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        sharding = "" if self._sharding is None else f", sharding={self._sharding!r}"
        weak = ", weak_type=True" if self.weak_type else ""
        manual = "" if not self.manual_axis_type else f", manual_axis_type={self.manual_axis_type}"
        return (
            f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak}{manual})"
        )


def _checked_sharding(sharding: Any, shape: tuple[int, ...]) -> Any:
    from functrax.backends.sharding.layouts import Format
    from functrax.backends.sharding.partition import PartitionSpec
    from functrax.backends.sharding.shardings import Sharding

    if isinstance(sharding, PartitionSpec):
        return sharding
    plain = sharding.sharding if isinstance(sharding, Format) else sharding
    if not isinstance(plain, Sharding):
        raise ArgumentError(
            "ShapeDtypeStruct: not a sharding",
            got=f"{sharding!r} of type {type(sharding).__name__}",
            fix="a functrax.sharding.Sharding, a functrax.P, or None",
        )
    plain.shard_shape(shape)
    return plain


def _manual(manual: Any, vma: Any) -> ManualAxisType | None:
    if vma is not None:
        if manual is not None or not isinstance(vma, (set, frozenset)):
            raise ArgumentError(
                "ShapeDtypeStruct: vma is a set of names, given in place of manual_axis_type",
                got=f"vma={vma!r}, manual_axis_type={manual!r}",
                fix="vma=frozenset({'x'})",
            )
        return ManualAxisType(varying=frozenset(vma)) if vma else None
    if manual is not None and not isinstance(manual, ManualAxisType):
        raise ArgumentError(
            "ShapeDtypeStruct: manual_axis_type is of another type",
            got=f"{manual!r} of type {type(manual).__name__}",
            fix="functrax.sharding.ManualAxisType(varying=frozenset({'x'}))",
        )
    return manual


def type_of(x: Any, what: str) -> ShapedArray:
    """The type of an argument, which may be an array or anything with a shape and a dtype."""
    if isinstance(x, ShapedArray):
        return x
    if hasattr(x, "shape") and hasattr(x, "dtype") and not hasattr(x, "__array__"):
        if getattr(x, "is_ref", False):
            raise x.no_value(what)
        dtype = dtypes.canonicalize_dtype(dtypes.as_dtype(x.dtype))
        return ShapedArray(tuple(x.shape), dtype, bool(getattr(x, "weak_type", False)))
    aval: ShapedArray = as_value(x, what).aval
    return aval
