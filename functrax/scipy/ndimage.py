"""Interpolation in arrays, as in ``jax.scipy.ndimage``.

Start at :func:`map_coordinates`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.typing import ArrayLike


def _mirror(i: Value, size: int) -> Value:
    last = max(size - 1, 1)
    return jnp.abs((i + last) % (2 * last) - last) if size > 1 else jnp.zeros_like(i)


#: How places outside become places inside.
_MODES: dict[str, Callable[[Value, int], Value]] = {
    "constant": lambda i, size: i,
    "nearest": lambda i, size: jnp.clip(i, 0, size - 1),
    "wrap": lambda i, size: i % size,
    "mirror": _mirror,
    "reflect": lambda i, size: jnp.floor_divide(_mirror(2 * i + 1, 2 * size + 1), 2),
}


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """The values of an array at places between its elements.

    Args:
      input: an array.
      coordinates: for each axis an array of places, all of one shape.
      order: 0 for the nearest element, 1 for linear interpolation.
      mode: what lies outside: "constant" (``cval``), "nearest", "wrap", "mirror" (around the
        middle of the last element) or "reflect" (around its edge).
      cval: the constant.

    Returns:
      An array of the shape of the coordinates and the dtype of ``input``.

    Raises:
      ArgumentError: for another order or mode.
      ShapeError: if there is not one array of coordinates for each axis.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.ndimage.map_coordinates(jnp.array([0.0, 10.0]), [jnp.array([0.25])], order=1)
    Array([2.5], dtype=float32)
    """
    if mode not in _MODES:
        raise ArgumentError(
            "map_coordinates: unknown mode", got=repr(mode), fix="one of " + ", ".join(_MODES)
        )
    if order not in (0, 1):
        raise ArgumentError(
            "map_coordinates: no interpolation of this order", got=f"order={order}", fix="0 or 1"
        )
    x, places = jnp.asarray(input), [jnp.asarray(c) for c in coordinates]
    if len(places) != x.ndim:
        raise ShapeError(
            "map_coordinates: there is not one array of coordinates for each axis",
            got=f"{len(places)} for {x.aval.str_short()}",
            fix="as many as the array has axes",
        )
    corners = [_neighbours(c, order) for c in places]
    total: Any = None
    for choice in itertools.product(*corners):
        inside: Any = True
        where = []
        for (i, _), size in zip(choice, x.shape, strict=True):
            fixed = _MODES[mode](i, size)
            inside = inside & (fixed >= 0) & (fixed < size)
            where.append(jnp.clip(fixed, 0, size - 1))
        value = jnp.where(inside, x[tuple(where)], jnp.asarray(cval, x.dtype))
        for _, weight in choice:
            value = value if weight is None else value * weight
        total = value if total is None else total + value
    if jnp.issubdtype(x.dtype, jnp.integer) and order:
        total = jnp.round(total)
    return jnp.asarray(total).astype(x.dtype)


def _neighbours(c: Value, order: int) -> list[tuple[Value, Any]]:
    """The elements next to places, and their weights; None for 1."""
    if order == 0:
        return [(jnp.round(c).astype("int32"), None)]
    below = jnp.floor(c)
    upper = c - below
    i = below.astype("int32")
    return [(i, 1 - upper), (i + 1, upper)]


__dir__ = _listing(globals())
