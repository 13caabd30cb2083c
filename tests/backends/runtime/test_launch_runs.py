"""Launches that threads share at once: which they are, and that results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from functrax.backends.executables.launch_runs import LONG, NEAR, slack
from functrax.backends.executables.program import HostCall, Launch, RuntimeProgram
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.executables.program_rules import check_program
from functrax.backends.runtime.choice import Runtime
from functrax.backends.targets import target
from functrax.core.errors.typed import VerificationError
from functrax.core.records import replace
from tests.backends.runtime.kernels import kernels
from tests.backends.runtime.programs import F32

WORTH = target().share_ns
SIZE = 64
VEC = ((SIZE,), F32)


class Launches:
    """Builds a program of launches, each named by its place in the text."""

    def __init__(self, *inputs: str) -> None:
        self.builder = ProgramBuilder("runs")
        self.slots = {name: self.builder.input(*VEC) for name in inputs}

    def launch(
        self, name: str, *reads: str, cost: int = WORTH, size: int = SIZE, **options: Any
    ) -> None:
        """A launch that writes a new array of its name."""
        inputs = tuple([self.slots[x] for x in reads])
        self.slots[name] = self.builder.value((size,), F32)
        self.builder.add(Launch(1, name, inputs, (self.slots[name],), cost=cost, **options))

    def runs(self, *results: str) -> list[str]:
        """The names of the launches of each run."""
        program = self.program(*results)
        names = [getattr(x, "name", "") for x in program.instructions]
        return [" ".join(names[n] for n in step) for step in program.steps]

    def program(self, *results: str) -> RuntimeProgram:
        outputs = [self.slots[x] for x in results]
        return self.builder.finished(outputs)


def test_what_does_not_wait_for_one_another_is_a_run() -> None:
    p = Launches("x", "w", "u", "v")
    for name, weights in zip("qkv", "wuv"):
        p.launch(name + "'", "x", weights)
    p.launch("scores", "q'", "k'")
    p.launch("out", "scores", "v'")
    assert p.runs("out") == ["q' k' v'", "scores", "out"]


def test_what_comes_later_moves_up() -> None:
    p = Launches("x")
    p.launch("a", "x")
    p.launch("b", "a")
    p.launch("c", "x")
    p.launch("d", "c")
    assert p.runs("b", "d") == ["a c", "b d"]


def test_nothing_passes_a_call_of_python() -> None:
    p = Launches("x")
    p.launch("a", "x")
    p.builder.add(HostCall(lambda: (), "call", (), ()))
    p.launch("b", "x")
    assert p.runs("a", "b") == ["a", "call", "b"]


def test_long_and_tiny_launches_stay_alone() -> None:
    p = Launches("x")
    for cost in (LONG, LONG, WORTH // 3, WORTH // 3):
        p.launch(f"f{len(p.slots)}", "x", cost=cost)
    p.launch("g", "f1", "f2", "f3", "f4")
    assert p.runs("g") == ["f1", "f2", "f3", "f4", "g"]


def test_a_run_ends_when_it_is_long_enough() -> None:
    p = Launches("x")
    for k in range(4):
        p.launch(f"f{k}", "x", cost=LONG // 2)
    assert p.runs("f0", "f1", "f2", "f3") == ["f0 f1", "f2 f3"]


def test_only_so_many_are_looked_at() -> None:
    p = Launches("x")
    for k in range(NEAR + 1):
        p.launch(f"f{k}", "x" if k == 0 else f"f{k - 1}")
    p.launch("late", "x")
    assert all("f0" not in run or "late" not in run for run in p.runs(f"f{NEAR}", "late"))


def test_memory_does_not_grow() -> None:
    """Four arrays that are made and used in turn, and would be alive together in a run."""
    p = Launches("x")
    large = slack() // 4
    for k in range(4):
        p.launch(f"t{k}", "x", size=large)
        p.launch(f"y{k}", f"t{k}")
    program = p.program("y0", "y1", "y2", "y3")
    assert max(program.runs) > 1
    assert program.peak <= 4 * large + slack() + (1 << 12)


def test_arrays_of_a_run_have_places_of_their_own() -> None:
    p = Launches("x")
    p.launch("a", "x")
    p.launch("b", "a")  # where a dies, c begins
    p.launch("c", "x")
    p.launch("d", "b", "c")
    program = p.program("d")
    places = {x.name: program.slots[x.outputs[0]].offset for x in program.instructions}  # type: ignore[union-attr]
    assert [program.runs, places["a"] != places["c"]] == [(2, 1, 1), True]


@pytest.mark.parametrize(("reader", "shared"), [("x", False), ("w", True)])
def test_a_kernel_writes_over_what_no_other_of_its_run_reads(reader: str, shared: bool) -> None:
    p = Launches("x", "w")
    p.launch("a", reader)
    p.launch("b", "x", aliases=((0, 0),))
    program = p.program("a", "b")
    assert program.runs == (2,)
    assert ((1, 0) in program.aliases) == shared


def test_a_run_with_what_needs_another_is_refused() -> None:
    p = Launches("x")
    p.launch("a", "x")
    p.launch("b", "a")
    program = p.program("b")
    for runs in ((2,), (1,), (1, 1, 0)):
        with pytest.raises(VerificationError, match="runs"):
            check_program(replace(program, runs=runs))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_random_launches(runtime: Runtime, seed: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    b = ProgramBuilder("random")
    x = rng.integers(0, 9, SIZE).astype(F32)
    slots, values = [b.input(*VEC)], [x]
    for _ in range(40):
        name = ("affine", "add")[rng.integers(2)]
        picked = [int(k) for k in rng.integers(max(0, len(slots) - 9), len(slots), 2)]
        picked = picked[:1] if name == "affine" else picked
        read, y = tuple(slots[k] for k in picked), b.value(*VEC)
        cost = int(rng.choice([0, 7, WORTH // 2, WORTH, LONG]))
        aliases = ((0, 0),) if rng.random() < 0.5 else ()
        options = {"units": SIZE, "cost": cost, "aliases": aliases}
        b.add(kernels().launch(name, read, (y,), **options))
        args = [values[k] for k in picked]
        values.append((2 * args[0] + 1 if name == "affine" else args[0] + args[1]) % 2**20)
        slots.append(y)
        b.add(kernels().launch("affine", (y,), (y,), units=0))  # nothing, in between
    outs = [slots[k] for k in (-1, -5, 20)]
    program = b.finished(outs)
    assert max(program.runs) > 1
    runtime.set_num_threads(threads)
    for got, k in zip(runtime.load(program)([x]), (-1, -5, 20)):
        np.testing.assert_array_equal(np.asarray(got) % 2**20, values[k])
