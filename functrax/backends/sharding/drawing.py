"""Pictures of shardings, as text: a box for each part of an array, with the name of its device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.backends.sharding.shardings import Sharding
from functrax.core.errors import ArgumentError, ShapeError


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Callable[..., Any] | None = None,
) -> None:
    """Print which part of an array of one or two axes lies on which device.

    There is one part, for there is one device, and the picture is in plain text.

    Args:
      shape: of the array.
      sharding: its sharding.
      use_color: whether the parts may have colours; one part needs none.
      scale: a factor for the size of the box.
      min_width: the least number of characters in the box.
      max_width: the greatest.
      color_map: must be None where ``use_color`` is True: there are no colours.

    Raises:
      ShapeError: for another number of axes.
      ShardingError: if the sharding does not fit the shape.
      ArgumentError: for a width or a scale that is no positive number, or colours.

    >>> import functrax
    >>> visualize_sharding((4,), functrax.numpy.ones(4).sharding)
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """
    size = tuple(shape)
    if len(size) not in (1, 2):
        raise ShapeError(
            "visualize_sharding: it draws arrays of one or two axes",
            got=f"shape {size}",
            fix="a slice of the array",
        )
    if use_color and color_map is not None:
        raise ArgumentError(
            "visualize_sharding: pictures have no colours",
            got=f"color_map={color_map!r}",
            fix="color_map=None",
        )
    if min(scale, min_width) <= 0 or max_width < min_width:
        raise ArgumentError(
            "visualize_sharding: sizes are positive, and the least is not above the greatest",
            got=f"scale={scale}, min_width={min_width}, max_width={max_width}",
            fix="scale=1.0, min_width=9, max_width=80",
        )
    parts = sharding.devices_indices_map(size)
    names = ",".join(f"{d.platform.upper()} {d.id}" for d in parts)
    width = min(max_width, max(round(min_width * scale), min_width, len(names) + 2))
    lines = [f"┌{'─' * width}┐", f"│{names:^{width}}│", f"└{'─' * width}┘"]
    print("\n".join(lines))
