"""``PartitionSpec``: along which axes of a mesh each axis of an array is divided."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NoReturn
from weakref import WeakValueDictionary

from functrax.core.errors.typed import ArgumentError, ShardingError


class _Unconstrained:
    """The type of ``PartitionSpec.UNCONSTRAINED``, of which there is one."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unconstrained, ())


UNCONSTRAINED: Final = _Unconstrained()


def _unconstrained() -> _Unconstrained:
    return UNCONSTRAINED


class PartitionSpec:
    """For each axis of an array, the axes of a mesh along which it is divided.

    It is no tuple, so that a pytree of specs has them as its leaves.  Equal specs are one object.

    Args:
      partitions: for each axis of the array None (it is not divided), the name of an axis of the
        mesh, several names in a tuple, or ``PartitionSpec.UNCONSTRAINED``.  Axes of the array
        without an entry are not divided.
      unreduced: names of axes along which the devices hold terms of a sum that is yet to be taken.
      reduced: names of axes along which cotangents are such terms.

    Raises:
      ShardingError: if a name is in more than one of the three, or ``unreduced`` holds None.
      ArgumentError: if ``unreduced`` or ``reduced`` is no set.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    >>> PartitionSpec("x") + PartitionSpec(None)
    P('x', None)
    """

    __slots__ = ("__weakref__", "_partitions", "reduced", "unreduced")

    UNCONSTRAINED: Final = UNCONSTRAINED
    _partitions: tuple[Any, ...]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __new__(
        cls,
        *partitions: Any,
        unreduced: Collection[Any] = frozenset(),
        reduced: Collection[Any] = frozenset(),
    ) -> PartitionSpec:
        entries = tuple([_canonical(p) for p in partitions])
        sets = _as_set("unreduced", unreduced), _as_set("reduced", reduced)
        known = _known.get((entries, *sets))
        if known is not None:
            return known
        spec = super().__new__(cls)
        for name, value in zip(("_partitions", "unreduced", "reduced"), (entries, *sets)):
            object.__setattr__(spec, name, value)
        if spec.unreduced or spec.reduced:
            spec._check_disjoint()
        return _known.setdefault(spec._key(), spec)

    def __init_subclass__(cls, **kwargs: Any) -> NoReturn:
        raise ArgumentError(
            "PartitionSpec: Subclassing `jax.P` is prohibited",
            got=f"class {cls.__name__}",
            fix="a function that makes one",
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a PartitionSpec cannot be changed: {name}")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def _check_disjoint(self) -> None:
        if None in self.unreduced or None in self.reduced:
            raise ShardingError(
                "PartitionSpec: unreduced and reduced hold names of axes of the mesh",
                got=repr(self),
                fix="leave None out",
            )
        names = frozenset(self.names())
        twice = (self.unreduced & self.reduced) | (names & (self.unreduced | self.reduced))
        if twice:
            raise ShardingError(
                "PartitionSpec: an axis of the mesh is used in two ways",
                got=f"{', '.join(sorted(map(repr, twice)))} in {self!r}",
                fix="name it once, in an entry, in unreduced or in reduced",
            )

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The entries, one for each axis of the array."""
        return self._partitions

    def names(self) -> list[Any]:
        """The axes of the mesh that divide an axis of the array, in order."""
        found: list[Any] = []
        for entry in self._partitions:
            found += axes_of(entry)
        return found

    def _key(self) -> tuple[Any, ...]:
        return (self._partitions, self.unreduced, self.reduced)

    def __repr__(self) -> str:
        parts = [repr(self._partitions)[1:-1]] if self._partitions else []
        sets = (("unreduced", self.unreduced), ("reduced", self.reduced))
        more = [f"{name}={set(names)!r}" for name, names in sets if names]
        if more and parts:
            parts[0] = parts[0].rstrip(",")
        return f"P({', '.join(parts + more)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_remade, self._key())

    def _plain(self, what: str) -> tuple[Any, ...]:
        if self.unreduced or self.reduced:
            raise ShardingError(
                f"unreduced in {what} of PartitionSpec: it would forget the unreduced and reduced "
                "axes",
                got=repr(self),
                fix="spec.partitions",
            )
        return self._partitions

    def __getitem__(self, i: Any) -> Any:
        return self._plain("an index")[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._plain("iteration"))

    def __len__(self) -> int:
        return len(self._partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, tuple):
            return PartitionSpec(*self._plain("`__add__`"), *other)
        if not isinstance(other, PartitionSpec):
            return NotImplemented
        return PartitionSpec(
            *self._partitions,
            *other._partitions,
            unreduced=self.unreduced | other.unreduced,
            reduced=self.reduced | other.reduced,
        )

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        return PartitionSpec(*other, *self._plain("`__radd__`"))

    def index(self, value: Any) -> int:
        """The first axis of the array with this entry; a ValueError if there is none."""
        return self._partitions.index(_canonical(value))

    def count(self, value: Any) -> int:
        """How many axes of the array have this entry."""
        return self._partitions.count(_canonical(value))

    def update(
        self, partitions: Any = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """A spec with other entries or other sets of axes; None keeps what there is."""
        return PartitionSpec(
            *(self._partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )


P = PartitionSpec
_known: Final[WeakValueDictionary[Any, PartitionSpec]] = WeakValueDictionary()


def axes_of(entry: Any) -> tuple[Any, ...]:
    """The axes of the mesh in one entry of a spec."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _remade(partitions: tuple[Any, ...], unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def _canonical(entry: Any) -> Any:
    """An entry as it is kept: no name is None, one name is itself, several are a tuple."""
    if not isinstance(entry, (tuple, list)):
        return entry
    if any(isinstance(name, (tuple, list)) for name in entry):
        raise ShardingError(
            "PartitionSpec: A tuple inside PartitionSpec cannot contain a nested tuple.",
            got=repr(entry),
            fix="the names of an axis in one tuple",
        )
    if not entry:
        return None
    return entry[0] if len(entry) == 1 else tuple(entry)


def _as_set(what: str, names: Any) -> frozenset[Any]:
    if not isinstance(names, (set, frozenset)):
        raise ArgumentError(
            f"PartitionSpec: {what} is not a set",
            got=f"{names!r} of type {type(names).__name__}",
            fix=f"{what}={{'x'}}",
        )
    return frozenset(names)
