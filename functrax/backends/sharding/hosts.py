"""The processes that run a program, of which there is one, and what is known of this one."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from functrax.backends.sharding.placement import devices, process_count, process_index
from functrax.core.pytree.operations import tree_leaves

F = TypeVar("F", bound="Callable[..., Any]")


class Cluster:
    """Whether the program was told that it is one of several processes."""

    initialized = False


cluster = Cluster()


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes that run a program together: ``[0]``.

    Args:
      backend: a platform, ``"cpu"``, or None.

    Returns:
      A list of one number.

    Raises:
      UnavailableError: if there is no such platform.

    >>> import functrax
    >>> functrax.process_indices()
    [0]
    """
    devices(backend)
    return [0]


def _older(function: Callable[[str | None], Any]) -> Callable[[F], F]:
    """What makes of a signature and a summary the older name of a function, which warns."""

    def decorate(template: F) -> F:
        name = template.__name__

        def older(backend: str | None = None) -> Any:
            warnings.warn(f"{name}: its name is {function.__name__} now", UserWarning, stacklevel=2)
            return function(backend)

        older.__name__ = older.__qualname__ = name
        older.__doc__ = f"""{template.__doc__}

    Args:
      backend: as for that function.

    Returns:
      What that function returns.

    >>> import functrax, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     functrax.{name}() == functrax.{function.__name__}()
    True
    """
        return cast(F, older)

    return decorate


@_older(process_count)
def host_count(backend: str | None = None) -> int:
    """The older name of ``functrax.process_count``; warns."""


@_older(process_index)
def host_id(backend: str | None = None) -> int:
    """The older name of ``functrax.process_index``; warns."""


@_older(process_indices)
def host_ids(backend: str | None = None) -> list[int]:
    """The older name of ``functrax.process_indices``; warns."""


def print_environment_info(return_string: bool = False) -> str | None:
    """Print what a report of a fault should say: versions, the device and the platform.

    Args:
      return_string: whether to return the text instead.

    Returns:
      None, or the text.

    >>> import functrax
    >>> "functrax:" in functrax.print_environment_info(return_string=True)
    True
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
