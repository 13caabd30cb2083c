"""Collectives over a named axis, as users call them: of pytrees, over one name or several.

Start at :func:`psum`; the primitives are in ``collectives``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar, cast

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import reshape, transpose_
from functrax.core.prims.shape_checks import axis_from_start
from functrax.core.pytree.operations import tree_map
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import axis_size as size_of_axis
from functrax.core.types import dtypes
from functrax.transforms.operations.collectives import (
    AxisName,
    Collective,
    all_gather_p,
    axis_index_p,
    pmax_p,
    pmin_p,
    ppermute_p,
    psum_p,
    pvary_p,
)

T = TypeVar("T")


def _names(axis_name: Any) -> tuple[AxisName, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _over(primitive: Collective, x: Any, axis_name: Any) -> Any:
    names = _names(axis_name)
    for name in names:
        size_of_axis(name)

    def reduce_leaf(leaf: Any) -> Value:
        value = as_value(leaf, f"an argument of {primitive.name}")
        if value.aval.dtype == dtypes.bool_ and primitive is psum_p:
            value = convert_element_type.bind(value, dtype=dtypes.default_int())
        for name in names:
            value = primitive.bind(value, axis_name=name)
        return concrete(value)

    return tree_map(reduce_leaf, x)


def _no_groups(name: str, groups: Any) -> None:
    if groups is not None:
        raise ArgumentError(
            f"{name}: axis_index_groups is not supported",
            got=repr(groups),
            fix="a nested vmap with a name for each level",
        )


def psum(
    x: T, axis_name: Hashable, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> T:
    """The sum over a named axis.

    Args:
      x: a pytree of arrays; a Python number counts once for each element.
      axis_name: the name given to ``vmap``, or a tuple of names.
      axis_index_groups: not supported.

    Returns:
      A pytree of the same structure and shapes; a Python number if ``x`` is one.

    Raises:
      AxisNameError: if no enclosing ``vmap`` binds the name.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.vmap(lambda x: x / functrax.lax.psum(x, "i"), axis_name="i")(jnp.arange(1.0, 4.0))
    Array([0.16666667, 0.33333334, 0.5       ], dtype=float32)
    """
    _no_groups("psum", axis_index_groups)
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        count = 1
        for name in _names(axis_name):
            count *= size_of_axis(name)
        return cast("T", x * count)
    return _over(psum_p, x, axis_name)  # type: ignore[no-any-return]


def pmean(
    x: T, axis_name: Hashable, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> T:
    """The mean over a named axis; see :func:`psum`.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``, or a tuple of names.
      axis_index_groups: not supported.

    Returns:
      A pytree of the same structure and shapes.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: for ``axis_index_groups``.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    _no_groups("pmean", axis_index_groups)
    count = psum(1, axis_name)
    return tree_map(lambda total: total / count, psum(x, axis_name))  # type: ignore[no-any-return]


