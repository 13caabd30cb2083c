"""Windows: sides of a contraction that read the same elements at many points.

A convolution reads its image at ``row + tap``: ten thousand points for a thousand elements.  What
enters is the expression of such a side.  Where two dims occur only as one sum ``a*p + b*q``, in
addresses and in conditions, that sum becomes a dim of its own, and the expression over the new dims
has as many points as there are elements, those beyond the edge included.  So a side that is padded,
or computed by what stands before the product, can be stored once, and read in place.

Start at :func:`merged`.
"""

from __future__ import annotations

from collections.abc import Iterable

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import ordered
from functrax.backends.kernels.merge import Rewriting
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.records import record
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types.symbolic_sizes import gcd, integer


@record
class Merge:
    """``first`` and ``second`` as one dim ``new = a * first + b * second - least``."""

    first: int
    second: int
    a: int
    b: int
    least: int
    new: int

    def apply(self, expr: IndexExpr) -> IndexExpr:
        """An expression in which the two dims occur as that sum only, in the new dim."""
        first, second = Dim(self.first), Dim(self.second)
        factor = coefficient(expr, self.first) // self.a
        terms = [(atom, coef) for atom, coef in expr.terms if atom not in (first, second)]
        return add_terms(expr.const + factor * self.least, [*terms, (Dim(self.new), factor)])


@record
class Windows:
    """A side over merged dims.

    Args:
      value: its expression.
      dims: that it depends on.
      extents: of all dims, the new ones after the old ones.
      merges: in the order in which they were made.
    """

    value: Scalar
    dims: frozenset[int]
    extents: tuple[int, ...]
    merges: tuple[Merge, ...]

    def home(self, dim: int) -> tuple[int, int]:
        """The dim that an old one is part of, and by which factor."""
        factor = 1
        for merge in self.merges:
            if dim in (merge.first, merge.second):
                factor *= merge.a if dim == merge.first else merge.b
                dim = merge.new
        return dim, factor

    @property
    def least(self) -> dict[int, int]:
        """For each dim what its index is when those of all old dims are 0."""
        found: dict[int, int] = {}
        for m in self.merges:
            begin = m.a * found.pop(m.first, 0) + m.b * found.pop(m.second, 0) - m.least
            found[m.new] = begin
        return found


def merged(
    builder: Builder, value: Scalar, dims: frozenset[int], extents: tuple[int, ...]
) -> Windows | None:
    """A side over merged dims; None if no two of its dims occur as one sum."""
    affine = affine_nodes(value)
    forms = _forms(value, affine)
    merges: list[Merge] = []
    left = set(dims)
    sizes = list(extents)
    while True:
        merge = _best(forms, sorted(left), sizes)
        if merge is None:
            break
        merges.append(merge)
        forms = [merge.apply(form) for form in forms]
        left -= {merge.first, merge.second}
        left.add(merge.new)
        ends = merge.a * (sizes[merge.first] - 1), merge.b * (sizes[merge.second] - 1)
        sizes.append(sum(map(abs, ends)) + 1)
    if not merges:
        return None
    new = _Rewritten(builder, affine, merges, tuple(sizes)).scalar(value)
    return Windows(new, frozenset(left), tuple(sizes), tuple(merges))


def affine_nodes(root: Scalar) -> dict[int, IndexExpr]:
    """The integers of an expression that are affine in the dims, by the identity of their nodes."""
    found: dict[int, IndexExpr] = {}
    for node in ordered((root,)):
        expr = _affine(node, found)
        if expr is not None:
            found[id(node)] = expr
    return found


def _affine(node: Scalar, found: dict[int, IndexExpr]) -> IndexExpr | None:
    if node.dtype.kind != "i" or node.dtype.itemsize < 4:
        return None
    if node.op == "dim":
        return Dim(node.attr)
    if node.op in ("const", "int"):
        return add_terms(integer(node.attr), ())  # a constant may be a scalar of NumPy
    known = [found[id(x)] for x in node.args if id(x) in found]
    if not known or len(known) < len(node.args):
        return None
    first, second = known[0], known[-1]
    if node.op == "neg":
        return -first
    if node.op == "add":
        return first + second
    if node.op == "sub":
        return first - second
    if node.op == "mul" and (not first.terms or not second.terms):
        return first * second
    return None


def _forms(root: Scalar, affine: dict[int, IndexExpr]) -> list[IndexExpr]:
    """The affine expressions that a side consists of."""
    forms: dict[IndexExpr, None] = {}
    for node in ordered((root,)):
        if node.op == "load":
            forms[node.attr[1]] = None
        if id(node) in affine:
            continue
        for x in node.args:
            if id(x) in affine:
                forms[affine[id(x)]] = None
    return [form for form in forms if form.terms]


def _best(forms: Iterable[IndexExpr], dims: list[int], sizes: list[int]) -> Merge | None:
    """The merge of two dims that leaves the fewest points, if any leaves fewer than before."""
    rows = [{a.number: c for a, c in form.terms if isinstance(a, Dim)} for form in forms]
    best, least = None, 1.0
    for i, p in enumerate(dims):
        for q in dims[i + 1 :]:
            ratio = _ratio(rows, p, q)
            if ratio is None:
                continue
            a, b = ratio
            after = abs(a) * (sizes[p] - 1) + abs(b) * (sizes[q] - 1) + 1
            part = after / (sizes[p] * sizes[q])
            if part < least:
                begin = min(0, a * (sizes[p] - 1)) + min(0, b * (sizes[q] - 1))
                best, least = Merge(p, q, a, b, begin, len(sizes)), part
    return best


def _ratio(rows: list[dict[int, int]], p: int, q: int) -> tuple[int, int] | None:
    """``(a, b)`` if two dims occur in multiples of ``a*p + b*q`` only."""
    found = None
    for row in rows:
        x, y = row.get(p, 0), row.get(q, 0)
        if x == 0 and y == 0:
            continue
        if x == 0 or y == 0:
            return None
        divisor = gcd(x, y) * (1 if x > 0 else -1)
        ratio = x // divisor, y // divisor
        if found not in (None, ratio):
            return None
        found = ratio
    return found


class _Rewritten(Rewriting):
    """Expressions over merged dims."""

    def __init__(
        self,
        builder: Builder,
        affine: dict[int, IndexExpr],
        merges: list[Merge],
        extents: tuple[int, ...],
    ) -> None:
        super().__init__(builder, {})
        self.affine, self.merges = affine, merges
        self.indices = Indices(builder, extents)

    def address(self, expr: IndexExpr) -> IndexExpr:
        """An address in the new dims."""
        for merge in self.merges:
            expr = merge.apply(expr)
        return expr

    def _node(self, node: Scalar) -> Scalar:
        expr = self.affine.get(id(node))
        if expr is None:
            return super()._node(node)
        if self._merges_part(expr):
            return node  # part of a sum that is affine as a whole
        return self.indices.integer(self.address(expr), node.dtype)

    def _merges_part(self, expr: IndexExpr) -> bool:
        """Whether an expression has one of two merged dims without the other."""
        for merge in self.merges:
            used = expr.used_dims()
            if (merge.first in used) != (merge.second in used):
                return True
            expr = merge.apply(expr)
        return False
