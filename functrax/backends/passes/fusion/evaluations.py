"""How often a kernel computes its values: once for each element, or at several places.

What a kernel reads through views it computes at each place that reads it, if its producer is fused
into it; and it goes through its rows once more for each number of a row that it needs on the way.
Both are counted here: for the cost of a merge, and so that kernels stay of bounded size.

Start at :func:`recomputed`; :func:`take_evaluations` keeps the counts of a merged group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from functrax.backends.passes.fusion.contraction_groups import PACKINGS
from functrax.backends.passes.fusion.kernel_groups import MAX_COMPUTED, KernelGroup, nbytes
from functrax.backends.passes.fusion.kernel_spaces import is_row_value
from functrax.backends.passes.fusion.kernel_views import (
    HERE,
    Views,
    Ways,
    one_after_another,
    places,
)
from functrax.backends.passes.groups import contraction
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Eqn, Var


def recomputed(a: KernelGroup, b: KernelGroup, written: set[Var]) -> float:
    """What it costs that ``b`` reads values of ``a`` through views, if they are merged.

    Args:
      a: the producer.
      b: the consumer.
      written: what the two write together.

    Returns:
      Nanoseconds; infinity where the kernel would be too large.
    """
    if a.space.row is None and b.center is None:
        return _at_several_places(a, b, written)
    views = [v for v, here in b.reads.items() if not here and v in a.writes]
    return sum([_by_ratio_of_sizes(a, v, b) for v in views if not is_row_value(a, v)])


def take_evaluations(a: KernelGroup, b: KernelGroup, written: set[Var]) -> None:
    """What ``b`` computes how often, when ``a`` becomes a part of it; before its reads change."""
    into = _ways_into(a, b, written)
    times = places(into, math.prod(b.space.full)) + _take_stages(a, b, written)
    for v in a.reads:
        if v in b.ways or v in a.ways or into != HERE:
            known = b.ways.get(v, HERE) if v in b.reads else frozenset()
            b.ways[v] = known | one_after_another(into, a.ways.get(v, HERE))
    for v in a.writes:
        b.ways.pop(v, None)
    b.work += a.work * times
    b.size += a.size * times


def add_ways(views: Views, group: KernelGroup, eqn: Eqn, reads: Mapping[Var, bool]) -> None:
    """An equation becomes part of a group that reads through views; before its reads change."""
    plain = all(reads.values()) or eqn.primitive is contraction
    ways = {} if plain else views.ways_of(eqn)
    for v in reads:
        known = group.ways.get(v, HERE if v in group.reads else frozenset())
        group.ways[v] = known | ways.get(v, HERE)


def _at_several_places(a: KernelGroup, b: KernelGroup, written: set[Var]) -> float:
    points = math.prod(b.space.full)
    times = places(_ways_into(a, b, written), points)
    computed, before = times * points, math.prod(a.space.full)
    if times == 1 and computed <= before:
        return 0.0
    if times * a.size + b.size > MAX_COMPUTED:
        return math.inf
    read = sum(map(nbytes, a.reads)) - sum(nbytes(v) for v in a.writes & b.reads.keys())
    return max(computed - before, 0) * a.work + max(read, 0) * target().reread_ns


def _by_ratio_of_sizes(a: KernelGroup, v: Var, b: KernelGroup) -> float:
    """What it costs to compute a value at every point that reads it through a view."""
    times = math.prod(b.space.full) / max(v.aval.size, 1)
    if b.center is not None:
        times = min(times, PACKINGS)
    if times <= 1:
        return 0.0
    read_again = sum(nbytes(u) for u in a.reads) - nbytes(v)
    return (times - 1) * (a.work * v.aval.size) + max(read_again, 0) * target().reread_ns


def _ways_into(a: KernelGroup, b: KernelGroup, written: set[Var]) -> Ways:
    """The ways by which ``a`` and ``b`` as one read what ``a`` computes.

    Numbers of rows are none: they are not computed again, but rows are gone through again.
    """
    if not b.ways:
        return HERE
    read = b.reads.keys() & a.writes
    ways = [HERE if is_row_value(a, v) else b.ways.get(v, HERE) for v in read]
    if all(way == HERE for way in ways):
        return HERE
    return frozenset().union(*ways, () if written.isdisjoint(a.writes) else HERE)


def _take_stages(a: KernelGroup, b: KernelGroup, written: set[Var]) -> int:
    """Gives ``b`` the stages of both; returns how often more the rows of ``a`` are gone through."""
    if a.space.row is None:
        return 0
    first = 1  # the stage in which b can begin
    for v in b.reads.keys() & a.writes:
        spread = is_row_value(a, v) and not b.reads[v]
        first = max(first, a.stage_of.get(v, 1) + spread)
    stages = max(a.stages, b.stages + first - 1)
    b.stage_of = {
        **{v: b.stage_of.get(v, 1) + first - 1 for v in b.writes & written},
        **{v: a.stage_of.get(v, 1) for v in a.writes & written},
    }
    b.stages = stages
    return stages - a.stages
