"""Updates of elements that are met more than once, in order, by many groups of threads.

Start at :class:`Own`.
"""

from __future__ import annotations

from functools import reduce
from typing import ClassVar, Final

import numpy as np

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Store
from functrax.backends.kernels.merge import Rewriting
from functrax.backends.loops.rewrites.grid import with_indices
from functrax.backends.loops.rewrites.rewrite import Rewrite, nest, nested
from functrax.backends.loops.tree import (
    INDEX,
    Body,
    Function,
    If,
    Let,
    Loop,
    Statement,
    index,
    number,
    smaller,
)
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Builder, Scalar

_BOOL: Final = np.dtype(np.bool_)
_WORD: Final = np.dtype(np.uint32)


@record
class Own(Rewrite):
    """Elements that are updated are divided among owners: groups of threads.

    Each owner goes through all updates in order, as many at a time as it has threads, and does
    those of its own elements, one after the other.  So an element is updated in the order of the
    updates, and updates of different owners at the same time.  An element's owner follows from a
    hash of its place.

    Args:
      owners: how many there are: a power of two.
      grain: how many points of the rows that are updated a group has.
      dim: the innermost of the loops over updates.
      flat: whether all loops over updates become one, so that the innermost one may be short.
      dims: the dim along rows, whose points the threads of a group share, or none: then an update
        is done by one thread.
    """

    kind: ClassVar[str] = "own"
    owners: int
    grain: int
    dim: int
    flat: bool
    dims: tuple[int, ...]

    @property
    def is_required(self) -> bool:
        """Always: it is made for as many threads as a group has."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree with a loop over owners around it."""
        b, owner, chunk = tree.builder, tree.new_dim(), tree.new_dim()
        body = self._without_row(tree, owner, chunk, tree.body)
        for d in self.dims:
            chunks = -(-tree.extents[d] // self.grain)
            body = (_parallel(b, chunk, ("chunks", chunks), body),)
        body = (_parallel(b, owner, ("owners", self.owners), body),)
        return replace(tree, body=body)

    def _without_row(self, tree: Function, owner: int, chunk: int, body: Body) -> Body:
        """Parallel loops but for that over rows, and the updates in them."""
        (loop,) = body
        assert type(loop) is Loop
        if loop.kind == "parallel":
            inside = self._without_row(tree, owner, chunk, loop.body)
            return inside if loop.dim in self.dims else (replace(loop, body=inside),)
        loops = nest(loop)
        assert loops[-1].dim == self.dim
        updates = replace(loops[-1], kind="group", masked=True, maybe_empty=True)
        if not self.flat:
            steps = {self.dim: tree.new_dim()}
            done = self._updates(tree, owner, loops, chunk, steps, self.dim)
            return (nested([*loops[:-1], updates], done),)
        b, flat = tree.builder, tree.new_dim()
        steps = {x.dim: tree.new_dim() for x in loops}
        done = self._updates(tree, owner, loops, chunk, steps, flat)
        end = reduce(b.mul, [x.end for x in loops])
        sizes = [(x.dim, x.end) for x in loops]
        body = with_indices(b, sizes, _word(b, index(b, flat)), done)
        return (replace(updates, dim=flat, end=end, body=body),)

    def _updates(
        self,
        tree: Function,
        owner: int,
        loops: list[Loop],
        chunk: int,
        steps: dict[int, int],
        shared: int,
    ) -> Body:
        """What is done in a step: those of several updates whose elements the owner has.

        Args:
          steps: by the dims of loops that threads share, those whose indices are of the update
            whose turn it is.
          shared: the dim of the loop that threads share.
        """
        b = tree.builder
        (store,) = [s for s in loops[-1].body if type(s) is Store]
        holds = b.node("tail", _BOOL)
        if store.guard is not None:
            holds = b.both(holds, store.guard)
        if self.owners > 1:
            mine = b.compare("eq", self._owner_of(b, store, loops), _word(b, index(b, owner)))
            holds = b.both(holds, mine)
        same = {d: d for d in range(len(tree.extents))}
        moved = Rewriting(b, {**same, **steps})
        inside: list[Statement] = []
        for s in loops[-1].body:
            if type(s) is Let:
                inside.append(Let((), tuple([moved.scalar(x) for x in s.values])))
            else:
                inside.append(moved.store(s) if type(s) is Store else s)
        here = b.node("turn", INDEX, (index(b, shared),))
        sizes = [(steps[x.dim], x.end) for x in loops if x.dim in steps]
        if len(sizes) > 1:
            here = _word(b, here)
        body = with_indices(b, sizes, here, self._along_row(tree, chunk, tuple(inside)))
        return (If(holds, body, in_turn=True),)

    def _along_row(self, tree: Function, chunk: int, body: Body) -> Body:
        """What is done for each point of a row, or once."""
        b = tree.builder
        if not self.dims:
            return (If(b.node("first", _BOOL), body),)
        (d,) = self.dims
        end = number(b, ("extent", d), tree.extents[d])
        grain = number(b, "grain", self.grain)
        low = b.mul(index(b, chunk), grain)
        end = smaller(b, b.add(low, grain), end)
        return (Loop("group", d, low, end, 1, body, maybe_empty=True),)

    def _owner_of(self, b: Builder, store: Store, loops: list[Loop]) -> Scalar:
        """The owner of an element: some bits of a product by its place."""
        place = b.const(0, _WORD) if store.offset is None else _word(b, store.offset)
        for loop in loops:
            step = coefficient(store.address, loop.dim)
            if step:
                factor = b.const(step % 2**32, _WORD)
                place = b.add(place, b.mul(_word(b, index(b, loop.dim)), factor))
        # 2**32 over the golden ratio, as an odd number: its multiples are far from one another.
        spread = b.mul(place, b.const(0x9E3779B1, _WORD))
        return b.div(spread, b.const(2**32 // self.owners, _WORD))


def _word(b: Builder, x: Scalar) -> Scalar:
    return b.convert(x, _WORD)


def _parallel(b: Builder, dim: int, count: tuple[str, int], body: Body) -> Loop:
    return Loop("parallel", dim, b.const(0, INDEX), number(b, *count), 1, body)
