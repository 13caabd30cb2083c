"""What reductions carry, as values: the last rewrite of every schedule.

``r0 add= v`` becomes ``next r0 = add(r0, v)``; lanes that a masked loop leaves out add nothing, and
a product may be rounded once with its sum.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from functrax.backends.kernels.ir import Reduce
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.tree import Bind, Body, Carried, Function, Let, Loop, Statement, While
from functrax.core.prims.fused import fma
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Builder, Scalar

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
        return replace(tree, body=self._body(tree, tree.body, (), False, {}))

    def _body(
        self,
        tree: Function,
        body: Body,
        carries: tuple[Carried, ...],
        masked: bool,
        new: dict[Scalar, Scalar],
    ) -> Body:
        """Statements inside of a loop.

        Args:
          tree: all of it.
          body: the statements.
          carries: of the loop.
          masked: whether it is a vector loop that may reach past its end.
          new: the results of reductions, as values; what is found is added.
        """
        found: list[Statement] = []
        for s in body:
            if type(s) is Reduce:
                lanes = next(c.lanes for c in carries if c.new is s.results[0])
                values = self._combined(tree, s, masked, lanes)
                new.update(zip(s.results, values, strict=True))
                found.append(Let((), tuple(values)))
            elif isinstance(s, (Loop, While, Bind)):
                found.append(self._loop(tree, s, masked))
            else:
                found.append(s)
        same = all(x is y for x, y in zip(found, body))
        return body if same else tuple(found)

    def _loop(self, tree: Function, s: Any, masked: bool) -> Any:
        if type(s) is Loop:
            masked = s.kind == "vector" and s.masked
        new: dict[Scalar, Scalar] = {}
        body = self._body(tree, s.body, s.carries, masked, new)
        if body is s.body:
            return s
        if not new:
            return replace(s, body=body)
        carries = tuple([replace(c, new=new.get(c.new, c.new)) for c in s.carries])
        return replace(s, body=body, carries=carries)

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
        return [self._once(b, x) for x in s.how.combine(b, s.accs, values)]

    def _once(self, b: Builder, node: Scalar) -> Scalar:
        """A sum with a product, rounded once."""
        if not self.fused or node.op != "add" or node.dtype not in fma.accepts:
            return node
        total, value = node.args
        if value.op != "mul":
            return node
        x, y = value.args
        return b.fma(x, y, total)
