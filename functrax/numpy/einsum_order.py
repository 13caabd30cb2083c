"""In which order the operands of an einsum are contracted.

The cost of an order is the number of operations of its steps.  A step takes the labels of the two
operands that it contracts: one multiplication for each combination of their indices, and one
addition if it sums any.  Up to :data:`EXACT` operands the cheapest order is found, from the
cheapest ones of all subsets; for more the next step is the one that adds least to what is in
memory, pairs that share no label last.

Start at :func:`pair_order`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from functrax.core.errors.typed import ArgumentError

Labels: TypeAlias = "frozenset[Hashable]"
#: The positions of the operands of each step in the list, to whose end the result goes.
Order: TypeAlias = "list[tuple[int, ...]]"

#: As many operands are ordered in the cheapest way unless another is asked for.
EXACT: Final = 8
_KINDS: Final = frozenset(
    {"auto", "auto-hq", "optimal", "dp", "branch-all", "branch-2", "branch-1", "greedy",
     "random-greedy", "random-greedy-128"}
)  # fmt: skip


def pair_order(
    operands: Sequence[Labels], out: Labels, sizes: Mapping[Hashable, int], kind: Any = "auto"
) -> Order:
    """The steps of an einsum.

    Args:
      operands: the labels of each.
      out: those of the result.
      sizes: of all labels.
      kind: ``"optimal"`` (or ``"dp"``, True), ``"greedy"``, False for one step of all, and the
        names that opt_einsum has for what lies between, which are the best for up to
        :data:`EXACT` operands and greedy beyond.

    Raises:
      ArgumentError: if the kind is none of them.
    """
    if not isinstance(kind, bool) and kind not in _KINDS:
        raise ArgumentError(
            "einsum: no such order of contraction",
            got=f"optimize={kind!r}",
            fix="'auto', 'optimal', 'greedy', True, False, or a list of tuples of positions",
        )
    if len(operands) <= 2 or kind is False:
        return [tuple(range(len(operands)))]
    exact = kind in (True, "optimal", "dp") or (len(operands) <= EXACT and kind != "greedy")
    return (_best if exact else _greedy)(operands, out, sizes)


def step_cost(taken: Sequence[Labels], kept: Labels, sizes: Mapping[Hashable, int]) -> int:
    """The operations of one step.

    Args:
      taken: the labels of the operands that it contracts.
      kept: the labels of its result.
      sizes: of all labels.
    """
    union = frozenset[Hashable]().union(*taken)
    each = max(len(taken) - 1, 1) + (union > kept)
    return _volume(union, sizes) * each


def _volume(labels: Iterable[Hashable], sizes: Mapping[Hashable, int]) -> int:
    return math.prod([sizes[label] for label in labels])


def _best(operands: Sequence[Labels], out: Labels, sizes: Mapping[Hashable, int]) -> Order:
    """The cheapest order: of every subset of operands the cheapest way to make its result.

    What a subset's result keeps does not depend on how it was made, so the cheapest way to make a
    subset is the cheapest split into two, each made in its cheapest way.
    """
    everything = (1 << len(operands)) - 1
    kept = _kept_by_subset(operands, out)
    made: dict[int, tuple[int, int]] = {1 << k: (0, 0) for k in range(len(operands))}
    for subset in sorted(range(1, everything + 1), key=int.bit_count):
        if subset in made:
            continue
        lowest = subset & -subset
        part = (subset - 1) & subset
        best: tuple[int, int] | None = None
        while part:
            if part & lowest:  # each split once
                rest = subset ^ part
                cost = made[part][0] + made[rest][0]
                if best is None or cost < best[0]:
                    cost += step_cost((kept[part], kept[rest]), kept[subset], sizes)
                    if best is None or cost < best[0]:
                        best = (cost, part)
            part = (part - 1) & subset
        assert best is not None, "two operands or more can be split"
        made[subset] = best
    return _steps(everything, {subset: split for subset, (_, split) in made.items()})


def _kept_by_subset(operands: Sequence[Labels], out: Labels) -> list[Labels]:
    """For each set of operands, as the bits of a number, the labels that their product keeps.

    One operand alone has all of its own until it is contracted.
    """
    none: Labels = frozenset()
    union = [none] * (1 << len(operands))
    for subset in range(1, len(union)):
        lowest = subset & -subset
        union[subset] = union[subset ^ lowest] | operands[lowest.bit_length() - 1]
    everything = len(union) - 1
    return [
        labels & (union[everything ^ subset] | out) if subset & (subset - 1) else labels
        for subset, labels in enumerate(union)
    ]


def _steps(everything: int, split: Mapping[int, int]) -> Order:
    """The splits of subsets as steps on a list, those of the parts before those of the whole."""
    live = [1 << k for k in range(everything.bit_count())]
    found: Order = []

    def make(subset: int) -> None:
        if subset in live:
            return
        one, other = split[subset], subset ^ split[subset]
        make(one)
        make(other)
        positions = tuple(sorted((live.index(one), live.index(other))))
        found.append(positions)
        _replace(live, positions, subset)

    make(everything)
    return found


def _replace(live: list[Any], positions: Collection[int], result: Any) -> None:
    live[:] = [x for k, x in enumerate(live) if k not in positions]
    live.append(result)


def _greedy(operands: Sequence[Labels], out: Labels, sizes: Mapping[Hashable, int]) -> Order:
    live = list(operands)
    found: Order = []
    while len(live) > 1:
        uses = {x: sum(x in own for own in live) + (x in out) for own in live for x in own}

        def result(pair: tuple[int, int], uses: Mapping[Hashable, int] = uses) -> Labels:
            one, other = live[pair[0]], live[pair[1]]
            return frozenset(x for x in one | other if uses[x] > (x in one) + (x in other))

        def growth(pair: tuple[int, int]) -> tuple[bool, int, int]:
            one, other = live[pair[0]], live[pair[1]]
            grown = _volume(result(pair), sizes) - _volume(one, sizes) - _volume(other, sizes)
            return one.isdisjoint(other), grown, _volume(one | other, sizes)

        pair = min(itertools.combinations(range(len(live)), 2), key=growth)
        found.append(pair)
        _replace(live, pair, result(pair))
    return found
