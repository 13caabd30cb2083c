"""Programs that run as CUDA graphs, in both halves of the runtime, on the simulated driver."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
from functrax.backends.cuda import choice, driver as api
from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.graphs import GraphUse, graph_parts
from functrax.backends.cuda.runtime import NATIVE, GpuRuntime
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.targets.nvptx import target_of
from functrax.core.errors.typed import DeviceError
from functrax.core.options.config import Override
from tests.backends.cuda.graphs.programs import (
    diamond,
    in_place,
    looped,
    scanned,
    step,
    with_the_host,
)
from tests.backends.cuda.runtimes import RUNTIMES, X, altered, pointer, program_of

both = pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)
Y = X[::-1].copy()


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    yield


def expected(f: Callable[..., Any], *args: Any) -> list[np.ndarray[Any, Any]]:
    with functrax.backend("interp"):
        return [np.asarray(x) for x in functrax.tree.leaves(functrax.jit(f)(*args))]


def uses(executable: Any) -> list[GraphUse]:
    return [GraphUse(*x) for x in executable.graphs()]


def same(ours: Any, theirs: Any) -> None:
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-5, atol=1e-6)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "a diamond": (diamond, (X, Y), 1),
    "a scan": (scanned, (X,), 1),
    "a loop": (looped, (X,), 1),
    "a function of the host": (with_the_host, (X,), 2),
    "results in arguments": (in_place, (X, Y), 1),
}


@both
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_the_same_numbers_whatever_goes_first(name: str, runtime: GpuRuntime, seed: int) -> None:
    f, args, parts = CASES[name]
    program = program_of(f, *args)
    theirs = expected(f, *args)
    simulated = SimulatedDriver(seed)
    executable = runtime.executable(program, runtime.gpu(simulated.table, 0))
    first = [np.asarray(x) for x in executable(list(args))]
    same(first, theirs)
    for _ in range(4):
        for x, y in zip(executable(list(args)), first, strict=True):
            np.testing.assert_array_equal(np.asarray(x), y)
    found = uses(executable)
    assert len(found) == parts and all(x.launches >= 3 and x.nodes >= 3 for x in found)
    assert simulated.fault is None


@both
def test_a_graph_is_asked_for_in_one_call(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver()
    gpu = runtime.gpu(simulated.table, 0)
    executable = runtime.executable(program_of(diamond, X, Y), gpu)
    x, y = (runtime.array.of(gpu, z) for z in (X, Y))
    kept = [executable([x, y]) for _ in range(2)]
    del kept[0]
    before = dict(simulated.calls)
    for _ in range(6):
        kept[0] = executable([x, y])
    made = {name: n - before[name] for name, n in simulated.calls.items() if n > before[name]}
    asked = {name: n for name, n in made.items() if not name.startswith("cuEvent")}
    nodes = uses(executable)[0].nodes
    assert asked == {
        "cuGraphLaunch": 6,
        "cuCtxSetCurrent": asked["cuCtxSetCurrent"],
        "cuGraphCreate": 1,  # for the second set of addresses
        "cuGraphAddKernelNode": nodes,
        "cuGraphInstantiateWithFlags": 1,
    }
    assert uses(executable)[0]._replace(launches=0) == GraphUse(0, 0, nodes, nodes, 2, 0, 0)


@both
def test_two_sets_of_addresses_take_turns_and_more_are_patched(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver(3)
    gpu = runtime.gpu(simulated.table, 0)
    executable = runtime.executable(program_of(step, X, Y), gpu)
    x, y, theirs = X, Y, (X, Y)
    for _ in range(5):
        x, _, y = executable([x, y])
        a, _, b = expected(step, *theirs)
        theirs = a, b
    same([x, y], theirs)
    (use,) = uses(executable)
    assert (use.graphs, use.launches) == (2, 4)
    sets = [[runtime.array.of(gpu, z + n) for z in (X, Y)] for n in range(3)]
    more = [expected(step, X + n, Y + n) for n in range(3)]
    before = use.patched
    kept = []
    for n in (0, 1, 2, 0, 1):
        kept.append(executable(sets[n]))
        same(kept[-1], more[n])
    (use,) = uses(executable)
    assert use.graphs == 2 and use.patched > before
    assert simulated.calls["cuGraphExecKernelNodeSetParams"] == use.patched


@both
@pytest.mark.parametrize("first", (False, True))
def test_donated_arguments(runtime: GpuRuntime, first: bool) -> None:
    """A result is in the memory of an argument in some calls, and in others not."""
    theirs = [expected(in_place, X + n, Y + n) for n in range(6)]
    for seed in range(3):
        simulated = SimulatedDriver(seed)
        gpu = runtime.gpu(simulated.table, 0)
        executable = runtime.executable(program_of(in_place, X, Y), gpu)
        for n in range(6):
            values = [runtime.array.of(gpu, z + n) for z in (X, Y)]
            address = values[0].address
            donated = (0,) if (n % 3 == 0) == first else ()
            results = executable(values, donated)
            if runtime is NATIVE:
                assert (results[2].address == address) == bool(donated)
            same(results, theirs[n])
        assert uses(executable)[0].launches == 5 and simulated.fault is None


@both
def test_copies_are_nodes(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver(1)
    executable = runtime.executable(program_of(scanned, X), runtime.gpu(simulated.table, 0))
    theirs = expected(scanned, X)
    kept = [executable([X]) for _ in range(5)]
    for results in kept:
        same(results, theirs)
    assert simulated.calls["cuGraphAddMemcpyNode"] > 0
    assert simulated.calls["cuGraphExecMemcpyNodeSetParams"] > 0


@both
def test_a_driver_without_graphs_goes_on(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver()
    addresses = simulated.table.addresses
    old = Table({k: v for k, v in addresses.items() if k not in api.GRAPHS}, simulated)
    assert not old.has_graphs and simulated.table.has_graphs
    executable = runtime.executable(program_of(diamond, X, Y), runtime.gpu(old, 0))
    for _ in range(3):
        same(executable([X, Y]), expected(diamond, X, Y))
    assert executable.graphs() == [] and simulated.calls["cuGraphLaunch"] == 0


@both
def test_the_option(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver()
    gpu = runtime.gpu(simulated.table, 0)
    program = program_of(diamond, X, Y)
    with Override("cuda_graphs", False):
        executable = runtime.executable(program, gpu)
    for _ in range(3):
        executable([X, Y])
    assert executable.graphs() == [] and simulated.calls["cuGraphCreate"] == 0


@both
@pytest.mark.parametrize("function", ("cuGraphAddKernelNode", "cuGraphInstantiateWithFlags"))
@pytest.mark.parametrize("error", (api.OUT_OF_MEMORY, api.NOT_SUPPORTED))
def test_a_graph_that_there_is_no_memory_for(
    runtime: GpuRuntime, function: str, error: int
) -> None:
    simulated = SimulatedDriver()
    table = altered(simulated, **{function: lambda f, *arguments: error})
    executable = runtime.executable(program_of(diamond, X, Y), runtime.gpu(table, 0))
    for _ in range(4):
        same(executable([X, Y]), expected(diamond, X, Y))
    assert (simulated.calls["cuGraphCreate"], simulated.calls["cuGraphLaunch"]) == (1, 0)
    assert simulated.calls["cuGraphDestroy"] == 1


@both
@pytest.mark.parametrize(
    "function",
    ("cuGraphCreate", "cuGraphAddKernelNode", "cuGraphExecKernelNodeSetParams", "cuGraphLaunch"),
)
def test_other_errors_are_raised(runtime: GpuRuntime, function: str) -> None:
    simulated = SimulatedDriver()
    table = altered(simulated, **{function: lambda f, *arguments: api.INVALID_VALUE})
    executable = runtime.executable(program_of(diamond, X, Y), runtime.gpu(table, 0))
    kept = []
    with pytest.raises(DeviceError, match=function):
        for _ in range(6):
            kept.append(executable([X, Y]))


@both
def test_a_failed_kernel_of_a_graph_is_named(runtime: GpuRuntime) -> None:
    broken = False

    def node(f: Any, out: int, graph: int, after: int, count: int, at: int) -> int:
        if broken:
            parameters = api.KernelNode.from_address(at).parameters
            ctypes.c_uint64.from_address(pointer(parameters)).value = 8
        return f(out, graph, after, count, at)

    gpu = runtime.gpu(altered(SimulatedDriver(), cuGraphAddKernelNode=node), 0)
    executable = runtime.executable(program_of(diamond, X, Y), gpu)
    executable([X, Y])
    broken = True
    with pytest.raises(DeviceError, match=r"kernel functrax_|kernels failed") as info:
        results = executable([X, Y])
        results[0].wait()
    assert "illegal address" in str(info.value) and "programs.py" in str(info.value)


@both
def test_a_graph_that_hangs(runtime: GpuRuntime) -> None:
    hangs = False

    def query(f: Any, event: int) -> int:
        return api.NOT_READY if hangs else f(event)

    gpu = runtime.gpu(altered(SimulatedDriver(), cuEventQuery=query), 0)
    executable = runtime.executable(program_of(diamond, X, Y), gpu)
    for _ in range(3):
        results = executable([X, Y])
    hangs = True
    with Override("device_timeout", 1), pytest.raises(DeviceError, match="did not answer") as info:
        results[0].wait()
    assert "functrax_" in str(info.value)


@both
def test_executables_that_are_gone_have_freed_their_graphs(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver()
    gpu = runtime.gpu(simulated.table, 0)
    executable = runtime.executable(program_of(diamond, X, Y), gpu)
    kept = [executable([X, Y]) for _ in range(4)]
    assert simulated.calls["cuGraphCreate"] == 2 > simulated.calls["cuGraphDestroy"]
    del executable
    gc.collect()
    for name in ("cuGraphDestroy", "cuGraphExecDestroy"):
        assert simulated.calls[name] == 2
    for results in kept:
        same(results, expected(diamond, X, Y))


@both
def test_threads_that_call_one_executable_at_once(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver(5)
    gpu = runtime.gpu(simulated.table, 0)
    executable = runtime.executable(program_of(step, X, Y), gpu)
    theirs = {n: expected(step, X + n, Y) for n in range(4)}
    failures: list[BaseException] = []
    begin = threading.Barrier(4)

    def call(n: int) -> None:
        try:
            begin.wait()
            for _ in range(4):
                same(executable([X + n, Y]), theirs[n])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and simulated.fault is None
    assert uses(executable)[0].launches > 0


@pytest.mark.skipif(NATIVE is None, reason="of the C++ extension")
@pytest.mark.parametrize("name", CASES)
def test_both_halves_make_the_same_graphs(name: str) -> None:
    f, args, _ = CASES[name]
    program = program_of(f, *args)
    found = []
    for runtime in RUNTIMES:
        asked: list[Any] = []

        def node(f: Any, *arguments: Any, asked: list[Any] = asked) -> int:
            out, _, after, count = arguments[:4]
            asked.append([pointer(after + 8 * k) for k in range(count)])
            error: int = f(*arguments)
            asked[-1].append(pointer(out))
            return error

        table = altered(SimulatedDriver(), cuGraphAddKernelNode=node, cuGraphAddMemcpyNode=node)
        executable = runtime.executable(program, runtime.gpu(table, 0))
        kept = [executable(list(args)) for _ in range(3)]
        del kept
        numbers = {x[-1]: n for n, x in enumerate(asked)}
        found.append(([[numbers[m] for m in x] for x in asked], uses(executable)))
    assert found[0] == found[1] and found[0][0]


def test_the_structures_are_those_of_the_driver() -> None:
    assert ctypes.sizeof(api.KernelNode) == 56 and api.KernelNode.parameters.offset == 40
    assert ctypes.sizeof(api.CopyNode) == 200 and api.CopyNode.target.offset == 88
    assert (api.CopyNode.width.offset, type(api.CopyNode().source).device.offset) == (176, 48)


def test_what_is_worth_a_graph() -> None:
    target = target_of(90)
    assert target.least_graph_nodes == 3

    def chain(count: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            for k in range(count):
                x = functrax.lax.optimization_barrier(x * 2 + k)
            return x

        return f

    parts = [graph_parts(program_of(chain(n), X), target, True) for n in (1, 2, 3, 4)]
    assert parts == [{}, {}, {0: ((0, 3),)}, {0: ((0, 4),)}]
    small = functrax.core.records.replace(target, graph_nodes=4)
    assert graph_parts(program_of(chain(9), X), small, True) == {0: ((0, 4), (4, 8))}
    program = program_of(scanned, X)
    (inside,) = graph_parts(program, target, True)
    assert inside == 0
    assert set(
        graph_parts(program, functrax.core.records.replace(target, graph_nodes=3), True)
    ) <= {0, 1}


def test_jitted_functions_and_what_is_said_of_them(tmp_path: Any) -> None:
    with functrax.backend("cuda"):
        x = functrax.device_put(X, functrax.devices("gpu")[0])
        f = functrax.jit(diamond)
        for _ in range(3):
            same(f(x, x), expected(diamond, X, X))
        text = str(functrax.explain(diamond)(X, Y))
        assert "one CUDA graph of" in text and "from the second run on: #0, #1" in text
        with Override("cuda_graphs", False):
            assert "CUDA graph" not in str(functrax.explain(diamond)(X, Y))
        with functrax.profiler.trace(tmp_path / "out.json"):
            f(x, x)
        assert len(functrax.profiler.report().kernels) >= 4
        recorded = (tmp_path / "out.json").read_text()
        assert '"CUDA graph": "number 0, of' in recorded and "programs.py" in recorded
