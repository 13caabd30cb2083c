"""Faults planted in the runtime, which the simulated driver must find for some order of streams."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from functrax.backends.cuda import choice, driver as api
from functrax.backends.cuda.runtime import GpuRuntime
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulator.errors import UninitializedRead, UseAfterFree
from functrax.backends.cuda.simulator.queues import PendingFree, StreamRace
from functrax.core.errors.typed import DeviceError
from tests.backends.cuda.runtimes import RUNTIMES, X, altered, pointer, program_of, stream_of

COMPUTE, UP, DOWN = range(3)
SEEDS = range(12)


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    yield


def work(runtime: GpuRuntime, gpu: Any) -> None:
    """What a training loop does: copies up, calls, numbers that go along, copies down."""
    executable = runtime.executable(program_of(lambda x, y: (x * 2 + y, x.sum()), X, X), gpu)
    state = runtime.array.of(gpu, X)
    for n in range(6):
        state, total = executable([state, X + n])
        if n % 2:
            np.asarray(total)
    kept = np.asarray(state)
    expected = X
    for n in range(6):
        expected = expected * 2 + (X + n)
    np.testing.assert_allclose(kept, expected, rtol=1e-5)
    del state, total
    gpu.trim()


#: Makes an altered function: takes the driver, gives what :func:`runtimes.altered` takes.
Plant = Callable[[SimulatedDriver], Callable[..., int]]


def wait_ignored_by(number: int) -> Plant:
    def plant(simulated: SimulatedDriver) -> Callable[..., int]:
        def wait(f: Any, stream: int, event: int, flags: int) -> int:
            return 0 if stream_of(simulated, stream) == number else f(stream, event, flags)

        return wait

    return plant


def recorded_on(number: int, instead: int) -> Plant:
    """Events of one stream stand for the work of another."""

    def plant(simulated: SimulatedDriver) -> Callable[..., int]:
        def record(f: Any, event: int, stream: int) -> int:
            if stream_of(simulated, stream) == number:
                handles = simulated._handles.items()
                (stream,) = [k for k, x in handles if type(x) is int and x == instead and k > 16]
            return f(event, stream)

        return record

    return plant


def on_other_stream(place: int, instead: int) -> Plant:
    """What a function asks for goes to another stream; ``place`` is that of the argument."""

    def plant(simulated: SimulatedDriver) -> Callable[..., int]:
        def call(f: Any, *arguments: Any) -> int:
            handles = simulated._handles.items()
            (stream,) = [k for k, x in handles if type(x) is int and x == instead and k > 16]
            return f(*arguments[:place], stream, *arguments[place + 1 :])

        return call

    return plant


def said_to_be_done(simulated: SimulatedDriver) -> Callable[..., int]:
    return lambda f, event: api.SUCCESS


def record_left_out(simulated: SimulatedDriver) -> Callable[..., int]:
    return lambda f, event, stream: 0


def copy_left_out(simulated: SimulatedDriver) -> Callable[..., int]:
    return lambda f, *arguments: 0


def freed_address(simulated: SimulatedDriver) -> Callable[..., int]:
    """The first operand of each launch is memory that was freed."""
    address = simulated.memory.allocate(X.nbytes)
    simulated.memory.free(address)

    def launch(f: Any, *arguments: Any) -> int:
        ctypes.c_uint64.from_address(pointer(arguments[-2])).value = address
        return f(*arguments)

    return launch


def unwritten_address(simulated: SimulatedDriver) -> Callable[..., int]:
    """The first operand of each launch is memory that nobody wrote."""
    address = simulated.memory.allocate(X.nbytes)

    def launch(f: Any, *arguments: Any) -> int:
        ctypes.c_uint64.from_address(pointer(arguments[-2])).value = address
        return f(*arguments)

    return launch


class Fault(NamedTuple):
    """A function of the driver that is altered, and what the driver may find."""

    function: str
    plant: Plant
    errors: tuple[type[BaseException], ...]


ORDER = (StreamRace, UninitializedRead, ValueError)
FAULTS = {
    "copies up are not waited for": Fault("cuStreamWaitEvent", wait_ignored_by(COMPUTE), ORDER),
    "a copy up does not wait for the last use": Fault(
        "cuStreamWaitEvent", wait_ignored_by(UP), (StreamRace,)
    ),
    "the host does not wait": Fault("cuEventQuery", said_to_be_done, (*ORDER, PendingFree)),
    "marks are not put": Fault("cuEventRecord", record_left_out, (*ORDER, PendingFree)),
    "marks are put on another stream": Fault(
        "cuEventRecord", recorded_on(COMPUTE, DOWN), (*ORDER, PendingFree)
    ),
    "copies up are marked on another stream": Fault(
        "cuEventRecord", recorded_on(UP, DOWN), (*ORDER, PendingFree)
    ),
    "kernels run on another stream": Fault("cuLaunchKernel", on_other_stream(8, DOWN), ORDER),
    "copies up are left out": Fault("cuMemcpyHtoDAsync_v2", copy_left_out, (UninitializedRead,)),
    "a kernel reads freed memory": Fault("cuLaunchKernel", freed_address, (UseAfterFree,)),
    "a kernel reads memory that nobody wrote": Fault(
        "cuLaunchKernel", unwritten_address, (UninitializedRead,)
    ),
}


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, runtime: GpuRuntime) -> None:
    fault = FAULTS[name]
    for seed in SEEDS:
        simulated = SimulatedDriver(seed)
        table = altered(simulated, **{fault.function: fault.plant(simulated)})
        try:
            work(runtime, runtime.gpu(table, 0))
        except (DeviceError, AssertionError):
            if simulated.fault is not None:
                assert isinstance(simulated.fault, fault.errors), repr(simulated.fault)
                return
    pytest.fail("not found")


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_without_faults_the_driver_is_silent(runtime: GpuRuntime, seed: int) -> None:
    work(runtime, runtime.gpu(SimulatedDriver(seed).table, 0))
