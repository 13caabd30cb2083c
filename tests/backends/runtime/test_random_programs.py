"""Random programs, run by both implementations and by NumPy without any plan of memory.

What they may go wrong in is the plan: values that lie in the same memory while both are needed,
carries that are updated in place, and results in the memory of donated inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    RuntimeProgram,
    ScanInstruction,
    subprograms,
)
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.runtime.choice import Runtime
from tests.backends.runtime.programs import I32

I64 = np.dtype(np.int64)
SIZES = (1, 3, 8, 20)


class Generator:
    """Makes programs of int64 arrays, whose arithmetic is exact and wraps."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def program(self, depth: int, sizes: list[int], results: list[int]) -> RuntimeProgram:
        """A program of arrays of these sizes, after an index."""
        b = ProgramBuilder(f"p{depth}")
        index = b.input((), I32)
        values = [(b.input((n,), I64), n) for n in sizes]
        for _ in range(self.rng.integers(2, 9)):
            self._instruction(b, depth, index, values)
        outs = [self._result(b, values, n) for n in results]
        for k, n in enumerate(results):
            if self.rng.random() < 0.2:  # a result as it is: an input, or another result
                same = [s for s, m in [*values[: len(sizes)], *zip(outs, results)] if m == n]
                outs[k] = same[self.rng.integers(len(same))]
        return b.build(outs, self._aliases(b, sizes, results, outs))

    def _aliases(
        self, b: ProgramBuilder, sizes: list[int], results: list[int], outs: list[int]
    ) -> tuple[tuple[int, int], ...]:
        """Those of some candidates that the rules allow."""
        allowed: tuple[tuple[int, int], ...] = ()
        for j, n in enumerate(results):
            for i, m in enumerate(sizes):
                taken = {x for pair in allowed for x in (("o", pair[0]), ("i", pair[1]))}
                if n != m or ("o", j) in taken or ("i", i + 1) in taken:
                    continue
                try:
                    b.build(outs, (*allowed, (j, i + 1)))
                except ValueError:
                    continue
                except Exception as error:
                    if type(error).__name__ != "VerificationError":
                        raise
                    continue
                allowed = (*allowed, (j, i + 1))
        return allowed

    def _result(self, b: ProgramBuilder, values: list[tuple[int, int]], n: int) -> int:
        same = [s for s, m in values if m == n]
        if not same or self.rng.random() < 0.5:
            return self._operation(b, values, n)
        out = b.value((n,), I64)
        b.add(CopyInstruction(same[self.rng.integers(len(same))], out))
        return out

    def _operation(self, b: ProgramBuilder, values: list[tuple[int, int]], n: int) -> int:
        chosen = self.rng.integers(len(values), size=2)
        factors = [int(f) for f in self.rng.integers(-5, 6, size=3)]
        out = b.value((n,), I64)

        def operation(x: Any, y: Any) -> Any:
            return factors[0] * np.resize(x, n) + factors[1] * np.resize(y, n) + factors[2]

        b.add(HostCall(operation, "op", tuple(values[c][0] for c in chosen), (out,)))
        return out

    def _instruction(
        self, b: ProgramBuilder, depth: int, index: int, values: list[tuple[int, int]]
    ) -> None:
        kind = self.rng.choice(["op", "op", "copy", "cond", "scan", "scan"])
        if kind == "op" or (depth == 0 and kind != "copy"):
            n = int(self.rng.choice(SIZES))
            values.append((self._operation(b, values, n), n))
            return
        picked = [values[k] for k in self.rng.integers(len(values), size=3)]
        slots, sizes = [s for s, _ in picked], [n for _, n in picked]
        if kind == "copy":
            out = b.value((sizes[0],), I64)
            b.add(CopyInstruction(slots[0], out))
            values.append((out, sizes[0]))
            return
        outs = [b.value((n,), I64) for n in sizes]
        if kind == "cond":
            branches = tuple(self.program(depth - 1, sizes, sizes) for _ in range(2))
            b.add(CondInstruction(index, branches, (index, *slots), tuple(outs)))
        else:
            self._scan(b, depth, index, values, slots, sizes)
            return
        values += zip(outs, sizes)

    def _scan(
        self,
        b: ProgramBuilder,
        depth: int,
        index: int,
        values: list[tuple[int, int]],
        slots: list[int],
        sizes: list[int],
    ) -> None:
        length = int(self.rng.integers(0, 4))
        body = self.program(depth - 1, [*sizes, 3], [*sizes, 8])
        xs = b.const(self.rng.integers(-9, 9, (length, 3)))
        outs = [b.value((n,), I64) for n in sizes]
        ys = b.value((length, 8), I64)
        reverse = bool(self.rng.integers(2))
        b.add(
            ScanInstruction(
                body, length, (index,), tuple(slots), (xs,), (*outs, ys), reverse=reverse
            )
        )
        values += zip(outs, sizes)
        flat = b.value((8,), I64)
        b.add(HostCall(lambda y: y.sum(0), "sum", (ys,), (flat,)))
        values.append((flat, 8))


def interpret(program: RuntimeProgram, inputs: list[Any]) -> list[Any]:
    """What a program means: every value in memory of its own."""
    env: dict[int, Any] = dict(zip(program.inputs, inputs))
    env |= {n: s.value for n, s in enumerate(program.slots) if s.kind == "const"}
    for x in program.instructions:
        given = [env[s] for s in x.inputs]
        match x:
            case HostCall():
                outs = [np.asarray(x.function(*given))]
            case CopyInstruction():
                outs = [given[0]]
            case CondInstruction():
                outs = interpret(x.branches[min(max(int(given[0]), 0), 1)], given[1:])
            case ScanInstruction():
                index, *carry, xs = given
                ys = np.zeros((x.length, 8), I64)
                for t in reversed(range(x.length)) if x.reverse else range(x.length):
                    *carry, ys[t] = interpret(x.body, [index, *carry, xs[t]])
                outs = [*carry, ys]
        env |= zip(x.outputs, outs)
    return [env[s] for s in program.outputs]


def count_aliases(program: RuntimeProgram) -> int:
    inner = sum(count_aliases(p) for x in program.instructions for p in subprograms(x))
    shared = sum(s.shares >= 0 for s in program.slots)
    return len(program.aliases) + shared + inner


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(runtime: Runtime, seed: int) -> None:
    generator = Generator(seed)
    sizes = [int(n) for n in generator.rng.choice(SIZES, 3)]
    program = generator.program(2, sizes, sizes)
    start = [np.int32(seed % 3), *(np.arange(n, dtype=I64) - 2 for n in sizes)]
    expected = interpret(program, start)
    call = runtime.load(program)
    fresh = [np.asarray(v) for v in call(start)]
    for got, want in zip(fresh, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    donated = [start[0], *(copy_of(runtime, v) for v in start[1:])]
    again = call(donated, tuple(range(1, 4)))
    for got, want in zip(again, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def copy_of(runtime: Runtime, value: Any) -> Any:
    b = ProgramBuilder("copy")
    x, y = b.input(value.shape, value.dtype), b.value(value.shape, value.dtype)
    b.add(CopyInstruction(x, y))
    return runtime.load(b.build((y,)))([value])[0]


def test_the_random_programs_share_memory() -> None:
    programs = [Generator(seed).program(2, [3, 8, 8], [3, 8, 8]) for seed in range(20)]
    assert sum(map(count_aliases, programs)) > 100
