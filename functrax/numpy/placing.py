"""Copies of arrays with other values at positions: put, put_along_axis, place.

NumPy's functions of these names change an array; these give a new one, and want
``inplace=False``.  Writing is one scatter.  Start at :func:`put_along_axis`.
"""

from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.mapped import scatter
from functrax.numpy.at import At, cast_update
from functrax.numpy.axes import one_axis
from functrax.numpy.broadcasting import broadcast_to
from functrax.numpy.index_plan import Bounds, operand_in_range
from functrax.numpy.indexing import mode_name
from functrax.numpy.promote import result, to_array
from functrax.numpy.rearranging import resize
from functrax.numpy.searching import nonzero
from functrax.numpy.selecting import integers, map_along_axis, wrapped_around
from functrax.numpy.shaping import reshape_to
from functrax.numpy.triangles import refuse_inplace
from functrax.typing import ArrayLike

__all__ = ["place", "put", "put_along_axis"]


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """A copy in which the elements that :func:`take_along_axis` would take have other values.

    Args:
      arr: an array.
      indices: integers, of the rank of ``arr``; other axes broadcast against those of ``arr``.
      values: the new values; they broadcast to the shape of the indices.
      axis: None means the elements in row-major order.
      inplace: must be False, for arrays are immutable.
      mode: out of range, ``"clip"`` means the nearest element; otherwise the value is left out.

    Returns:
      An array of the shape of ``arr``.

    Raises:
      UnavailableError: if ``inplace`` is not False.
      ShapeError: if ranks differ or other axes do not broadcast.
      DTypeError: if the indices are no integers.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.array([[3, 1], [5, 9]])
      >>> jnp.put_along_axis(x, jnp.array([[0], [1]]), 0, axis=1, inplace=False)
      Array([[0, 1],
             [5, 0]], dtype=int32)
    """
    refuse_inplace("put_along_axis", inplace)
    x, index = to_array("put_along_axis", arr), integers("put_along_axis", indices)
    shape = x.aval.shape
    if axis is None:
        x, axis = reshape_to(x, (x.aval.size,)), 0
    k = one_axis("put_along_axis", axis, x.aval.ndim)
    clip = mode_name("put_along_axis", mode, "fill") == "clip"
    index = operand_in_range(index, x.aval.shape[k], Bounds(clip))
    index_map = map_along_axis("put_along_axis", x.aval.shape, index.aval.shape, k)
    updates = broadcast_to(result(cast_update("put_along_axis", values, x.aval)), index_map.domain)
    return reshape_to(scatter.bind(x, updates, index, map=index_map, op="set", unique=False), shape)


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """A copy with values ``v``, repeated if too few, at row-major positions ``ind``.

    Out of range, ``mode`` None or ``"clip"`` means the nearest position, ``"wrap"`` counts around,
    and ``"drop"`` leaves the value out.

    Args:
      a: an array.
      ind: integers, positions in row-major order; negative ones count from the end.
      v: the values; repeated if there are fewer than positions.
      mode: as above.
      inplace: must be False, for arrays are immutable.

    Returns:
      An array of the shape of ``a``.

    Raises:
      UnavailableError: if ``inplace`` is not False.
      DTypeError: if the positions are no integers.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.put(jnp.zeros(4), jnp.array([0, 2]), jnp.array([5.0, 7.0]), inplace=False)
      Array([5., 0., 7., 0.], dtype=float32)
    """
    refuse_inplace("put", inplace)
    x, index, values = to_array("put", a), integers("put", ind), to_array("put", v, 2)
    flat = reshape_to(x, (x.aval.size,))
    if not index.aval.size or not values.aval.size:
        return x
    index = reshape_to(index, (index.aval.size,))
    if mode == "wrap":
        index, mode = wrapped_around(index, x.aval.size), "clip"
    updates = resize(values, (index.aval.size,))
    return reshape_to(At(flat)[index].set(updates, mode=mode or "clip"), x.aval.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """A copy with values ``vals``, repeated if too few, where the mask holds.

    Args:
      arr: an array.
      mask: an array of as many elements; those that are not 0 are replaced.
      vals: the values, in the order of the elements; repeated if too few.
      inplace: must be False, for arrays are immutable.

    Returns:
      An array of the shape of ``arr``.

    Raises:
      UnavailableError: if ``inplace`` is not False.
      ShapeError: if the mask has another size.
      ArgumentError: if there is no value.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.arange(4)
      >>> jnp.place(x, x > 1, jnp.array([7, 8]), inplace=False)
      Array([0, 1, 7, 8], dtype=int32)
    """
    refuse_inplace("place", inplace)
    x, chosen, values = to_array("place", arr), to_array("place", mask, 1), to_array("place", vals)
    if chosen.aval.size != x.aval.size:
        raise ShapeError(
            "place: the mask has another size than the array",
            got=f"{x.aval.str_short()}, {chosen.aval.str_short()}",
            fix="a mask of the array's shape",
        )
    if not values.aval.size:
        raise ArgumentError(
            "place: there is no value to place",
            got=values.aval.str_short(),
            fix="one value or more",
        )
    flat = reshape_to(x, (x.aval.size,))
    (where,) = nonzero(reshape_to(chosen, (chosen.aval.size,)), size=x.aval.size,
                       fill_value=x.aval.size)  # fmt: skip
    updates = resize(values, (x.aval.size,))
    return reshape_to(At(flat)[where].set(updates), x.aval.shape)
