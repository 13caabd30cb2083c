"""BCOO arrays in other shapes: transposed, reshaped, sliced, joined, repeated, and summed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.experimental.sparse.base import SparseLayoutError, columns, inside, nowhere, spread
from functrax.experimental.sparse.bcoo import BCOO, check_axis
from functrax.experimental.sparse.convert import bcoo_sum_duplicates, set_nse


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The axes in another order; those of the batch, sparse and dense ones stay apart.

    Raises:
      SparseLayoutError: if the order mixes them.
    """
    order = tuple(int(i) for i in permutation)
    if sorted(order) != list(range(mat.ndim)):
        raise ArgumentError(
            "bcoo_transpose: not an order of the axes",
            got=f"{order} for {mat.ndim} axes",
            fix="each axis once",
        )
    first, last = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = order[:first], order[first:last], order[last:]
    if any(i >= first for i in batch) or any(i < last for i in dense):
        raise SparseLayoutError(
            "bcoo_transpose: the order mixes axes of the batch, sparse and dense ones",
            got=f"{order} of {mat!r}",
            fix=".update_layout(n_batch=0, n_dense=0), before",
        )
    data = jnp.transpose(mat.data, (*batch, first, *(i - last + first + 1 for i in dense)))
    indices = jnp.transpose(mat.indices, (*batch, first, first + 1))
    moved = [i - first for i in sparse]
    stays = moved == list(range(len(moved)))
    if not stays:
        indices = indices[..., jnp.asarray(moved)]
    return BCOO(
        (data, indices),
        shape=tuple(mat.shape[i] for i in order),
        indices_sorted=mat.indices_sorted and stays,
        unique_indices=mat.unique_indices,
    )


