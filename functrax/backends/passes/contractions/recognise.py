"""Recognition of contractions: sums of products whose product is larger than what it is made of.

A matrix product or a convolution is written as the sum of a product of operands that a broadcast or
another reindex repeats.  What enters is such a program; what leaves has, for each sum of that kind,
one equation ``contraction`` that holds the sum, the cone of products beneath it, and the reindexes
beneath those (copies, where they have other users).  So nothing of the size of the product is ever
stored.  What it replaces becomes dead code.

A product is followed (:class:`Cone`) through linear operations and views, if its factors repeat
elements (``passes/contractions/layouts.py``).  A product of two sums is not: multiplied out,
``(a - b)**2`` would lose the digits that cancel.  A sum is followed only while it is much larger
than what it is made of; an update ``p - rate * g`` is computed.  Of those sums, one is a
contraction if the product outgrows *each* of its factors: a matrix times a repeated vector is as
large as the matrix, and is better fused with what is around it.

Start at :func:`recognise`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from functrax.backends.passes.contractions.inverse_maps import MOST_PLACES, inverse_of
from functrax.backends.passes.contractions.layouts import (
    Layouts,
    Shape,
    identity,
    mixes,
    volume,
)
from functrax.backends.passes.contractions.normal_form import normal_form
from functrax.backends.passes.contractions.terms import (
    Factor,
    Term,
    coefficient,
    is_part_of_sides,
    of_arrays,
)
from functrax.backends.passes.contractions.writer import ViewWriter
from functrax.backends.passes.groups import contraction, grouped
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.reference import strided
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul, neg, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.mapped import reindex_reduce
from functrax.core.prims.reduce import ReindexReduce, reduce_or, reduce_sum
from functrax.core.prims.reindex import Reindex, broadcast_in_dim, map_of, reshape
from functrax.core.prims.slicing import slice_
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import roughly

#: What is followed are sums of at most so many products of so many factors.
MOST_PARTS = 8
#: Dtypes of products that may be converted to one another.
_CONVERTIBLE = (dtypes.FLOATING, dtypes.COMPLEX)


class Cone(NamedTuple):
    """A product, or a sum of few products, that nobody has to store.

    Args:
      shape: its shape.
      terms: the products of its sum when it is multiplied out.
    """

    shape: Shape
    terms: tuple[Term, ...]

    @property
    def factors(self) -> list[Factor]:
        """Those of all terms."""
        return [f for term in self.terms for f in term.factors]

    @property
    def outgrows(self) -> bool:
        """Whether it is much larger than each of the arrays that it is made of."""
        most = max(roughly(f.distinct) for f in self.factors)
        return roughly(math.prod(self.shape)) > strided.OUTGROWN * most

    @property
    def outgrows_each(self) -> bool:
        """Whether it has more different elements than each of the arrays."""
        used = {k for f in self.factors for k in f.used}
        return roughly(volume(self.shape, used)) > max(roughly(f.distinct) for f in self.factors)

    @property
    def is_outer(self) -> bool:
        """Whether it is one product of factors of which two have axes of their own each.

        Then another factor may have to be multiplied with one of them first.
        """
        used = [set(f.used) for f in self.factors]
        pairs = itertools.combinations(used, 2)
        return len(self.terms) == 1 and any(not (a <= b or b <= a) for a, b in pairs)

    def viewed(self, view: IndexMap) -> Cone | None:
        """It through a view; None if that hides what its factors repeat."""
        if any(mixes(view, f.layout) for f in self.factors):
            return None
        terms = [Term(n, tuple([f.viewed(view) for f in factors])) for n, factors in self.terms]
        return Cone(view.domain, tuple(terms))


def recognise(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with its contractions as equations of their own."""
    work = _Recognition()
    eqns: list[Eqn] = []
    for eqn in with_bodies(jaxpr.eqns, lambda inner: recognise(inner, rewrites)):
        if work.follow(eqn) and rewrites.allow("sum of products", eqn):
            eqns += work.contractions_of(eqn)
            continue
        gathered = work.gathered(eqn)
        if gathered is not None and rewrites.allow("sum that gathers", eqn):
            eqns += gathered
        else:
            eqns.append(eqn)
    return with_eqns(jaxpr, eqns)


