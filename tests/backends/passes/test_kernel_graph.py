"""The graph of kernels, against paths counted by hand."""

from __future__ import annotations

import itertools
import random

import pytest

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
