"""On which devices the parts of arrays lie: meshes, specs, shardings; as ``jax.sharding``.

There is one device.  A mesh has size 1, all of an array is on the device, and programs written for
meshes run as they are.  Shardings are checked: a spec has to fit the mesh and the array.

>>> import functrax
>>> from functrax.sharding import NamedSharding, PartitionSpec as P
>>> mesh = functrax.make_mesh((1,), ("data",))
>>> x = functrax.device_put(functrax.numpy.ones((4, 2)), NamedSharding(mesh, P("data")))
>>> x.sharding.spec
P('data',)
"""

from __future__ import annotations

from functrax.backends.device import Device
from functrax.backends.sharding.context import (
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from functrax.backends.sharding.mesh import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
)
from functrax.backends.sharding.moving import reshard as reshard
from functrax.backends.sharding.partition import PartitionSpec as PartitionSpec
from functrax.backends.sharding.shardings import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from functrax.core.lazy import listing as _listing
from functrax.transforms.arguments.types_of_arrays import ManualAxisType as ManualAxisType
from functrax.transforms.sharded.shard_map import (
    auto_axes as auto_axes,
    explicit_axes as explicit_axes,
)


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding of arrays that are on one device.

    Args:
      device: the device.
      memory_kind: which of its memories; the usual one if None.

    Returns:
      A sharding.

    >>> import functrax
    >>> make_single_device_sharding(functrax.devices()[0]).num_devices
    1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


__dir__ = _listing(globals())
