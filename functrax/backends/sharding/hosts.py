"""The processes that run a program, of which there is one, and what is known of this one."""

from __future__ import annotations

import platform
import sys
import warnings
from typing import Any

import numpy as np

from functrax.backends.sharding.placement import devices, process_count, process_index
from functrax.core.pytree.operations import tree_leaves


class Cluster:
    """Whether the program was told that it is one of several processes."""

    initialized = False


cluster = Cluster()


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"{old}: its name is {new} now", UserWarning, stacklevel=3)


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes that run a program together: ``[0]``.

    Args:
      backend: a platform, ``"cpu"``, or None.
    """
    devices(backend)
    return [0]


def host_count(backend: str | None = None) -> int:
    """The older name of ``functrax.process_count``; warns."""
    _renamed("host_count", "process_count")
    return process_count(backend)


def host_id(backend: str | None = None) -> int:
    """The older name of ``functrax.process_index``; warns."""
    _renamed("host_id", "process_index")
    return process_index(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """The older name of ``functrax.process_indices``; warns."""
    _renamed("host_ids", "process_indices")
    return process_indices(backend)


def print_environment_info(return_string: bool = False) -> str | None:
    """Print what a report of a fault should say: versions, the device and the platform.

    Args:
      return_string: whether to return the text instead.
    """
    import llvmlite

    version = sys.modules["functrax"].__version__  # which this layer may not import
    (device,) = devices()
    lines = [
        f"functrax: {version}",
        f"llvmlite: {llvmlite.__version__}",
        f"numpy:  {np.__version__}",
        f"python: {sys.version}",
        f"device info: {device.device_kind}-1, 1 local devices",
        f"process_count: {process_count()}",
        f"platform: {platform.uname()}",
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


def copy_to_host_async(x: Any) -> Any:
    """Begin to copy the arrays of a pytree to the host's memory, where they are.

    Args:
      x: a pytree; leaves that have a method ``copy_to_host_async`` are asked to.

    Returns:
      The pytree itself.

    >>> copy_to_host_async([1.0, "name"])
    [1.0, 'name']
    """
    for leaf in tree_leaves(x):
        copy = getattr(leaf, "copy_to_host_async", None)
        if copy is not None:
            copy()
    return x
