"""Rules of the reindex family: elements moved, repeated, left out, put together.

Maps that are one of XLA's instructions become that instruction; others become a gather
(``transforms/hlo/indexing.py``).

Start at :func:`reindex`.
"""

from __future__ import annotations

from typing import Any

from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import mapped as mapped_prims, reindex as reindex_prims, slicing
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.computation import Computation, Node, Shape
from functrax.transforms.hlo.computations.views import (
    axes_of_reshape,
    mapped,
    moved,
    with_precision_of,
)
from functrax.transforms.hlo.indexing import gather
from functrax.transforms.hlo.rules import rule


@rule(reindex_prims.BroadcastInDim)
def broadcast_in_dim(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A broadcast; axes of size 1 that are repeated are dropped first."""
    return _broadcast(w, operands[0], eqn.params["shape"], eqn.params["dims"])


def _broadcast(w: Computation, x: Node, shape: Shape, dims: Shape) -> Node:
    kept = [k for k, d in enumerate(dims) if x.shape[k] == shape[d]]
    order = sorted(kept, key=lambda k: dims[k])
    narrow = w.reshape(x, tuple(x.shape[k] for k in kept))
    turned = w.transpose(narrow, [kept.index(k) for k in order])
    out = w.broadcast(turned, shape, [dims[k] for k in order])
    return moved(w, out, x, tuple(d if k in kept else None for k, d in enumerate(dims)))


@rule(reindex_prims.Transpose)
def transpose(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Axes in another order."""
    return _transpose(w, operands[0], eqn.params["perm"])


def _transpose(w: Computation, x: Node, perm: Shape) -> Node:
    return moved(w, w.transpose(x, perm), x, tuple(perm.index(k) for k in range(len(perm))))


@rule(reindex_prims.Reshape)
def reshape(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Another shape."""
    (x,), shape = operands, eqn.params["shape"]
    out = w.reshape(x, shape)
    axes = axes_of_reshape(x.shape, shape)
    return with_precision_of(w, out, x) if axes is None else moved(w, out, x, axes)


@rule(reindex_prims.Rev)
def rev(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Axes back to front."""
    (x,) = operands
    out = w.elementwise("reverse", x, dimensions=tuple(eqn.params["axes"]))
    return with_precision_of(w, out, x)


@rule(reindex_prims.Iota)
def iota(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """The index along an axis."""
    aval = eqn.outvars[0].aval
    return w.iota(aval.shape, eqn.params["axis"], aval.dtype)


@rule(slicing.Slice)
def slice_(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Ranges of axes."""
    p = eqn.params
    return _slice(w, operands[0], p["start"], p["limit"], p["strides"])


def _slice(w: Computation, x: Node, start: Shape, limit: Shape, strides: Shape) -> Node:
    parts = [
        f"[{a}:{b}]" if s == 1 else f"[{a}:{b}:{s}]"
        for a, b, s in zip(start, limit, strides, strict=True)
    ]
    shape = tuple(-((a - b) // s) for a, b, s in zip(start, limit, strides, strict=True))
    return w.op("slice", ShapedArray(shape, x.dtype), x, slice=f"{{{', '.join(parts)}}}")


@rule(slicing.Pad)
def pad(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Fill values before, after and between the elements."""
    p = eqn.params
    return _pad(w, operands[0], w.literal(p["fill"]), p["low"], p["high"], p["interior"])


def _pad(w: Computation, x: Node, fill: Node, low: Shape, high: Shape, interior: Shape) -> Node:
    if not x.shape:
        return x
    parts = [
        f"{a}_{b}" if not i else f"{a}_{b}_{i}" for a, b, i in zip(low, high, interior, strict=True)
    ]
    shape = IndexMap.pad(x.shape, low, high, interior).domain
    return w.op("pad", ShapedArray(shape, x.dtype), x, fill, padding="x".join(parts))


@rule(slicing.Concatenate)
def concatenate(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """One after the other."""
    axis = eqn.params["axis"]
    return w.op("concatenate", eqn.outvars[0].aval, *operands, dimensions=(axis,))


@rule(mapped_prims.ReindexMap)
def reindex(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Any index map."""
    (x, *loads), index_map, fill = operands, eqn.params["map"], eqn.params["fill"]
    out = _by_instruction(w, x, index_map, w.literal(fill))
    if out is None:
        out = gather(w, x, index_map, loads, w.literal(fill))
    return out if index_map.num_loads else mapped(w, out, x, index_map, fill.val)


def _by_instruction(w: Computation, x: Node, index_map: IndexMap, fill: Node) -> Node | None:
    """One instruction for a map that has one."""
    if index_map.num_loads or 0 in (*index_map.domain, *index_map.codomain):
        return None
    if index_map.is_reshape:
        return w.reshape(x, index_map.domain)
    found: Any = index_map.as_transpose()
    if found is not None:
        return w.transpose(x, found)
    found = index_map.as_slice()
    if found is not None and min(found[1], default=1) > 0:
        start, strides = found
        sizes = zip(start, index_map.domain, strides, strict=True)
        return _slice(w, x, start, tuple(a + (n - 1) * s + 1 for a, n, s in sizes), strides)
    found = index_map.as_reverse()
    if found is not None:
        return w.elementwise("reverse", x, dimensions=found)
    found = index_map.as_pad()
    return None if found is None else _pad(w, x, fill, *found)
