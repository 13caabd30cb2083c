"""Shardings: on which devices the parts of an array lie.

:class:`Sharding` says what all of them can be asked; :class:`SingleDeviceSharding` is what arrays
have of themselves, :class:`NamedSharding` what programs for meshes give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from functrax.backends.device import Device
from functrax.backends.sharding.mesh import AbstractMesh, Mesh
from functrax.backends.sharding.partition import PartitionSpec, axes_of
from functrax.core.errors.typed import ArgumentError, ShardingError

Shape: TypeAlias = tuple[int, ...]
Index: TypeAlias = tuple[slice, ...]

#: What a CPU's memory is called; all three are the memory of the host.
MEMORY_KINDS: Final = ("device", "pinned_host", "unpinned_host")


def _abstract(sharding: object, what: str) -> NotImplementedError:
    return NotImplementedError(f"{type(sharding).__name__}.{what}: a subclass has to say it")


class Sharding:
    """On which devices the parts of an array lie; the base of all shardings."""

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the array."""
        raise _abstract(self, "device_set")

    @property
    def num_devices(self) -> int:
        """How many devices hold a part of the array."""
        raise _abstract(self, "num_devices")

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds all of the array."""
        raise _abstract(self, "is_fully_replicated")

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        raise _abstract(self, "is_fully_addressable")

    @property
    def memory_kind(self) -> str | None:
        """What the memory is called that the parts lie in."""
        raise _abstract(self, "memory_kind")

    def with_memory_kind(self, kind: str) -> Sharding:
        """The sharding with its parts in another memory."""
        raise _abstract(self, "with_memory_kind")

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """For each device which part of an array of this shape it holds: a slice for each axis."""
        raise _abstract(self, "devices_indices_map")

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of each part of an array of this shape.

        Raises:
          ShardingError: if an axis cannot be divided evenly, or the rank does not fit.
        """
        raise _abstract(self, "shard_shape")

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of a rank have the same parts on the same devices."""
        if type(self)._division is Sharding._division:
            raise _abstract(self, "is_equivalent_to")
        same = self.memory_kind == other.memory_kind
        return same and self._division(ndim) == other._division(ndim)

    def _division(self, ndim: int) -> tuple[Any, ...]:
        """Where the parts lie: the devices, and which axes of their grid divide what."""
        return (tuple(self.device_set), (), ((),) * ndim)

    @property
    def has_addressable_devices(self) -> bool:
        """Whether a device belongs to this process."""
        return bool(self.addressable_devices)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process that hold a part of the array."""
        return self.device_set

    def addressable_devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """:meth:`devices_indices_map` of the devices of this process."""
        return self.devices_indices_map(global_shape)


class SingleDeviceSharding(Sharding):
    """All of an array is on one device.

    Args:
      device: the device.
      memory_kind: which of its memories: a CPU has one, which has three names.

    Raises:
      ShardingError: if there is no such memory.

    >>> import functrax
    >>> SingleDeviceSharding(functrax.devices()[0]).shard_shape((2, 3))
    (2, 3)
    """

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if not isinstance(device, Device):
            raise ArgumentError(
                "SingleDeviceSharding: not a device",
                got=f"{device!r} of type {type(device).__name__}",
                fix="functrax.devices()[0]",
            )
        self.device = device
        self._memory_kind = _checked_kind(memory_kind)

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    @property
    def num_devices(self) -> int:
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        return True

    @property
    def is_fully_addressable(self) -> bool:
        return True

    @property
    def memory_kind(self) -> str:
        return self._memory_kind

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, memory_kind=kind)

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        return {self.device: (slice(None),) * len(global_shape)}

    def shard_shape(self, global_shape: Shape) -> Shape:
        return tuple(global_shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SingleDeviceSharding):
            return NotImplemented
        return self.device is other.device and self._memory_kind == other._memory_kind

    def __hash__(self) -> int:
        return hash((self.device, self._memory_kind))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind={self._memory_kind})"


