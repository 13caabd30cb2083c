"""Sums of products that are added up become one sum over more steps.

A weight that is used at several places has a gradient for each, and these are added up: the
critic of a GAN on real, generated and mixed images, say.  What enters is a program with
``contraction`` groups; where several matrix products of one shape are terms of a sum, and used
for nothing else, what leaves has one product, of their operands put together along the axis that is
summed.  The result is written once then, instead of once for each term and read again.

It pays where the terms are larger than the operands, which are copied.  Only products of two arrays
with one summed axis are joined.

Start at :func:`join`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.backends.passes.contractions.added_products import (
    SUMMED,
    AddedProducts,
    Product,
    Shape,
    Writer,
    as_product,
)
from functrax.backends.passes.fusion.kernel_groups import nbytes
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr
from functrax.core.prims.slicing import concatenate


def join(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with products that are added up as one."""
    return _Joining.rewrite(jaxpr, rewrites)


class _Joining(AddedProducts):
    """The sums of one program whose terms are joined."""

    def sum_of(self, root: Eqn, terms: list[Atom]) -> list[Eqn] | None:
        classes: dict[Any, list[tuple[Atom, Product]]] = {}
        for x in terms:
            product = self._product(x)
            if product is not None:
                classes.setdefault(product.key, []).append((x, product))
        found = max(classes.values(), key=len, default=[])
        size = nbytes(root.outvars[0])
        if len(found) < 2 or (len(found) - 1) * size < sum(p.nbytes for _, p in found):
            return None
        if not self.rewrites.allow(f"{len(found)} products in one sum", root):
            return None
        joined = {x for x, _ in found}
        like = self.producer[found[0][0]]
        writer = Writer(like.source)
        value = _one_product(writer, [p for _, p in found], like)
        writer.source = root.source
        return writer.sum_with(value, [x for x in terms if x not in joined], root)

    def _product(self, x: Atom) -> Product | None:
        """A term as a matrix product that nothing else needs, or None."""
        eqn = self.producer.get(x)
        if eqn is None or eqn.primitive is not contraction or self.uses[x] > 1:
            return None
        return as_product(eqn)


def _one_product(writer: Writer, products: Sequence[Product], like: Eqn) -> Atom:
    """A product of operands that are put together."""
    first = products[0]

    def together(axes: Shape, operands: Sequence[tuple[Atom, Shape]]) -> Atom:
        parts = [writer.in_order(x, order, axes) for x, order in operands]
        return writer.new(concatenate, *parts, axis=axes.index(SUMMED))

    left = together(first.left_axes, [(p.left, p.left_axes) for p in products])
    right = together(first.right_axes, [(p.right, p.right_axes) for p in products])
    return writer.product(Product(left, right, first.left_axes, first.right_axes), like)
