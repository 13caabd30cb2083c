"""Meshes: devices in a grid whose axes have names; and grids of which only the sizes are known.

:class:`Mesh` holds devices, :class:`AbstractMesh` does not.  Equal meshes are one object.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ContextDecorator
from enum import Enum
from functools import partial
from typing import Any, Final, NoReturn, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from functrax.backends.device import Device, current_device
from functrax.core.errors.typed import ArgumentError, ShardingError
from functrax.core.options.config import Override, state as options
from functrax.core.records import record


class AxisType(Enum):
    """Who divides arrays along an axis of a mesh."""

    Auto = 1
    "The compiler, with ``with_sharding_constraint`` as a hint."
    Explicit = 2
    "The program: the type of an array says how it is divided."
    Manual = 3
    "The program inside ``shard_map``, which computes with the parts."

    def __repr__(self) -> str:
        return self.name


@record
class AbstractDevice:
    """What kind of device an abstract mesh is for.

    Args:
      device_kind: the kind, as ``Device.device_kind`` has it.
      num_cores: how many cores it has, where that matters.
      platform: ``"cpu"``, for example.
    """

    device_kind: str
    num_cores: int | None
    platform: str

    def facts(self) -> str:
        """The fields, as text."""
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform}"
        )

    def __repr__(self) -> str:
        return f"AbstractDevice({self.facts()})"


M = TypeVar("M", bound="_Grid")


class _Grid:
    """What all meshes have in common: names, sizes and types of axes."""

    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]
    size: int

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """How many devices there are along each axis."""
        raise NotImplementedError

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """The axes as pairs of name and size."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """The size of each axis, by name."""
        return OrderedDict(self.shape_tuple)

    @property
    def empty(self) -> bool:
        """Whether there are no devices."""
        return self.size == 0

    def _of_type(self, wanted: AxisType) -> tuple[Any, ...]:
        return tuple([n for n, t in zip(self.axis_names, self.axis_types) if t is wanted])

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type Auto."""
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type Explicit."""
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        """The names of the axes of type Manual."""
        return self._of_type(AxisType.Manual)

    def _all(self, wanted: AxisType) -> bool:
        return bool(self.axis_types) and all(t is wanted for t in self.axis_types)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether there are axes, all of type Auto."""
        return self._all(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether there are axes, all of type Explicit."""
        return self._all(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether there are axes, all of type Manual."""
        return self._all(AxisType.Manual)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a mesh cannot be changed: {name}")

    def __copy__(self: M) -> M:
        return self

    def __deepcopy__(self: M, memo: Any) -> M:
        return self


class Mesh(_Grid, ContextDecorator):
    """Devices in a grid whose axes have names.

    ``with mesh:`` makes it the mesh of a block; ``functrax.set_mesh`` is the newer way.

    Args:
      devices: an array or a nested list of devices.
      axis_names: a name for each axis of ``devices``.
      axis_types: for each axis who divides arrays along it; Auto if None.

    Raises:
      ShardingError: if there is not one name and one type for each axis, or a name is None.
      ArgumentError: if ``axis_types`` holds something else than types.

    >>> import functrax, numpy as np
    >>> Mesh(np.array(functrax.devices()).reshape(1, 1), ("x", "y"))
    Mesh(axis_sizes=(1, 1), axis_names=('x', 'y'), axis_types=(Auto, Auto))
    """

    devices: np.ndarray[Any, Any]

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        grid = devices if isinstance(devices, np.ndarray) else np.array(devices, dtype=object)
        names = as_names(axis_names)
        if None in names:
            raise ShardingError("Mesh axis names cannot be None.", got=repr(names), fix="strings")
        if grid.ndim != len(names):
            raise ShardingError(
                "Mesh: there is not one name for each axis of the devices: the ndim of its first "
                "argument is the length of its second",
                got=f"{grid.ndim} axes, axis_names={names!r}",
                fix="numpy.array(devices).reshape(...) with as many axes as names",
            )
        types = _checked_types("Mesh", names, axis_types)
        flat = tuple(grid.flat)
        key = (tuple(map(id, flat)), grid.shape, names, types)
        known = _meshes.get(key)
        if known is None:
            known = _meshes.setdefault(key, cls._made(flat, grid.shape, names, types))
        return known

    @classmethod
    def _made(cls, flat: Any, shape: Any, names: Any, types: Any) -> Mesh:
        own = np.empty(len(flat), dtype=object)
        own[:] = flat
        own = own.reshape(shape)
        own.flags.writeable = False
        mesh = super().__new__(cls)
        empty = not names and flat[0] is None
        size = 0 if empty else math.prod(shape)
        vars(mesh).update(devices=own, axis_names=names, axis_types=types, size=size)
        return mesh

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unpickled, (self.axis_sizes, self.axis_names, self.axis_types))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return tuple(self.devices.shape)

    @property
    def is_scalar(self) -> bool:
        """Whether it is one device, without axes."""
        return self.size == 1 and not self.axis_names

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:
        """The devices' numbers, in the grid."""
        return np.array([d.id for d in self.devices.flat], int).reshape(self.axis_sizes)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process: all of them."""
        return [] if self.empty else list(self.devices.flat)

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh in this process: all of it."""
        return self

    @property
    def is_multi_process(self) -> bool:
        """Whether another process has a part of the mesh: False."""
        return False

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        if not self.axis_names:
            return NO_ABSTRACT_MESH
        first = self.devices.flat[0]
        kind = AbstractDevice(first.device_kind, None, first.platform)
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A mesh with other devices, names or types; None keeps what there is."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        warnings.warn(
            "`with mesh:` is the older way; `with functrax.set_mesh(mesh):` is the newer",
            DeprecationWarning,
            stacklevel=2,
        )
        before: MeshContext | None = options.mesh_context
        abstract = before.abstract if before else NO_ABSTRACT_MESH
        override = Override("mesh_context", MeshContext(abstract, self))
        override.__enter__()
        _entered.blocks.append(override)
        return self

    def __exit__(self, *exception: object) -> None:
        _entered.blocks.pop().__exit__()

    def __str__(self) -> str:
        if self.empty:
            return "Mesh()"
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"Mesh({axes}, axis_types={self.axis_types})"

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names!r}, "
            f"axis_types={self.axis_types})"
        )


