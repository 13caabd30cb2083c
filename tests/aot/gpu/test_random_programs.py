"""Random programs for GPUs from C: the bits of the runtime, both on simulated GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from functrax.ahead_of_time import AheadOfTime
from functrax.ahead_of_time.compiling import compiled_for, target_named
from functrax.backends.cuda.gpu import Gpu
from functrax.backends.cuda.run import DeviceExecutable
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.core.options.config import Override
from functrax.errors import UnavailableError
from tests.aot.building import STRICT, need, run
from tests.aot.gpu.fake_libcuda import FakeLibcuda
from tests.aot.test_random_programs import KINDS, of_jaxpr, same_bits
from tests.backends.random_checks import as_array, program_of

pytestmark = need("gcc")
FEW, MANY = 2, 50


class OnFake:
    """A program that was opened on a simulated GPU.

    Args:
      made: the program.
      folder: where it is built.
      fake: the libcuda.
    """

    def __init__(self, made: AheadOfTime, folder: Path, fake: FakeLibcuda) -> None:
        self.made, self.fake = made, fake
        library = folder / f"{made.name}.so"
        options = (*STRICT, fake.option, "-shared", "-fPIC")
        run("gcc", *options, "-o", library, made.write(folder)[0])
        self.library = ctypes.CDLL(str(library))
        self.program = ctypes.c_void_p()
        assert self.function("open")(0, ctypes.byref(self.program)) == 0, fake.driver.fault

    def function(self, name: str) -> Any:
        """One of its functions."""
        return getattr(self.library, f"{self.made.name}_{name}")

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """What a call gives."""
        memory, made = self.fake.driver.memory, self.made
        sizes = [*(x.nbytes for x in (*made.arguments, *made.results)), made.workspace]
        places = [memory.allocate(n) for n in sizes]
        for place, value in zip(places, values):
            memory.write(place, np.ascontiguousarray(value))
        count = len(made.arguments)
        given, results = (
            (ctypes.c_void_p * max(len(some), 1))(*some)
            for some in (places[:count], places[count:-1])
        )
        code = self.function("call")(
            self.program, given, results, None, ctypes.c_void_p(places[-1]), None
        )
        assert code == 0, (code, self.fake.driver.fault)
        assert self.fake._cuStreamSynchronize(0) == 0, self.fake.driver.fault
        found = [
            memory.read(place, x.nbytes).view(x.dtype).reshape(x.shape)
            for place, x in zip(places[count:], made.results)
        ]
        for place in places:
            self.fake.driver.queues.free(place)
        return found

    def close(self) -> None:
        """Give all back."""
        self.function("close")(self.program)
        assert self.fake.driver.memory.used == 0


def compare(seed: int, kind: str, folder: Path) -> bool:
    """Compare the program of a seed with the runtime; False if it is refused or none."""
    found = program_of(seed, kind)
    if found is None:
        return False
    jaxpr, values = found
    with Override("strict", seed % 3 == 0):
        try:
            made = of_jaxpr(jaxpr).for_target("sm_80")
            assert made.ptx is not None
        except UnavailableError:
            return False
        program = compiled_for(jaxpr, target_named("sm_80")).program
    wanted = DeviceExecutable(program, Gpu(SimulatedDriver().table))(values)
    loaded = OnFake(made, folder, FakeLibcuda(folder, seed))
    for _ in range(2):
        same_bits(loaded(values), [as_array(x) for x in wanted])
    loaded.close()
    return True


def compare_some(seeds: Sequence[int], kind: str, folder: Path) -> int:
    """How many programs of some seeds were compared."""
    count = 0
    for seed in seeds:
        (folder / str(seed)).mkdir()
        count += compare(seed, kind, folder / str(seed))
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs(kind: str, tmp_path: Path) -> None:
    assert compare_some(range(FEW), kind, tmp_path) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_programs(kind: str, tmp_path: Path) -> None:
    seeds = range(FEW, MANY)
    assert compare_some(seeds, kind, tmp_path) > len(seeds) // 2
