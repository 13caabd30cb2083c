"""Programs of several processes, of which there is one; as ``jax.distributed``.

A program that calls :func:`initialize` runs as it is when it is started as one process.

>>> import functrax
>>> functrax.distributed.initialize(num_processes=1, process_id=0)
>>> functrax.distributed.is_initialized()
True
>>> functrax.distributed.shutdown()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.backends.sharding import hosts
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.lazy import listing as _listing


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Begin a program of one process.

    Args:
      coordinator_address: where process 0 would listen, ``"host:port"``; nobody calls it.
      num_processes: must be 1 or None.
      process_id: must be 0 or None.
      local_device_ids: must be 0, ``[0]`` or None: there is one device.
      cluster_detection_method: ``"deactivate"`` or None; no cluster is looked for.
      initialization_timeout: seconds to wait for the other processes; there are none.
      heartbeat_timeout_seconds: seconds without a sign of life of another process.
      shutdown_timeout_seconds: seconds to wait at the end.
      coordinator_bind_address: as ``coordinator_address``.
      slice_index: must be 0 or None.
      partition_index: must be 0 or None.

    Raises:
      UnavailableError: for several processes; it is a RuntimeError, and a ValueError.
      ArgumentError: for a timeout that is no positive number, or an address that is no text.

    >>> initialize(num_processes=1)
    >>> shutdown()
    """
    timeouts: tuple[Any, ...] = (
        initialization_timeout,
        heartbeat_timeout_seconds,
        shutdown_timeout_seconds,
    )
    for seconds in timeouts:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
            raise ArgumentError(
                "distributed.initialize: a timeout is no positive number",
                got=repr(seconds),
                fix="seconds, such as 300",
            )
    addresses: tuple[Any, ...] = (coordinator_address, coordinator_bind_address)
    for address in addresses:
        if address is not None and not isinstance(address, str):
            raise ArgumentError(
                "distributed.initialize: an address is no text",
                got=repr(address),
                fix="'host:port', or None",
            )
    wanted = {
        "num_processes": (num_processes, (None, 1)),
        "process_id": (process_id, (None, 0)),
        "local_device_ids": (_one(local_device_ids), (None, 0)),
        "cluster_detection_method": (cluster_detection_method, (None, "deactivate")),
        "slice_index": (slice_index, (None, 0)),
        "partition_index": (partition_index, (None, 0)),
    }
    for name, (given, taken) in wanted.items():
        if given not in taken:
            raise UnavailableError(
                "distributed.initialize: programs run in one process, on one device",
                got=f"{name}={given!r}",
                fix=f"{name}={taken[1]!r}",
            )
    if hosts.cluster.initialized:
        raise UnavailableError(
            "distributed.initialize: it was called before",
            got="a second call",
            fix="functrax.distributed.shutdown() in between",
        )
    hosts.cluster.initialized = True


def _one(ids: int | Sequence[int] | None) -> object:
    """The one number in a sequence of one."""
    if isinstance(ids, (list, tuple)) and len(ids) == 1:
        return ids[0]
    return ids


def is_initialized() -> bool:
    """Whether :func:`initialize` was called, and :func:`shutdown` not since.

    Returns:
      A bool.

    >>> is_initialized()
    False
    """
    return hosts.cluster.initialized


def shutdown() -> None:
    """End what :func:`initialize` began; nothing if it did not.

    >>> shutdown()
    """
    hosts.cluster.initialized = False


__dir__ = _listing(globals())
