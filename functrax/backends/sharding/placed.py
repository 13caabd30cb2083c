"""Which sharding an array was given, and giving it one.

Arrays do not know their shardings: a table beside them holds those that were given by name.  Which
device an array is bound to, it knows where there are several (``backends/places.py``).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

from functrax.backends.device import Device, bound_to, current_device, place_of, put_on
from functrax.backends.places import known
from functrax.backends.sharding.context import mesh_of_specs
from functrax.backends.sharding.layouts import Format
from functrax.backends.sharding.mesh import AbstractMesh, Mesh
from functrax.backends.sharding.partition import PartitionSpec
from functrax.backends.sharding.shardings import NamedSharding, Sharding, SingleDeviceSharding
from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import ShardingError

#: By the id of an array, a reference to it and its sharding.
_table: Final[dict[int, tuple[weakref.ref[Any], Sharding]]] = {}


def given_sharding(array: Any) -> Sharding | None:
    """The sharding that an array was put on, if it was."""
    found = _table.get(id(array))
    if found is not None and found[0]() is array:
        return found[1]
    device = bound_to(array) if known.several else None
    return None if device is None else SingleDeviceSharding(device)


def sharding_of(array: Any) -> Sharding:
    """The sharding of an array."""
    given = given_sharding(array)
    if given is not None:
        return given
    is_somewhere = type(array) is ConcreteArray
    return SingleDeviceSharding(place_of(array) if is_somewhere else current_device())


def put(value: Any, sharding: Sharding, *, fresh: bool = False) -> Any:
    """An array on a sharding, with the same memory if it is there; a traced value is as it was.

    Args:
      value: the array; it keeps its own sharding.
      sharding: one that fits it.
      fresh: whether nobody else has the array, so that it can be given the sharding itself.
    """
    if type(value) is not ConcreteArray or given_sharding(value) == sharding:
        return value
    if known.several and not is_abstract(sharding):
        (device,) = sharding.device_set
        array = put_on(value, device)
    else:
        array = value if fresh else ConcreteArray(value.buffer, value.aval)
    key = id(array)

    def forget(_: Any, table: Any = _table) -> None:
        table.pop(key, None)

    _table[key] = (weakref.ref(array, forget), sharding)
    return array


def as_sharding(where: Any, what: str) -> Sharding | None:
    """The sharding that a device, a sharding, a spec or None stands for.

    Args:
      where: the device, or so; a spec is for the mesh that is set.
      what: the function that it was given to.

    Raises:
      ShardingError: if it is something else, or there is no mesh for a spec.
    """
    if where is None or isinstance(where, Sharding):
        return _on_devices(where)
    if isinstance(where, Device):
        return SingleDeviceSharding(where)
    if isinstance(where, PartitionSpec):
        return NamedSharding(_mesh_for(where, what), where)
    if isinstance(where, Format):
        return where.sharding
    raise ShardingError(
        f"{what}: Received invalid value: neither a device nor a sharding",
        got=f"{where!r} of type {type(where).__name__}",
        fix="functrax.devices()[0], a functrax.sharding.Sharding, a functrax.P, or None",
    )


def _on_devices(sharding: Sharding | None) -> Sharding | None:
    """A sharding; one of a mesh without devices is on those of the mesh that is set, if equal."""
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        mesh = mesh_of_specs()
        if isinstance(mesh, Mesh) and mesh.abstract_mesh == sharding.mesh:
            return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
    return sharding


def _mesh_for(spec: PartitionSpec, what: str) -> Mesh | AbstractMesh:
    mesh = mesh_of_specs()
    if mesh.empty:
        raise ShardingError(
            f"{what}: there is no mesh for a PartitionSpec",
            got=repr(spec),
            fix="with functrax.set_mesh(mesh): ..., or functrax.NamedSharding(mesh, spec)",
        )
    return mesh


def check_fits(sharding: Sharding, shape: tuple[int, ...], what: str) -> None:
    """Refuse a sharding that an array of a shape cannot have here.

    Args:
      sharding: the sharding.
      shape: of the array.
      what: whose sharding it is, for errors.

    Raises:
      ShardingError: if its spec is too long, or it is on more than the one device.
    """
    try:
        sharding.shard_shape(shape)
    except ShardingError as error:
        raise ShardingError(f"{what}: {error.what}", got=error.got, fix=error.fix) from None
    if not is_abstract(sharding) and sharding.num_devices != 1:
        raise ShardingError(
            f"{what}: the sharding is on more devices than there are",
            got=f"{sharding!r} on {sharding.num_devices} devices",
            fix="a mesh of size 1, as functrax.make_mesh((1,), ('x',)) makes",
        )


def is_abstract(sharding: Sharding) -> bool:
    """Whether a sharding is of a mesh without devices."""
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


def check_held(sharding: Sharding, shape: tuple[int, ...], what: str) -> None:
    """:func:`check_fits`, and refuse a mesh without devices, which cannot hold an array.

    Raises:
      ShardingError: in either case.
    """
    if is_abstract(sharding):
        raise ShardingError(
            f"{what}: an abstract mesh has no devices that could hold an array",
            got=repr(sharding),
            fix="a sharding of a functrax.sharding.Mesh",
        )
    check_fits(sharding, shape, what)


def put_all(values: Sequence[Any], wheres: Sequence[Sharding | None]) -> list[Any]:
    """The results of a program, each on its sharding where one is given."""
    return [x if where is None else put(x, where) for x, where in zip(values, wheres, strict=True)]
