"""What reductions carry, as values: the last rewrite of every schedule.

``r0 add= v`` becomes ``next r0 = add(r0, v)``; lanes that a masked loop leaves out add nothing, and
a product may be rounded once with its sum.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from functrax.backends.kernels.ir import Reduce
from functrax.backends.kernels.operations import rounded_once
from functrax.backends.loops.rewrites.rewrite import Rewrite, changed
from functrax.backends.loops.tree import Function, Let, Loop, Statement
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Scalar

_BOOL: Final = np.dtype(np.bool_)


@record
class Combine(Rewrite):
    """Reductions become values that loops carry.

    Args:
      fused: whether a product is rounded once with the sum that it is added to.
    """

    kind: ClassVar[str] = "combine"
    fused: bool

    @property
    def is_required(self) -> bool:
        """Always: nothing else writes reductions."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree without statements of reductions."""

        def change(s: Any) -> list[Statement] | None:
            reduces = any(type(x) is Reduce for x in getattr(s, "body", ()))
            return [self._in_loop(tree, s)] if reduces else None

        return replace(tree, body=changed(tree.body, change))

    def _in_loop(self, tree: Function, loop: Any) -> Statement:
        """A loop without statements of reductions."""
        masked = type(loop) is Loop and loop.kind in ("vector", "group") and loop.masked
        new: dict[Scalar, Scalar] = {}

        def change(s: Statement) -> list[Statement] | None:
            if type(s) is not Reduce:
                return None
            lanes = next(c.lanes for c in loop.carries if c.new is s.results[0])
            values = self._combined(tree, s, masked, lanes)
            new.update(zip(s.results, values, strict=True))
            return [Let((), tuple(values))]

        body = changed(loop.body, change)
        carries = [replace(c, new=new.get(c.new, c.new)) for c in loop.carries]
        after: Statement = replace(loop, body=body, carries=tuple(carries))
        return after

    def _combined(self, tree: Function, s: Reduce, masked: bool, lanes: int) -> list[Scalar]:
        """What is carried after one point (or one vector of points) more."""
        b, values = tree.builder, s.values
        narrow = 1 < lanes < tree.lanes
        if narrow:
            values = values[0].args
        if masked:
            tail = b.node("tail", _BOOL)
            values = tuple(
                b.select(tail, v, b.convert(start, v.dtype))
                for v, start in zip(values, s.how.empty(b), strict=True)
            )
        if narrow:
            part = b.node("across", values[0].dtype, values, (s.how, 0, lanes))
            return list(s.how.combine(b, s.accs, (b.convert(part, s.values[0].dtype),)))
        found = s.how.combine(b, s.accs, values)
        return [rounded_once(b, x) if self.fused else x for x in found]
