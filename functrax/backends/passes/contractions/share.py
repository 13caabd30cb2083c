"""Products with a side in common that are added up become one product of a sum.

The gradient of ``x @ x.T``, which losses of all pairs of points have, is ``g @ x + g.T @ x``: two
products of which one side is the same, up to a number.  What enters is a program with
``contraction`` groups; such terms of a sum leave it as one, ``(g + g.T) @ x``, with half the
products.  It pays where the side in common has many columns for each element that is added.

Start at :func:`share`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.passes.contractions.added_products import (
    AddedProducts,
    Product,
    Writer,
    as_product,
)
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul, neg
from functrax.core.records import record
from functrax.core.types import dtypes

#: Products that are saved for each element of the sides that are added up, at least.
COLUMNS = 64


@record
class Term:
    """A term of a sum: a number times a product.

    Args:
      value: the term.
      factor: the number.
      product: its sides, numbers taken off.
      eqns: what computes it, which nothing else needs.
    """

    value: Atom
    factor: float
    product: Product
    eqns: tuple[Eqn, ...]


def share(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with products that have a side in common as one."""
    return _Sharing.rewrite(jaxpr, rewrites)


class _Sharing(AddedProducts):
    """The sums of one program that have terms with a side in common."""

    def sum_of(self, root: Eqn, terms: list[Atom]) -> list[Eqn] | None:
        if sum(self._is_product(x) for x in terms) < 2:
            return None
        classes: dict[Any, list[Term]] = {}
        for x in terms:
            for term in self._terms(x):
                p = term.product
                key = p.right, p.right_axes, tuple(sorted(p.left_axes))
                classes.setdefault(key, []).append(term)
        found = max(classes.values(), key=len, default=[])
        if len(found) < 2 or not _is_worth_it(root, found):
            return None
        if not self.rewrites.allow(f"{len(found)} products with a side in common", root):
            return None
        joined = {term.value for term in found}
        return _added(found, [x for x in terms if x not in joined], root)

    def _is_product(self, x: Atom) -> bool:
        """Whether a term may be a number times a product."""
        eqn = self.producer.get(x)
        while eqn is not None and (number := _number(eqn)) is not None:
            eqn = self.producer.get(number[1])
        return eqn is not None and eqn.primitive is contraction

    def _terms(self, x: Atom) -> list[Term]:
        """A term as a number times a product that nothing else needs, with either side first."""
        factor, eqns = 1.0, []
        eqn = self.producer.get(x)
        value = x
        while eqn is not None and self.uses[value] == 1:
            eqns.append(eqn)
            number = _number(eqn)
            if number is None:
                break
            factor, value = factor * number[0], number[1]
            eqn = self.producer.get(value)
        product = None
        if eqns and eqns[-1].primitive is contraction:
            product = as_product(eqns[-1])
        if product is None or x.aval.dtype not in (dtypes.float32, dtypes.float64):
            return []
        sides = []
        for side in (product.left, product.right):
            made = self.producer.get(side)
            number = None if made is None else _number(made)
            sides.append(side if number is None else number[1])
            factor *= 1.0 if number is None else number[0]
        left, right = zip(sides, (product.left_axes, product.right_axes), strict=True)
        return [
            Term(x, factor, Product(a, b, a_axes, b_axes), tuple(eqns))
            for (a, a_axes), (b, b_axes) in ((left, right), (right, left))
        ]


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


def _is_worth_it(root: Eqn, found: Sequence[Term]) -> bool:
    """Whether fewer products are worth adding up sides."""
    p, shape = found[0].product, root.outvars[0].aval.shape
    own = [n for d, n in enumerate(shape) if d not in p.left_axes]
    return math.prod(own) >= COLUMNS


def _added(found: Sequence[Term], rest: Sequence[Atom], root: Eqn) -> list[Eqn]:
    """The equations of a sum, some terms of which become one."""
    writer = Writer(root.source)
    first = found[0]
    axes, total = first.product.left_axes, None
    for term in found:
        side = writer.in_order(term.product.left, term.product.left_axes, axes)
        if term.factor != first.factor:
            side = writer.new(mul, side, _literal(term.factor / first.factor, side))
        total = side if total is None else writer.new(add, total, side)
    assert total is not None
    joint = Product(total, first.product.right, axes, first.product.right_axes)
    value = writer.product(joint, first.eqns[-1])
    if first.factor != 1.0:
        value = writer.new(mul, value, _literal(first.factor, value))
    return writer.sum_with(value, rest, root)


def _literal(value: float, like: Atom) -> Literal:
    return Literal(np.asarray(value, like.aval.dtype), like.aval.update(shape=()))
