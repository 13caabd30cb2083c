"""Products that are added up become one: by a side that they share, or along the summed dim.

What enters is a program with ``contraction`` groups.  Of a sum of several terms, some of which are
products of two arrays, leave fewer products, by one of two rules:

- :func:`share`: the gradient of ``x @ x.T``, which losses of all pairs of points have, is
  ``g @ x + g.T @ x``.  Terms of which one side is the same, up to a number, are one product of a
  sum, ``(g + g.T) @ x``.  It pays where the products that are saved take longer than to add up
  the other sides.
- :func:`join`: a weight that is used at several places has a gradient for each, and these are added
  up.  Terms with one dim that is summed are one product of operands put together along it: the
  result is written once, instead of once for each term and read again.  It pays where the terms
  are larger than the operands, which are copied.

Start at :func:`share` and :func:`join`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrax.backends.cost import products_ns
from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.contractions.layouts import Shape
from functrax.backends.passes.contractions.product_sums import (
    ProductSum,
    SumSide,
    equation_of,
    sum_of,
)
from functrax.backends.passes.contractions.writer import ViewWriter
from functrax.backends.passes.fusion.kernel_groups import moved_ns, nbytes
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul, neg
from functrax.core.prims.reindex import transpose
from functrax.core.prims.slicing import concatenate
from functrax.core.records import replace
from functrax.core.types import dtypes

#: The equations of a sum, given its last addition and what it adds up; None to leave it.
Rule: TypeAlias = "Callable[[_Program, Eqn, list[Atom]], list[Eqn] | None]"


class AddedTerm(NamedTuple):
    """A number times a product of two arrays, whose axes are dims of the sum.

    Args:
      value: the term.
      factor: the number.
      eqn: the contraction.
      found: what it sums.
      sides: the product's, in some order, numbers taken off.
    """

    value: Atom
    factor: float
    eqn: Eqn
    found: ProductSum
    sides: tuple[SumSide, SumSide]


def share(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with products that have a side in common as one."""
    return _with_rule(jaxpr, rewrites, _shared)


