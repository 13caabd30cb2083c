"""Index expressions drawn at random, and what JAX's rules make of them in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPES = [(5,), (3, 4), (1, 6), (2, 3, 4), (4, 1, 3), (2, 3, 2, 3)]
BLOCKS = [(), (1,), (2,), (3,), (2, 1), (1, 3), (2, 3)]


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index for an array of that shape; integers may be out of range."""
    items: list[Any] = []
    axis = 0
    block = BLOCKS[rng.integers(len(BLOCKS))]
    ellipsis = False
    while axis < len(shape) and rng.random() < 0.85:
        size = shape[axis]
        kind = rng.integers(9)
        if kind == 0:
            items.append(None)
            continue
        if kind == 1 and not ellipsis:
            ellipsis = True
            items.append(Ellipsis)
            axis += int(rng.integers(len(shape) - axis + 1))
            continue
        if kind == 2:
            items.append(int(rng.integers(-size - 2, size + 2)))
        elif kind in (3, 4):
            items.append(draw_slice(rng, size))
        elif kind == 5 and axis + 1 < len(shape) and rng.random() < 0.3:
            items.append(mask(rng, shape[axis : axis + 2], block))
            axis += 1
        elif kind == 5:
            items.append(mask(rng, (size,), block))
        else:
            items.append(rng.integers(-size - 2, size + 2, fit(rng, block)))
        axis += 1
    return tuple(items)


def fit(rng: np.random.Generator, block: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to the block."""
    sizes = tuple(1 if rng.random() < 0.2 else size for size in block)
    return sizes[int(rng.integers(len(sizes) + 1)) :] if rng.random() < 0.2 else sizes


def mask(
    rng: np.random.Generator, shape: tuple[int, ...], block: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """A boolean array with as many True as the block's last size, if it can have them."""
    size = int(np.prod(shape))
    count = min(block[-1] if block else 1, size)
    flat = np.zeros(size, bool)
    flat[rng.permutation(size)[:count]] = True
    return flat.reshape(shape)


def draw_slice(rng: np.random.Generator, size: int) -> slice:
    def bound() -> int | None:
        return None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))

    step = [None, 1, 2, 3, -1, -2][rng.integers(6)]
    return slice(bound(), bound(), step)


def expand(shape: tuple[int, ...], index: tuple[Any, ...]) -> list[tuple[Any, int | None]]:
    """Each item with the axis that it starts at (None for a new axis and an ellipsis)."""
    used = sum(1 if not hasattr(i, "ndim") or i.dtype != bool else i.ndim
               for i in index if i is not None and i is not Ellipsis)  # fmt: skip
    axis, found = 0, []
    for item in index:
        if item is None:
            found.append((item, None))
        elif item is Ellipsis:
            found.append((item, None))
            axis += len(shape) - used
        else:
            found.append((item, axis))
            axis += item.ndim if hasattr(item, "dtype") and item.dtype == bool else 1
    return found


def clamped(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same index with integers wrapped once and clamped, for NumPy to read by."""
    out = []
    for item, axis in expand(shape, index):
        if axis is None or isinstance(item, slice) or is_mask(item):
            out.append(item)
            continue
        size = shape[axis]
        wrapped = np.where(np.asarray(item) < 0, np.asarray(item) + size, item)
        inside = np.clip(wrapped, 0, size - 1)
        out.append(int(inside) if isinstance(item, int) else inside)
    return tuple(out)


def positions(shape: tuple[int, ...], index: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The row-major position of each element that is named, -1 for those out of range."""
    out = []
    border = [0] * len(shape)
    for item, axis in expand(shape, index):
        if axis is None or isinstance(item, slice) or is_mask(item):
            out.append(item)
            continue
        size = shape[axis]
        wrapped = np.where(np.asarray(item) < 0, np.asarray(item) + size, item)
        inside = np.where((wrapped < 0) | (wrapped >= size), size, wrapped)
        out.append(int(inside) if isinstance(item, int) else inside)
        border[axis] = 1
    grid = np.full(tuple(n + b for n, b in zip(shape, border, strict=True)), -1)
    grid[tuple(map(slice, shape))] = np.arange(int(np.prod(shape))).reshape(shape)
    return grid[tuple(out)]


def is_mask(item: Any) -> bool:
    """Whether an item of an index is a boolean array."""
    return isinstance(item, np.ndarray) and item.dtype.kind == "b"


def is_integer(item: Any) -> bool:
    """Whether an item of an index is an integer or an array of them."""
    return isinstance(item, int) or (isinstance(item, np.ndarray) and item.dtype.kind == "i")
