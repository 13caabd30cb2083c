"""Views that are stored, after fusion has chosen the kernels.

Each kernel has its own copy of a view.  Of most that is an address; but arrays that are put
together, as `roll`, `stack` and `pad` do, take a load and a choice for each of their pieces.  Where
several kernels read such a view, it takes less time to put it together once, and to store it.

What enters is a :class:`~functrax.backends.passes.fusion.fuse.Fusion` that has merged its groups;
what leaves are the views that are to be values, with which fusion begins again.  Start at
:func:`views_to_store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax.backends.cost import about, products_ns
from functrax.backends.passes.fusion.kernel_groups import moved_ns
from functrax.backends.passes.fusion.prices import Price
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Var
from functrax.core.prims.slicing import concatenate

if TYPE_CHECKING:
    from functrax.backends.passes.fusion.fuse import Fusion


def views_to_store(fusion: Fusion) -> dict[Var, Price]:
    """Views that several kernels put together, where it saves time to store them, and why.

    Of those that one of them is made of it leaves out the others: there are fewer readers then.
    """
    put_together = {v: e for v, e in fusion.views.made.items() if e.primitive is concatenate}
    if len(fusion.groups) < 2 or not put_together:
        return {}
    points: dict[Eqn, list[int]] = {}  # of the kernels that see a view
    for group in fusion.groups.values():
        read = [x for n in group.eqns for x in fusion.eqns[n].invars]
        for eqn in fusion.views.seen_through(read, group.reads):
            if eqn.primitive is concatenate:
                points.setdefault(eqn, []).append(about(group.space.full))
    prices = [(v, _price(fusion, v, points.get(e, []))) for v, e in put_together.items()]
    found = {v: price for v, price in prices if price.again > price.stored}
    inside: list[Atom] = [x for v in found for x in put_together[v].invars]
    for eqn in fusion.views.seen_through(inside):
        for v in eqn.outvars:
            found.pop(v, None)
    return found


def _price(fusion: Fusion, v: Var, points: list[int]) -> Price:
    """What a view costs that kernels of so many points read."""
    if len(points) < 2:
        return Price(len(points), 0.0, 0.0)
    each, size = fusion.views.choosing(fusion.views.made[v]), about(v.aval.shape)
    again = sum([min(n, size) for n in points]) - size
    saved = products_ns(again * each, v.aval.dtype.itemsize, target())
    return Price(len(points), saved, moved_ns([v]) + target().kernel_ns)