def join(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with products that are added up as one."""
    return _with_rule(jaxpr, rewrites, _joined)


def _with_rule(jaxpr: Jaxpr, rewrites: Rewrites, rule: Rule) -> Jaxpr:
    """The program, and those in it, with the sums that a rule writes anew."""
    eqns = with_bodies(jaxpr.eqns, lambda program: _with_rule(program, rewrites, rule))
    if sum(e.primitive is contraction for e in eqns) >= 2:
        program = _Program(eqns, jaxpr.outvars, rewrites)
        instead: dict[Eqn, list[Eqn]] = {}
        gone: set[Eqn] = set()  # additions that are not needed; what becomes dead code stays
        for eqn in reversed(eqns):
            if eqn.primitive is add and eqn not in gone and eqn.outvars[0].aval.ndim:
                adds: list[Eqn] = []
                written = rule(program, eqn, list(program.added_up(eqn, adds)))
                if written is not None:
                    gone.update(adds)
                    instead[eqn] = written
        eqns = [new for eqn in eqns for new in instead.get(eqn, (eqn,))]
    return with_eqns(jaxpr, eqns)


class _Program:
    """What is known of a program.

    Attributes:
      rewrites: asked before each.
      producer: of each value the equation that defines it.
      uses: how often each value is used.
    """

    def __init__(self, eqns: Sequence[Eqn], outvars: Sequence[Atom], rewrites: Rewrites) -> None:
        self.rewrites = rewrites
        self.producer: dict[Atom, Eqn] = {v: e for e in eqns for v in e.outvars}
        self.uses = uses(eqns, outvars)

    def added_up(self, eqn: Eqn, adds: list[Eqn]) -> Iterator[Atom]:
        """What a sum adds up, in order, given its last addition; ``adds``: where additions go."""
        adds.append(eqn)
        for x in eqn.invars:
            inner = self.producer.get(x)
            if inner is not None and inner.primitive is add and self.uses[x] == 1:
                yield from self.added_up(inner, adds)
            else:
                yield x

    def product(self, x: Atom) -> AddedTerm | None:
        """A value as a product that nothing else needs; its sides in the order of their axes."""
        eqn = self.producer.get(x)
        if eqn is None or eqn.primitive is not contraction or self.uses[x] > 1:
            return None
        found = sum_of(eqn)
        if found is None or not found.is_product or len(found.summed) != 1:
            return None
        for side in found.sides:
            axes, (d,) = side.axes, found.summed
            if -1 in axes or d not in axes or side.conditions:
                return None
            if side.value.aval.shape != tuple([found.extents[k] for k in axes]):
                return None
        left, right = sorted(found.sides, key=lambda side: sorted({*side.axes} - {d}))
        return AddedTerm(x, 1.0, eqn, found, (left, right))

    def scaled_product(self, x: Atom) -> AddedTerm | None:
        """A value as a number times such a product, numbers of its sides taken off."""
        factor, value = 1.0, x
        while self.uses[value] == 1 and value in self.producer:
            number = _number(self.producer[value])
            if number is None:
                break
            factor, value = factor * number[0], number[1]
        term = self.product(value)
        if term is None or x.aval.dtype not in (dtypes.float32, dtypes.float64):
            return None
        sides = []
        for side in term.sides:
            made = self.producer.get(side.value)
            number = None if made is None else _number(made)
            if number is not None:
                factor, side = factor * number[0], replace(side, value=number[1])
            sides.append(side)
        return term._replace(value=x, factor=factor, sides=(sides[0], sides[1]))


def _number(eqn: Eqn) -> tuple[float, Atom] | None:
    """What an equation multiplies with a real number, and the number."""
    if dtypes.is_complex(eqn.outvars[0].aval.dtype):
        return None
    if eqn.primitive is neg:
        return -1.0, eqn.invars[0]
    if eqn.primitive is not mul:
        return None
    for number, x in (eqn.invars, eqn.invars[::-1]):
        if type(number) is Literal and type(x) is Var and np.isfinite(number.val):
            return float(number.val), x
    return None


def _most(terms: Sequence[tuple[Any, AddedTerm]]) -> list[AddedTerm]:
    """Of terms with keys those of the most frequent key."""
    classes: dict[Any, list[AddedTerm]] = {}
    for key, term in terms:
        classes.setdefault(key, []).append(term)
    return max(classes.values(), key=len, default=[])


def _in_order(writer: ViewWriter, side: SumSide, axes: Shape) -> Atom:
    """The array of a side, whose axes are dims, with these in another order."""
    order, value = side.axes, side.value
    if order == axes:
        return value
    return writer.new(transpose, value, perm=tuple([order.index(d) for d in axes]))


def _with_rest(
    writer: ViewWriter,
    value: Atom,
    terms: Sequence[Atom],
    found: Sequence[AddedTerm],
    root: Eqn,
) -> list[Eqn]:
    """The equations that add up a value and the terms that are not part of it."""
    joined = {term.value for term in found}
    for x in terms:
        if x not in joined:
            value = writer.new(add, value, x)
    return writer.giving(root.outvars[0])


def _product(
    writer: ViewWriter, found: ProductSum, sides: Sequence[SumSide], like: AddedTerm
) -> Var:
    """Write a sum over other sides, of the shape of a term."""
    out = Var(like.eqn.outvars[0].aval)
    whole = replace(found, sides=tuple(sides))
    writer.eqns.append(equation_of(whole, out, like.eqn.params["name"], like.eqn.source))
    return out


# ---- a side in common --------------------------------------------------------------------------


def _shared(program: _Program, root: Eqn, terms: list[Atom]) -> list[Eqn] | None:
    products = [term for x in terms if (term := program.scaled_product(x)) is not None]
    both = [t for p in products for t in (p, p._replace(sides=(p.sides[1], p.sides[0])))]
    found = _most([((t.sides[1], tuple(sorted(t.sides[0].axes))), t) for t in both])
    if len(found) < 2:
        return None
    first = found[0]
    own, common = first.sides
    # To add up a side, it is read, and the sum of the others is read and written.
    size = own.value.aval.dtype.itemsize
    if products_ns(first.found.points, size, target()) <= moved_ns((own.value,) * 3):
        return None
    if not program.rewrites.allow(f"{len(found)} products with a side in common", root):
        return None
    writer = ViewWriter(root.source)
    axes, total = own.axes, None
    for term in found:
        side = _in_order(writer, term.sides[0], axes)
        if term.factor != first.factor:
            side = writer.new(mul, side, _literal(term.factor / first.factor, side))
        total = side if total is None else writer.new(add, total, side)
    value = _product(writer, first.found, (replace(own, value=total), common), first)
    if first.factor != 1.0:
        value = writer.new(mul, value, _literal(first.factor, value))
    return _with_rest(writer, value, terms, found, root)


def _literal(value: float, like: Atom) -> Literal:
    return Literal(np.asarray(value, like.aval.dtype), like.aval.update(shape=()))


# ---- more steps --------------------------------------------------------------------------------


def _joined(program: _Program, root: Eqn, terms: list[Atom]) -> list[Eqn] | None:
    products = [term for x in terms if (term := program.product(x)) is not None]
    found = _most([(tuple([tuple(sorted(s.axes)) for s in t.sides]), t) for t in products])
    operands = sum(nbytes(side.value) for term in found for side in term.sides)
    if len(found) < 2 or (len(found) - 1) * nbytes(root.outvars[0]) < operands:
        return None
    if not program.rewrites.allow(f"{len(found)} products in one sum", root):
        return None
    first = found[0]
    (d,) = first.found.summed
    writer = ViewWriter(first.eqn.source)
    sides = []
    for n, side in enumerate(first.sides):
        parts = [_in_order(writer, term.sides[n], side.axes) for term in found]
        whole = writer.new(concatenate, *parts, axis=side.axes.index(d))
        sides.append(replace(side, value=whole))
    longer = first.found.with_extent(d, sum(term.found.extents[d] for term in found))
    value = _product(writer, longer, sides, first)
    writer.source = root.source
    return _with_rest(writer, value, terms, found, root)
