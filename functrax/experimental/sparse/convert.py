"""BCOO to dense arrays and back, and the order of its entries."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.experimental.sparse.base import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    SparseLayoutError,
    batched,
    columns,
    inside,
    known_number,
    nowhere,
    numbered,
    spread,
)
from functrax.experimental.sparse.bcoo import BCOO


def bcoo_todense(mat: BCOO) -> Any:
    """A sparse array as an array; entries of one index are summed."""
    first, rest = mat.n_batch, mat.shape[mat.n_batch :]
    sparse = rest[: mat.n_sparse]

    def dense(data: Any, indices: Any) -> Any:
        if not sparse:
            return data.sum(0, dtype=data.dtype)
        return jnp.zeros(rest, data.dtype).at[columns(indices)].add(data, mode="drop")

    return batched(dense, first, mat.data, mat.indices, shape=mat.shape[:first])


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCOO:
    """The sparse array with the elements of an array that are not zero.

    Args:
      mat: the array.
      nse: for how many elements (of each element of the batch) there is room; the number that are
        not zero if None, which must be known then.
      n_batch: how many leading axes count elements of a batch.
      n_dense: how many last axes are stored whole.
      index_dtype: the dtype of the indices.

    Raises:
      ConcretizationError: without ``nse`` for a traced array.
    """
    array = jnp.asarray(mat)
    n_sparse = array.ndim - n_batch - n_dense
    if n_batch < 0 or n_dense < 0 or n_sparse < 0:
        raise ArgumentError(
            "bcoo_fromdense: the axes do not suffice",
            got=f"{array.ndim} axes, n_batch={n_batch}, n_dense={n_dense}",
            fix="n_batch + n_dense at most the number of axes",
        )
    mask = array != 0
    if n_dense:
        mask = mask.any(tuple(range(array.ndim - n_dense, array.ndim)))
    if nse is None:
        nse = known_number("bcoo_fromdense", _most(mask, n_batch))
    room = known_number("bcoo_fromdense", nse)
    sparse = array.shape[n_batch : n_batch + n_sparse]

    def found(flags: Any) -> Any:
        if not sparse:
            return jnp.zeros((room, 0), index_dtype)
        places = jnp.nonzero(flags, size=room, fill_value=sparse)
        return jnp.stack(places, axis=1).astype(index_dtype)

    indices = batched(found, n_batch, mask)
    data = extract(indices, array)
    counts = mask.sum(tuple(range(n_batch, mask.ndim)), dtype="int32")
    counts = counts[..., None]
    there = numbered(room, counts, -1) < counts
    data = jnp.where(spread(there, data), data, jnp.zeros((), data.dtype))
    return BCOO((data, indices), shape=array.shape, indices_sorted=True, unique_indices=True)


def _most(mask: Any, n_batch: int) -> Any:
    """The largest number of elements that are not zero."""
    return mask.sum(tuple(range(n_batch, mask.ndim))).max(initial=0)


def extract(indices: Any, array: Any) -> Any:
    """The elements of an array at the indices of a sparse one; zeros for those out of bounds."""
    n_batch = indices.ndim - 2

    def of_one(indices: Any, array: Any) -> Any:
        if not indices.shape[1]:
            return jnp.broadcast_to(array, (indices.shape[0], *array.shape))
        return array.at[columns(indices)].get(mode="fill", fill_value=0)

    return batched(of_one, n_batch, indices, array)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of an array where a sparse one has some.

    Args:
      sparr: says where.
      arr: an array of the same shape.
      assume_unique: whether an index that is there twice gives the element twice; else only its
        first entry has it.  What ``sparr`` knows of its indices, if None.

    Raises:
      ShapeError: if the shapes differ.
    """
    if not isinstance(sparr, BCOO):
        raise ArgumentError(
            "bcoo_extract: the first argument is no BCOO array",
            got=type(sparr).__name__,
            fix="bcoo_extract(sparse_array, array)",
        )
    array = jnp.asarray(arr)
    if array.shape != sparr.shape:
        raise ShapeError(
            "bcoo_extract: the shapes differ",
            got=f"{sparr.shape} and {array.shape}",
            fix="one shape",
        )
    data = extract(sparr.indices, array)
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    if not unique:
        first = batched(_is_first, sparr.n_batch, sparr.indices)
        data = jnp.where(spread(first, data), data, jnp.zeros((), data.dtype))
    return BCOO((data, sparr.indices), **sparr._info._asdict())


def _is_first(indices: Any) -> Any:
    """Which entries are the first of their index."""
    order, new = _groups(indices)
    return jnp.zeros(indices.shape[0], bool).at[order].set(new)


def _order(indices: Any) -> Any:
    """The order in which the indices are sorted."""
    positions = jnp.arange(indices.shape[0])
    keys = columns(indices)
    return lax.sort((*keys, positions), num_keys=len(keys))[-1] if keys else positions


