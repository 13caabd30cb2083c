"""What is known of a value's memory before it is computed: which axes only repeat it.

A broadcast repeats an array along axes, and windows overlap.  A :class:`RepeatLayout` says what
there is of such a value in memory if nobody copies it out, worked out from index maps alone.
Values that repeat nothing have no entry: they are dense.

Start at :class:`Layouts`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from functrax.backends.reference import strided
from functrax.core.index.bounds import bounds
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Var
from functrax.core.prims.reindex import map_of
from functrax.core.types.aval import ShapedArray
from functrax.core.types.size_bounds import roughly

Shape: TypeAlias = tuple[int, ...]
#: The view of an array of a shape as it is.
identity = functools.lru_cache(maxsize=4096)(IndexMap.identity)


class RepeatLayout(NamedTuple):
    """Which part of an array is there in memory.

    Args:
      shape: the array's shape.
      used: the axes along which elements can differ, increasing.
      distinct: how many elements there are in memory, at most.
    """

    shape: Shape
    used: Shape
    distinct: int


@functools.lru_cache(maxsize=4096)
def dense(shape: Shape) -> RepeatLayout:
    """The layout of an array that repeats nothing."""
    used = tuple([k for k, n in enumerate(shape) if n != 1])
    return RepeatLayout(shape, used, math.prod(shape))


def volume(shape: Shape, axes: Iterable[int]) -> int:
    """The number of elements along some axes."""
    return math.prod([shape[k] for k in axes])


@functools.lru_cache(maxsize=4096)
def through(view: IndexMap, x: RepeatLayout) -> RepeatLayout:
    """The layout of a view of a value.

    What is neither strides of an array nor a reshape is copied, along all axes that it depends on.
    """
    domain = view.domain
    if strided.window_of(view) is None and not view.is_reshape:
        axes = tuple([d for d in sorted(view.used_dims()) if domain[d] != 1])
        return RepeatLayout(domain, axes, volume(domain, axes))
    used = {d for condition in view.conditions for d in condition.expr.used_dims()}
    distinct = 1
    for k, (expr, size) in enumerate(zip(view.exprs, x.shape, strict=True)):
        first, last = bounds(expr, domain) or (0, size - 1)
        if k in x.used or first < 0 or last >= size:
            used |= expr.used_dims()
        if k in x.used:
            distinct *= min(last, size - 1) - max(first, 0) + 1
    axes = tuple(sorted([d for d in used if domain[d] != 1]))
    size = volume(domain, axes)
    return RepeatLayout(domain, axes, size if mixes(view, x) else min(size, distinct, x.distinct))


def mixes(view: IndexMap, x: RepeatLayout) -> bool:
    """Whether an axis of a view goes along axes of which some repeat a value and others do not.

    Then what the value repeats is no longer seen by its axes, as behind a reshape.
    """
    exprs = [(k in x.used, expr) for k, expr in enumerate(view.exprs) if x.shape[k] != 1]
    own = {d for is_used, expr in exprs if is_used for d in expr.used_dims()}
    return any(not is_used and not own.isdisjoint(expr.used_dims()) for is_used, expr in exprs)


class Layouts(dict[Atom, RepeatLayout]):
    """The layouts of the variables of a program that are not dense."""

    def of(self, x: Atom) -> RepeatLayout:
        """The layout of any variable."""
        return self.get(x) or dense(x.aval.shape)

    def follow_view(self, eqn: Eqn) -> None:
        """Work out the layout of a reindex's result."""
        out = through(map_of(eqn), self.of(eqn.invars[0]))
        if out != dense(out.shape):
            self[eqn.outvars[0]] = out

    def follow_elementwise(self, eqn: Eqn, arrays: list[Var]) -> None:
        """Axes along which all operands repeat stay repeated, in large arrays."""
        aval: ShapedArray = eqn.outvars[0].aval
        if roughly(aval.size) <= strided.SMALL or not all(x in self for x in arrays):
            return
        used = tuple(sorted({k for x in arrays for k in self[x].used}))
        if len(used) < aval.ndim - aval.shape.count(1):
            for v in eqn.outvars:
                self[v] = RepeatLayout(aval.shape, used, volume(aval.shape, used))
