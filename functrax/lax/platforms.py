"""Functions that JAX offers for several platforms or compilers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrax.backends.sharding.placement import default_backend
from functrax.core.errors.typed import ArgumentError
from functrax.transforms.arguments.flat import check_callable


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Call the function that is given for the platform that programs run on.

    Args:
      args: its arguments.
      default: the function for platforms that are not named.
      per_platform: functions by platform: ``cpu=``, ``cuda=``, ...

    Returns:
      What the function returns.

    Raises:
      ArgumentError: if there is none for the platform.

    >>> from functrax import lax
    >>> lax.platform_dependent(2, cpu=lambda x: x + 1, default=lambda x: x)
    3
    """
    platform = default_backend()
    if platform == "gpu":
        platform = "cuda"
    function = per_platform.get(platform, default)
    if function is None:
        raise ArgumentError(
            f"platform_dependent: there is no function for the platform {platform!r}",
            got=", ".join(per_platform) or "no functions",
            fix=f"{platform}=..., or default=...",
        )
    return function(*args)


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function that other compilers may know by name; here it is what it is made of.

    Args:
      decomposition: the function; its keyword arguments are attributes, and stay as they are.
      name: what compilers would call it.
      version: of its meaning.

    Returns:
      A function that calls ``decomposition``.

    Raises:
      ArgumentError: if ``decomposition`` is not a function, or the name is empty.

    >>> from functrax import lax
    >>> lax.composite(lambda x, *, scale: x * scale, "my.scale")(2.0, scale=3.0)
    6.0
    """
    check_callable("composite", decomposition)
    if not name:
        raise ArgumentError("composite: the name is empty", got=repr(name), fix="'my.function'")

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        return decomposition(*args, **attributes)

    return call
