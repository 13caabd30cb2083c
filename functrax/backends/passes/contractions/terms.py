"""A sum of products multiplied out: its terms, and what their factors read.

What enters is the operand of a sum: products, differences, signs and conversions of values that
views repeat over the iteration space.  What leaves are :class:`Term` s, ``coefficient * factor *
factor ...``.  A :class:`Factor` is a value and its *links*, the views that lead from it to the
iteration space; factors that read the same value in the same way are equal.

Start at :func:`terms_of`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrax.backends.passes.clean.compose import APART, compose_steps, named_step
from functrax.backends.passes.clean.repeated_axes import Layouts, dense_as, view
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.prims.arithmetic import mul, neg, sub
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import Reindexing
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

Shape: TypeAlias = tuple[int, ...]
#: A view: a primitive and its parameters.
Link: TypeAlias = "tuple[Primitive, tuple[tuple[str, Any], ...]]"


class Factor(NamedTuple):
    """A value as a product sees it.

    Args:
      value: what is read.
      links: the views that lead from it to the iteration space, in order.
      used: the axes of the iteration space along which it differs.
      distinct: how many elements of it there are in memory, at most.
    """

    value: Atom
    links: tuple[Link, ...]
    used: Shape
    distinct: int


class Term(NamedTuple):
    """``coefficient`` times the product of ``factors``."""

    coefficient: Any
    factors: tuple[Factor, ...]


def terms_of(x: Atom, reading: Reading) -> list[Term]:
    """The terms of a value; equal products are one term."""
    found: dict[frozenset[tuple[Factor, int]], Term] = {}
    for term in reading.terms(x, ()):
        counts: dict[Factor, int] = {}
        for f in term.factors:
            counts[f] = counts.get(f, 0) + 1
        key = frozenset(counts.items())
        known = found.get(key)
        if known is not None:
            with np.errstate(all="ignore"):
                term = Term(known.coefficient + term.coefficient, known.factors)
        found[key] = term
    return list(found.values())


@record(frozen=False)
class Reading:
    """How the values of a program are read by its sums.

    Args:
      layouts: of the values that repeat elements.
      cones: the values that are sums of products, which need not be stored.
      producers: of these, and of what is beneath them, the equations.
    """

    layouts: Layouts
    cones: Mapping[Atom, Any]
    producers: Mapping[Atom, Eqn]

    def terms(self, x: Atom, views: tuple[Eqn, ...]) -> list[Term]:
        """The terms of a value that is read through views (in the order they apply in)."""
        if type(x) is Literal:
            return [Term(_coefficient(x.val, x.aval.dtype), ())]
        if x not in self.cones:
            one = _coefficient(1, x.aval.dtype)
            return [Term(one, (self._factor(x, views),))]
        eqn = self.producers[x]
        if isinstance(eqn.primitive, Reindexing):
            return self.terms(eqn.invars[0], (eqn, *views))
        parts = [self.terms(y, views) for y in eqn.invars]
        primitive = eqn.primitive
        with np.errstate(all="ignore"):
            if primitive is mul:
                return [
                    Term(left.coefficient * right.coefficient, left.factors + right.factors)
                    for left in parts[0]
                    for right in parts[1]
                ]
            if primitive in (neg, sub):
                parts[-1] = [Term(-t.coefficient, t.factors) for t in parts[-1]]
        return [t for part in parts for t in part]

    def _factor(self, x: Atom, views: tuple[Eqn, ...]) -> Factor:
        layout = self.layouts.of(x)
        for eqn in views:
            layout = view(eqn, layout) or dense_as(layout, eqn)
        links = linked(x.aval, [link_of(eqn) for eqn in views])
        return Factor(*self.through_views(x, links), layout.used, layout.distinct)

    def through_views(self, x: Atom, links: tuple[Link, ...]) -> tuple[Atom, tuple[Link, ...]]:
        """What is read in the end, and through which views, if ``x`` is read through ``links``.

        A window is read of an array: where one would be read of another view, that is copied.
        """
        while x in self.producers and isinstance(self.producers[x].primitive, Reindexing):
            eqn = self.producers[x]
            source = eqn.invars[0]
            more = linked(source.aval, (link_of(eqn), *links))
            if len(more) > len(links) and links and links[0][0] is reindex:
                break
            x, links = source, more
        return x, links


def link_of(eqn: Eqn) -> Link:
    """The view that an equation is."""
    return eqn.primitive, tuple(eqn.params.items())


@functools.lru_cache(maxsize=2048)
def reindex_link(index_map: IndexMap, dtype: np.dtype[Any]) -> Link | None:
    """A map as a view of values of a dtype, 0 where it is not valid; None for the identity."""
    if index_map.is_identity:
        return None
    fill = Literal(0, ShapedArray((), dtype))
    step = named_step(index_map, fill)
    if step is None:
        return reindex, (("map", index_map), ("fill", fill))
    return step[0], tuple(step[1].items())


def linked(aval: ShapedArray, links: Sequence[Link]) -> tuple[Link, ...]:
    """The same views, composed where two are one.

    Args:
      aval: the type of the value that they are applied to.
      links: the views, in order.
    """
    if len(links) < 2:
        return tuple(links)
    found: list[Link] = []
    avals = [aval]  # before each of ``found``, and behind the last
    for link in links:
        if found:
            step = compose_steps(*found[-1], *link, avals[-2])
            if step is not APART:
                found.pop()
                avals.pop()
                if step is None:
                    continue
                link = step[0], tuple(step[1].items())
        found.append(link)
        avals.append(aval.update(shape=shape_after(avals[-1], link)))
    return tuple(found)


def shape_after(aval: ShapedArray, link: Link) -> Shape:
    """The shape of what a view gives."""
    primitive, params = link
    known = dict(params)
    if "shape" in known:
        return tuple(known["shape"])
    return tuple(primitive.index_map(aval, **known).domain)  # type: ignore[attr-defined]


def _coefficient(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar in which coefficients are multiplied: wide for floats, wrapping for integers."""
    if dtypes.is_integer(dtype):
        return dtype.type(value)
    return np.complex128(value) if dtypes.is_complex(dtype) else np.float64(value)