def pmax(
    x: T, axis_name: Hashable, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> T:
    """The largest value over a named axis; see :func:`psum`.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``, or a tuple of names.
      axis_index_groups: not supported.

    Returns:
      A pytree of the same structure, shapes and dtypes.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: for ``axis_index_groups``.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(jnp.arange(3))
    Array([2, 2, 2], dtype=int32)
    """
    _no_groups("pmax", axis_index_groups)
    return _over(pmax_p, x, axis_name)  # type: ignore[no-any-return]


def pmin(
    x: T, axis_name: Hashable, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> T:
    """The smallest value over a named axis; see :func:`psum`.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``, or a tuple of names.
      axis_index_groups: not supported.

    Returns:
      A pytree of the same structure, shapes and dtypes.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: for ``axis_index_groups``.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(jnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    _no_groups("pmin", axis_index_groups)
    return _over(pmin_p, x, axis_name)  # type: ignore[no-any-return]


def axis_index(axis_name: Hashable) -> Array:
    """The number of the element along a named axis, int32; row-major for a tuple of names.

    Args:
      axis_name: the name given to ``vmap``, or a tuple of names.

    Returns:
      An int32 scalar.

    Raises:
      AxisNameError: if nothing binds the name.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.axis_index("i"), axis_name="i")(jnp.zeros(3))
    Array([0, 1, 2], dtype=int32)
    """
    index: Any = None
    for name in _names(axis_name):
        size = size_of_axis(name)
        own = axis_index_p.bind(axis_name=name)
        index = own if index is None else index * size + own
    return index  # type: ignore[no-any-return]


def axis_size(axis_name: Hashable) -> int:
    """The size of a named axis, a Python int.

    Args:
      axis_name: the name given to ``vmap``, or a tuple of names, whose sizes are multiplied.

    Returns:
      A number that is known while tracing, so that it can decide shapes.

    Raises:
      AxisNameError: if nothing binds the name.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: x / lax.axis_size("i"), axis_name="i")(jnp.ones(2))
    Array([0.5, 0.5], dtype=float32)
    """
    size = 1
    for name in _names(axis_name):
        size *= size_of_axis(name)
    return size


def all_gather(
    x: Any,
    axis_name: Hashable,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """All elements' values along a named axis, as an array axis.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``, or a tuple of names, whose elements count row-major.
      axis_index_groups: not supported.
      axis: where the new axis goes; negative ones count from the end.
      tiled: whether to join the values along the existing axis ``axis`` instead of a new one.

    Returns:
      A pytree of the same structure.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: for ``axis_index_groups``.
      AxisError: for an axis out of range.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(jnp.arange(2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    _no_groups("all_gather", axis_index_groups)
    names = _names(axis_name)
    size = axis_size(axis_name)

    def gather_leaf(leaf: Any) -> Value:
        value = out = as_value(leaf, "an argument of all_gather")
        for name in reversed(names):
            out = all_gather_p.bind(out, axis_name=name, size=size_of_axis(name))
        if len(names) != 1:
            out = reshape.bind(out, shape=(size, *value.aval.shape))
        ndim = value.aval.ndim
        place = axis_from_start("all_gather", axis, ndim if tiled else ndim + 1)
        order = list(range(1, ndim + 1))
        order.insert(place, 0)
        moved = transpose_(out, tuple(order))
        if not tiled:
            return moved
        shape = value.aval.shape
        joined = (*shape[:place], size * shape[place], *shape[place + 1 :])
        return reshape.bind(moved, shape=joined)

    return tree_map(gather_leaf, x)


def ppermute(x: T, axis_name: Hashable, perm: Iterable[tuple[int, int]]) -> T:
    """Send each element's value to another element of a named axis.

    Args:
      x: a pytree of arrays.
      axis_name: the name given to ``vmap``.
      perm: pairs ``(source, destination)``; a destination that is not named gets zeros.

    Returns:
      A pytree of the same structure, shapes and dtypes.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: if ``perm`` names a source or a destination twice, or one that there is not.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax, vmap
    >>> vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(jnp.arange(1, 4))
    Array([0, 1, 2], dtype=int32)
    """
    size = size_of_axis(axis_name)
    pairs = tuple((int(s), int(d)) for s, d in perm)
    sources, destinations = [s for s, _ in pairs], [d for _, d in pairs]
    inside = all(0 <= i < size for i in sources + destinations)
    if not inside or len(set(sources)) < len(pairs) or len(set(destinations)) < len(pairs):
        raise ArgumentError(
            "ppermute: perm does not name each source and each destination at most once",
            got=f"{pairs} over an axis of size {size}",
            fix=f"pairs (source, destination) of numbers from 0 to {size - 1}",
        )
    return tree_map(  # type: ignore[no-any-return]
        lambda leaf: ppermute_p.bind(
            as_value(leaf, "an argument of ppermute"), axis_name=axis_name, perm=pairs
        ),
        x,
    )


def pcast(x: T, axis_name: Hashable, *, to: str) -> T:
    """A value that is the same along a named axis, as one that may differ along it.

    Inside ``functrax.shard_map`` it makes kinds of values agree; the values stay as they are.

    Args:
      x: a pytree of arrays; those that may differ already stay as they are.
      axis_name: the name of the axis, or a tuple of names.
      to: ``"varying"``.

    Returns:
      A pytree of equal values.

    Raises:
      AxisNameError: if nothing binds the name.
      ArgumentError: for another ``to``; sums that are yet to be taken are not supported.

    >>> import functrax, functrax.numpy as jnp
    >>> mesh, spec = functrax.make_mesh((1,), ("i",)), functrax.P("i")
    >>> varying = functrax.shard_map(lambda x: functrax.lax.pcast(x, "i", to="varying"),
    ...                              mesh=mesh, in_specs=functrax.P(), out_specs=spec)
    >>> varying(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    if to != "varying":
        raise ArgumentError("pcast: unknown kind of value", got=f"to={to!r}", fix='to="varying"')
    return _over(pvary_p, x, axis_name)  # type: ignore[no-any-return]
