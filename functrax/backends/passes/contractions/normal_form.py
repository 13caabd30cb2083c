"""The normal form of a sum of products: contractions of two sides each, and what is left over.

What enters is a sum whose operand is a sum of products (``passes/contractions/terms.py``).  What
leaves are equations that compute the same: for each term a ``contraction`` in which two *sides* are
multiplied and summed (``passes/contractions/pairs.py``), and elementwise equations around them,
which fusion makes part of those again where that saves bytes.  A sum is linear, so

- the terms of ``sum(a*b + c*d)`` are contracted by themselves and then added;
- terms that share a factor are one: ``sum(a*b + a*c)`` is ``sum(a*(b + c))``;
- numbers and signs are applied to the result.

A sum that scatters (``reindex_reduce``) becomes one that gathers
(``passes/contractions/inverse_maps.py``). Half precision is added up in single precision.

Start at :func:`normal_form`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from functrax.backends.passes.contractions.inverse_maps import Inverse, inverse_of
from functrax.backends.passes.contractions.pairs import Pairs
from functrax.backends.passes.contractions.terms import (
    Link,
    Reading,
    Term,
    linked,
    reindex_link,
    terms_of,
)
from functrax.backends.passes.groups import contraction
from functrax.backends.reference.deferred import accumulator
from functrax.core.index.expr import as_expr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.prims.arithmetic import add, mul, neg, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import kept_axes, reduce_sum
from functrax.core.prims.reindex import reshape
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

Shape = tuple[int, ...]
Takes = Callable[[Jaxpr], bool]


def normal_form(total: Eqn, reading: Reading, takes: Takes) -> list[Eqn] | None:
    """The equations that compute a sum of products as contractions.

    Args:
      total: a ``reduce_sum``, or a ``reindex_reduce`` that adds.
      reading: how the program's values are read.
      takes: whether there are kernels for a contraction, which decides whether a sum that scatters
        into strided places becomes one that gathers.

    Returns:
      Equations in order, of which the last one defines the sum's variable; None where the sum is
      better left as it is.
    """
    terms = terms_of(total.invars[0], reading)
    if total.primitive is reduce_sum:
        return _contracted(total, terms, reading, None)
    for compact in (True, False):
        inverse = inverse_of(total.params["map"], compact)
        found = None if inverse is None else _gathered(terms, total.params["map"], compact)
        eqns = None if found is None else _contracted(total, found, reading, inverse)
        groups = [e.params["jaxpr"] for e in eqns or () if e.primitive is contraction]
        if inverse is None or (eqns and (not inverse.divides or all(map(takes, groups)))):
            return eqns
    return None


def _contracted(
    total: Eqn, terms: Sequence[Term], reading: Reading, inverse: Inverse | None
) -> list[Eqn] | None:
    """The equations of a sum of terms over its iteration space; None if one has no factors."""
    if not all(term.factors for term in terms):
        return None
    aval = total.invars[0].aval
    if inverse is None:
        shape, kept = aval.shape, kept_axes(aval.ndim, total.params["axes"])
    else:
        shape, kept = inverse.domain, tuple(range(inverse.kept))
    read = {aval.dtype, *(f.value.aval.dtype for term in terms for f in term.factors)}
    pairs = Pairs(reading, shape, kept, accumulator(read), total.source)
    return _written(total, terms, pairs, inverse)


def _gathered(terms: Sequence[Term], total: IndexMap, compact: bool) -> list[Term] | None:
    """The terms over the iteration space of a sum that gathers.

    A point that there is not must have a factor that is zero there: None if there may be none.
    """
    inverse = inverse_of(total, compact)
    assert inverse is not None
    found = []
    for term in terms:
        if not inverse.limited <= {k for f in term.factors for k in f.used}:
            return None
        factors = []
        for f in term.factors:
            links, used = _gathering(total, compact, f.links, f.used, f.value.aval)
            factors.append(f._replace(links=links, used=used))
        found.append(Term(term.coefficient, tuple(factors)))
    return found


@functools.lru_cache(maxsize=2048)
def _gathering(
    total: IndexMap, compact: bool, links: tuple[Link, ...], used: Shape, aval: ShapedArray
) -> tuple[tuple[Link, ...], Shape]:
    """The links of a factor over the iteration space of a sum that gathers, and what it uses."""
    inverse = inverse_of(total, compact)
    assert inverse is not None
    exprs = tuple([e if k in used else as_expr(0) for k, e in enumerate(inverse.exprs)])
    conditions = tuple([c for k in used for c in inverse.conditions.get(k, ())])
    index_map = IndexMap(inverse.domain, total.domain, exprs, conditions)
    fill = Literal(0, ShapedArray((), aval.dtype))
    link: Link | None = (reindex, (("map", index_map), ("fill", fill)))
    if not links:
        link = reindex_link(index_map, aval.dtype)
    found = tuple(sorted(k for k in index_map.used_dims() if inverse.domain[k] != 1))
    return linked(aval, links if link is None else (*links, link)), found


def _written(total: Eqn, terms: Sequence[Term], pairs: Pairs, inverse: Inverse | None) -> list[Eqn]:
    """The equations of all terms, and of their sum."""
    out = total.outvars[0].aval
    found: Atom | None = None
    for term in _merged(terms, pairs):
        value, times = pairs.contract(term.factors)
        coefficient = term.coefficient * times
        negative = not dtypes.is_complex(pairs.dtype) and coefficient < 0
        if found is None and coefficient != -1:
            negative = False
        size = -coefficient if negative else coefficient
        if size != 1:
            number = Literal(size, value.aval.update(shape=()))
            value = pairs.new(mul, value, number)
        if found is None:
            found = pairs.new(neg, value) if negative else value
        else:
            found = pairs.new(sub if negative else add, found, value)
    assert found is not None
    if found.aval.dtype != out.dtype:
        found = pairs.new(convert_element_type, found, dtype=out.dtype, weak_type=False)
    if inverse is not None and inverse.after is not None:
        link = reindex_link(inverse.after, out.dtype)
        found = found if link is None else pairs.viewed(found, link)
    eqns = pairs.eqns
    if not eqns or eqns[-1].outvars[0] is not found:
        pairs.new(reshape, found, shape=out.shape)
    last = eqns.pop()
    return [*eqns, Eqn(last.primitive, last.invars, total.outvars, last.params, total.source)]


def _merged(terms: Sequence[Term], pairs: Pairs) -> list[Term]:
    """The terms, those as one that differ in one factor only, which is read in the same way."""
    found: list[Term] = []
    for term in terms:
        for k, other in enumerate(found):
            both = _sum_of(other, term, pairs)
            if both is not None:
                found[k] = both
                break
        else:
            found.append(term)
    return found


def _sum_of(a: Term, b: Term, pairs: Pairs) -> Term | None:
    if len(a.factors) != len(b.factors) or len(a.factors) < 2:
        return None
    common = [f for f in a.factors if f in b.factors]
    left = [f for f in a.factors if f not in common]
    right = [f for f in b.factors if f not in common]
    if len(left) != 1 or len(right) != 1 or abs(a.coefficient) != abs(b.coefficient):
        return None
    x, y = left[0], right[0]
    if x.links != y.links or x.value.aval != y.value.aval or x.value.aval.dtype in dtypes.HALF:
        return None
    if any(type(v) is Literal or v in pairs.reading.producers for v in (x.value, y.value)):
        return None
    if any(key == "fill" and number.val != 0 for _, ps in x.links for key, number in ps):
        return None
    value = pairs.new(add if a.coefficient == b.coefficient else sub, x.value, y.value)
    merged = x._replace(value=value, distinct=max(x.distinct, y.distinct))
    return Term(a.coefficient, (*common, merged))