def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:
    """The same elements in another shape; axes of the batch, sparse and dense ones stay apart.

    Args:
      mat: a sparse array.
      new_sizes: the new shape.
      dimensions: an order of the axes to bring them to first.
      sharding: there is one device, so only None is taken.
    """
    if sharding is not None:
        raise ArgumentError("bcoo_reshape: no shardings", got=repr(sharding), fix="sharding=None")
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = bcoo_transpose(mat, permutation=dimensions)
    sizes = tuple(new_sizes)
    if math.prod(sizes) != mat.size:
        raise ShapeError(
            "bcoo_reshape: the numbers of elements differ",
            got=f"{mat.shape} to {sizes}",
            fix="a shape of as many",
        )
    first, last = mat.n_batch, mat.n_batch + mat.n_sparse
    ends = _ends(sizes, math.prod(mat.shape[:first]), math.prod(mat.shape[last:]))
    if ends is None:
        raise SparseLayoutError(
            "bcoo_reshape: axes of the batch, sparse and dense ones would mix",
            got=f"{mat!r} to {sizes}",
            fix=".update_layout(n_batch=0, n_dense=0), before",
        )
    batch, sparse, dense = sizes[: ends[0]], sizes[ends[0] : ends[1]], sizes[ends[1] :]
    old = mat.shape[first:last]
    data = jnp.broadcast_to(mat.data, (*mat.shape[:first], *mat.data.shape[first:]))
    indices = jnp.broadcast_to(mat.indices, (*mat.shape[:first], *mat.indices.shape[first:]))
    there = inside(indices, old)[..., None]
    if old:
        flat = jnp.ravel_multi_index(columns(indices), old, mode="clip")
    else:
        flat = jnp.zeros(indices.shape[:-1], indices.dtype)
    places = jnp.unravel_index(flat, sparse) if sparse else ()
    new = jnp.stack(places, -1).astype(indices.dtype) if sparse else indices[..., :0]
    new = jnp.where(there, new, nowhere(sparse, new))
    return BCOO(
        (
            data.reshape(*batch, mat.nse, *dense),
            new.reshape(*batch, mat.nse, len(sparse)),
        ),
        shape=sizes,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def _ends(sizes: Sequence[int], batch: int, dense: int) -> tuple[int, int] | None:
    """Where the axes of the batch end, and the dense ones begin, in a new shape."""
    first = next((i for i in range(len(sizes) + 1) if math.prod(sizes[:i]) == batch), None)
    last = next((i for i in reversed(range(len(sizes) + 1)) if math.prod(sizes[i:]) == dense), None)
    if first is None or last is None or first > last:
        return None
    return first, last


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """A sparse array repeated along new axes, and along axes of size 1.

    New axes before the first one that is not of the batch are of the batch; those after the first
    dense one are dense; the others are sparse, which repeats the entries.

    Args:
      mat: a sparse array.
      shape: the new shape.
      broadcast_dimensions: for each axis the axis that it becomes, in ascending order.
      sharding: there is one device, so only None is taken.
    """
    if sharding is not None:
        raise ArgumentError(
            "bcoo_broadcast_in_dim: no shardings", got=repr(sharding), fix="sharding=None"
        )
    sizes, dims = tuple(shape), tuple(broadcast_dimensions)
    fits = len(dims) == mat.ndim and list(dims) == sorted(set(dims))
    if not fits or any(mat.shape[i] not in (1, sizes[d]) for i, d in enumerate(dims)):
        raise ShapeError(
            "bcoo_broadcast_in_dim: the axes do not fit",
            got=f"{mat.shape} to {sizes} by {dims}",
            fix="axes in ascending order, of the same size or of size 1",
        )
    n_batch, n_dense = mat.n_batch, mat.n_dense
    first = dims[n_batch] if n_batch < mat.ndim else len(sizes)
    last = max(dims[mat.ndim - n_dense], first) if n_dense else len(sizes)
    of_batch, of_sparse = dims[:n_batch], dims[n_batch : n_batch + mat.n_sparse]
    of_dense = [d - last for d in dims[n_batch + mat.n_sparse :]]

    def in_batch(buffer: Any) -> Any:
        given = [1] * first
        for i, d in enumerate(of_batch):
            given[d] = buffer.shape[i]
        return buffer.reshape(*given, *buffer.shape[n_batch:])

    data, indices = in_batch(mat.data), in_batch(mat.indices)
    dense = [1] * (len(sizes) - last)
    for i, d in enumerate(of_dense):
        dense[d] = mat.shape[mat.ndim - n_dense + i]
    data = data.reshape(*data.shape[: first + 1], *dense)
    data = jnp.broadcast_to(data, (*data.shape[: first + 1], *sizes[last:]))
    parts: list[Any] = []
    for d in range(first, last):
        own = of_sparse.index(d) if d in of_sparse else None
        size = 1 if own is None else mat.shape[n_batch + own]
        if own is not None and size == sizes[d]:
            parts.append(indices[..., own])
            continue
        n = sizes[d]
        there = None if own is None else indices[..., own] == 0
        data, indices = (jnp.repeat(x, n, axis=first) for x in (data, indices))
        parts = [jnp.repeat(p, n, axis=first) for p in parts]
        number = jnp.tile(jnp.arange(n, dtype=indices.dtype), indices.shape[first] // max(n, 1))
        number = jnp.broadcast_to(number, indices.shape[:-1])
        if there is not None:
            number = jnp.where(jnp.repeat(there, n, axis=first), number, n)
        parts.append(number)
    places = jnp.stack(parts, -1) if parts else indices[..., :0]
    return BCOO((data, places), shape=sizes, unique_indices=mat.unique_indices)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Sparse arrays of one layout joined along an axis."""
    mats = list(operands)
    if not mats:
        raise ArgumentError("bcoo_concatenate: no operands", got="()", fix="at least one")
    axis = check_axis(dimension, mats[0].ndim)
    layouts = {(m.n_batch, m.n_sparse, m.n_dense) for m in mats}
    others = {(*m.shape[:axis], *m.shape[axis + 1 :]) for m in mats}
    if len(layouts) > 1 or len(others) > 1:
        raise ShapeError(
            "bcoo_concatenate: the operands differ in another axis, or in their layout",
            got=", ".join(map(repr, mats)),
            fix=".update_layout, for one layout",
        )
    n_batch, n_sparse = mats[0].n_batch, mats[0].n_sparse
    total = sum(m.shape[axis] for m in mats)
    shape = (*mats[0].shape[:axis], total, *mats[0].shape[axis + 1 :])
    if axis < n_batch:
        room = max(m.nse for m in mats)
        wide = [_whole_batch(set_nse(m, room)) for m in mats]
        data, indices = (jnp.concatenate(parts, axis) for parts in zip(*wide, strict=True))
        return BCOO((data, indices), shape=shape)
    rows, offset = [], 0
    for m in mats:
        data, indices = _whole_batch(m)
        if axis < n_batch + n_sparse:
            there = inside(indices, m.shape[n_batch : n_batch + n_sparse])[..., None]
            moved = indices.at[..., axis - n_batch].add(offset)
            away = nowhere(shape[n_batch : n_batch + n_sparse], indices)
            indices = jnp.where(there, moved, away)
        else:
            pads = [(0, 0)] * data.ndim
            pads[axis - n_sparse + 1] = (offset, total - offset - m.shape[axis])
            data = jnp.pad(data, pads)
        offset += m.shape[axis]
        rows.append((data, indices))
    data, indices = (jnp.concatenate(parts, n_batch) for parts in zip(*rows, strict=True))
    return BCOO((data, indices), shape=shape)


def _whole_batch(mat: BCOO) -> tuple[Any, Any]:
    """The buffers, with axes of the batch of their full sizes."""
    sizes = mat.shape[: mat.n_batch]
    data, indices = (
        jnp.broadcast_to(x, (*sizes, *x.shape[mat.n_batch :])) for x in (mat.data, mat.indices)
    )
    return data, indices


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The elements in reverse order along some axes."""
    axes = [check_axis(axis, operand.ndim) for axis in dimensions]
    first, last = operand.n_batch, operand.n_batch + operand.n_sparse
    batch = [a for a in axes if a < first]
    dense = [a - operand.n_sparse + 1 for a in axes if a >= last]
    data = jnp.flip(operand.data, [*batch, *dense]) if batch or dense else operand.data
    indices = jnp.flip(operand.indices, batch) if batch else operand.indices
    sizes = operand.shape[first:last]
    turned = [
        jnp.where(i < n, n - 1 - i, n) if first + k in axes else i
        for k, (i, n) in enumerate(zip(columns(indices), sizes, strict=True))
    ]
    if turned:
        indices = jnp.stack(turned, -1)
    return BCOO((data, indices), shape=operand.shape, unique_indices=operand.unique_indices)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Without some axes, which have size 1."""
    axes = sorted(check_axis(axis, arr.ndim) for axis in dimensions)
    if any(arr.shape[a] != 1 for a in axes):
        raise ShapeError(
            "bcoo_squeeze: an axis has another size than 1",
            got=f"axes {axes} of {arr.shape}",
            fix="axes of size 1",
        )
    first, last = arr.n_batch, arr.n_batch + arr.n_sparse
    batch = tuple(a for a in axes if a < first)
    dense = tuple(a - arr.n_sparse + 1 for a in axes if a >= last)
    gone = [a - first for a in axes if first <= a < last]
    data, indices = arr.data, arr.indices
    if gone:  # what is out of bounds there alone must not come back
        there = inside(indices, arr.shape[first:last])
        data = jnp.where(spread(there, data), data, jnp.zeros((), data.dtype))
    kept = [i for i in range(arr.n_sparse) if i not in gone]
    indices = indices[..., jnp.asarray(kept, "int32")] if kept else indices[..., :0]
    return BCOO(
        (jnp.squeeze(data, (*batch, *dense)), jnp.squeeze(indices, batch)),
        shape=tuple(n for i, n in enumerate(arr.shape) if i not in axes),
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """A part of a sparse array, as ``lax.slice``."""
    starts, limits = tuple(start_indices), tuple(limit_indices)
    steps = tuple(strides) if strides is not None else (1,) * mat.ndim
    fits = len(starts) == len(limits) == len(steps) == mat.ndim and all(
        0 <= a <= b <= n and s > 0
        for a, b, s, n in zip(starts, limits, steps, mat.shape, strict=True)
    )
    if not fits:
        raise ArgumentError(
            "bcoo_slice: not a part of the array",
            got=f"from {starts} to {limits} by {steps} of {mat.shape}",
            fix="0 <= start <= limit <= size, and steps above 0, for each axis",
        )
    shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, steps, strict=True))
    first, last = mat.n_batch, mat.n_batch + mat.n_sparse
    cuts = [slice(a, b, s) for a, b, s in zip(starts, limits, steps, strict=True)]

    def of_batch(buffer: Any) -> Any:
        own = zip(cuts[:first], buffer.shape, mat.shape, strict=False)
        return buffer[tuple(cut if n == full or not full else slice(None) for cut, n, full in own)]

    data, indices = of_batch(mat.data), of_batch(mat.indices)
    data = data[(*(slice(None) for _ in range(first + 1)), *cuts[last:])]
    return _moved(mat, data, indices, starts[first:last], limits[first:last], steps, shape)


def _moved(
    mat: BCOO,
    data: Any,
    indices: Any,
    starts: Any,
    limits: Any,
    steps: Sequence[int],
    shape: tuple[int, ...],
) -> BCOO:
    """Entries between the starts and limits of the sparse axes, counted from there."""
    first, last = mat.n_batch, mat.n_batch + mat.n_sparse
    if mat.n_sparse:
        lows, highs, by = (nowhere(x, indices) for x in (starts, limits, steps[first:last]))
        from_low = indices - lows
        there = ((indices >= lows) & (indices < highs) & (from_low % by == 0)).all(-1)
        away = nowhere(shape[first:last], indices)
        indices = jnp.where(there[..., None], from_low // by, away)
        data = jnp.where(spread(there, data), data, jnp.zeros((), data.dtype))
    made = BCOO((data, indices), shape=shape, unique_indices=mat.unique_indices)
    room = math.prod(shape[first:last])
    return bcoo_sum_duplicates(made, nse=room) if room < made.nse else made


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of fixed size from a start that may be traced, as ``lax.dynamic_slice``."""
    sizes = tuple(slice_sizes)
    starts = list(start_indices)
    if len(starts) != mat.ndim or len(sizes) != mat.ndim:
        raise ArgumentError(
            "bcoo_dynamic_slice: not a start and a size for each axis",
            got=f"{len(starts)} starts and {len(sizes)} sizes for {mat.ndim} axes",
            fix="one for each",
        )
    if any(not 0 <= n <= full for n, full in zip(sizes, mat.shape, strict=True)):
        raise ArgumentError(
            "bcoo_dynamic_slice: a size is larger than the axis",
            got=f"{sizes} of {mat.shape}",
            fix="sizes from 0 to those of the axes",
        )
    starts = [
        jnp.clip(jnp.asarray(a), 0, full - n)
        for a, n, full in zip(starts, sizes, mat.shape, strict=True)
    ]
    first, last = mat.n_batch, mat.n_batch + mat.n_sparse

    def of_batch(buffer: Any) -> Any:
        zeros = [0] * (buffer.ndim - first)
        own = [n == full for n, full in zip(buffer.shape[:first], mat.shape, strict=False)]
        at = [a if o else 0 for a, o in zip(starts, own, strict=False)]
        size = [n if o else 1 for n, o in zip(sizes, own, strict=False)]
        return lax.dynamic_slice(buffer, [*at, *zeros], [*size, *buffer.shape[first:]])

    data, indices = of_batch(mat.data), of_batch(mat.indices)
    if mat.n_dense:
        at = [*(0 for _ in range(first + 1)), *starts[last:]]
        data = lax.dynamic_slice(data, at, [*data.shape[: first + 1], *sizes[last:]])
    lows = starts[first:last]
    highs = [a + n for a, n in zip(lows, sizes[first:last], strict=True)]
    return _moved(mat, data, indices, lows, highs, (1,) * mat.ndim, sizes)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sums along some axes, as a sparse array of the others."""
    gone = sorted({check_axis(axis, mat.ndim) for axis in axes})
    first, last = mat.n_batch, mat.n_batch + mat.n_sparse
    batch = [a for a in gone if a < first]
    data, indices = mat.data, mat.indices
    sparse = [a - first for a in gone if first <= a < last]
    if sparse:
        there = inside(indices, mat.shape[first:last])
        data = jnp.where(spread(there, data), data, jnp.zeros((), data.dtype))
    dense = tuple(a - mat.n_sparse + 1 for a in gone if a >= last)
    if dense:
        data = data.sum(dense)
    kept = [i for i in range(mat.n_sparse) if i not in sparse]
    indices = indices[..., jnp.asarray(kept, "int32")] if kept else indices[..., :0]
    shape = tuple(n for i, n in enumerate(mat.shape) if i not in gone)
    if batch:  # their entries stand beside each other
        sizes = mat.shape[:first]
        left = [i for i in range(first) if i not in batch]
        outer = [sizes[i] for i in left]
        room = mat.nse * math.prod(sizes[i] for i in batch)

        def merged(x: Any) -> Any:
            full = jnp.broadcast_to(x, (*sizes, *x.shape[first:]))
            full = jnp.transpose(full, (*left, *batch, *range(first, x.ndim)))
            return full.reshape(*outer, room, *x.shape[first + 1 :])

        data, indices = merged(data), merged(indices)
    return BCOO((data, indices), shape=shape)
