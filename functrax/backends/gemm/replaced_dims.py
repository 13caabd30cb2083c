"""Expressions of a kernel in which an index expression stands in the place of a dim.

So a side is written whose dim is cut into panels (``packing.py``), or into the numbers of a word
(``packed_dtypes.py``).  The last panel or word may reach beyond the end of the dim: there nothing
is read, and the expression is zero.

Start at :meth:`Replaced.zero_outside`.
"""

from __future__ import annotations

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.merge import Rewriting
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.scalars.scalar import Builder, Scalar


class Replaced(Rewriting):
    """Expressions with another index in the place of a dim.

    Args:
      builder: makes the scalars.
      dim: the dim.
      index: a sum of multiples of dims and a number, in its place.
      inside: where that is no index beyond the end; None if it is so everywhere.
    """

    def __init__(self, builder: Builder, dim: int, index: IndexExpr, inside: Scalar | None) -> None:
        super().__init__(builder, {})
        self.dim, self.index, self.inside = dim, index, inside

    def zero_outside(self, value: Scalar) -> Scalar:
        """An expression at the other index, zero beyond the end."""
        found, b = self.scalar(value), self.builder
        if self.inside is None:
            return found
        return b.select(self.inside, found, b.const(0, found.dtype))

    def address(self, expr: IndexExpr) -> IndexExpr:
        """An address at the other index."""
        return expr + (self.index - Dim(self.dim)) * coefficient(expr, self.dim)

    def _node(self, node: Scalar) -> Scalar:
        b = self.builder
        if node.op == "dim":
            return self._number(node) if node.attr == self.dim else node
        if node.op != "load" or self.inside is None:
            return super()._node(node)
        buffer, address, has_offset, has_guard = node.attr
        if not has_offset and self.dim not in address.used_dims():
            return super()._node(node)
        args = [self.new[id(x)] for x in node.args]
        guard = b.both(args.pop(), self.inside) if has_guard else self.inside
        attr = (buffer, self.address(address), has_offset, True)
        return b.node("load", node.dtype, (*args, guard), attr)

    def _number(self, node: Scalar) -> Scalar:
        """The other index, in the place of a node that is the dim."""
        b, found = self.builder, None
        for atom, times in sorted(self.index.terms, key=lambda term: -term[1]):
            assert isinstance(atom, Dim)
            part = b.node("dim", node.dtype, (), atom.number)
            part = part if times == 1 else b.mul(part, b.const(times, node.dtype))
            found = part if found is None else b.add(found, part)
        assert found is not None
        return b.add(found, b.const(self.index.const, node.dtype)) if self.index.const else found
