"""In which order the factors of a product are contracted in pairs.

What enters are the axes that each factor depends on, their sizes, and the axes of the result.  What
leaves are pairs of factors, one after the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Labels: TypeAlias = tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def pair_order(
    labels: tuple[Labels, ...], sizes: tuple[tuple[int, int], ...], out_labels: Labels
) -> list[tuple[int, int]]:
    """Which pairs to contract, one after the other; a pair's result goes to the end.

    Greedy: the pair whose result adds least to what is kept in memory, then the one with the
    fewest multiplications.
    """
    size = dict(sizes)
    left = list(labels)
    pairs = []

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        a, b = left[pair[0]], left[pair[1]]
        union = {*a, *b}
        grows = _volume(_result_labels(left, pair, out_labels), size)
        return grows - _volume(a, size) - _volume(b, size), _volume(union, size)

    while len(left) > 1:
        best = min(itertools.combinations(range(len(left)), 2), key=cost)
        result = _result_labels(left, best, out_labels)
        left = [ls for i, ls in enumerate(left) if i not in best] + [result]
        pairs.append(best)
    return pairs


def _result_labels(left: Sequence[Labels], pair: tuple[int, int], out_labels: Labels) -> Labels:
    needed = {*out_labels, *(k for i, ls in enumerate(left) if i not in pair for k in ls)}
    return tuple(k for k in {*left[pair[0]], *left[pair[1]]} if k in needed)


def _volume(labels: Iterable[int], size: dict[int, int]) -> int:
    return math.prod(size[k] for k in labels)
