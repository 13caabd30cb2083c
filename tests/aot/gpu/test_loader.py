"""Programs for GPUs called from C, by a libcuda whose GPU is simulated: bits and launches."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
from functrax.ahead_of_time.compiling import compiled_for, target_named
from functrax.backends.cuda.gpu import Gpu
from functrax.backends.cuda.run import DeviceExecutable
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.core.options.config import Override
from tests.aot.building import need, run
from tests.aot.gpu.fake_libcuda import FakeLibcuda
from tests.aot.gpu_check import CHECKED, build_command
from tests.aot.programs import PROGRAMS

pytestmark = need("gcc")
SOME = ("slopes", "lstm", "power", "chosen")
ALL: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {**PROGRAMS, **CHECKED}


class _Recording(Gpu):
    """A simulated GPU that writes down which kernels it launches."""

    def __init__(self) -> None:
        self.simulated = SimulatedDriver()
        self.launches: list[tuple[str, int, int]] = []
        super().__init__(self.simulated.table)

    def launch(self, kernel: int, grid: int, block: int, *rest: Any) -> None:
        self.launches.append((self.simulated.of_handle(kernel).name, grid, block))
        super().launch(kernel, grid, block, *rest)


def by_the_runtime(function: Any, args: Any) -> tuple[list[Any], list[tuple[str, int, int]]]:
    """What the runtime computes of the program on a simulated GPU, and what it launches."""
    traced = functrax.jit(function).trace(*args).traced
    compiled = compiled_for(traced.jaxpr, target_named("sm_80"))
    gpu = _Recording()
    values = [np.asarray(x) for x in (*traced.consts, *functrax.tree.leaves(args))]
    with Override("cuda_graphs", False):  # the C program asks for launches one by one
        found = DeviceExecutable(compiled.program, gpu)(values)
    return [np.asarray(x.materialize()) for x in found], gpu.launches


def called(name: str, folder: Path, fake: FakeLibcuda, threads: int, calls: int) -> int:
    """What ``main`` of ``call_cuda.c`` returns, as a function of this process."""
    made = folder / f"{name}.so"
    run(*build_command(name, folder, made, "gcc", "-shared", "-fPIC", fake.option))
    words = [str(made), str(folder / f"{name}.bytes"), str(threads), str(calls), "0"]
    argv = (ctypes.c_char_p * len(words))(*[x.encode() for x in words])
    return int(ctypes.CDLL(str(made)).main(len(words), argv))


def compare(name: str, folder: Path, threads: int, calls: int) -> None:
    """Compare a program with the runtime."""
    function, arguments = ALL[name]
    args = arguments()
    results, launches = by_the_runtime(function, args)
    functrax.aot(function, *args, name=name, target="sm_80").write(folder)
    leaves = [*map(np.asarray, functrax.tree.leaves(args)), *results]
    (folder / f"{name}.bytes").write_bytes(b"".join([x.tobytes() for x in leaves]))
    fake = FakeLibcuda(folder)
    assert called(name, folder, fake, threads, calls) == 0, fake.driver.fault
    if threads == 1:
        assert fake.launches == launches * calls
    for made, given_back in (
        ("cuMemAlloc_v2", "cuMemFree_v2"),
        ("cuModuleLoadData", "cuModuleUnload"),
        ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"),
        ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"),
    ):
        assert fake.calls.get(made, 0) == fake.calls.get(given_back, 0), made
    assert not fake.stack and fake.driver.memory.used == 0


@pytest.mark.parametrize("name", SOME)
def test_bits_and_launches_of_the_runtime(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path, threads=1, calls=3)


def test_several_threads(tmp_path: Path) -> None:
    compare("slopes", tmp_path, threads=3, calls=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_all_programs(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path, threads=1, calls=3)
    compare(name, tmp_path, threads=4, calls=3)
