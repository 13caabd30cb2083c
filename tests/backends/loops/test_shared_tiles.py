"""Tiles in memory that threads share: trees do what plain ones do, and faults in them are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.backends.kernels.ir import Operand
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.loops.build import build
from functrax.backends.loops.interpret import _Interpreter, interpret
from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
from functrax.backends.loops.rewrites.rewrite import changed
from functrax.backends.loops.shared_memory import SharedMemory
from functrax.backends.loops.strategies import shared_tiles
from functrax.backends.loops.strategies.schedule import schedule
from functrax.backends.loops.text import text
from functrax.backends.loops.tree import Barrier, Function
from functrax.backends.loops.tree_verifier import verify
from functrax.backends.targets.nvptx import target_of
from functrax.core.errors.typed import VerificationError
from functrax.core.records import replace
from tests.backends.loops.test_groups import CLOSE, copied, kernels_of

SM = target_of(80)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "transpose": (lambda x: x.T + 1, (35, 41)),
    "whole tiles": (lambda x: x.T * 2, (32, 64)),
    "reversed": (lambda x: x.T[::-1, ::-1] + 1, (35, 20)),
    "padded": (lambda x: jnp.pad(x.T, ((2, 1), (0, 3))) + 1, (20, 35)),
    "two reads": (lambda x: x[:-1].T * x[1:].T, (35, 20)),
    "every second": (lambda x: x[:, ::2].T + 1, (35, 40)),
    "axes": (lambda x: x.transpose(2, 0, 1) + 1, (3, 12, 35)),
    "gather": (lambda x: x[jnp.arange(40) % 7].T + 1, (7, 35)),
    "product": (lambda x: x @ x.T, (11, 9)),
    "wide product": (lambda x: x[:8] @ x.T, (33, 8)),
    "product of whole tiles": (lambda x: x @ x, (32, 32)),
    "product of columns": (lambda x: x.T @ x, (9, 11)),
    "several slices": (lambda x: x @ x.T, (8, 40)),
    "product and more": (lambda x: jnp.tanh(x @ x.T + 1) * 2, (11, 9)),
    "turned result": (lambda x: jnp.einsum("ij,kj->ki", x, jnp.sin(x)), (11, 8)),
    "batch": (lambda x: jnp.einsum("bij,bkj->bik", x, x * 2), (2, 9, 8)),
    "many dims": (lambda x: jnp.einsum("abcd,ebcd->ea", x, x), (9, 2, 2, 3)),
    "convolution": (lambda x: lax.conv(x[:1], x[..., :2], (1, 1), "SAME"), (8, 2, 3, 3)),
}
#: Bytes that a GPU reads and writes at once.
SECTOR = 32
#: Programs whose plain trees take the interpreter long.
LARGE = ("whole tiles", "product of whole tiles")


@pytest.fixture(autouse=True)
def for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("cuda"):
        yield


def check(plain: Function, trees: list[Function]) -> None:
    """Compare what trees that run one after the other do with what the plain one does."""
    size = len(plain.operands)
    arrays = arrays_of(max((tree.operands for tree in trees), key=len))
    wanted = [x.copy() for x in arrays[:size]]
    interpret(plain, wanted, EXPANSIONS)
    for tree in trees:
        interpret(tree, arrays[: len(tree.operands)], EXPANSIONS)
    for ours, theirs in zip(arrays, wanted, strict=False):
        np.testing.assert_allclose(ours, theirs, CLOSE, CLOSE)


def arrays_of(operands: Sequence[Operand]) -> list[Any]:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=x.size) * 3 for x in operands]
    return [v.astype(x.dtype) for v, x in zip(values, operands, strict=True)]


def trees_of(name: str) -> list[tuple[Function, list[Function]]]:
    """For each kernel of a program its plain tree, and those that are run."""
    found = []
    for kernel in kernels_of(*PROGRAMS[name]):
        trees = []
        for part, rewrites in schedule(copied(kernel), SM):
            assert all(parse_rewrite(str(x)) == x for x in rewrites)
            steps: list[Function] = []
            rewritten(build(part), rewrites, look=steps.append)
            for step in steps:
                assert text(parse(text(step))) == text(step)
                verify(step)
            trees.append(steps[-1])
        found.append((build(copied(kernel)), trees))
    return found


def one_tree(name: str) -> Function:
    """The tree of a program that keeps tiles."""
    trees = [tree for _, trees in trees_of(name) for tree in trees]
    return next(tree for tree in trees if any(x.shared for x in tree.operands))


@pytest.mark.parametrize("name", [x for x in PROGRAMS if x not in LARGE])
def test_tiles_do_what_plain_trees_do(name: str) -> None:
    shared = 0
    for plain, trees in trees_of(name):
        check(plain, trees)
        shared += sum(x.shared for tree in trees for x in tree.operands)
    assert shared


def test_long_sums_of_few_tiles_are_done_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tiles, "BLOCK", 400)
    ((plain, trees),) = trees_of("several slices")
    assert [tree.units for tree in trees] == [3, 64]
    check(plain, trees)


@pytest.mark.parametrize("name", ["transpose", "wide product"])
def test_a_missing_barrier_is_found(name: str) -> None:
    tree = one_tree(name)
    barriers = [s for s in tree.statements() if type(s) is Barrier]
    assert barriers
    for missing in barriers:
        without = replace(
            tree, body=changed(tree.body, lambda s, x=missing: [] if s is x else None)
        )
        verify(without)
        with pytest.raises(VerificationError, match=r"without a barrier|nobody wrote"):
            interpret(without, arrays_of(without.operands), EXPANSIONS)


def test_a_barrier_that_some_threads_do_not_reach_is_found() -> None:
    lines = text(one_tree("transpose")).splitlines()
    place = next(n for n, line in enumerate(lines) if line.strip().startswith("if "))
    inside = " " * (len(lines[place + 1]) - len(lines[place + 1].lstrip()))
    wrong = parse("\n".join([*lines[: place + 1], f"{inside}barrier", *lines[place + 1 :]]))
    with pytest.raises(VerificationError, match="not all threads"):
        verify(wrong)
    with pytest.raises(VerificationError, match="not all threads"):
        interpret(wrong, arrays_of(wrong.operands), EXPANSIONS)


@pytest.mark.parametrize("name", ["transpose", "product", "product of columns", "turned result"])
def test_threads_of_a_warp_meet_no_banks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_of_a_bank(one_tree(name), monkeypatch) == 1


def test_rows_without_padding_meet_in_banks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = text(one_tree("transpose"))
    assert "33*d" in found
    assert most_of_a_bank(parse(found.replace("33*d", "32*d")), monkeypatch) == 32


@pytest.mark.parametrize("name", ["whole tiles", "product of whole tiles"])
def test_warps_read_and_write_whole_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, found = one_tree(name), []
    check_place = _Interpreter._check

    def noting(self: Any, buffer: int, place: Any, touched: Any) -> None:
        if not tree.operands[buffer].shared:
            found.extend(np.unique(x * 4 // SECTOR).size for x in np.reshape(place, (-1, SM.warp)))
        check_place(self, buffer, place, touched)

    monkeypatch.setattr(_Interpreter, "_check", noting)
    interpret(tree, [np.zeros(x.size, x.dtype) for x in tree.operands], EXPANSIONS)
    assert set(found) == {4 * SM.warp // SECTOR}


def most_of_a_bank(tree: Function, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many words of one bank the threads of a warp want at once, at most."""
    most = 0
    access = SharedMemory.access

    def noting(
        self: SharedMemory, places: Any, threads: Any, writes: bool, atomic: bool = False
    ) -> str:
        nonlocal most
        for warp in np.unique(threads // SM.warp):
            words = np.unique(places[threads // SM.warp == warp])
            most = max(most, np.bincount(words % SM.warp).max())
        return access(self, places, threads, writes, atomic)

    monkeypatch.setattr(SharedMemory, "access", noting)
    interpret(tree, [np.zeros(x.size, x.dtype) for x in tree.operands], EXPANSIONS)
    return int(most)
