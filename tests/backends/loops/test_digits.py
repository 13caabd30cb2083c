"""Tiles counted and sorted by digits: trees do what plain ones do, and faults in them are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.kernels.ir import Digits, Kernel
from functrax.backends.kernels.ordering import lowering, radix
from functrax.backends.kernels.ordering.equation import OrderingKernels
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.loops.build import build
from functrax.backends.loops.interpret import interpret
from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
from functrax.backends.loops.rewrites.rewrite import changed
from functrax.backends.loops.strategies.schedule import schedule
from functrax.backends.loops.text import text
from functrax.backends.loops.tree import Barrier, Function, If, Running
from functrax.backends.loops.tree_verifier import verify
from functrax.backends.targets import making_for, target
from functrax.backends.targets.nvptx import target_of
from functrax.core.errors.typed import VerificationError
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.records import replace
from tests.backends.loops.test_groups import copied

#: Threads of a group, and threads that run in step.
GROUP, WARP = 8, 2
#: Digits have four bits here, so that threads have two counters each.
DIGITS = 16
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "rows": (lambda x: lax.sort(x), (1, 18), "float16"),
    "whole tiles": (lambda x: lax.sort(x), (1, 32), "uint8"),
    "columns": (lambda x: lax.sort(x, 0), (19, 2), "int8"),
    "with an operand": (lambda x: jnp.argsort(x), (2, 18), "int8"),
    "by position": (lambda x: lax.sort((x, -x, x * 2), num_keys=2), (1, 17), "int8"),
    "largest": (lambda x: lax.top_k(x, 9), (1, 21), "int8"),
}


#: Those that the interpreter takes seconds for.
LONG = ("rows", "columns")


@pytest.fixture(autouse=True)
def for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lowering, "is_by_digits", lambda *_: True)
    monkeypatch.setattr(radix, "_DIGITS", DIGITS)
    with making_for(replace(target_of(80), block=GROUP, warp=WARP, sort_points=2)):
        yield


def sort_of(name: str) -> tuple[Eqn, OrderingKernels]:
    """The sort in a program, and its kernels."""
    f, shape, dtype = PROGRAMS[name]
    left = [functrax.make_jaxpr(f)(np.ones(shape, dtype)).jaxpr]
    while left:
        for eqn in left.pop().eqns:
            if eqn.primitive.name in ("sort", "top_k"):
                found = lowering.lower_ordering(eqn)
                assert not isinstance(found, Refusal)
                return eqn, found
            left += [x for x in eqn.params.values() if isinstance(x, Jaxpr)]
    raise AssertionError("a program that sorts nothing")


def tree_of(kernel: Kernel) -> Function:
    """The tree of a kernel for groups of threads."""
    ((part, rewrites), *others) = schedule(copied(kernel), target())
    assert not others
    assert all(parse_rewrite(str(x)) == x for x in rewrites)
    steps: list[Function] = []
    rewritten(build(part), rewrites, look=steps.append)
    for step in steps:
        assert text(parse(text(step))) == text(step)
        verify(step)
    return steps[-1]


def arrays_of(tree: Function, arrays: Sequence[Any]) -> list[Any]:
    """Copies of arrays, and memory that threads share."""
    shared = [np.zeros(x.size, x.dtype) for x in tree.operands[len(arrays) :]]
    return [*[x.copy() for x in arrays], *shared]


@cache
def passes_of(name: str) -> list[tuple[Kernel, list[Any], list[Any]]]:
    """The kernels of a program that go by digits, with the arrays that each finds and leaves: all
    are done by plain trees, one after the other.
    """
    eqn, lowered = sort_of(name)
    rng = np.random.default_rng(0)
    avals = [x.aval for x in (*eqn.invars, *eqn.outvars)]
    arrays = [rng.integers(-4, 5, x.size).astype(x.dtype) for x in avals]
    arrays += [np.zeros(x.size, x.dtype) for x in lowered.temporaries]
    found = []
    for kernel, (reads, writes) in zip(lowered.kernels, lowered.arrays, strict=True):
        taken = [arrays[n] for n in (*reads, *writes)]
        before = [x.copy() for x in taken]
        interpret(build(copied(kernel)), taken)
        if isinstance(kernel.sorting, Digits):
            found.append((kernel, before, [x.copy() for x in taken]))
    return found


@pytest.mark.parametrize(
    "name", [x if x not in LONG else pytest.param(x, marks=pytest.mark.slow) for x in PROGRAMS]
)
def test_groups_do_what_plain_trees_do(name: str) -> None:
    passes = passes_of(name)
    for kernel, before, after in passes:
        tree = tree_of(kernel)
        ours = arrays_of(tree, before)
        interpret(tree, ours)
        for x, y in zip(ours, after, strict=False):
            np.testing.assert_array_equal(x, y)
    assert passes


def broken(tree: Function, missing: int, kind: type) -> Function | None:
    """The tree without one of its statements of a kind; None if it has not so many."""
    places = iter(range(100))

    def without(s: Any) -> list[Any] | None:
        return [] if type(s) is kind and next(places) == missing else None

    found = replace(tree, body=changed(tree.body, without), nodes_=None)
    return found if next(places) > missing else None


def test_missing_barriers_are_found() -> None:
    counted = []
    for kernel, before, _ in passes_of("with an operand"):
        tree, missing = tree_of(kernel), 0
        while (without := broken(tree, missing, Barrier)) is not None:
            with pytest.raises(VerificationError, match=r"without a barrier|nobody wrote"):
                interpret(without, arrays_of(tree, before))
            missing += 1
        counted.append(missing)
    assert counted == [2, 5]


def test_running_results_are_of_all_threads() -> None:
    tree = tree_of(passes_of("whole tiles")[1][0])

    def some(s: Any) -> list[Any] | None:
        if type(s) is not Running:
            return None
        (value,) = s.scan.values
        return [If(tree.builder.compare("gt", value, tree.builder.like(value, 0)), (s,))]

    wrong = replace(tree, body=changed(tree.body, some), nodes_=None)
    with pytest.raises(VerificationError, match="running results that not all threads"):
        verify(wrong)
