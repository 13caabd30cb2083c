"""Random programs, and programs that were written for JAX, without Python: the bits of ``jit``.

Ranges of work are chosen at random, for results must not depend on them.
"""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.ahead_of_time import AheadOfTime
from functrax.ahead_of_time.arguments import CArgument
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.runtime.choice import CURRENT
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import Override
from functrax.errors import UnavailableError
from tests.aot.loading import Loaded, need_linker
from tests.aot.programs import compiled_results
from tests.backends.random_checks import as_array, program_of
from tests.programs.models import PROGRAMS

FEW, MANY = 3, 147
KINDS = ("exact", "bits", "smooth")
_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_RUN = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, _TASK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class Threads(ctypes.Structure):
    """A ``functrax_threads`` that does ranges of random lengths in a random order."""

    _fields_ = (("pool", ctypes.c_void_p), ("run", _RUN))

    def __init__(self, seed: int) -> None:
        chosen = random.Random(seed)
        self.count = 0

        def run(pool: Any, task: Any, context: Any, units: int, grain: int, cost: int) -> None:
            self.count += 1
            pieces = -(-units // grain)
            cuts = {0, pieces, *(chosen.randint(0, pieces) for _ in range(4))}
            places = [min(n * grain, units) for n in sorted(cuts)]
            ranges = list(itertools.pairwise(places))
            chosen.shuffle(ranges)
            for begin, end in ranges:
                task(context, begin, end)

        super().__init__(None, _RUN(run))


def of_jaxpr(jaxpr: Jaxpr) -> AheadOfTime:
    """A program by itself; all of its inputs are arguments."""
    avals = [v.aval for v in jaxpr.invars], jaxpr.out_avals
    both = [
        [CArgument(f"{kind}{n}", "", tuple(a.shape), np.dtype(a.dtype)) for n, a in enumerate(some)]
        for kind, some in zip("xy", avals)
    ]
    return AheadOfTime("random_program", jaxpr, (), (both[0], both[1]), None, False)


def compare(seed: int, kind: str, folder: Path) -> bool:
    """Compare the program of a seed with what runs in Python; False if it is refused or none."""
    found = program_of(seed, kind)
    if found is None:
        return False
    jaxpr, values = found
    with Override("strict", seed % 3 == 0):
        try:
            program = Loaded(of_jaxpr(jaxpr), folder)
        except UnavailableError:
            return False
        wanted = [as_array(x) for x in CURRENT.load(compile_program(jaxpr).program)(values)]
    for threads in (None, Threads(seed)):
        same_bits(program(*values, threads=threads), wanted)
    return True


def same_bits(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Arrays are equal, to the bit."""
    for x, y in zip(found, wanted, strict=True):
        y = np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.tobytes() == y.tobytes()


@need_linker
@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str, tmp_path: Path) -> None:
    assert sum(compare(seed, kind, tmp_path / str(seed)) for seed in range(FEW)) > 0


@need_linker
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", range(FEW, MANY, 36))
def test_many_random_programs(kind: str, start: int, tmp_path: Path) -> None:
    seeds = range(start, start + 36)
    assert sum(compare(seed, kind, tmp_path / str(seed)) for seed in seeds) > len(seeds) // 2


@need_linker
def test_long_programs(tmp_path: Path) -> None:
    def chain(ws: Sequence[Any], x: Any) -> Any:
        for w in ws:
            x = jnp.sin(x @ w)
        return x, jnp.sum(x)

    random = np.random.default_rng(0)
    ws = [random.standard_normal((5, 5)).astype(np.float32) for _ in range(300)]
    args = ws, np.ones((5, 5), np.float32)
    made = functrax.aot(chain, *args, name="chain")
    assert made.llvm.count("define internal void @run.") > 1, "which is in several functions"
    program = Loaded(made, tmp_path)
    same_bits(program(*ws, args[1]), compiled_results(chain, args))


@need_linker
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_written_for_jax(name: str, tmp_path: Path) -> None:
    try:
        program = Loaded(functrax.aot(PROGRAMS[name], name=name), tmp_path)
    except UnavailableError as error:
        pytest.skip(str(error).partition("\n")[0])
    wanted = compiled_results(PROGRAMS[name], ())
    same_bits(program(threads=Threads(0)), wanted)