class NamedSharding(Sharding):
    """The axes of an array are divided along axes of a mesh.

    Args:
      mesh: the devices, in a grid with named axes; an abstract one where only types matter.
      spec: for each axis of the array the axes of the mesh that divide it.
      memory_kind: which memory of the devices; a CPU has one, which has three names.

    Raises:
      ShardingError: if the spec names an axis that the mesh lacks, or names one twice, or there is
        no such memory.
      ArgumentError: if ``mesh`` is no mesh or ``spec`` no PartitionSpec.

    >>> import functrax
    >>> mesh = functrax.make_mesh((1,), ("x",))
    >>> functrax.device_put(functrax.numpy.arange(3), NamedSharding(mesh, PartitionSpec("x")))
    Array([0, 1, 2], dtype=int32)
    """

    mesh: Mesh | AbstractMesh
    spec: PartitionSpec

    def __init__(
        self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None
    ) -> None:
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise ArgumentError(
                "NamedSharding: not a mesh",
                got=f"{mesh!r} of type {type(mesh).__name__}",
                fix="functrax.make_mesh((1,), ('x',))",
            )
        if not isinstance(spec, PartitionSpec):
            raise ArgumentError(
                "NamedSharding: not a PartitionSpec",
                got=f"{spec!r} of type {type(spec).__name__}",
                fix="functrax.P('x')",
            )
        check_names(mesh, spec)
        concrete = isinstance(mesh, Mesh)
        kind = _checked_kind(memory_kind) if concrete or memory_kind is not None else None
        vars(self).update(mesh=mesh, spec=spec, _memory_kind=kind)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a NamedSharding cannot be changed: {name}")

    def _concrete(self, what: str) -> Mesh:
        if isinstance(self.mesh, Mesh):
            return self.mesh
        raise ShardingError(
            f"NamedSharding: {what} is not known, for the mesh is abstract",
            got=repr(self),
            fix="a sharding of a functrax.sharding.Mesh",
        )

    @property
    def device_set(self) -> set[Device]:
        return set(self._concrete("device_set").devices.flat)

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        return math.prod(self._tiles(len(self.spec))) == 1

    @property
    def is_fully_addressable(self) -> bool:
        self._concrete("is_fully_addressable")
        return True

    @property
    def memory_kind(self) -> str | None:
        kind: str | None = vars(self)["_memory_kind"]
        return kind

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The axes of the mesh that the spec does not name."""
        spec = self.spec
        return frozenset(self.mesh.axis_names) - {*spec.names(), *spec.unreduced, *spec.reduced}

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    def update(
        self, *, mesh: Any = None, spec: Any = None, memory_kind: str | None = None
    ) -> NamedSharding:
        """A sharding with another mesh, spec or memory; None keeps what there is."""
        new = self.spec if spec is None else spec
        return NamedSharding(
            self.mesh if mesh is None else mesh,
            new if isinstance(new, PartitionSpec) else PartitionSpec(*new),
            memory_kind=self.memory_kind if memory_kind is None else memory_kind,
        )

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Refuse arrays that have fewer axes than the spec has entries.

        Raises:
          ShardingError: for such a shape.
        """
        if len(aval_shape) < len(self.spec):
            raise ShardingError(
                "NamedSharding: the spec has more entries than the array has axes",
                got=f"{self.spec!r} for an array of shape {tuple(aval_shape)}",
                fix="functrax.P() for scalars" if not aval_shape else "a shorter spec",
            )

    def _axes(self, ndim: int) -> list[tuple[Any, ...]]:
        """The axes of the mesh that divide each axis of an array."""
        axes = [axes_of(p) for p in self.spec.partitions]
        return axes + [()] * (ndim - len(axes))

    def _tiles(self, ndim: int) -> list[int]:
        """Into how many parts each axis of an array is divided."""
        sizes = dict(self.mesh.shape_tuple)
        return [math.prod(sizes[name] for name in axes) for axes in self._axes(ndim)]

    def shard_shape(self, global_shape: Shape) -> Shape:
        self.check_compatible_aval(global_shape)
        tiles = self._tiles(len(global_shape))
        for axis, (size, tile) in enumerate(zip(global_shape, tiles)):
            if size % tile:
                raise ShardingError(
                    f"NamedSharding: axis {axis} cannot be divided evenly",
                    got=f"size {size} into {tile} parts, shape {tuple(global_shape)}, {self!r}",
                    fix=f"a size that {tile} divides",
                )
        return tuple([size // tile for size, tile in zip(global_shape, tiles)])

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        mesh = self._concrete("devices_indices_map")
        part = self.shard_shape(global_shape)
        entries, sizes = self._axes(len(global_shape)), dict(mesh.shape_tuple)
        found: dict[Device, Index] = {}
        for place in np.ndindex(*mesh.axis_sizes):
            at = dict(zip(mesh.axis_names, place))
            index = []
            for names, length, whole in zip(entries, part, global_shape):
                number = 0
                for name in names:
                    number = number * sizes[name] + at[name]
                begin = number * length
                index.append(slice(None) if length == whole else slice(begin, begin + length))
            device: Any = mesh.devices[place]
            found[device] = tuple(index)
        return found

    def _division(self, ndim: int) -> tuple[Any, ...]:
        mesh = self.mesh
        wide = [name for name, size in mesh.shape_tuple if size != 1]
        sizes = tuple([size for size in mesh.axis_sizes if size != 1])
        entries = [tuple([wide.index(n) for n in axes if n in wide]) for axes in self._axes(ndim)]
        devices = tuple(mesh.devices.flat) if isinstance(mesh, Mesh) else None
        return (devices, sizes, tuple(entries))

    def _key(self) -> tuple[Any, ...]:
        return (self.mesh, self.spec, self.memory_kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedSharding):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unpickled, self._key())

    def __repr__(self) -> str:
        kind = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{kind})"


def _unpickled(mesh: Any, spec: PartitionSpec, memory_kind: str | None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


def check_names(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    """Refuse specs that name an axis that a mesh lacks, or one of its axes twice.

    Raises:
      ShardingError: for such a spec.
    """
    names = spec.names()
    unknown = [n for n in (*names, *spec.unreduced, *spec.reduced) if n not in mesh.axis_names]
    if unknown:
        raise ShardingError(
            "NamedSharding: the mesh has no axis of this name",
            got=f"{unknown[0]!r} in {spec!r} for axes {mesh.axis_names!r}",
            fix="one of the mesh's axes",
        )
    twice = sorted({repr(n) for n in names if names.count(n) > 1})
    if twice:
        raise ShardingError(
            "NamedSharding: an axis of the mesh divides more than one axis of the array",
            got=f"{', '.join(twice)} in {spec!r}",
            fix="name each axis of the mesh once",
        )


def _checked_kind(kind: str | None) -> str:
    if kind is None:
        return MEMORY_KINDS[0]
    if kind not in MEMORY_KINDS:
        raise ShardingError(
            "sharding: the device has no such memory",
            got=f"memory_kind={kind!r}",
            fix=" or ".join(map(repr, MEMORY_KINDS)),
        )
    return kind
