"""Index expressions drawn at random, and what JAX's rules make of them in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPES = [
    (5,), (7,), (3, 4), (1, 6), (2, 3, 4), (4, 1, 3), (2, 3, 2, 3), (3, 2, 1, 2, 2),
    (), (0, 3), (2, 0, 3),
]  # fmt: skip
BLOCKS = [(), (1,), (2,), (3,), (5,), (2, 1), (1, 3), (2, 3), (2, 1, 2), (0,), (2, 0)]
INTEGERS = ["i8", "i8", "i4", "i2", "i1", "u1", "u4", "u8"]


def cases(seed: int, count: int) -> list[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Shapes with indices that NumPy takes once they are clamped."""
    rng = np.random.default_rng(seed)
    found: list[tuple[tuple[int, ...], tuple[Any, ...]]] = []
    while len(found) < count:
        shape = SHAPES[rng.integers(len(SHAPES))]
        index = draw(rng, shape)
        try:
            _ = np.zeros(shape)[clamped(shape, index)]
        except (IndexError, DeprecationWarning):  # older NumPy warns where nothing is read
            continue
        if masks_fit(shape, index):
            found.append((shape, index))
    return found


def masks_fit(shape: tuple[int, ...], index: tuple[Any, ...]) -> bool:
    """Whether boolean arrays have the shape of their axes; NumPy lets empty ones pass."""
    return all(
        item.shape == shape[axis : axis + item.ndim]
        for item, axis in expand(shape, index)
        if axis is not None and is_mask(item)
    )


def bare(index: tuple[Any, ...]) -> Any:
    """The index as it is usually written: a single item stands without a tuple."""
    return index[0] if len(index) == 1 and not isinstance(index[0], list) else index


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index for an array of that shape; integers may be out of range."""
    items: list[Any] = []
    axis = 0
    block = BLOCKS[rng.integers(len(BLOCKS))]
    ellipsis = False
    while axis < len(shape) and rng.random() < 0.85:
        size = shape[axis]
        kind = rng.integers(10)
        if kind == 0:
            items.append(None)
            continue
        if kind == 1 and not ellipsis:
            ellipsis = True
            items.append(Ellipsis)
            axis += int(rng.integers(len(shape) - axis + 1))
            continue
        if kind == 9:
            items.append([True, np.True_, False][rng.choice(3, p=[0.4, 0.4, 0.2])])
            continue
        if kind == 2:
            items.append(scalar(rng, int(rng.integers(-size - 2, size + 2))))
        elif kind in (3, 4):
            items.append(draw_slice(rng, size))
        elif kind == 5 and axis + 1 < len(shape) and rng.random() < 0.3:
            items.append(mask(rng, shape[axis : axis + 2], block))
            axis += 1
        elif kind == 5:
            items.append(mask(rng, (size,), block))
        else:
            items.append(integers(rng, size, fit(rng, block)))
        axis += 1
    if axis == len(shape) and rng.random() < 0.1 and not ellipsis:
        items.insert(int(rng.integers(len(items) + 1)), Ellipsis)
    return tuple(items)


def scalar(rng: np.random.Generator, index: int) -> Any:
    """An integer as Python's, as NumPy's scalar, or as an array without axes."""
    kind = [int, np.int64, np.int8, np.array][rng.integers(4)]
    return kind(index)


def integers(rng: np.random.Generator, size: int, shape: tuple[int, ...]) -> Any:
    """Integers of some dtype, or a nested list; some occur twice, and some are out of range."""
    dtype = np.dtype(INTEGERS[rng.integers(len(INTEGERS))])
    low = 0 if dtype.kind == "u" else -size - 2
    drawn = rng.integers(low, size + 2, shape).astype(dtype)
    return drawn.tolist() if drawn.ndim and drawn.size and rng.random() < 0.1 else drawn


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
    """Each item with the axis that it starts at (None if it takes none of the array's axes)."""
    used = sum(map(axes_used, index))
    axis, found = 0, []
    for item in index:
        found.append((item, axis if axes_used(item) else None))
        axis += len(shape) - used if item is Ellipsis else axes_used(item)
    return found


def axes_used(item: Any) -> int:
    """How many axes of the array an item of an index takes."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    return item.ndim if is_mask(item) else 1


def wrapped(item: Any, size: int) -> np.ndarray[Any, Any]:
    """Integers with the negative ones counted from the end."""
    wide = np.asarray(item).astype(np.int64)
    return np.where(wide < 0, wide + size, wide)


def clamped(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same index with integers wrapped once and clamped, for NumPy to read by."""
    out = []
    for item, axis in expand(shape, index):
        if axis is None or not is_integer(item):
            out.append(item)
            continue
        inside = np.clip(wrapped(item, shape[axis]), 0, shape[axis] - 1)
        out.append(inside if inside.ndim else int(inside))
    return tuple(out)


def positions(shape: tuple[int, ...], index: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The row-major position of each element that is named, -1 for those out of range."""
    out = []
    border = [0] * len(shape)
    for item, axis in expand(shape, index):
        if axis is None or not is_integer(item):
            out.append(item)
            continue
        size = shape[axis]
        place = wrapped(item, size)
        inside = np.where((place < 0) | (place >= size), size, place)
        out.append(inside if inside.ndim else int(inside))
        border[axis] = 1
    grid = np.full(tuple(n + b for n, b in zip(shape, border, strict=True)), -1)
    grid[tuple(map(slice, shape))] = np.arange(int(np.prod(shape))).reshape(shape)
    return grid[tuple(out)]


def is_mask(item: Any) -> bool:
    """Whether an item of an index is a boolean array."""
    return isinstance(item, np.ndarray) and item.dtype.kind == "b"


def is_integer(item: Any) -> bool:
    """Whether an item of an index is an integer or an array or a list of them."""
    if isinstance(item, (bool, np.bool_)):
        return False
    return isinstance(item, (int, np.integer, list)) or (
        isinstance(item, np.ndarray) and item.dtype.kind in "iu"
    )
