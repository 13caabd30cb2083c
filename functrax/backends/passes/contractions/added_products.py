"""Matrix products that are added up: what the passes share that make fewer of them.

What enters is a program with ``contraction`` groups.  :class:`AddedProducts` goes through its sums
of several terms; what a pass says about one sum takes the place of its additions.

Start at :class:`AddedProducts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.fusion.kernel_groups import nbytes
from functrax.backends.passes.groups import contraction, grouped
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.errors.source import SourceLine
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.arithmetic import add, mul
from functrax.core.prims.reduce import kept_axes, reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, transpose
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive

Shape: TypeAlias = tuple[int, ...]

#: What stands for the summed axis among the axes of a result.
SUMMED = -1


@record
class Product:
    """A matrix product, its axes named by those of its result.

    Args:
      left: the operand with the first axis of the result that is not in both.
      right: the other one.
      left_axes: for each axis of the left operand that of the result, or ``SUMMED``.
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


class AddedProducts(ABC):
    """The sums of one program, some of which are written anew.

    Attributes:
      rewrites: asked before each.
      producer: of each value the equation that defines it.
      uses: how often each value is used.
      instead: for the last equation of a sum what stands in its place.
    """

    def __init__(self, eqns: Sequence[Eqn], outvars: Sequence[Atom], rewrites: Rewrites) -> None:
        self.eqns = eqns
        self.rewrites = rewrites
        self.instead: dict[Eqn, list[Eqn]] = {}
        if sum(e.primitive is contraction for e in eqns) < 2:
            return
        self.producer: dict[Atom, Eqn] = {v: e for e in eqns for v in e.outvars}
        self.uses = uses(eqns, outvars)
        gone: set[Eqn] = set()  # additions that are not needed; what becomes dead code stays
        for eqn in reversed(eqns):
            if eqn.primitive is add and eqn not in gone and eqn.outvars[0].aval.ndim:
                adds: list[Eqn] = []
                written = self.sum_of(eqn, list(_terms_of(eqn, adds, self.producer, self.uses)))
                if written is not None:
                    gone.update(adds)
                    self.instead[eqn] = written

    @classmethod
    def rewrite(cls, jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
        """The program, and those in it, with the sums that were found."""
        inner = with_bodies(jaxpr.eqns, lambda program: cls.rewrite(program, rewrites))
        instead = cls(inner, jaxpr.outvars, rewrites).instead
        return with_eqns(jaxpr, [new for eqn in inner for new in instead.get(eqn, (eqn,))])

    @abstractmethod
    def sum_of(self, root: Eqn, terms: list[Atom]) -> list[Eqn] | None:
        """The equations of a sum, the last of which gives its result; None to leave it.

        Args:
          root: its last addition.
          terms: what it adds up, in order.
        """


class Writer:
    """Equations that are written one after the other.

    Args:
      source: the user's line.

    Attributes:
      eqns: what was written so far.
    """

    def __init__(self, source: SourceLine | None) -> None:
        self.source = source
        self.eqns: list[Eqn] = []

    def new(self, primitive: Primitive, *operands: Atom, **params: Any) -> Var:
        """Write an equation of one result."""
        out = Var(primitive.infer(tuple([x.aval for x in operands]), params))  # type: ignore[arg-type]
        self.eqns.append(Eqn(primitive, operands, (out,), params, self.source))
        return out

    def in_order(self, x: Atom, order: Shape, axes: Shape) -> Atom:
        """An array whose axes have names, with these in another order."""
        if order == axes:
            return x
        return self.new(transpose, x, perm=tuple([order.index(name) for name in axes]))

    def product(self, product: Product, like: Eqn) -> Var:
        """Write a product; ``like`` is a contraction of its shape, and of its line."""
        result = like.outvars[0].aval
        body = Writer(like.source)
        steps = product.left.aval.shape[product.left_axes.index(SUMMED)]
        space = (*result.shape, steps)
        sides = []
        for x, axes in ((product.left, product.left_axes), (product.right, product.right_axes)):
            dims = tuple([name if name != SUMMED else result.ndim for name in axes])
            sides.append(body.new(broadcast_in_dim, x, shape=space, dims=dims))
        total = body.new(reduce_sum, body.new(mul, *sides), axes=(result.ndim,))
        name = like.params["name"]
        self.eqns.append(grouped(contraction, body.eqns, [total], name, like.source))
        return total

    def sum_with(self, value: Atom, rest: Sequence[Atom], root: Eqn) -> list[Eqn]:
        """All equations, and those that add the rest to a value, for the result of ``root``."""
        for x in rest:
            value = self.new(add, value, x)
        last = self.eqns.pop()
        out = Eqn(last.primitive, last.invars, root.outvars, last.params, last.source)
        return [*self.eqns, out]


def _terms_of(
    eqn: Eqn, adds: list[Eqn], producer: Mapping[Atom, Eqn], uses: Mapping[Atom, int]
) -> Iterator[Atom]:
    """What a sum adds up, in order.

    Args:
      eqn: its last addition.
      adds: where its additions go.
      producer: of each value the equation that defines it.
      uses: how often each value is used.
    """
    adds.append(eqn)
    for x in eqn.invars:
        inner = producer.get(x)
        if inner is not None and inner.primitive is add and uses[x] == 1:
            yield from _terms_of(inner, adds, producer, uses)
        else:
            yield x


def as_product(eqn: Eqn) -> Product | None:
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
    names_of[axes[0]] = SUMMED
    sides = []
    for source, view in zip(sources, views, strict=True):
        dims = view.params["dims"]
        if source.aval.shape != tuple([space[d] for d in dims]) or axes[0] not in dims:
            return None
        operand = eqn.invars[program.invars.index(source)]
        sides.append((operand, tuple([names_of[d] for d in dims])))
    sides.sort(key=lambda side: sorted(side[1]))
    (left, left_axes), (right, right_axes) = sides
    return Product(left, right, left_axes, right_axes)