class _Recognition:
    """Follows the equations of one program.

    Attributes:
      layouts: of the values that repeat elements.
      cones: of the values that need not be stored.
      producers: the equations of values that need not be stored.
    """

    def __init__(self) -> None:
        self.layouts = Layouts()
        self.cones: dict[Atom, Cone] = {}
        self.producers: dict[Atom, Eqn] = {}

    def follow(self, eqn: Eqn) -> bool:
        """Note what an equation gives; whether it is the sum that makes a contraction."""
        primitive = eqn.primitive
        if isinstance(primitive, Elementwise):
            if is_part_of_sides(eqn):
                self._produced(eqn)
            if any(x in self.layouts or x in self.cones for x in eqn.invars):
                self._elementwise(eqn)
        elif isinstance(primitive, Reindex):
            self._view(eqn)
        elif isinstance(primitive, ReindexReduce) and eqn.invars[0] in self.cones:
            return _adds_up(eqn) and self.cones[eqn.invars[0]].outgrows_each
        return False

    def _produced(self, eqn: Eqn) -> None:
        self.producers[eqn.outvars[0]] = eqn

    def _view(self, eqn: Eqn) -> None:
        x = eqn.invars[0]
        if type(x) is Literal or len(eqn.invars) > 1:
            return
        has_fill = "fill" in eqn.params
        cone = self.cones.get(x)
        if cone is not None and has_fill and not cone.outgrows:
            # So it may where it is padded, or read in windows, and stays one everywhere.
            del self.cones[x]
            self.producers.pop(x, None)
            cone = None
        repeated = cone is not None and eqn.primitive is broadcast_in_dim
        follows = cone is not None and (cone.outgrows or (repeated and cone.is_outer))
        if cone is None or (repeated and not follows):
            # A product that is no larger than what it is made of may be read as an array.
            # A part of an array is copied: then groups that use different parts are one kernel.
            if eqn.primitive is not slice_ or x in self.layouts:
                self._produced(eqn)
            self.layouts.follow_view(eqn)
            return
        shape = eqn.outvars[0].aval.shape
        if has_fill or not follows or math.prod(shape) <= strided.SMALL:
            return
        viewed = cone.viewed(map_of(eqn))
        if viewed is not None:
            self._produced(eqn)
            self.cones[eqn.outvars[0]] = viewed

    def _elementwise(self, eqn: Eqn) -> None:
        arrays = [x for x in eqn.invars if type(x) is Var]
        cone = self._linear(eqn, arrays) if eqn.primitive.distributes else None
        if cone is not None:
            self.cones[eqn.outvars[0]] = cone
            self._produced(eqn)
            return
        if not any(x in self.cones for x in arrays):
            self.layouts.follow_elementwise(eqn, arrays)
            if eqn.outvars[0] in self.layouts:
                self._produced(eqn)

    def _linear(self, eqn: Eqn, arrays: Sequence[Var]) -> Cone | None:
        """The cone of a linear operation on a cone, or of a product that begins one, else None."""
        aval, primitive = eqn.outvars[0].aval, eqn.primitive
        if roughly(aval.size) <= strided.SMALL:
            return None
        if self.cones.keys().isdisjoint(arrays):
            if primitive is not mul or len(arrays) != 2 or not self._is_outer(arrays):
                return None
        elif primitive is convert_element_type:
            before = arrays[0].aval.dtype
            if not any(aval.dtype in kind and before in kind for kind in _CONVERTIBLE):
                return None
        parts = [self._terms(x) for x in eqn.invars]
        if primitive is mul and min(map(len, parts)) > 1:
            return None
        with np.errstate(all="ignore"):
            if primitive in (neg, sub):
                parts[-1] = tuple([Term(-number, factors) for number, factors in parts[-1]])
            terms = [term for part in parts for term in part]
            if primitive is mul:
                terms = [Term(a * b, (*f, *g)) for a, f in parts[0] for b, g in parts[1]]
        cone = Cone(aval.shape, tuple(terms))
        if primitive in (add, sub) and not cone.outgrows:
            return None
        most = max(len(term.factors) for term in terms)
        return cone if max(len(terms), most) <= MOST_PARTS else None

    def _terms(self, x: Atom) -> tuple[Term, ...]:
        """The terms of an operand."""
        if x in self.cones:
            return self.cones[x].terms
        if type(x) is Literal:
            return (Term(coefficient(x.val, x.aval.dtype), ()),)
        factor = Factor(x, identity(x.aval.shape), self.layouts.of(x))
        return (Term(coefficient(1, x.aval.dtype), (factor,)),)

    def _is_outer(self, arrays: Sequence[Var]) -> bool:
        """Whether a product of two arrays has more elements than one of them has in memory."""
        x, y = self.layouts.of(arrays[0]), self.layouts.of(arrays[1])
        if not x.used or not y.used:
            return False
        union = roughly(volume(x.shape, {*x.used, *y.used}))
        return union > strided.SMALL and min(roughly(x.distinct), roughly(y.distinct)) < union

    def contractions_of(self, eqn: Eqn) -> list[Eqn]:
        """What computes a sum of products without storing the products."""
        if eqn.invars[0].aval.dtype != np.bool_:
            terms = of_arrays(self.cones[eqn.invars[0]].terms, self.producers)
            found = normal_form(eqn, terms, self.producers)
            if found is not None:
                return found
        return [self._whole(eqn)]

    def gathered(self, eqn: Eqn) -> list[Eqn] | None:
        """What adds up repeated elements for each result, where an equation scatters them.

        So does the gradient of a sum over windows, which is one over windows, too.  None where most
        of what is read for a result may lie outside.
        """
        if eqn.primitive is not reindex_reduce or not _adds_up(eqn):
            return None
        x = eqn.invars[0]
        if x not in self.layouts:
            return None
        inverse = inverse_of(eqn.params["map"])
        if inverse is None or inverse.divides or len(inverse.domain) == inverse.kept:
            return None
        if math.prod(inverse.domain) > MOST_PLACES * x.aval.size or x.aval.dtype == np.bool_:
            return None
        writer = ViewWriter(eqn.source)
        terms = writer.view(x, IndexMap(inverse.domain, x.aval.shape, inverse.exprs))
        axes = tuple(range(inverse.kept, len(inverse.domain)))
        total = writer.view(writer.new(reduce_sum, terms, axes=axes), inverse.after)
        writer.new(reshape, total, shape=eqn.outvars[0].aval.shape)
        return writer.giving(eqn.outvars[0])

    def _whole(self, eqn: Eqn) -> Eqn:
        """The group of a sum, the products beneath it, and the reindexes beneath those.

        Their order follows from what they compute, not from where they stood, so that equal
        contractions are equal groups.
        """
        parts: dict[Eqn, None] = {}
        left = [eqn]
        while left:
            part = left[-1]
            producers = [self.producers[x] for x in part.invars if x in self.producers]
            missing = [p for p in producers if p not in parts]
            if missing:
                left.extend(reversed(missing))
            else:
                parts[left.pop()] = None
        return grouped(contraction, list(parts), eqn.outvars, "sum_of_products", eqn.source)


def _adds_up(eqn: Eqn) -> bool:
    """Whether a reduction of a product is a contraction; one by index arrays is an update."""
    primitive, params = eqn.primitive, eqn.params
    if eqn.invars[0].aval.dtype == np.bool_:
        return primitive is reduce_or
    if primitive is reduce_sum:
        return bool(params["axes"])
    if primitive is not reindex_reduce or len(eqn.invars) > 1 or params["op"] != "add":
        return False
    return 0 not in (*params["map"].domain, *params["map"].codomain)
