"""What tests of the runtime share: drivers with altered functions, and programs to run there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
from functrax.backends.cuda import driver as api
from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.runtime import NATIVE, PYTHON, GpuRuntime
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.device import device_of
from functrax.backends.executables.program import RuntimeProgram

RUNTIMES: list[GpuRuntime] = [x for x in (PYTHON, NATIVE) if x is not None]
X = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)

#: Takes the function that is altered and its arguments.
Alteration = Callable[..., int]


def altered(simulated: SimulatedDriver, **alterations: Alteration) -> Table:
    """A driver some of whose functions are others: ``cuMemAlloc_v2=lambda f, *args: f(*args)``."""
    functions: dict[str, Any] = dict(simulated.table.addresses)
    for name, alteration in alterations.items():
        before = api.prototype(name)(functions[name])

        def call(*arguments: Any, before: Any = before, alteration: Alteration = alteration) -> int:
            return alteration(before, *arguments)

        functions[name] = api.prototype(name)(call)
    return Table(functions, simulated)


def program_of(f: Callable[..., Any], *args: Any) -> RuntimeProgram:
    """A function compiled for a GPU."""
    device: Any = device_of("cuda")
    with functrax.backend("cuda"):
        program: RuntimeProgram = device.compiled(functrax.make_jaxpr(f)(*args).jaxpr).program
        return program


def stream_of(simulated: SimulatedDriver, handle: int) -> int:
    """The number of a stream: 0 computes, 1 copies up, 2 copies down."""
    number: int = simulated._handles[handle]
    return number


def pointer(place: int) -> int:
    """What a pointer at an address of the host points to."""
    return ctypes.c_uint64.from_address(place).value
