"""Which nodes of a CUDA graph come before which: the twin of ``native/cuda_graph_order.cpp``.

What each node reads and writes, as ranges of addresses, enters in the order in which a stream would
do it; for each node those leave that it has to come after.  A node comes after the last writer of
what it reads or writes, and after those who have read what it writes.  What follows from other
dependencies is left out, so a chain of kernels is a chain, which drivers launch fastest.

Memory that two slots may share in some call (a result in the memory of a donated argument) counts
as shared, so the order holds for all addresses that a graph gets later.

Start at :func:`order_of`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class BytesAccess(NamedTuple):
    """Memory that a node reads or writes."""

    begin: int
    end: int
    writes: bool


class SharedPlace(NamedTuple):
    """Memory that lies where another does, or may in another call."""

    begin: int
    end: int
    other: int


def share(shared: list[SharedPlace], one: int, other: int, nbytes: int) -> None:
    """Let two places of so many bytes count as one."""
    first, second = _settled(shared, one), _settled(shared, other)
    if first != second:
        shared.append(SharedPlace(second, second + nbytes, first))


def order_of(
    nodes: Sequence[Sequence[BytesAccess]], shared: Sequence[SharedPlace]
) -> list[tuple[int, ...]]:
    """For each node those that it comes after, the latest first.

    Args:
      nodes: what each reads and writes.
      shared: what counts as the same memory.
    """
    every = [[_moved(x, shared) for x in accesses] for accesses in nodes]
    changing = _written(every)
    order: list[tuple[int, ...]] = []
    before: list[int] = []  # sets of nodes are the bits of an integer
    live: list[tuple[BytesAccess, int]] = []
    for n, accesses in enumerate(every):
        own = [x for x in accesses if x.begin < x.end and _meets(x, changing)]
        found = {
            node
            for x in own
            for y, node in live
            if x.begin < y.end and y.begin < x.end and (x.writes or y.writes)
        }
        passed, after = 0, list[int]()
        for node in sorted(found, reverse=True):
            if not passed >> node & 1:
                after.append(node)
                passed |= before[node] | 1 << node
        order.append(tuple(after))
        before.append(passed)
        # Who comes after this node comes after what this one comes after.
        for x in own:
            live = [(y, node) for y, node in live if not (_hides(x, y) and passed >> node & 1)]
        live += [(x, n) for x in own]
    return order


def _hides(x: BytesAccess, y: BytesAccess) -> bool:
    return x.begin <= y.begin and y.end <= x.end and (x.writes or not y.writes)


def _settled(shared: Sequence[SharedPlace], place: int) -> int:
    k = 0
    while k < len(shared):
        x = shared[k]
        inside = x.begin <= place < x.end
        k = 0 if inside else k + 1
        place = x.other + place - x.begin if inside else place
    return place


def _moved(x: BytesAccess, shared: Sequence[SharedPlace]) -> BytesAccess:
    begin = _settled(shared, x.begin)
    return BytesAccess(begin, begin + x.end - x.begin, x.writes)


def _written(nodes: Sequence[Sequence[BytesAccess]]) -> list[tuple[int, int]]:
    """What nodes write, in order and disjoint."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((x.begin, x.end) for each in nodes for x in each if x.writes):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _meets(x: BytesAccess, ranges: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(ranges, x.begin, key=lambda r: r[1])
    return at < len(ranges) and ranges[at][0] < x.end
