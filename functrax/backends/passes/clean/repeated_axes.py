"""What is known of a value's memory before it is computed: which axes only repeat it.

The reference device keeps a broadcast as a view with stride 0, and a window as a view whose strides
overlap (``backends/reference/strided.py``).  A :class:`Layout` is what it would see of such an
array; here it is worked out from the equations, by the same rules, so that the compiler can tell
what the device would do.  Values that repeat nothing have no entry: they are dense.

Start at :class:`Layouts`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from functrax.backends.reference import strided
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Var
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import broadcast_in_dim, reshape, rev, transpose
from functrax.core.prims.slicing import pad, slice_
from functrax.core.tracing.primitive import Primitive
from functrax.core.types.aval import ShapedArray


class Layout(NamedTuple):
    """Which part of an array is there in memory.

    Args:
      shape: the array's shape.
      used: the axes along which elements can differ, increasing.
      distinct: how many elements there are in memory, at most.
    """

    shape: tuple[int, ...]
    used: tuple[int, ...]
    distinct: int


@functools.lru_cache(maxsize=4096)
def dense(shape: tuple[int, ...]) -> Layout:
    """The layout of an array that repeats nothing."""
    used = tuple([k for k, n in enumerate(shape) if n != 1])
    return Layout(shape, used, math.prod(shape))


def volume(shape: tuple[int, ...], axes: Any) -> int:
    """The number of elements along some axes."""
    return math.prod([shape[k] for k in axes])


def view(eqn: Eqn, x: Layout) -> Layout | None:
    """What a reindex makes of the layout of its operand; None if the result is dense."""
    rule = _VIEWS.get(eqn.primitive)
    if rule is None or not x.distinct:
        return None
    out = rule(x, eqn)
    aval = eqn.outvars[0].aval
    repeats = out.distinct < aval.size or len(out.used) < aval.ndim - aval.shape.count(1)
    return out if repeats else None


def dense_as(x: Layout, eqn: Eqn) -> Layout:
    """The layout of a view's result where nothing is repeated, but for what ``x`` holds."""
    shape = eqn.outvars[0].aval.shape
    used = tuple([k for k, n in enumerate(shape) if n != 1])
    return Layout(shape, used, min(x.distinct, math.prod(shape)))


def _broadcast(x: Layout, eqn: Eqn) -> Layout:
    return _spread(x, eqn.params["shape"], eqn.params["dims"])


@functools.lru_cache(maxsize=4096)
def _spread(x: Layout, shape: tuple[int, ...], dims: tuple[int, ...]) -> Layout:
    return Layout(shape, tuple(sorted([dims[k] for k in x.used])), x.distinct)


def _transpose(x: Layout, eqn: Eqn) -> Layout:
    perm: tuple[int, ...] = eqn.params["perm"]
    used = tuple([k for k, p in enumerate(perm) if p in x.used])
    return Layout(eqn.outvars[0].aval.shape, used, x.distinct)


def _slice(x: Layout, eqn: Eqn) -> Layout:
    shape = eqn.outvars[0].aval.shape
    used = tuple([k for k in x.used if shape[k] != 1])
    return Layout(shape, used, min(x.distinct, volume(shape, used)))


def _rev(x: Layout, eqn: Eqn) -> Layout:
    return x


def _reshape(x: Layout, eqn: Eqn) -> Layout:
    """Groups of axes that only repeat stay so; a group of which a part does is copied out."""
    shape: tuple[int, ...] = eqn.params["shape"]
    if math.prod(shape) <= strided.SMALL:
        return dense(shape)
    used: list[int] = []
    copied = False
    for old, new in strided.groups(x.shape, shape):
        mine = [k for k in old if x.shape[k] != 1]
        if any(k in x.used for k in mine):
            used.extend(k for k in new if shape[k] != 1)
            copied = copied or len(mine) > 1
    distinct = volume(shape, used)
    return Layout(shape, tuple(used), distinct if copied else min(distinct, x.distinct))


def _pad(x: Layout, eqn: Eqn) -> Layout:
    shape = eqn.outvars[0].aval.shape
    if math.prod(x.shape) <= strided.SMALL:
        return dense(shape)
    padding = zip(eqn.params["low"], eqn.params["high"], eqn.params["interior"])
    padded = {k for k, parts in enumerate(padding) if any(parts)}
    used = tuple(sorted(k for k in padded.union(x.used) if shape[k] != 1))
    return Layout(shape, used, volume(shape, used))


def _reindex(x: Layout, eqn: Eqn) -> Layout:
    return _window(x, eqn.params["map"])


@functools.lru_cache(maxsize=1024)
def _window(x: Layout, index_map: IndexMap) -> Layout:
    """A map that is a window is a view of the padded array; any other copies."""
    domain = index_map.domain
    window = strided.window_of(index_map)
    if window is None:
        return dense(domain)
    wide = [
        low + step * (n - 1) + 1 + high
        for low, step, n, high in zip(window.low, window.step, x.shape, window.high)
    ]
    strides, step = [0] * len(wide), 1
    for k in reversed(range(len(wide))):
        moves = k in x.used or wide[k] != x.shape[k]
        strides[k] = step if moves else 0
        step *= wide[k] if moves else 1
    found = [
        sum(row[k] * s for row, s in zip(window.matrix, strides, strict=True))
        for k in range(len(domain))
    ]
    used = tuple([k for k, s in enumerate(found) if s and domain[k] != 1])
    span = sum((domain[k] - 1) * abs(found[k]) for k in used)
    return Layout(domain, used, min(span + 1, volume(domain, used)))


_VIEWS: dict[Primitive, Callable[[Layout, Eqn], Layout]] = {
    broadcast_in_dim: _broadcast,
    transpose: _transpose,
    slice_: _slice,
    rev: _rev,
    reshape: _reshape,
    pad: _pad,
    reindex: _reindex,
}


class Layouts(dict[Atom, Layout]):
    """The layouts of the variables of a program that are not dense."""

    def of(self, x: Atom) -> Layout:
        """The layout of any variable."""
        return self.get(x) or dense(x.aval.shape)

    def follow_view(self, eqn: Eqn) -> None:
        """Work out the layout of a reindex's result."""
        out = view(eqn, self.of(eqn.invars[0]))
        if out is not None:
            self[eqn.outvars[0]] = out

    def follow_elementwise(self, eqn: Eqn, arrays: list[Var]) -> None:
        """Axes along which all operands repeat stay repeated, in large arrays."""
        aval: ShapedArray = eqn.outvars[0].aval
        if aval.size <= strided.SMALL or not all(x in self for x in arrays):
            return
        used = tuple(sorted({k for x in arrays for k in self[x].used}))
        if len(used) < aval.ndim - aval.shape.count(1):
            for v in eqn.outvars:
                self[v] = Layout(aval.shape, used, volume(aval.shape, used))
