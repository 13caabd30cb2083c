"""The graph of kernels, against paths counted by hand."""

from __future__ import annotations

import itertools
import random

import pytest

from functrax.backends.passes.fusion import kernel_graph
from functrax.backends.passes.fusion.kernel_graph import KernelGraph


def random_graph(seed: int) -> tuple[KernelGraph, dict[int, set[int]]]:
    rng = random.Random(seed)
    graph = KernelGraph()
    edges: dict[int, set[int]] = {n: set() for n in range(14)}
    for n in edges:
        graph.add_node(n)
    for a, b in itertools.combinations(edges, 2):
        if rng.random() < rng.choice((0.1, 0.3)):
            graph.add_edge(a, b)
            edges[a].add(b)
    graph.find_levels()
    return graph, edges


def reached(edges: dict[int, set[int]], start: int) -> set[int]:
    found: set[int] = set()
    stack = [start]
    while stack:
        for s in edges[stack.pop()] - found:
            found.add(s)
            stack.append(s)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_detours_are_paths_through_another_node(seed: int) -> None:
    graph, edges = random_graph(seed)
    for a, b in itertools.permutations(edges, 2):
        want = any(b in reached(edges, s) for s in edges[a] - {b})
        assert graph.has_detour(a, b) == want, (a, b)


def test_a_search_that_is_cut_short_finds_that_there_might_be_a_path() -> None:
    graph = KernelGraph()
    for n in range(20):
        graph.add_node(n)
    for n in range(1, 6):
        graph.add_edge(0, n)  # these lead nowhere
    for n in range(6, 13):
        graph.add_edge(n, n + 1)
        graph.add_edge(n, 13)
    graph.find_levels()
    assert not graph.has_detour(0, 13)
    assert not graph.has_detour(0, 13, most=5)
    assert graph.has_detour(0, 13, most=4)


def may_merge(graph: KernelGraph, a: int, b: int) -> bool:
    return not (graph.has_detour(a, b) or graph.has_detour(b, a))


@pytest.mark.parametrize("apart", [1, 3, 1 << 128])
@pytest.mark.parametrize("seed", range(20))
def test_levels_grow_along_edges_whatever_is_merged(
    seed: int, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_graph, "_APART", apart)
    graph, edges = random_graph(seed)
    rng = random.Random(seed)
    while len(edges) > 1:
        pairs = [(a, b) for a, b in itertools.permutations(edges, 2) if may_merge(graph, a, b)]
        for a, b in itertools.permutations(edges, 2):
            want = any(b in reached(edges, s) for s in edges[a] - {b})
            assert graph.has_detour(a, b) == want, (a, b)
        a, b = rng.choice(pairs)
        graph.merge(a, b)
        edges[b] |= edges.pop(a)
        edges = {n: {b if s == a else s for s in after} - {n} for n, after in edges.items()}
        assert graph.successors == edges
        assert all(graph.level[n] < graph.level[s] for n in edges for s in edges[n])


class Counted(dict[int, set[int]]):
    """Counts how often it is asked."""

    asked = 0

    def __getitem__(self, n: int) -> set[int]:
        self.asked += 1
        return super().__getitem__(n)


def searched(length: int) -> int:
    """What it takes to merge along a chain that goes forth and back, as gradients of chains do."""
    graph = KernelGraph()
    for n in range(2 * length):
        graph.add_node(n)
        graph.add_edge(max(n - 1, 0), n)
        if n < length:
            graph.add_node(2 * length - 1 - n)
            graph.add_edge(n, 2 * length - 1 - n)
    graph.find_levels()
    graph.successors = counted = Counted(graph.successors)
    for n in range(length - 1):
        assert graph.has_detour(n, 2 * length - 1 - n)
    for n in range(0, length - 1, 2):
        if may_merge(graph, n, n + 1):
            graph.merge(n, n + 1)
    return counted.asked


def test_work_grows_with_the_length_of_a_chain_and_its_gradient() -> None:
    assert searched(1600) <= 4.5 * searched(400)
