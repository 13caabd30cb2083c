"""The order of a graph's nodes: that of a stream as far as memory says it, and no more."""

from __future__ import annotations

import itertools
import random

import pytest

from functrax.backends.cuda.graph_order import BytesAccess, SharedPlace, order_of, share


def reads(begin: int, end: int) -> BytesAccess:
    return BytesAccess(begin, end, False)


def writes(begin: int, end: int) -> BytesAccess:
    return BytesAccess(begin, end, True)


def test_a_chain_is_a_chain() -> None:
    nodes = [[reads(0, 8), writes(8, 16)], [reads(8, 16), writes(16, 24)]]
    nodes.append([reads(0, 8), reads(8, 16), reads(16, 24), writes(24, 32)])
    assert order_of(nodes, []) == [(), (0,), (1,)]


def test_who_only_reads_what_nobody_writes_waits_for_nobody() -> None:
    nodes = [[reads(0, 8), writes(8 * n, 8 * n + 8)] for n in range(1, 5)]
    assert order_of(nodes, []) == [(), (), (), ()]


def test_memory_that_is_used_again() -> None:
    nodes = [
        [writes(0, 8)],
        [reads(0, 8), writes(100, 108)],
        [reads(4, 8), writes(200, 208)],
        [writes(0, 4)],  # a part of it, which one of both has read
        [writes(4, 12)],
        [reads(0, 12)],
    ]
    assert order_of(nodes, []) == [(), (0,), (0,), (1,), (2, 1), (4, 3)]


def test_results_that_may_lie_in_the_memory_of_arguments() -> None:
    shared: list[SharedPlace] = []
    share(shared, 0, 1000, 8)
    share(shared, 50, 1000, 8)  # both arguments, so all three count as one
    share(shared, 0, 50, 8)
    assert len(shared) == 2
    nodes = [[reads(0, 8), writes(500, 508)], [reads(50, 58), writes(600, 608)]]
    nodes.append([writes(1000, 1008)])
    assert order_of(nodes, []) == [(), (), ()]
    assert order_of(nodes, shared) == [(), (), (1, 0)]


def reach(order: list[tuple[int, ...]]) -> set[tuple[int, int]]:
    """Pairs of nodes of which the first comes before the second."""
    found: set[tuple[int, int]] = set()
    for n, after in enumerate(order):
        for m in after:
            found |= {(m, n)} | {(k, n) for k, j in found if j == m}
    return found


@pytest.mark.parametrize("seed", range(60))
def test_random_accesses(seed: int) -> None:
    draw = random.Random(seed)

    def access() -> BytesAccess:
        begin = draw.randrange(40)
        return BytesAccess(begin, begin + draw.randrange(12), draw.random() < 0.4)

    nodes = [[access() for _ in range(draw.randrange(4))] for _ in range(25)]
    order = order_of(nodes, [])
    found = reach(order)
    needed = set()
    for m, n in itertools.combinations(range(len(nodes)), 2):
        for x, y in itertools.product(nodes[m], nodes[n]):
            if max(x.begin, y.begin) < min(x.end, y.end) and (x.writes or y.writes):
                needed.add((m, n))
    assert needed <= found
    for n, after in enumerate(order):  # each is needed, and follows from no others
        for m in after:
            assert (m, n) in needed
            assert not any((m, k) in found for k in after)
