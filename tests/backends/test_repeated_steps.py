"""Programs that repeat a step: the compiler's work grows with their length, and equal work is done
once.

Work is counted, not timed: what the searches of fusion look at, and the kernels that are lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.compiler import CompiledProgram, compile_program
from functrax.backends.passes.fusion import fuse
from functrax.backends.passes.fusion.kernel_graph import KernelGraph
from functrax.backends.passes.fusion.kernel_spaces import merged_space

Step = Callable[[Any], Any]


def repeated(step: Step, length: int) -> Step:
    def program(x: Any) -> Any:
        for _ in range(length):
            x = step(x)
        return x

    return program


def total(function: Step) -> Step:
    return lambda x: function(x).sum()


def compiled(function: Step, x: Any) -> CompiledProgram:
    return compile_program(functrax.make_jaxpr(function)(x).jaxpr)


def lowered(program: CompiledProgram) -> int:
    """How many kernels the compiler has written."""
    return sum(event.stage == "lower" for event in program.log.events)


class Counted(dict[int, set[int]]):
    """Counts how often it is asked."""

    asked = 0

    def __getitem__(self, n: int) -> set[int]:
        Counted.asked += 1
        return super().__getitem__(n)


def normalised(x: Any) -> Any:
    return (x - x.mean()) / jnp.sqrt(x.var() + 1e-5)


@pytest.mark.parametrize("step", [normalised, lambda x: jnp.sin(x) - 0.1 * jnp.roll(x, 1)])
def test_fusion_searches_in_proportion_to_a_programs_length(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(graph: KernelGraph) -> None:
        graph.successors, graph.predecessors, graph.level = Counted(), Counted(), {}

    monkeypatch.setattr(KernelGraph, "__init__", begin)
    asked = []
    for length in (30, 120):
        Counted.asked = 0
        compiled(functrax.grad(total(repeated(step, length))), np.ones(64, np.float32))
        asked.append(Counted.asked)
    assert asked[1] <= 5 * asked[0]


def flowed(parameters: Any, x: Any, length: int) -> Any:
    w, v, b, c = parameters
    for _ in range(length):
        x = x + 0.1 * (jnp.tanh(x @ w + b) @ v + c)
    return (x * x).sum()


def test_fusion_asks_in_proportion_about_parameters_that_all_steps_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gradients of all steps are added up in one kernel, which is near all of theirs."""
    asked = 0

    def counted(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return merged_space(*args)

    monkeypatch.setattr(fuse, "merged_space", counted)
    parameters = [np.ones(s, np.float32) for s in ((2, 32), (32, 2), 32, 2)]
    found = []
    for length in (20, 80):
        asked = 0
        gradient = functrax.grad(partial(flowed, length=length))
        jaxpr = functrax.make_jaxpr(gradient)(parameters, np.ones((64, 2), np.float32)).jaxpr
        compile_program(jaxpr)
        found.append(asked)
    assert found[1] <= 4.5 * found[0], found


LOOPS: dict[str, Step] = {
    "fori": lambda x: lax.fori_loop(0, 3, lambda _, c: jnp.sin(c) * 1.1, x),
    "scan": lambda x: lax.scan(lambda c, _: (jnp.sin(c) + c.sum(), None), x, None, length=3)[0],
    "cumsum": lambda x: jnp.cumsum(x) * 0.01,
}


@pytest.mark.parametrize("name", LOOPS)
def test_equal_loops_are_lowered_once(name: str) -> None:
    x = np.linspace(0, 1, 64, dtype=np.float32)
    few, many = (compiled(repeated(LOOPS[name], n), x) for n in (3, 9))
    assert lowered(many) <= lowered(few)
    assert many.log.origins["memory"] > few.log.origins["memory"]


def test_loops_that_differ_have_kernels_of_their_own() -> None:
    def program(x: Any) -> Any:
        for k in range(3):
            x = lax.fori_loop(0, 3, lambda _, c, k=k: c * (k + 2.0), x)
        return x

    x = np.linspace(0, 1, 8, dtype=np.float32)
    np.testing.assert_allclose(functrax.jit(program)(x), x * 24.0**3, rtol=1e-6)


def transposed(*shape: int) -> Callable[[Any], Any]:
    def move(x: Any) -> Any:
        return x.reshape(shape).T.reshape(-1)

    return move


@pytest.mark.parametrize("shape", [(16, 16), (8, 8, 8)])
def test_indices_of_transposes_that_undo_one_another_stay_short(shape: tuple[int, ...]) -> None:
    move, size = transposed(*shape), int(np.prod(shape))
    x = np.linspace(0, 1, size, dtype=np.float32)
    program = compiled(repeated(lambda x: move(x) * 2, 40), x)
    assert len(program.program.instructions) == 1
    want = x
    for _ in range(40):
        want = move(want)
    np.testing.assert_array_equal(functrax.jit(repeated(move, 40))(x), want)


@pytest.mark.parametrize("shape", [(3, 35), (2, 3, 5, 7)])
def test_indices_that_views_of_views_make_longer_and_longer(shape: tuple[int, ...]) -> None:
    """Each half of the group is one, until the indices are short enough."""
    move, size = transposed(*shape), int(np.prod(shape))
    x = np.linspace(0, 1, size, dtype=np.float32)
    few, many = (compiled(repeated(lambda x: move(x) * 2 + 1, n), x) for n in (16, 64))
    assert len(many.program.instructions) <= 4.5 * len(few.program.instructions)
    assert lowered(many) <= 4.5 * lowered(few)
    want = x
    for _ in range(16):
        want = move(want) * 2 + 1
    found = functrax.jit(repeated(lambda x: move(x) * 2 + 1, 16))(x)
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_kernels_that_read_many_values_through_views_are_bounded() -> None:
    """Each such value may take a load for each lane, which machine code grows with."""
    factors = np.linspace(0.5, 1.5, 120 * 35, dtype=np.float32).reshape(120, 35)

    def program(x: Any, rows: Any) -> Any:
        for k in range(120):
            x = x * rows[k].reshape(5, 7).T.reshape(-1)
        return x

    x = np.ones(35, np.float32)
    rows = [functrax.numpy.asarray(row) for row in factors]
    made = compile_program(functrax.make_jaxpr(program)(x, rows).jaxpr)
    launches = [len(one.inputs) for one in made.program.instructions]
    assert sum(launches) >= 120 and max(launches) <= 64
    want = np.prod([row.reshape(5, 7).T.reshape(-1) for row in factors], axis=0)
    np.testing.assert_allclose(functrax.jit(program)(x, rows), want, rtol=2e-5)
