"""Helpers: simulated GPUs with libraries, under one half of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.backends.cuda.libraries.opened import libraries_of
from functrax.backends.cuda.libraries.simulated import SimulatedLibraries
from functrax.backends.cuda.runtime import GpuRuntime
from functrax.backends.cuda.simulated import SimulatedDriver
from tests.backends.cuda.runtimes import program_of


class Machine:
    """A simulated GPU with libraries, under one half of the runtime."""

    def __init__(self, runtime: GpuRuntime, seed: int = 0) -> None:
        self.runtime = runtime
        self.driver = SimulatedDriver(seed)
        self.gpu = runtime.gpu(self.driver.table, 0)
        self.libraries = libraries_of(self.driver.table)
        simulated = self.libraries._open.__self__  # type: ignore[attr-defined]
        assert isinstance(simulated, SimulatedLibraries)
        self.simulated = simulated

    def executable(self, f: Callable[..., Any], *args: Any) -> Any:
        return self.runtime.executable(program_of(f, *args), self.gpu)

    def run(self, f: Callable[..., Any], *args: Any) -> list[Any]:
        """The results; nothing but these is copied down, and nothing is waited for before."""
        executable = self.executable(f, *args)
        operands = [self.runtime.array.of(self.gpu, x) for x in args]
        before = self.driver.calls["cuMemcpyDtoHAsync_v2"]
        results = executable(operands)
        assert self.driver.calls["cuMemcpyDtoHAsync_v2"] == before
        found = [np.asarray(x) for x in results]
        for x, operand in zip(args, operands, strict=True):
            np.testing.assert_array_equal(np.asarray(operand), x)
        assert self.driver.fault is None
        return found
