"""Arrays broadcast to a shape, or to one another's.

Start at :func:`broadcast_to`.
"""

from __future__ import annotations

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.numpy.axes import Shape, as_shape
from functrax.numpy.promote import broadcast_shape, broadcast_value, to_array
from functrax.typing import ArrayLike, ShapeLike

__all__ = ["broadcast_arrays", "broadcast_shapes", "broadcast_to"]


def broadcast_shapes(*shapes: ShapeLike) -> Shape:
    """The shape that arrays of these shapes broadcast to.

    Args:
      *shapes: integers, or sequences of sizes.

    Returns:
      A tuple of sizes.

    Raises:
      ShapeError: if they do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.broadcast_shapes((2, 1), (3,))
      (2, 3)
    """
    if not shapes:
        return ()
    return broadcast_shape("broadcast_shapes", [as_shape("broadcast_shapes", s) for s in shapes])


@with_out_sharding
def broadcast_to(array: ArrayLike, shape: ShapeLike) -> Array:
    """The array repeated along axes of size 1 and new leading axes.

    Args:
      array: an array or a scalar.
      shape: an integer or a sequence of sizes.

    Returns:
      An array of that shape.

    Raises:
      ShapeError: if the array does not broadcast to ``shape``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.broadcast_to(jnp.array([1, 2]), (2, 2))
      Array([[1, 2],
             [1, 2]], dtype=int32)
    """
    x = to_array("broadcast_to", array)
    sizes = as_shape("broadcast_to", shape)
    own = x.aval.shape
    tail = sizes[len(sizes) - len(own) :]
    fits = len(own) <= len(sizes) and all(a in (1, b) for a, b in zip(own, tail, strict=True))
    if not fits or min(sizes, default=0) < 0:
        raise ShapeError(
            "broadcast_to: Cannot broadcast to shape with fewer dimensions"
            if len(own) > len(sizes)
            else "broadcast_to: Incompatible shapes for broadcasting: the array does not broadcast "
            f"to the shape {sizes}",
            got=f"{x.aval.str_short()} to {sizes}",
            fix="sizes must be equal, or 1 in the array, counted from the last axis",
        )
    return broadcast_value(x, sizes)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays broadcast to one shape; each keeps its dtype.

    Args:
      *args: arrays or scalars.

    Returns:
      A list of arrays of one shape.

    Raises:
      ShapeError: if they do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> [x.shape for x in jnp.broadcast_arrays(jnp.zeros((2, 1)), jnp.zeros(3))]
      [(2, 3), (2, 3)]
    """
    values = [to_array("broadcast_arrays", x, k) for k, x in enumerate(args)]
    if not values:
        return []
    shape = broadcast_shape("broadcast_arrays", [x.aval.shape for x in values])
    return [broadcast_value(x, shape) for x in values]
