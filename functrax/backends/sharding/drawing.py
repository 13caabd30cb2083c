"""Pictures of shardings, as text: a box for each part of an array, with the name of its device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from functrax.backends.sharding.shardings import Sharding
from functrax.core.errors.typed import ArgumentError, ShapeError


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

    The picture is in plain text: a box for each part, with the numbers of its devices.

    Args:
      shape: of the array.
      sharding: its sharding.
      use_color: whether the parts may have colours; they have none.
      scale: a factor for the size of the boxes.
      min_width: the least number of characters of a box, with its edges.
      max_width: the greatest.
      color_map: must be None where ``use_color`` is True: there are no colours.

    Raises:
      ShapeError: for another number of axes.
      ShardingError: if the sharding does not fit the shape.
      ArgumentError: for a width or a scale that is no positive number, or colours.

    >>> import functrax
    >>> visualize_sharding((4,), functrax.numpy.ones(4).sharding)
    ┌───────┐
    │ CPU 0 │
    └───────┘
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
    flat = len(size) == 1
    base = int(10 * scale)
    boxes: dict[tuple[int, ...], set[int]] = {}
    for device, index in parts.items():
        place = tuple([_number(part, n) for part, n in zip(index, size)])
        boxes.setdefault((0, *place) if flat else place, set()).add(device.id)
    rows, columns = (1 + max(place[k] for place in boxes) for k in (0, 1))
    across = 1 / size[0] if flat else size[1] / size[0]
    width = int(int(base * across) / columns * _HEIGHT_TO_WIDTH)
    width = min(max(width, min_width), max_width) - 2
    height = max(1 if flat else int(base / rows) - 1, 1)
    kind = next(iter(parts)).platform.upper()
    names = [
        [f"{kind} {','.join(map(str, sorted(boxes[i, j])))}" for j in range(columns)]
        for i in range(rows)
    ]
    width = max(width, *[len(name) for row in names for name in row])
    print(_grid(names, width, height))


#: How much higher than wide a character is.
_HEIGHT_TO_WIDTH: Final = 2.5


def _number(part: slice, size: int) -> int:
    """Which of the equal parts of an axis a slice is."""
    begin, end = part.start or 0, size if part.stop is None else part.stop
    return int(begin // max(end - begin, 1))


def _grid(names: list[list[str]], width: int, height: int) -> str:
    """Boxes of a size, with a name in the middle of each."""

    def line(left: str, between: str, right: str, cells: list[str]) -> str:
        return left + between.join(cells) + right

    columns = len(names[0])
    above = (height - 1) // 2
    blank = [line("│", "│", "│", [" " * width] * columns)]
    bodies = []
    for row in names:
        cells = [name.rjust((width - len(name)) // 2 + len(name)).ljust(width) for name in row]
        middle = [line("│", "│", "│", cells)]
        bodies.append("\n".join(blank * above + middle + blank * (height - 1 - above)))
    edge = ["─" * width] * columns
    inner = "\n" + line("├", "┼", "┤", edge) + "\n"
    top, bottom = line("┌", "┬", "┐", edge), line("└", "┴", "┘", edge)
    return "\n".join([top, inner.join(bodies), bottom])
