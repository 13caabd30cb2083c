"""Arrays back to front, and turned: flip, fliplr, flipud, rot90.

Start at :func:`flip`.
"""

from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.numpy.axes import integer, many_axes, one_axis
from functrax.numpy.promote import to_array
from functrax.numpy.shaping import reverse, swapaxes
from functrax.typing import ArrayLike, Axes

__all__ = ["flip", "fliplr", "flipud", "rot90"]


def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """Back to front along ``axis``, or along all axes.

    Args:
      m: an array.
      axis: an axis, or several; None for all.

    Returns:
      An array of the same shape.

    Raises:
      AxisError: for an axis out of range or named twice.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.flip(jnp.array([[1, 2], [3, 4]]), axis=1)
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    x = to_array("flip", m)
    return reverse(x, many_axes("flip", axis, x.aval.ndim))


def fliplr(m: ArrayLike) -> Array:
    """Columns back to front.

    Args:
      m: an array of at least two axes.

    Returns:
      An array of the same shape.

    Raises:
      AxisError: if there is no second axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
      Array([[2, 1],
             [4, 3]], dtype=int32)
    """
    x = to_array("fliplr", m)
    return reverse(x, (one_axis("fliplr", 1, x.aval.ndim),))


def flipud(m: ArrayLike) -> Array:
    """Rows back to front.

    Args:
      m: an array of at least one axis.

    Returns:
      An array of the same shape.

    Raises:
      AxisError: if there is no axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
      Array([[3, 4],
             [1, 2]], dtype=int32)
    """
    x = to_array("flipud", m)
    return reverse(x, (one_axis("flipud", 0, x.aval.ndim),))


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned by ``k`` quarters, from the first of ``axes`` towards the second.

    Args:
      m: an array of at least two axes.
      k: how many quarter turns; negative ones turn back.
      axes: the two axes of the plane in which it turns.

    Returns:
      The turned array.

    Raises:
      ShapeError: if ``m`` has fewer than two axes.
      ArgumentError: for another number of ``axes``.
      AxisError: for an axis out of range or named twice.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
      Array([[2, 4],
             [1, 3]], dtype=int32)
    """
    x = to_array("rot90", m)
    turns = integer("rot90", "k", k) % 4
    if x.aval.ndim < 2:
        raise ShapeError(
            "rot90 requires its first argument to have ndim at least two, but got first argument "
            f"of shape {x.aval.shape}",
            got=x.aval.str_short(),
            fix="an array of two axes or more",
        )
    pair = many_axes("rot90", axes, x.aval.ndim, "axes")
    if len(pair) != 2:
        raise ArgumentError("rot90: turns in a plane of two axes", got=f"axes {axes}", fix="(0, 1)")
    first, second = pair
    if turns == 0:
        return x
    if turns == 2:
        return reverse(x, (first, second))
    if turns == 1:
        return swapaxes(reverse(x, (second,)), first, second)
    return reverse(swapaxes(x, first, second), (second,))
