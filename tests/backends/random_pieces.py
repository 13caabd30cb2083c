"""Random programs of views that put arrays together, for NumPy and functrax alike.

Start at :func:`program`: of a seed it makes a function of a namespace (``numpy`` or
``functrax.numpy``) and an array.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any, TypeAlias

Step: TypeAlias = Callable[[Any, Any], Any]
MODES = ("constant", "wrap", "edge", "reflect", "symmetric")
MOST = 4000


def program(seed: int, shape: tuple[int, ...], length: int) -> Step:
    """A function ``(namespace, x) -> array`` of some steps; the same one for the same seed.

    Args:
      seed: of what is chosen.
      shape: of the array.
      length: how many steps there are.
    """
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(length)]
    seeds = [rng.randrange(2**32) for _ in steps]
    reduce_axis = rng.choice([None, None, 0, -1])
    name = rng.choice(["sum", "max", "min"])

    def run(xp: Any, x: Any) -> Any:
        for step, own in zip(steps, seeds, strict=True):
            x = step(xp, x, random.Random(own))
        return x if reduce_axis is None else getattr(xp, name)(x, axis=reduce_axis)

    return run


def _rolls(xp: Any, x: Any, rng: random.Random) -> Any:
    """A sum of neighbours, as stencils are written."""
    total = x
    for _ in range(rng.randint(1, 4)):
        axes = tuple(rng.sample(range(x.ndim), rng.randint(1, x.ndim)))
        by = tuple(rng.randint(-3, 3) for _ in axes)
        moved = xp.roll(x, by, axis=axes)
        total = total + moved if rng.random() < 0.7 else xp.maximum(total, moved)
    return total


def _windows(xp: Any, x: Any, rng: random.Random) -> Any:
    """A sum of slices of a padded array."""
    mode = rng.choice(MODES)
    widths = [rng.randint(0, 2) if n > 2 or mode == "constant" else 1 for n in x.shape]
    if mode == "reflect" and min(x.shape) < 2:
        mode = "edge"
    padded = xp.pad(x, [(w, w) for w in widths], mode=mode)
    total = x
    for _ in range(rng.randint(1, 3)):
        begins = [rng.randint(0, 2 * w) for w in widths]
        window = tuple(slice(b, b + n) for b, n in zip(begins, x.shape, strict=True))
        total = total + padded[window]
    return total


def _stack(xp: Any, x: Any, rng: random.Random) -> Any:
    """Shifted views as planes, of which some are taken or all put together."""
    shifts = [rng.randint(-2, 2) for _ in range(rng.randint(2, 4))]
    planes = xp.stack([xp.roll(x, by, rng.randrange(x.ndim)) for by in shifts])
    if x.ndim < 3 and rng.random() < 0.3 and planes.size < MOST:
        return planes
    return planes[rng.randrange(len(shifts))] - planes[0]


def _concatenate(xp: Any, x: Any, rng: random.Random) -> Any:
    """Pieces of an array, some of them computed, in another order."""
    axis = rng.randrange(x.ndim)
    n = x.shape[axis]
    cuts = sorted({0, n, *(rng.randint(0, n) for _ in range(rng.randint(1, 3)))})

    def piece(low: int, high: int) -> Any:
        return x[(slice(None),) * axis + (slice(low, high),)]

    pieces = [piece(low, high) for low, high in itertools.pairwise(cuts)]
    rng.shuffle(pieces)
    pieces = [p if rng.random() < 0.7 else xp.flip(p, axis) + p for p in pieces]
    if rng.random() < 0.3 and x.size < MOST:
        pieces.append(piece(0, max(n // 2, 1)))
    return xp.concatenate(pieces, axis=axis)


def _slice(xp: Any, x: Any, rng: random.Random) -> Any:
    axis = rng.randrange(x.ndim)
    if x.shape[axis] < 4:
        return xp.flip(x, axis)
    step = rng.choice([1, 1, 1, 2])
    return x[(slice(None),) * axis + (slice(rng.randint(0, 1), x.shape[axis] - 1, step),)]


def _flip(xp: Any, x: Any, rng: random.Random) -> Any:
    return xp.flip(x, rng.randrange(x.ndim)) + x


def _turn(xp: Any, x: Any, rng: random.Random) -> Any:
    return xp.transpose(x, rng.sample(range(x.ndim), x.ndim))


STEPS = (_rolls, _rolls, _windows, _stack, _concatenate, _concatenate, _slice, _flip, _turn)