def _groups(indices: Any) -> tuple[Any, Any]:
    """The order that sorts indices, and which of them differ then from the one before."""
    order = _order(indices)
    ordered = indices[order]
    differs = (ordered[1:] != ordered[:-1]).any(-1)
    return order, jnp.concatenate([jnp.ones(min(1, len(indices)), bool), differs])


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The same array with its indices in lexicographic order."""
    order = batched(_order, mat.n_batch, mat.indices)
    buffers = tuple(
        batched(lambda x, order: x[order], mat.n_batch, x, order) for x in (mat.data, mat.indices)
    )
    return BCOO(buffers, shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The same array with each index once, in lexicographic order.

    Args:
      mat: a sparse array.
      nse: for how many entries there is room; those that do not fit are lost.  As many as there are
        if None, which must be known then.
    """
    return _summed(mat.data, mat.indices, mat, nse)


def _summed(data: Any, indices: Any, mat: BCOO, nse: int | None) -> BCOO:
    sparse = mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]
    away = nowhere(sparse, indices)
    indices = jnp.where(inside(indices, sparse)[..., None], indices, away)
    if nse is None:
        counts = batched(
            lambda i: (_groups(i)[1] & inside(i[_order(i)], sparse)).sum(), mat.n_batch, indices
        )
        nse = known_number("bcoo_sum_duplicates", counts.max(initial=0) if mat.n_batch else counts)
    room = nse

    def of_one(data: Any, indices: Any) -> tuple[Any, Any]:
        order, new = _groups(indices)
        groups = jnp.cumsum(new) - 1
        sums = jnp.zeros((room, *data.shape[1:]), data.dtype)
        places = jnp.broadcast_to(nowhere(sparse, indices), (room, len(sparse)))
        kept = jnp.where(inside(indices[order], sparse), groups, room)
        return (
            sums.at[kept].add(data[order], mode="drop"),
            places.at[kept].set(indices[order], mode="drop"),
        )

    buffers = batched(of_one, mat.n_batch, data, indices)
    return BCOO(buffers, shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The same array without stored zeros, each index once; see :func:`bcoo_sum_duplicates`."""
    zero = (mat.data == 0).all(tuple(range(mat.n_batch + 1, mat.data.ndim)))
    sparse = mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]
    away = nowhere(sparse, mat.indices)
    indices = jnp.where(zero[..., None], away, mat.indices)
    return _summed(mat.data, indices, mat, nse)


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The same array with other axes for batches and for what is stored whole.

    Args:
      mat: a sparse array.
      n_batch, n_dense: the numbers of such axes; those that it has if None.
      on_inefficient: ``"error"``, ``"warn"`` or None, for what stores more than before.

    Raises:
      SparseEfficiencyError: if more is stored, and that is an error.
    """
    n_batch = mat.n_batch if n_batch is None else n_batch
    n_dense = mat.n_dense if n_dense is None else n_dense
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ArgumentError(
            "bcoo_update_layout: the axes do not suffice",
            got=f"{mat.ndim} axes, n_batch={n_batch}, n_dense={n_dense}",
            fix="n_batch + n_dense at most the number of axes",
        )
    if on_inefficient not in ("error", "warn", None):
        raise ArgumentError(
            "bcoo_update_layout: unknown on_inefficient",
            got=repr(on_inefficient),
            fix="'error', 'warn' or None",
        )
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    shape, end = mat.shape, mat.ndim - n_dense
    more = [*shape[mat.n_batch : n_batch], *shape[end : mat.ndim - mat.n_dense]]
    if any(n > 1 for n in more):
        text = f"bcoo_update_layout: more is stored, for axes of sizes {more}"
        if on_inefficient == "error":
            raise SparseEfficiencyError(
                text, got=repr(mat), fix="on_inefficient='warn', or other numbers of axes"
            )
        if on_inefficient == "warn":
            warnings.warn(text, SparseEfficiencyWarning, stacklevel=2)
    fewer_batch, fewer_dense = min(n_batch, mat.n_batch), min(n_dense, mat.n_dense)
    data, indices = _as_sparse(mat, fewer_batch, fewer_dense)
    return _as_batch(BCOO((data, indices), shape=shape), n_batch, n_dense)


def _as_sparse(mat: BCOO, n_batch: int, n_dense: int) -> tuple[Any, Any]:
    """Buffers in which axes of the batch and dense ones beyond these numbers are sparse."""
    shape, dtype = mat.shape, mat.indices.dtype
    sizes = shape[: mat.n_batch]
    data = jnp.broadcast_to(mat.data, (*sizes, *mat.data.shape[mat.n_batch :]))
    indices = jnp.broadcast_to(mat.indices, (*sizes, *mat.indices.shape[-2:]))
    for axis in reversed(range(n_batch, mat.n_batch)):
        number = jnp.arange(sizes[axis], dtype=dtype).reshape(-1, 1, 1)
        number = jnp.broadcast_to(number, (*indices.shape[:-1], 1))
        indices = jnp.concatenate([number, indices], axis=-1)
        data = data.reshape(*sizes[:axis], -1, *data.shape[axis + 2 :])
        indices = indices.reshape(*sizes[:axis], -1, indices.shape[-1])
    at = n_batch
    for n in shape[mat.ndim - mat.n_dense : mat.ndim - n_dense]:
        room = data.shape[at] * n
        number = jnp.tile(jnp.arange(n, dtype=dtype), data.shape[at])[:, None]
        indices = jnp.repeat(indices, n, axis=at)
        number = jnp.broadcast_to(number, (*indices.shape[:-1], 1))
        indices = jnp.concatenate([indices, number], axis=-1)
        data = data.reshape(*data.shape[:at], room, *data.shape[at + 2 :])
    return data, indices


def _as_batch(mat: BCOO, n_batch: int, n_dense: int) -> BCOO:
    """More axes of the batch, and more dense ones, each with room for every entry."""
    data, indices, shape = mat.data, mat.indices, mat.shape
    first = mat.n_batch
    for axis in range(first, n_batch):
        n = shape[axis]
        first_of = indices[..., None, :, 0]
        own = first_of == numbered(n, first_of, -2)
        rest = jnp.broadcast_to(indices[..., None, :, 1:], (*own.shape, indices.shape[-1] - 1))
        away = nowhere(shape[axis + 1 : axis + indices.shape[-1]], rest)
        indices = jnp.where(own[..., None], rest, away)
        wide = jnp.expand_dims(data, axis)
        data = jnp.where(spread(own, wide), wide, jnp.zeros((), data.dtype))
    for axis in reversed(range(mat.ndim - n_dense, mat.ndim - mat.n_dense)):
        n = shape[axis]
        own = indices[..., -1:] == numbered(n, indices, -1)
        wide = jnp.expand_dims(data, n_batch + 1)
        data = jnp.where(spread(own, wide), wide, jnp.zeros((), data.dtype))
        indices = indices[..., :-1]
    return BCOO((data, indices), shape=shape)


def set_nse(mat: BCOO, nse: int) -> BCOO:
    """The same array with room for another number of entries; what does not fit is lost."""
    if nse <= mat.nse:
        keep = (*(slice(None) for _ in range(mat.n_batch)), slice(nse))
        buffers = mat.data[keep], mat.indices[keep]
    else:
        more = nse - mat.nse
        sparse = mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]
        at = mat.n_batch
        zeros = jnp.zeros((*mat.data.shape[:at], more, *mat.data.shape[at + 1 :]), mat.dtype)
        away = nowhere(sparse, mat.indices)
        away = jnp.broadcast_to(away, (*mat.indices.shape[:at], more, mat.n_sparse))
        buffers = (
            jnp.concatenate([mat.data, zeros], axis=at),
            jnp.concatenate([mat.indices, away], axis=at),
        )
    return BCOO(buffers, **mat._info._asdict())