def _not_known(mesh: object, what: str) -> ShardingError:
    return ShardingError(
        f"AbstractMesh: {what} is not known, for it has no devices",
        got=repr(mesh),
        fix="a functrax.sharding.Mesh",
    )


def _unknown(what: str) -> property:
    """What a mesh without devices has not."""

    def get(mesh: object) -> NoReturn:
        raise _not_known(mesh, what)

    return property(get, doc="Not known; raises.")


class AbstractMesh(_Grid):
    """Names and sizes of the axes of a mesh, without devices.

    Programs can be traced for a mesh that this process does not have.

    Args:
      axis_sizes: how many devices there are along each axis.
      axis_names: a name for each.
      axis_types: for each axis who divides arrays along it; Auto if None.
      abstract_device: what kind of device it is for, if that is known.

    Raises:
      ShardingError: if there is not one name and one type for each axis.
      ArgumentError: if ``axis_types`` holds something else than types.

    >>> AbstractMesh((2, 3), ("x", "y"))
    AbstractMesh('x': 2, 'y': 3, axis_types=(Auto, Auto))
    """

    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        names = as_names(axis_names)
        sizes = tuple(axis_sizes)
        if len(sizes) != len(names):
            raise ShardingError(
                "AbstractMesh: there is not one name for each axis",
                got=f"axis_sizes={sizes}, axis_names={names!r}",
                fix="as many names as sizes",
            )
        types = _checked_types("AbstractMesh", names, axis_types)
        key = (sizes, names, types, abstract_device)
        known = _abstract_meshes.get(key)
        if known is None:
            known = super().__new__(cls)
            vars(known).update(
                _sizes=sizes,
                axis_names=names,
                axis_types=types,
                abstract_device=abstract_device,
                size=math.prod(sizes) if sizes else 0,
            )
            known = _abstract_meshes.setdefault(key, known)
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(AbstractMesh, abstract_device=self.abstract_device)
        return (make, (self.axis_sizes, self.axis_names, self.axis_types))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        sizes: tuple[int, ...] = vars(self)["_sizes"]
        return sizes

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **kind: Any
    ) -> AbstractMesh:
        """A mesh with other sizes, names or types; None keeps what there is.

        Args:
          axis_sizes: the sizes.
          axis_names: the names.
          axis_types: the types.
          kind: ``abstract_device=`` if that is to change.
        """
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            **{"abstract_device": self.abstract_device, **kind},
        )

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """A mesh with other types of the axes that are named."""
        types = [name_to_type.get(n, t) for n, t in zip(self.axis_names, self.axis_types)]
        return self.update(axis_types=tuple(types))

    devices, device_ids = _unknown("devices"), _unknown("device_ids")
    local_devices, local_mesh = _unknown("local_devices"), _unknown("local_mesh")
    is_multi_process = _unknown("is_multi_process")

    def __enter__(self) -> NoReturn:
        raise _not_known(self, "`with mesh`")

    def __exit__(self, *exception: object) -> NoReturn:
        raise _not_known(self, "`with mesh`")

    def __repr__(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple) or "()"
        kind = "" if self.abstract_device is None else f", {self.abstract_device.facts()}"
        return f"AbstractMesh({axes}, axis_types={self.axis_types}{kind})"


def as_names(axis_names: Any) -> tuple[Any, ...]:
    """The names of axes, of which one may be given by itself."""
    return (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)


def _checked_types(what: str, names: tuple[Any, ...], types: Any) -> tuple[AxisType, ...]:
    if types is None:
        return (AxisType.Auto,) * len(names)
    found = types if isinstance(types, tuple) else (types,)
    if not all(isinstance(t, AxisType) for t in found):
        raise ArgumentError(
            f"{what}: axis_types holds something else than types",
            got=repr(types),
            fix="functrax.sharding.AxisType.Auto, .Explicit or .Manual for each axis",
        )
    if len(found) != len(names):
        raise ShardingError(
            f"{what}: there is not one type for each axis",
            got=f"axis_names={names!r}, axis_types={found}",
            fix="as many types as names",
        )
    return found


def _unpickled(sizes: tuple[int, ...], names: tuple[Any, ...], types: Any) -> Mesh:
    """A mesh from another process: of the device here."""
    if not names:
        return NO_MESH
    devices = np.empty(sizes, dtype=object)
    devices.fill(current_device())
    return Mesh(devices, names, types)


_meshes: Final[WeakValueDictionary[Any, Mesh]] = WeakValueDictionary()
_abstract_meshes: Final[WeakValueDictionary[Any, AbstractMesh]] = WeakValueDictionary()
#: The mesh where none is set.
NO_MESH: Final = Mesh(np.empty((), dtype=object), ())
NO_ABSTRACT_MESH: Final = AbstractMesh((), ())


@record
class MeshContext:
    """The meshes that are set, as the option ``mesh_context`` has them.

    Args:
      abstract: the mesh that programs are traced for.
      concrete: its devices.
    """

    abstract: AbstractMesh
    concrete: Mesh


class _Entered(threading.local):
    """The ``with mesh:`` blocks that the running thread is in."""

    def __init__(self) -> None:
        self.blocks: list[Override] = []


_entered: Final = _Entered()
