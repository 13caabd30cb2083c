"""Views that are stored, after fusion has chosen the kernels.

Each kernel has its own copy of a view.  Of most that is an address; but arrays that are put
together, as `roll`, `stack` and `pad` do, take a load and a choice for each of their pieces.  Where
several kernels read such a view, or one of them moves a window over it, it takes less time to put
it together once, and to store it.

What enters is a :class:`~functrax.backends.passes.fusion.fuse.Fusion` that has merged its groups;
what leaves are the views that are to be values, with which fusion begins again.  Start at
:func:`views_to_store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax.backends.cost import about, products_ns
from functrax.backends.passes.fusion.kernel_groups import KernelGroup, moved_ns
from functrax.backends.passes.fusion.prices import Price
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Var
from functrax.core.prims.reindex import Reindex, map_of
from functrax.core.prims.slicing import concatenate

if TYPE_CHECKING:
    from functrax.backends.passes.fusion.fuse import Fusion


def views_to_store(fusion: Fusion) -> dict[Var, Price]:
    """Views that kernels put together more often than once, where it saves time to store them.

    And why.  Of those that one of them is made of it leaves out the others: there are fewer readers
    then.
    """
    put_together = {v: e for v, e in fusion.views.made.items() if e.primitive is concatenate}
    if not put_together:
        return {}
    points: dict[Eqn, list[int]] = {}  # of the kernels that see a view
    for group in fusion.groups.values():
        for eqn, count in _put_together(fusion, group).items():
            points.setdefault(eqn, []).append(count)
    prices = [(v, _price(fusion, v, points.get(e, []))) for v, e in put_together.items()]
    found = {v: price for v, price in prices if price.again > price.stored}
    inside: list[Atom] = [x for v in found for x in put_together[v].invars]
    for eqn in fusion.views.seen_through(inside):
        for v in eqn.outvars:
            found.pop(v, None)
    return found


def _put_together(fusion: Fusion, group: KernelGroup) -> dict[Eqn, int]:
    """For each view that a kernel puts together at how many points it does so.

    Those are as many as the view has elements, or more where a window moves over it.
    """
    found: dict[Eqn, int] = {}
    stack = [(x, about(x.aval.shape)) for n in group.eqns for x in fusion.eqns[n].invars]
    while stack:
        x, points = stack.pop()
        view = fusion.views.made.get(x) if type(x) is Var and x not in group.reads else None
        if view is None or found.get(view, 0) >= points:
            continue
        found[view] = points
        if isinstance(view.primitive, Reindex) and len(view.invars) == 1:
            way = map_of(view)
            used = {d for expr in way.exprs for d in expr.used_dims()}
            points = min(points, about(tuple([way.domain[d] for d in used])))
        stack.extend((y, points) for y in view.invars)
    return {eqn: points for eqn, points in found.items() if eqn.primitive is concatenate}


def _price(fusion: Fusion, v: Var, points: list[int]) -> Price:
    """What a view costs that kernels of so many points read."""
    size = about(v.aval.shape)
    again = sum(points) - size
    if again <= 0:
        return Price(len(points), 0.0, 0.0)
    each = fusion.views.choosing(fusion.views.made[v])
    saved = products_ns(again * each, v.aval.dtype.itemsize, target())
    return Price(-(-sum(points) // size), saved, moved_ns([v]) + target().kernel_ns)
