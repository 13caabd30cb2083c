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

from collections.abc import Sequence

from functrax.backends.passes.contractions.inverse_maps import Inverse, inverse_of
from functrax.backends.passes.contractions.layouts import RepeatLayout
from functrax.backends.passes.contractions.pairs import Pairs
from functrax.backends.passes.contractions.terms import Factor, Producers, Term, composed
from functrax.backends.passes.fusion.contraction_groups import contraction_kernels_take
from functrax.backends.passes.groups import contraction
from functrax.backends.reference.deferred import accumulator
from functrax.core.index.expr import as_expr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.prims.arithmetic import add, mul, neg, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import kept_axes, reduce_sum
from functrax.core.prims.reindex import reshape
from functrax.core.types import dtypes


def normal_form(total: Eqn, terms: Sequence[Term], producers: Producers) -> list[Eqn] | None:
    """The equations that compute a sum of products as contractions.

    Args:
      total: a ``reduce_sum``, or a ``reindex_reduce`` that adds.
      terms: those of what it adds up.
      producers: the equations of values that need not be stored.

    Returns:
      Equations in order, of which the last one defines the sum's variable; None where the sum is
      better left as it is.
    """
    if total.primitive is reduce_sum:
        return _contracted(total, terms, producers, None)
    for compact in (True, False):
        inverse = inverse_of(total.params["map"], compact)
        found = None if inverse is None else _gathered(terms, total.params["map"], inverse)
        eqns = None if found is None else _contracted(total, found, producers, inverse)
        groups = [e.params["jaxpr"] for e in eqns or () if e.primitive is contraction]
        if inverse is None:
            return None
        # Only kernels go over the remainders of a sum that scattered into strided places.
        if eqns and (not inverse.divides or all(map(contraction_kernels_take, groups))):
            return eqns
    return None


def _contracted(
    total: Eqn, terms: Sequence[Term], producers: Producers, inverse: Inverse | None
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
    pairs = Pairs(producers, shape, kept, accumulator(read), total.source)
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
    if inverse is not None:
        found = pairs.view(found, inverse.after)
    if not pairs.eqns or pairs.eqns[-1].outvars[0] is not found:
        pairs.new(reshape, found, shape=out.shape)
    return pairs.giving(total.outvars[0])


def _gathered(terms: Sequence[Term], total: IndexMap, inverse: Inverse) -> list[Term] | None:
    """The terms over the iteration space of a sum that gathers.

    A point that there is not must have a factor that is zero there: None if there may be none.
    """
    found = []
    for number, factors in terms:
        if not inverse.limited <= {k for f in factors for k in f.used}:
            return None
        found.append(Term(number, tuple([_gathering(f, total, inverse) for f in factors])))
    return found


def _gathering(f: Factor, total: IndexMap, inverse: Inverse) -> Factor:
    """A factor over the iteration space of a sum that gathers."""
    exprs = tuple([e if k in f.used else as_expr(0) for k, e in enumerate(inverse.exprs)])
    conditions = tuple([c for k in f.used for c in inverse.conditions.get(k, ())])
    view = IndexMap(inverse.domain, total.domain, exprs, conditions)
    used = tuple(sorted(k for k in view.used_dims() if inverse.domain[k] != 1))
    layout = RepeatLayout(inverse.domain, used, f.distinct)
    return Factor(f.value, composed(view, f.view), layout)


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
    if x.view != y.view or x.value.aval != y.value.aval or x.value.aval.dtype in dtypes.HALF:
        return None
    if not (pairs.is_stored(x.value) and pairs.is_stored(y.value)):
        return None
    value = pairs.new(add if a.coefficient == b.coefficient else sub, x.value, y.value)
    larger = max(x, y, key=lambda f: f.distinct)
    return Term(a.coefficient, (*common, x._replace(value=value, layout=larger.layout)))
