"""``x[...]`` of sparse arrays: integers, slices, ``...`` and new axes."""

from __future__ import annotations

import operator
from typing import Any

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import IndexingError
from functrax.experimental.sparse.base import SparseLayoutError
from functrax.experimental.sparse.bcoo import BCOO
from functrax.experimental.sparse.shapes import (
    bcoo_broadcast_in_dim,
    bcoo_dynamic_slice,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)


def index(mat: BCOO, item: Any) -> Any:
    """A part of a sparse array; an array of no axes if every axis is indexed.

    Raises:
      IndexingError: for too many indices.
      SparseLayoutError: for arrays of indices.
    """
    entries = list(item) if isinstance(item, tuple) else [item]
    axes = sum(x is not None and x is not Ellipsis for x in entries)
    if axes > mat.ndim or sum(x is Ellipsis for x in entries) > 1:
        raise IndexingError(
            "indexing: too many indices", got=f"{axes} for {mat!r}", fix=f"at most {mat.ndim}"
        )
    rest = [slice(None)] * (mat.ndim - axes)
    at = next((i for i, x in enumerate(entries) if x is Ellipsis), len(entries))
    entries[at : at + 1] = rest
    new = [i for i, x in enumerate(entries) if x is None]
    found = _part(mat, [x for x in entries if x is not None])
    if not new:
        return found if found.ndim else found.todense()
    kept = [x for x in entries if x is None or isinstance(x, slice)]
    dims = [i for i, x in enumerate(kept) if x is not None]
    sizes = [1] * len(kept)
    for d, n in zip(dims, found.shape, strict=True):
        sizes[d] = n
    return bcoo_broadcast_in_dim(found, shape=sizes, broadcast_dimensions=dims)


def _part(mat: BCOO, entries: list[Any]) -> BCOO:
    starts, limits, steps, gone, turned = [], [], [], [], []
    moving = dict[int, Any]()
    for axis, (x, n) in enumerate(zip(entries, mat.shape, strict=True)):
        if isinstance(x, slice):
            a, b, s = x.indices(n)
            if s < 0:
                count = len(range(a, b, s))
                turned.append(axis)
                a, b, s = (a + (count - 1) * s, a + 1, -s) if count else (0, 0, 1)
            starts.append(a)
            limits.append(max(a, b))
            steps.append(s)
            continue
        gone.append(axis)
        i = _number(x, n)
        if isinstance(i, int):
            starts.append(i)
            limits.append(i + 1)
        else:
            moving[axis] = i
            starts.append(0)
            limits.append(n)
        steps.append(1)
    whole = all(
        (a, b, s) == (0, n, 1) for a, b, s, n in zip(starts, limits, steps, mat.shape, strict=True)
    )
    if not whole:
        mat = bcoo_slice(mat, start_indices=starts, limit_indices=limits, strides=steps)
    if moving:
        sizes = [1 if axis in moving else n for axis, n in enumerate(mat.shape)]
        mat = bcoo_dynamic_slice(mat, [moving.get(i, 0) for i in range(mat.ndim)], sizes)
    if turned:
        mat = bcoo_rev(mat, turned)
    return bcoo_squeeze(mat, dimensions=gone) if gone else mat


def _number(x: Any, n: int) -> Any:
    """An index from 0: an int where it is known, else an array."""
    if isinstance(x, Array) and x.aval.shape == () and jnp.issubdtype(x.aval.dtype, jnp.integer):
        return jnp.where(x < 0, x + n, x)
    if isinstance(x, bool) or not hasattr(x, "__index__") or getattr(x, "ndim", 0) != 0:
        raise SparseLayoutError(
            "indexing: sparse arrays take integers, slices, ... and None",
            got=f"{x!r} of type {type(x).__name__}",
            fix=".todense()[index]",
        )
    i = operator.index(x)
    return min(max(i + n if i < 0 else i, 0), max(n - 1, 0))
