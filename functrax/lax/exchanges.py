"""Collectives that send parts of arrays along a named axis of ``vmap``.

They are made of ``all_gather``, ``psum`` and ``ppermute``, which become ordinary operations on the
mapped axis; so do these.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.reindex import reshape, transpose_
from functrax.core.prims.shape_checks import axis_from_start
from functrax.core.pytree.operations import tree_map
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.lax.slicing import dynamic_index_in_dim
from functrax.transforms.operations.collective_functions import (
    all_gather,
    axis_index,
    axis_size,
    ppermute,
    psum,
)
from functrax.transforms.operations.collectives import AxisName

T = TypeVar("T")


def _blocks(name: str, x: Any, axis_name: AxisName, axis: int, tiled: bool) -> tuple[Value, int]:
    """The array with an axis that counts the elements of the named one, and which axis that is."""
    value = as_value(x, f"an argument of {name}")
    shape, size = value.aval.shape, axis_size(axis_name)
    axis = axis_from_start(name, axis, len(shape))
    if shape[axis] % size if tiled else shape[axis] != size:
        raise ShapeError(
            f"{name}: axis {axis} does not have a part for each element of {axis_name!r}",
            got=f"{value.aval.str_short()}, and {size} elements",
            fix=f"a size that is a multiple of {size}"
            if tiled
            else f"a size of {size}; or tiled=True for several rows for each element",
        )
    if not tiled:
        return value, axis
    parts = (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :])
    return reshape.bind(value, shape=parts), axis


def all_to_all(
    x: T,
    axis_name: Hashable,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> T:
    """Send each element of a named axis its part of an array, and put together what comes in.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``, or a tuple of names, whose elements count row-major.
      split_axis: the axis of which element ``i`` gets part ``i``.
      concat_axis: the axis along which the parts that come in stand.
      axis_index_groups: not supported.
      tiled: False if ``split_axis`` has one row for each element, and is replaced by
        ``concat_axis``; True if it has several, and the parts are joined along ``concat_axis``.

    Returns:
      A pytree of the same structure.

    Raises:
      AxisNameError: if nothing binds the name.
      ShapeError: if ``split_axis`` does not have a part for each element.
      AxisError: if an axis is out of range.
      ArgumentError: for ``axis_index_groups``.

    >>> import functrax, functrax.numpy as jnp
    >>> f = lambda x: functrax.lax.all_to_all(x, "i", 0, 0)
    >>> functrax.vmap(f, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """

    def leaf(x: Any) -> Any:
        parts, split = _blocks("all_to_all", x, axis_name, split_axis, tiled)
        every = all_gather(parts, axis_name, axis_index_groups=axis_index_groups)
        own = as_value(dynamic_index_in_dim(every, axis_index(axis_name), split + 1, False))
        ndim = own.aval.ndim
        place = axis_from_start("all_to_all", concat_axis, ndim - 1 if tiled else ndim)
        order = list(range(1, ndim))
        order.insert(place, 0)
        moved = transpose_(own, tuple(order))
        if not tiled:
            return moved
        shape = moved.aval.shape
        joined = shape[place] * shape[place + 1]
        return reshape.bind(moved, shape=(*shape[:place], joined, *shape[place + 2 :]))

    return tree_map(leaf, x)


def psum_scatter(
    x: T,
    axis_name: Hashable,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> T:
    """The sum over a named axis, of which each element gets its own part.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``.
      scatter_dimension: the axis of which element ``i`` gets part ``i``.
      axis_index_groups: not supported.
      tiled: whether the axis has several rows for each element, and stays; False if it has one
        for each, and goes.

    Returns:
      A pytree of the same structure.

    Raises:
      AxisNameError: if nothing binds the name.
      ShapeError: if the axis does not have a part for each element.
      AxisError: if the axis is out of range.
      ArgumentError: for ``axis_index_groups``.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> f = lambda x: lax.psum_scatter(x, "i")
    >>> vmap(f, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([2, 4], dtype=int32)
    """

    def leaf(x: Any) -> Any:
        parts, axis = _blocks("psum_scatter", x, axis_name, scatter_dimension, tiled)
        total = psum(parts, axis_name, axis_index_groups=axis_index_groups)
        return dynamic_index_in_dim(total, axis_index(axis_name), axis, False)

    return tree_map(leaf, x)


def pswapaxes(
    x: T,
    axis_name: Hashable,
    axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> T:
    """Swap a named axis with an axis of an array; see :func:`all_to_all`.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``.
      axis: the arrays' axis, as large as the named one.
      axis_index_groups: not supported.

    Returns:
      A pytree of the same structure and shapes.

    Raises:
      AxisNameError: if nothing binds the name.
      ShapeError: if the axes have different sizes.
      AxisError: if the axis is out of range.
      ArgumentError: for ``axis_index_groups``.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pshuffle(x: T, axis_name: Hashable, perm: Sequence[int]) -> T:
    """Permute the elements of a named axis: element ``i`` gets the value of ``perm[i]``.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``.
      perm: each number below the size of the axis, once.

    Returns:
      A pytree of the same structure, shapes and dtypes.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: if ``perm`` is not a permutation.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(jnp.arange(3))
    Array([2, 0, 1], dtype=int32)
    """
    size = axis_size(axis_name)
    if sorted(perm) != list(range(size)):
        raise ArgumentError(
            "pshuffle: perm is not a permutation of the elements",
            got=f"{list(perm)} over an axis of size {size}",
            fix=f"each of the numbers from 0 to {size - 1} once",
        )
    return ppermute(x, axis_name, list(zip(perm, range(size), strict=True)))


def pbroadcast(x: T, axis_name: Hashable, source: int) -> T:
    """Give every element of a named axis the value of element ``source``.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``.
      source: the number of an element.

    Returns:
      A pytree of the same structure, shapes and dtypes.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: if there is no such element.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    size = axis_size(axis_name)
    if not 0 <= source < size:
        raise ArgumentError(
            "pbroadcast: there is no such element", got=f"{source} of {size}", fix="another source"
        )
    return tree_map(lambda leaf: all_gather(leaf, axis_name)[source], x)