def only_sparse(what: str, mats: Sequence[BCOO]) -> None:
    """Refuse dense axes."""
    if any(m.n_dense for m in mats):
        raise SparseLayoutError(
            f"{what}: not there for dense axes",
            got=", ".join(map(repr, mats)),
            fix=".update_layout(n_dense=0)",
        )


def unique(mat: BCOO) -> BCOO:
    """The same array with each index at most once."""
    return mat if mat.unique_indices else bcoo_sum_duplicates(mat, nse=mat.nse)


def bcoo_add(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The sum of two sparse arrays of one shape.

    Raises:
      SparseLayoutError: if their layouts differ.
    """
    if (lhs.n_batch, lhs.n_dense) != (rhs.n_batch, rhs.n_dense):
        raise SparseLayoutError(
            "addition of sparse arrays: the layouts differ",
            got=f"{lhs!r} and {rhs!r}",
            fix=".update_layout(n_batch=n, n_dense=n) for one of them",
        )
    if lhs.indices is rhs.indices and lhs.data.shape == rhs.data.shape:
        return BCOO((lhs.data + rhs.data, lhs.indices), **lhs._info._asdict())
    dtype = jnp.promote_types(lhs.dtype, rhs.dtype)
    at = lhs.n_batch

    def joined(a: Any, b: Any) -> Any:
        sizes = jnp.broadcast_shapes(a.shape[:at], b.shape[:at])
        wide = [jnp.broadcast_to(x, (*sizes, *x.shape[at:])) for x in (a, b)]
        return jnp.concatenate(wide, at)

    data = joined(lhs.data.astype(dtype), rhs.data.astype(dtype))
    return BCOO((data, joined(lhs.indices, rhs.indices)), shape=lhs.shape)
