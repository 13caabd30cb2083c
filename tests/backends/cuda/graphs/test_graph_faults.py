"""Faults planted in graphs, which the simulated driver must find for some order of nodes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from functrax.backends.cuda import choice, driver as api, graphs
from functrax.backends.cuda.runtime import PYTHON, GpuRuntime
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulator.errors import UninitializedRead, UseAfterFree
from functrax.backends.cuda.simulator.queues import PendingFree, StreamRace
from functrax.core.errors.typed import DeviceError
from tests.backends.cuda.graphs.programs import diamond, in_place, scanned
from tests.backends.cuda.runtimes import RUNTIMES, X, altered, program_of

SEEDS = range(6)
UP = 1


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    yield


class WrongNumbersError(AssertionError):
    """Numbers that are not those of launches one by one."""


def work(runtime: GpuRuntime, gpu: Any) -> None:
    """Calls with several sets of addresses, whose results are compared with the first call's."""
    for f, values in ((diamond, (X, X + 1)), (scanned, (X,))):
        executable = runtime.executable(program_of(f, *values), gpu)
        sets = [[runtime.array.of(gpu, x) for x in values] for _ in range(3)]
        first = [np.asarray(x) for x in executable(sets[0])]
        kept: list[Any] = []
        for n in range(5):
            kept = [*kept[-1:], executable(sets[n % 3])]
            for x, y in zip(kept[-1], first, strict=True):
                if not np.array_equal(np.asarray(x), y):
                    raise WrongNumbersError
    del kept, sets, executable
    gpu.trim()


#: Makes an altered function: takes the driver, gives what :func:`runtimes.altered` takes.
Plant = Callable[[SimulatedDriver], Callable[..., int]]


def dependency_left_out(which: int) -> Plant:
    """One of the nodes that each node comes after is left out: the first, or the last."""

    def plant(simulated: SimulatedDriver) -> Callable[..., int]:
        def add(f: Any, out: int, graph: int, after: int, count: int, *rest: int) -> int:
            if count == 0:
                return int(f(out, graph, after, count, *rest))
            return int(f(out, graph, after + 8 * (which == 0), count - 1, *rest))

        return add

    return plant


def only_of(number: int) -> Plant:
    """All that the node of a number in its graph comes after is left out."""

    def plant(simulated: SimulatedDriver) -> Callable[..., int]:
        def add(f: Any, out: int, graph: int, after: int, count: int, *rest: int) -> int:
            here = len(simulated.of_handle(graph).nodes)
            return int(f(out, graph, after, 0 if here == number else count, *rest))

        return add

    return plant


def left_out(simulated: SimulatedDriver) -> Callable[..., int]:
    return lambda f, *arguments: 0


def on_other_stream(simulated: SimulatedDriver) -> Callable[..., int]:
    def launch(f: Any, executable: int, stream: int) -> int:
        handles = simulated._handles.items()
        (other,) = [k for k, x in handles if type(x) is int and x == UP and k > 16]
        return int(f(executable, other))

    return launch


def of_addresses_before(simulated: SimulatedDriver) -> Callable[..., int]:
    """A node is patched with the first operand that another call had."""
    seen: dict[int, int] = {}

    def patch(f: Any, executable: int, node: int, at: int) -> int:
        parameters = api.KernelNode.from_address(at).parameters
        place = ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(parameters).value)
        place.value = seen.setdefault(node, place.value)
        return int(f(executable, node, at))

    return patch


def shorter_copy(simulated: SimulatedDriver) -> Callable[..., int]:
    def add(f: Any, out: int, graph: int, after: int, count: int, at: int, context: int) -> int:
        node = api.CopyNode.from_address(at)
        node.width = node.width // 2
        return int(f(out, graph, after, count, at, context))

    return add


class Fault(NamedTuple):
    """A function of the driver that is altered, and what may be found."""

    function: str
    plant: Plant
    errors: tuple[type[BaseException], ...]


KERNEL, COPY = "cuGraphAddKernelNode", "cuGraphAddMemcpyNode"
ORDER = (StreamRace, UninitializedRead)
FAULTS = {
    "a node does not wait for the first": Fault(KERNEL, dependency_left_out(0), ORDER),
    "a node does not wait for the last": Fault(KERNEL, dependency_left_out(1), ORDER),
    **{f"node {n} waits for nobody": Fault(KERNEL, only_of(n), ORDER) for n in (1, 2, 3)},
    "copies wait for nobody": Fault(COPY, dependency_left_out(0), ORDER),
    "copies are too short": Fault(
        COPY, shorter_copy, (WrongNumbersError, UninitializedRead, ValueError)
    ),
    "kernels are not patched": Fault(
        "cuGraphExecKernelNodeSetParams",
        left_out,
        (WrongNumbersError, StreamRace, UseAfterFree, UninitializedRead, ValueError),
    ),
    "copies are not patched": Fault(
        "cuGraphExecMemcpyNodeSetParams",
        left_out,
        (WrongNumbersError, StreamRace, UninitializedRead, ValueError),
    ),
    "kernels are patched with another call's address": Fault(
        "cuGraphExecKernelNodeSetParams",
        of_addresses_before,
        (WrongNumbersError, StreamRace, UseAfterFree, UninitializedRead),
    ),
    "graphs are left out": Fault(
        "cuGraphLaunch", left_out, (WrongNumbersError, UninitializedRead, ValueError)
    ),
    "graphs run on another stream": Fault(
        "cuGraphLaunch", on_other_stream, (*ORDER, WrongNumbersError, PendingFree, ValueError)
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
        except (DeviceError, WrongNumbersError) as error:
            found = simulated.fault or error
            assert isinstance(found, fault.errors), repr(found)
            return
    pytest.fail("not found")


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_without_faults_the_driver_is_silent(runtime: GpuRuntime, seed: int) -> None:
    work(runtime, runtime.gpu(SimulatedDriver(seed).table, 0))


def test_results_that_may_lie_in_arguments_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by a call that donates nothing, a graph has to be right for one that does."""
    program = program_of(in_place, X, X)
    ((output, source),) = program.aliases

    def call() -> None:
        gpu = PYTHON.gpu(SimulatedDriver().table, 0)
        executable = PYTHON.executable(program, gpu)
        for _ in range(2):
            executable([X, X])
        graph = next(x for x in executable.parts[program][0]._graphs if x is not None)
        argument = graph.given[1 + source]
        result = graph.given[1 + len(program.inputs) + output]
        works = [
            work._replace(places=tuple(argument if p == result else p for p in work.places))
            for work in graph.works
        ]
        graph.patch(works, graph.given)
        graph.launch()
        gpu.synchronize()

    call()
    monkeypatch.setattr(graphs, "_shared_places", lambda program, frame: [])
    with pytest.raises(DeviceError) as info:
        call()
    assert isinstance(info.value.__cause__, StreamRace)
