"""Kernels of a GPU: their trees read back, are verified, and do what the plain ones do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation import codegen
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.loops.build import build
from functrax.backends.loops.interpret import interpret
from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
from functrax.backends.loops.strategies import group_scans, reduction_blocks
from functrax.backends.loops.strategies.schedule import schedule
from functrax.backends.loops.text import text
from functrax.backends.loops.tree import Function
from functrax.backends.loops.tree_verifier import verify
from functrax.backends.targets.nvptx import target_of
from functrax.core.records import replace

SM = target_of(80)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "map": (lambda x: jnp.tanh(x) * 2 + 1, (5, 7)),
    "transpose": (lambda x: x.T + 1, (5, 7)),
    "row sum": (lambda x: x.sum(1), (3, 40)),
    "column sum": (lambda x: x.sum(0), (20, 60)),
    "full sum": (lambda x: x.sum(), (3, 40)),
    "softmax": (lambda x: functrax.nn.softmax(x), (3, 50)),
    "argmax": (lambda x: jnp.argmax(x, 1), (3, 40)),
    "short rows": (lambda x: functrax.nn.softmax(x), (9, 7)),
    "running sum": (lambda x: jnp.cumsum(x, 1), (3, 20)),
    "running sum from the end": (lambda x: lax.cumsum(x, axis=1, reverse=True), (3, 20)),
    "scatter": (lambda x: x.at[jnp.array([1, 1, 0])].add(1.0), (4, 5)),
    "sum of a cube": (lambda x: x.sum((0, 2)), (3, 4, 33)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + i, x), (3, 5)),
}
#: How many elements a block of a long running result has here, in place of 32,768.
BLOCK = 2_000
#: What the order of a sum may change.
CLOSE = 1e-5


@cache
def kernels_of(f: Callable[..., Any], shape: tuple[int, ...]) -> list[Kernel]:
    """The kernels of a function as they were lowered, which must be copied to be scheduled."""
    found: list[Kernel] = []
    with pytest.MonkeyPatch.context() as patch:
        made = codegen.kernel_codes

        def noting(kernel: Kernel) -> Any:
            found.append(copied(kernel))
            return made(kernel)

        patch.setattr(codegen, "kernel_codes", noting)
        functrax.jit(lambda x: f(x))(np.ones(shape, np.float32))
    assert found
    return found


def copied(kernel: Kernel) -> Kernel:
    """A kernel that schedules may change."""
    stages = [replace(x, stores=list(x.stores)) for x in kernel.stages]
    return replace(kernel, operands=list(kernel.operands), stages=stages, rows=list(kernel.rows))


def results(trees: list[Function], sizes: int) -> list[Any]:
    """What kernels that run one after the other write, of their first arrays."""
    rng = np.random.default_rng(0)
    arrays = []
    for x in trees[-1].operands:
        value = rng.normal(size=x.size)
        arrays.append(
            (rng.integers(0, 3, x.size) if x.dtype.kind in "iu" else value).astype(x.dtype)
        )
    for tree in trees:
        interpret(tree, arrays[: len(tree.operands)], EXPANSIONS)
    return arrays[:sizes]


def check(kernels: list[Kernel]) -> list[int]:
    """Compare trees of groups with plain ones; the groups' sizes."""
    groups = []
    for kernel in kernels:
        plain = results([build(copied(kernel))], len(kernel.operands))
        trees = []
        for part, rewrites in schedule(copied(kernel), SM):
            assert all(parse_rewrite(str(x)) == x for x in rewrites)
            steps: list[Function] = []
            rewritten(build(part), rewrites, look=steps.append)
            for step in steps:
                assert text(parse(text(step))) == text(step)
                verify(step)
            assert steps[-1].group
            groups.append(steps[-1].group)
            trees.append(steps[-1])
        for ours, theirs in zip(results(trees, len(plain)), plain, strict=True):
            np.testing.assert_allclose(ours, theirs, CLOSE, CLOSE)
    return groups


@pytest.mark.parametrize("name", PROGRAMS)
def test_trees_of_groups_do_what_plain_trees_do(name: str) -> None:
    check(kernels_of(*PROGRAMS[name]))


@pytest.mark.slow
def test_long_running_results() -> None:
    assert check(kernels_of(lambda x: jnp.cumsum(x), (33_000,))) == [1024, 1, 1024]


def test_running_results_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = kernels_of(lambda x: jnp.cumsum(x), (2 * BLOCK + 100,))
    for module in (reduction_blocks, group_scans):
        monkeypatch.setattr(module, "BLOCK", BLOCK)
    assert check(kernels) == [256, 2, 256]


@pytest.mark.parametrize(
    ("name", "group", "rewrite"),
    [
        ("map", 1, "grid 1 0"),
        ("column sum", 1, "grid 1 0"),
        ("row sum", 16, "share d1"),
        ("row sum", 16, "neighbours 2 0 d1"),
        ("softmax", 16, "share d1"),
        ("softmax", 16, "neighbours 2 1 d1"),
        ("running sum", 16, "share d1"),
    ],
)
def test_how_many_threads_a_unit_has(name: str, group: int, rewrite: str) -> None:
    (kernel,) = kernels_of(*PROGRAMS[name])
    ((part, rewrites),) = schedule(copied(kernel), SM)
    assert rewrite in [str(x) for x in rewrites]
    assert rewritten(build(part), rewrites).group == group


def test_long_rows_are_the_work_of_blocks_and_long_sums_are_done_in_two_stages() -> None:
    (kernel,) = kernels_of(lambda x: x.sum(1), (100, 3000))
    ((part, rewrites),) = schedule(copied(kernel), SM)
    assert rewritten(build(part), rewrites).group == 256
    (kernel,) = kernels_of(lambda x: x.sum(), (100_000,))
    parts = schedule(copied(kernel), SM)
    assert [rewritten(build(k), r).units for k, r in parts] == [25, 1]
