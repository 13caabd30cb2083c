"""Sorts in memory that threads share: trees do what plain ones do, and faults in them are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.backends.kernels.ir import Kernel
from functrax.backends.loops.build import build
from functrax.backends.loops.interpret import interpret
from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
from functrax.backends.loops.rewrites.rewrite import changed
from functrax.backends.loops.strategies.schedule import schedule
from functrax.backends.loops.text import text
from functrax.backends.loops.tree import Barrier, Function
from functrax.backends.loops.tree_verifier import verify
from functrax.backends.targets.nvptx import target_of
from functrax.core.errors.typed import VerificationError
from functrax.core.records import replace
from tests.backends.loops.test_groups import copied, kernels_of

SM = target_of(80)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "rows": (lambda x: lax.sort(x), (3, 7)),
    "whole rows": (lambda x: lax.sort(x), (1, 16)),
    "columns": (lambda x: lax.sort(x, 0), (6, 3)),
    "one column": (lambda x: lax.sort(x, 0), (11, 1)),
    "positions": (lambda x: jnp.argsort(x), (2, 9)),
    "two keys": (lambda x: lax.sort((x, -x, x * 2), num_keys=2), (2, 5)),
    "largest": (lambda x: lax.top_k(x, 3), (2, 9)),
    "one element": (lambda x: jnp.argsort(x), (3, 1)),
}


@pytest.fixture(autouse=True)
def for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("cuda"):
        yield


def sorts_of(name: str) -> list[tuple[Kernel, Function]]:
    """The kernels of a program that sort, and their trees for groups of threads."""
    found = []
    for kernel in kernels_of(*PROGRAMS[name]):
        if kernel.sorting is None:
            continue
        ((part, rewrites),) = schedule(copied(kernel), SM)
        assert all(parse_rewrite(str(x)) == x for x in rewrites)
        steps: list[Function] = []
        rewritten(build(part), rewrites, look=steps.append)
        for step in steps:
            assert text(parse(text(step))) == text(step)
            verify(step)
        found.append((kernel, steps[-1]))
    assert found
    return found


def arrays_of(tree: Function) -> list[Any]:
    """Small whole numbers, so that many are equal."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 5, x.size).astype(x.dtype) for x in tree.operands]


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_sort_as_counting_does(name: str) -> None:
    for kernel, tree in sorts_of(name):
        ours, theirs = arrays_of(tree), arrays_of(tree)
        interpret(tree, ours)
        interpret(build(copied(kernel)), theirs)
        for x, y in zip(ours[: len(kernel.operands)], theirs, strict=False):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", ["rows", "columns", "largest"])
@pytest.mark.parametrize("missing", [0, 1])
def test_missing_barriers_are_found(name: str, missing: int) -> None:
    ((_, tree),) = sorts_of(name)
    places = iter(range(100))

    def without(s: Any) -> list[Any] | None:
        return [] if type(s) is Barrier and next(places) == missing else None

    broken = replace(tree, body=changed(tree.body, without))
    assert next(places) == 2
    with pytest.raises(VerificationError, match=r"without a barrier|nobody wrote"):
        interpret(broken, arrays_of(tree))
