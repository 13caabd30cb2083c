"""How often a kernel computes each of its equations, as fusion counts it.

Start at :func:`evaluations`.
"""

from __future__ import annotations

import math

from functrax.backends.passes.fusion.kernel_groups import Space, is_sum, is_view, space_of, squeezed
from functrax.backends.passes.fusion.kernel_views import (
    HERE,
    Views,
    Ways,
    one_after_another,
    places,
)
from functrax.core.ir.jaxpr import Jaxpr, Var


def evaluations(jaxpr: Jaxpr) -> list[float]:
    """How often each equation of a group is computed for each element of its result.

    It is more than once where a kernel needs a value at several places for one of its points, or
    spreads it over more points than it has elements; less than once where only a part is needed.
    Views, sums, and numbers count once: what does not change stands before the loops.

    Args:
      jaxpr: the program of a ``fused`` group.
    """
    views = Views(jaxpr.eqns, [True] * len(jaxpr.eqns))
    space = _space(jaxpr)
    points = math.prod(space.full)
    ways: dict[Var, Ways] = {v: HERE for v in jaxpr.outvars if isinstance(v, Var)}
    found = [1.0] * len(jaxpr.eqns)
    for n in reversed(range(len(jaxpr.eqns))):
        eqn = jaxpr.eqns[n]
        if is_view(eqn) and ways.keys().isdisjoint(eqn.outvars):
            continue  # the ways of what sees it lead through it
        mine: Ways = frozenset[tuple[int, ...]]().union(*[ways.get(v, ()) for v in eqn.outvars])
        size = eqn.outvars[0].aval.size
        rows = is_sum(eqn) or squeezed(eqn.outvars[0].aval.shape) == space.row != space.full
        if rows or is_view(eqn):
            mine = HERE
        elif size > 1:
            found[n] = places(mine, points) * points / size
        for v, inner in views.ways_of(eqn).items():
            through = HERE if rows else one_after_another(mine, inner)
            ways[v] = ways.get(v, frozenset()) | through
    return found


def _space(jaxpr: Jaxpr) -> Space:
    """What a kernel runs over: what its reductions take in, or where its results are."""
    first = next(eqn for eqn in jaxpr.eqns if jaxpr.outvars[0] in eqn.outvars)
    return space_of(next(filter(is_sum, jaxpr.eqns), first))
