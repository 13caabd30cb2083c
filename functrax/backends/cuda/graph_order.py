"""Which nodes of a CUDA graph come before which: the twin of ``native/cuda_graph_order.cpp``.

What each node reads and writes, as ranges of addresses, enters in the order in which a stream would
do it; for each node those leave that it has to come after.  A node comes after the last writer of
what it reads or writes, and after those who have read what it writes.  What follows from other
dependencies is left out, so a chain of kernels is a chain, which drivers launch fastest.

Memory that two slots may share in some call (a result in the memory of a donated argument) counts
as shared, so the order holds for all addresses that a graph gets later.

Nodes may have bodies of nodes (``graph_work.py``).  Each body has an order of its own, and a node
accesses what those in its bodies do.

Start at :func:`order_of`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
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


class NodeMemory(NamedTuple):
    """What a node accesses itself, the body that it is in, and the bodies that it has."""

    accesses: Sequence[BytesAccess]
    body: int
    bodies: range


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
    return _order([[_moved(x, shared) for x in accesses] for accesses in nodes])


def order_in_bodies(
    nodes: Sequence[NodeMemory], shared: Sequence[SharedPlace]
) -> list[tuple[int, ...]]:
    """For each node those of its body that it comes after, the latest first.

    Args:
      nodes: those in a node's bodies come after it, and the others of its body after these.
      shared: what counts as the same memory.
    """
    every = [[_moved(x, shared) for x in node.accesses] for node in nodes]
    inside: dict[int, list[int]] = {}
    for n, node in enumerate(nodes):
        inside.setdefault(node.body, []).append(n)
    for n in reversed(range(len(nodes))):
        bodies = nodes[n].bodies
        every[n] += _together([x for b in bodies for m in inside.get(b, ()) for x in every[m]])
    order: list[tuple[int, ...]] = [()] * len(nodes)
    for members in inside.values():
        for n, after in zip(members, _order([every[m] for m in members]), strict=True):
            order[n] = tuple([members[m] for m in after])
    return order


def _order(every: Sequence[Sequence[BytesAccess]]) -> list[tuple[int, ...]]:
    changing = _joined([(x.begin, x.end) for accesses in every for x in accesses if x.writes])
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


def _together(accesses: Sequence[BytesAccess]) -> list[BytesAccess]:
    """Accesses of the same memory, as few as it takes."""
    return [
        BytesAccess(begin, end, writes)
        for writes in (False, True)
        for begin, end in _joined([(x.begin, x.end) for x in accesses if x.writes == writes])
    ]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes, in order and disjoint."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _meets(x: BytesAccess, ranges: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(ranges, x.begin, key=lambda r: r[1])
    return at < len(ranges) and ranges[at][0] < x.end
