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

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from functrax.backends.passes.groups import contraction, grouped
from functrax.backends.passes.inner import with_bodies
from functrax.backends.passes.kernel_groups import nbytes
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.primitive import Primitive
from functrax.core.prims.arithmetic import add, mul
from functrax.core.prims.reduce import kept_axes, reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, transpose
from functrax.core.prims.slicing import concatenate
from functrax.core.records import record

Shape = tuple[int, ...]

#: What stands for the summed axis among the axes of a result.
_SUMMED = -1


@record
class _Product:
    """A matrix product, its axes named by those of its result.

    Args:
      left: the operand with the first axis of the result that is not in both.
      right: the other one.
      left_axes: for each axis of the left operand that of the result, or ``_SUMMED``.
      right_axes: the same of the right one.
    """

    left: Atom
    right: Atom
    left_axes: Shape
    right_axes: Shape

    @property
    def key(self) -> tuple[Shape, Shape]:
        """What products have in common that can be one."""
        return tuple(sorted(self.left_axes)), tuple(sorted(self.right_axes))

    @property
    def nbytes(self) -> int:
        """Bytes of its operands."""
        return nbytes(self.left) + nbytes(self.right)


def join(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with products that are added up as one."""
    inner = with_bodies(jaxpr.eqns, lambda program: join(program, rewrites))
    eqns = _Joining(inner, jaxpr.outvars, rewrites).written()
    if len(eqns) == len(jaxpr.eqns) and all(a is b for a, b in zip(eqns, jaxpr.eqns)):
        return jaxpr
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name, jaxpr.arg_names)


class _Joining:
    """The sums of one program whose terms are joined.

    Attributes:
      gone: equations that are not needed any more.
      instead: for the last equation of a sum what stands in its place.
    """

    def __init__(self, eqns: Sequence[Eqn], outvars: Sequence[Atom], rewrites: Rewrites) -> None:
        self.eqns = eqns
        self.gone: set[Eqn] = set()
        self.instead: dict[Eqn, list[Eqn]] = {}
        products = sum(e.primitive is contraction for e in eqns)
        if products < 2:
            return
        self._producer: dict[Atom, Eqn] = {v: e for e in eqns for v in e.outvars}
        self._uses = Counter([*outvars, *(x for e in eqns for x in e.invars)])
        for eqn in reversed(eqns):
            if eqn.primitive is add and eqn not in self.gone and eqn.outvars[0].aval.ndim:
                self._join(eqn, rewrites)

    def written(self) -> list[Eqn]:
        """The equations with the sums that were found."""
        if not self.instead:
            return list(self.eqns)
        new: list[Eqn] = []
        for eqn in self.eqns:
            new += self.instead.get(eqn, [] if eqn in self.gone else [eqn])
        return new

    def _join(self, root: Eqn, rewrites: Rewrites) -> None:
        """Join the products among the terms of a sum."""
        adds: list[Eqn] = []
        terms = list(self._terms(root, adds))
        classes: dict[Any, list[tuple[Atom, _Product]]] = {}
        for x in terms:
            product = self._product(x)
            if product is not None:
                classes.setdefault(product.key, []).append((x, product))
        found = max(classes.values(), key=len, default=[])
        size = nbytes(root.outvars[0])
        if len(found) < 2 or (len(found) - 1) * size < sum(p.nbytes for _, p in found):
            return
        if not rewrites.allow(f"{len(found)} products in one sum", root):
            return
        joined = {x for x, _ in found}
        eqns, value = _one_product([p for _, p in found], self._producer[found[0][0]])
        rest: list[Atom] = [x for x in terms if x not in joined]
        for k, x in enumerate(rest):
            out = root.outvars[0] if k == len(rest) - 1 else Var(root.outvars[0].aval)
            eqns.append(Eqn(add, (value, x), (out,), root.params, root.source))
            value = out
        if not rest:
            last = eqns.pop()
            eqns.append(Eqn(last.primitive, last.invars, root.outvars, last.params, last.source))
        self.gone |= {*adds, *(self._producer[x] for x in joined)}
        self.instead[root] = eqns

    def _terms(self, eqn: Eqn, adds: list[Eqn]) -> Iterator[Atom]:
        """What a sum adds up, in order, and its additions."""
        adds.append(eqn)
        for x in eqn.invars:
            inner = self._producer.get(x)
            if inner is not None and inner.primitive is add and self._uses[x] == 1:
                yield from self._terms(inner, adds)
            else:
                yield x

    def _product(self, x: Atom) -> _Product | None:
        """A term as a matrix product that nothing else needs, or None."""
        eqn = self._producer.get(x)
        if eqn is None or eqn.primitive is not contraction or self._uses[x] > 1:
            return None
        return _as_product(eqn)


def _as_product(eqn: Eqn) -> _Product | None:
    """A contraction as a matrix product, or None if it is more than that."""
    program: Jaxpr = eqn.params["jaxpr"]
    eqns = program.eqns
    names = [e.primitive for e in eqns]
    if names != [broadcast_in_dim, broadcast_in_dim, mul, reduce_sum] or len(program.invars) != 2:
        return None
    views, total = eqns[:2], eqns[3]
    sources = [e.invars[0] for e in views]
    made = [e.outvars[0] for e in views]
    dtypes = {v.aval.dtype for e in eqns for v in e.outvars}
    if len(dtypes) > 1 or list(eqns[2].invars) != made or len(set(sources)) != 2:
        return None
    space, axes = total.invars[0].aval.shape, total.params["axes"]
    if len(axes) != 1:
        return None
    names_of = {d: k for k, d in enumerate(kept_axes(len(space), axes))}
    names_of[axes[0]] = _SUMMED
    sides = []
    for source, view in zip(sources, views, strict=True):
        dims = view.params["dims"]
        if source.aval.shape != tuple([space[d] for d in dims]) or axes[0] not in dims:
            return None
        operand = eqn.invars[program.invars.index(source)]
        sides.append((operand, tuple([names_of[d] for d in dims])))
    sides.sort(key=lambda side: sorted(side[1]))
    (left, left_axes), (right, right_axes) = sides
    return _Product(left, right, left_axes, right_axes)


def _one_product(products: Sequence[_Product], like: Eqn) -> tuple[list[Eqn], Atom]:
    """The equations of a product of operands that are put together, and its result."""
    first, source = products[0], like.source
    eqns: list[Eqn] = []

    def new(primitive: Primitive, operands: Sequence[Atom], **params: Any) -> Var:
        avals = tuple([x.aval for x in operands])
        out = Var(primitive.infer(avals, params))  # type: ignore[arg-type]
        eqns.append(Eqn(primitive, operands, (out,), params, source))
        return out

    def together(axes: Shape, operands: Sequence[tuple[Atom, Shape]]) -> Var:
        parts = []
        for x, order in operands:
            perm = tuple([order.index(name) for name in axes])
            parts.append(x if order == axes else new(transpose, (x,), perm=perm))
        return new(concatenate, parts, axis=axes.index(_SUMMED))

    left = together(first.left_axes, [(p.left, p.left_axes) for p in products])
    right = together(first.right_axes, [(p.right, p.right_axes) for p in products])
    result = like.outvars[0].aval
    steps = left.aval.shape[first.left_axes.index(_SUMMED)]
    space = (*result.shape, steps)
    outside, eqns = eqns, []
    sides = []
    for x, axes in ((left, first.left_axes), (right, first.right_axes)):
        dims = tuple([name if name != _SUMMED else result.ndim for name in axes])
        sides.append(new(broadcast_in_dim, (x,), shape=space, dims=dims))
    total = new(reduce_sum, (new(mul, sides),), axes=(result.ndim,))
    outside.append(grouped(contraction, eqns, [total], like.params["name"], source))
    return outside, total
