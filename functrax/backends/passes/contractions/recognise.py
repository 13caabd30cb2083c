"""Recognition of contractions: sums of products whose product is larger than what it is made of.

A matrix product or a convolution is written as the sum of a product of operands that a broadcast or
another reindex repeats.  What enters is such a program; what leaves has, for each sum of that kind,
one equation ``contraction`` that holds the sum, the cone of products beneath it, and the reindexes
beneath those (copies, where they have other users).  So nothing of the size of the product is ever
stored.  What it replaces becomes dead code.

A product is followed (:class:`Cone`) through linear operations and views, if its factors repeat
elements (``passes/clean/repeated_axes.py``).  A product of two sums is not: multiplied out,
``(a - b)**2`` would lose the digits that cancel.  A sum is followed only while it is much larger
than what it is made of; an update ``p - rate * g`` is computed.  Of those sums, one is a
contraction if the product outgrows *each* of its factors: a matrix times a repeated vector is as
large as the matrix, and is better fused with what is around it.

Start at :func:`recognise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from functrax.backends.passes.clean.repeated_axes import (
    Layout,
    Layouts,
    dense_as,
    view,
    volume,
)
from functrax.backends.passes.contractions.normal_form import normal_form
from functrax.backends.passes.contractions.terms import Reading
from functrax.backends.passes.fusion.contraction_groups import contraction_kernels_take
from functrax.backends.passes.groups import contraction, grouped
from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.reference import strided
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.mapped import reindex, reindex_reduce
from functrax.core.prims.reduce import ReindexReduce, reduce_or, reduce_sum
from functrax.core.prims.reindex import Reindex, Reindexing, broadcast_in_dim, reshape
from functrax.core.prims.slicing import slice_
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes

#: A product is followed through so many operations.
MOST_NODES = 32
#: Dtypes of products that may be converted to one another.
_CONVERTIBLE = (dtypes.FLOATING, dtypes.COMPLEX)


class Cone(NamedTuple):
    """A product, or a sum of few products, that nobody has to store.

    Args:
      terms: how many products its sum has when it is multiplied out.
      nodes: how many operations it is made of.
      arrays: the layouts of its factors.
      size: its number of elements.
    """

    terms: int
    nodes: int
    arrays: tuple[Layout, ...]
    size: int

    @property
    def outgrows(self) -> bool:
        """Whether it is much larger than each of the arrays that it is made of."""
        return self.size > strided.OUTGROWN * max(x.distinct for x in self.arrays)

    @property
    def outgrows_each(self) -> bool:
        """Whether it has more different elements than each of the arrays."""
        used = {k for x in self.arrays for k in x.used}
        return volume(self.arrays[0].shape, used) > max(x.distinct for x in self.arrays)


def recognise(
    jaxpr: Jaxpr, rewrites: Rewrites, takes: Callable[[Jaxpr], bool] = contraction_kernels_take
) -> Jaxpr:
    """The program with its contractions as equations of their own.

    Args:
      jaxpr: the program.
      rewrites: counts them.
      takes: whether there are kernels for a contraction; see
        ``passes/contractions/normal_form.py``.
    """
    work = _Recognition(jaxpr)
    eqns: list[Eqn] = []
    changed = False
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        if primitive.holds_programs:
            new = with_programs(eqn, lambda inner: recognise(inner, rewrites, takes))
            changed = changed or new is not eqn
            eqn = new
        elif work.follow(eqn) and rewrites.allow("sum of products", eqn):
            eqns.extend(work.contractions_of(eqn, takes))
            changed = True
            continue
        eqns.append(eqn)
    if not changed:
        return jaxpr
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name, jaxpr.arg_names)


class _Recognition:
    """Follows the equations of one program.

    Attributes:
      layouts: of the values that repeat elements.
      cones: of the values that need not be stored.
      producers: of each reindex's and each cone's value the equation.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.layouts = Layouts()
        self.cones: dict[Atom, Cone] = {}
        self.producers: dict[Atom, Eqn] = {}

    def follow(self, eqn: Eqn) -> bool:
        """Note what an equation gives; whether it is the sum that makes a contraction."""
        primitive = eqn.primitive
        if isinstance(primitive, Elementwise):
            for x in eqn.invars:
                if x in self.layouts or x in self.cones:
                    self._elementwise(eqn)
                    break
        elif isinstance(primitive, Reindexing):
            if isinstance(primitive, Reindex):
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
        has_fill = isinstance(eqn.primitive, Reindex) and eqn.primitive.has_fill
        cone = self.cones.get(x)
        if cone is not None and has_fill and not cone.outgrows:
            # So it may where it is padded, or read in windows, and stays one everywhere.
            del self.cones[x]
            self.producers.pop(x, None)
            cone = None
        if cone is None or (eqn.primitive is broadcast_in_dim and not cone.outgrows):
            # A product that is no larger than what it is made of may be read as an array.
            # A part of an array is copied: then groups that use different parts are one kernel.
            if eqn.primitive is not slice_ or x in self.layouts:
                self._produced(eqn)
            self.layouts.follow_view(eqn)
            return
        aval = eqn.outvars[0].aval
        if has_fill or not cone.outgrows:
            return
        if eqn.primitive is reshape and not all(_is_free(a, eqn) for a in cone.arrays):
            return
        arrays = tuple([view(eqn, a) or dense_as(a, eqn) for a in cone.arrays])
        if aval.size > strided.SMALL:
            self._produced(eqn)
            self.cones[eqn.outvars[0]] = cone._replace(arrays=arrays, size=aval.size)

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
        aval = eqn.outvars[0].aval
        product = eqn.primitive is mul
        if aval.size <= strided.SMALL:
            return None
        known = [self.cones.get(x) for x in arrays]
        if not any(known):
            if not product or len(arrays) != 2 or not self._is_outer(arrays):
                return None
            return Cone(1, 1, tuple([self.layouts.of(x) for x in arrays]), aval.size)
        if eqn.primitive is convert_element_type:
            before = arrays[0].aval.dtype
            if not any(aval.dtype in kind and before in kind for kind in _CONVERTIBLE):
                return None
        literals = len(eqn.invars) - len(arrays)
        parts = [c or Cone(1, 0, (self.layouts.of(x),), 0) for c, x in zip(known, arrays)]
        counts = [c.terms for c in parts] + [1] * literals
        if product and len(counts) == 2 and min(counts) > 1:
            return None
        cone = Cone(
            (math.prod if product else sum)(counts),
            1 + sum(c.nodes for c in parts),
            tuple([a for c in parts for a in c.arrays]),
            aval.size,
        )
        if eqn.primitive in (add, sub) and not cone.outgrows:
            return None
        return cone if cone.nodes <= MOST_NODES else None

    def _is_outer(self, arrays: Sequence[Var]) -> bool:
        """Whether a product of two arrays has more elements than one of them has in memory."""
        x, y = self.layouts.of(arrays[0]), self.layouts.of(arrays[1])
        if not x.used or not y.used:
            return False
        union = volume(x.shape, {*x.used, *y.used})
        return union > strided.SMALL and min(x.distinct, y.distinct) < union

    def contractions_of(self, eqn: Eqn, takes: Callable[[Jaxpr], bool]) -> list[Eqn]:
        """What computes a sum of products without storing the products."""
        if eqn.invars[0].aval.dtype != np.bool_ and not self._is_normal(eqn):
            reading = Reading(self.layouts, self.cones, self.producers)
            found = normal_form(eqn, reading, takes)
            if found is not None:
                return found
        return [self._whole(eqn)]

    def _is_normal(self, eqn: Eqn) -> bool:
        """Whether a sum is of one product of two sides, as most are, and in its normal form."""
        product = self.producers[eqn.invars[0]]
        if product.primitive is not mul or eqn.primitive is not reduce_sum:
            return False
        x, y = product.invars
        shape, dtype = product.outvars[0].aval.shape, product.outvars[0].aval.dtype
        if dtype in dtypes.HALF or not (self._is_plain(x) and self._is_plain(y)):
            return False
        left, right = {*self.layouts.of(x).used}, {*self.layouts.of(y).used}
        summed = {k for k in eqn.params["axes"] if shape[k] != 1}
        return bool(
            left - right
            and right - left
            and summed <= left & right
            and len(left | right) == len(shape) - shape.count(1)
        )

    def _is_plain(self, x: Atom) -> bool:
        """Whether a value is an array, or a view of one that is no window of another view."""
        if type(x) is Literal or x in self.cones:
            return False
        window = False
        while x in self.producers:
            eqn = self.producers[x]
            if not isinstance(eqn.primitive, Reindexing) or window:
                return False
            window = eqn.primitive is reindex
            x = eqn.invars[0]
        return True

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
    primitive, aval = eqn.primitive, eqn.invars[0].aval
    if primitive is reduce_or:
        return bool(aval.dtype == np.bool_)
    if primitive is reindex_reduce:
        index_map = eqn.params["map"]
        empty = 0 in index_map.domain or 0 in index_map.codomain
        by_arrays = len(eqn.invars) > 1
        adds = eqn.params["op"] == "add" and aval.dtype != np.bool_
        return bool(adds and not by_arrays and not empty)
    return bool(primitive is reduce_sum and eqn.params["axes"] and not dtypes.BOOL & {aval.dtype})


def _is_free(x: Layout, eqn: Eqn) -> bool:
    """Whether a reshape copies out no repetition."""
    groups = strided.groups(x.shape, eqn.params["shape"])
    return all(len({k in x.used for k in old if x.shape[k] != 1}) <= 1 for old, _ in groups)
