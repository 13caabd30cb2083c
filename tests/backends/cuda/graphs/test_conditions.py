"""Loops and branches that a GPU decides by itself, in both halves, on the simulated driver."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from functrax.backends.cuda import choice, driver as api, graphs
from functrax.backends.cuda.conditions import SETTING_KERNELS, SETTING_PTX, setting_kernel
from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.graph_order import BytesAccess, NodeMemory, order_in_bodies
from functrax.backends.cuda.graph_work import LoopCopies
from functrax.backends.cuda.graphs import GraphUse, graph_parts, loop_copies
from functrax.backends.cuda.runtime import NATIVE, GpuRuntime
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulator.errors import ConditionFault, DataRace, EndlessLoop
from functrax.backends.executables.program import RuntimeProgram
from functrax.backends.targets.nvptx import target_of
from functrax.core.errors.typed import DeviceError
from functrax.core.options.config import Override
from tests.backends.cuda.graphs.decided import DECIDED, around, changing_places, nested
from tests.backends.cuda.runtimes import RUNTIMES, X, altered, pointer, program_of

both = pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    yield


@pytest.fixture(params=(False, True), ids=("copied back", "written twice"))
def twice(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the bodies of loops are written down twice."""
    if request.param:
        monkeypatch.setattr(graphs, "loop_copies", lambda target: LoopCopies(0, -1))
    return bool(request.param)


def decided_by_the_host(program: Any, args: Any) -> list[np.ndarray[Any, Any]]:
    simulated = SimulatedDriver()
    table = altered(simulated, cuDriverGetVersion=_older)
    assert table.has_graphs and not table.has_conditions
    executable = RUNTIMES[-1].executable(program, RUNTIMES[-1].gpu(table, 0))
    found = [np.asarray(x) for x in executable(list(args))]
    assert simulated.calls["cuGraphAddNode"] == 0
    return found


@functools.cache
def decided_program(name: str) -> tuple[RuntimeProgram, list[np.ndarray[Any, Any]]]:
    """A program, and what it gives where the host decides."""
    f, args, _ = DECIDED[name]
    program = program_of(f, *args)
    return program, decided_by_the_host(program, args)


def _older(f: Any, out: int) -> int:
    ctypes.c_int.from_address(out).value = api.CONDITIONS_SINCE - 10
    return api.SUCCESS


def uses(executable: Any) -> list[GraphUse]:
    return [GraphUse(*x) for x in executable.graphs()]


@both
@pytest.mark.parametrize("name", DECIDED)
def test_the_same_bits_as_where_the_host_decides(
    name: str, runtime: GpuRuntime, twice: bool
) -> None:
    _, args, conditional = DECIDED[name]
    program, theirs = decided_program(name)
    simulated = SimulatedDriver(list(DECIDED).index(name))
    gpu = runtime.gpu(simulated.table, 0)
    executable = runtime.executable(program, gpu)
    sets = [[runtime.array.of(gpu, np.asarray(x)) for x in args] for _ in range(3)]
    kept: list[Any] = []
    for n in range(5):  # three sets of addresses: nodes in bodies get others
        kept = [*kept[-1:], executable(sets[n % 3])]
        for x, y in zip(kept[-1], theirs, strict=True):
            assert np.asarray(x).tobytes() == y.tobytes()
    (use,) = uses(executable)
    assert use.launches >= 4 and use.patched > 0 and simulated.fault is None
    made = simulated.calls["cuGraphAddNode"]
    assert made > 2 * conditional if twice and "loop" in name else made >= 2 * conditional


@both
def test_a_loop_is_a_graph_from_its_first_run_on(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver()
    executable = runtime.executable(program_of(around, X), runtime.gpu(simulated.table, 0))
    results = executable([X])
    names = ("cuLaunchKernel", "cuGraphLaunch", "cuMemcpyDtoHAsync_v2")
    assert [simulated.calls[x] for x in names] == [0, 1, 0]  # nobody has waited for anything
    del results


@both
def test_a_loop_that_does_not_end(runtime: GpuRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    from functrax.backends.cuda.simulator import graph_launches

    monkeypatch.setattr(graph_launches, "_MOST_STEPS", 3)
    simulated = SimulatedDriver()
    executable = runtime.executable(program_of(nested, X), runtime.gpu(simulated.table, 0))
    with pytest.raises(DeviceError, match=r"launch timeout"):
        executable([X])[0].wait()
    assert isinstance(simulated.fault, EndlessLoop)


@both
@pytest.mark.parametrize(
    "function", ("cuGraphConditionalHandleCreate", "cuGraphAddNode", "cuGraphInstantiateWithFlags")
)
@pytest.mark.parametrize("error", (api.NOT_SUPPORTED, api.OUT_OF_MEMORY, api.INVALID_VALUE))
def test_a_driver_that_refuses(runtime: GpuRuntime, function: str, error: int) -> None:
    """The host decides then; another error is one."""
    simulated = SimulatedDriver()
    table = altered(simulated, **{function: lambda f, *arguments: error})
    program = program_of(changing_places, X)
    executable = runtime.executable(program, runtime.gpu(table, 0))
    if error == api.INVALID_VALUE:
        with pytest.raises(DeviceError, match=function.removesuffix("WithFlags")):
            executable([X])
        return
    theirs = decided_by_the_host(program, (X,))
    for _ in range(3):
        for x, y in zip(executable([X]), theirs, strict=True):
            assert np.asarray(x).tobytes() == y.tobytes()
    assert simulated.calls["cuGraphLaunch"] == 0


@pytest.mark.skipif(NATIVE is None, reason="of the C++ extension")
@pytest.mark.parametrize("name", DECIDED)
def test_both_halves_make_the_same_graphs(name: str, twice: bool) -> None:
    _, args, _ = DECIDED[name]
    (program, _), found = decided_program(name), []
    for runtime in RUNTIMES:
        asked: list[Any] = []
        numbers: dict[int, int] = {}

        def number(place: int, numbers: dict[int, int] = numbers) -> int:
            return numbers.setdefault(place, len(numbers))

        def add(f: Any, *arguments: Any, asked: list[Any] = asked, number: Any = number) -> int:
            out, graph, after, count, at, *_ = arguments
            error: int = f(*arguments)
            others = [number(pointer(after + 8 * k)) for k in range(count)]
            asked.append([number(graph), others, number(pointer(out))])
            if len(arguments) == 5 and ctypes.c_int.from_address(at).value == api.CONDITIONAL:
                node = api.ConditionalNode.from_address(at)
                bodies = [number(pointer(node.bodies + 8 * k)) for k in range(node.size)]
                asked[-1] += [node.kind, bodies]
            return error

        functions = ("cuGraphAddKernelNode", "cuGraphAddMemcpyNode", "cuGraphAddNode")
        table = altered(SimulatedDriver(), **dict.fromkeys(functions, add))
        executable = runtime.executable(program, runtime.gpu(table, 0))
        kept = [executable(list(args)) for _ in range(3)]
        del kept
        found.append((asked, uses(executable)))
    assert found[0] == found[1] and any(len(x) > 3 for x in found[0][0])


def test_how_many_nodes_a_part_may_have() -> None:
    """What is counted beforehand is at least what there is."""
    target = target_of(80)
    for name, (_, args, _) in DECIDED.items():
        program, _ = decided_program(name)
        assert graph_parts(program, target, False) != graph_parts(program, target, True)
        (planned,) = graphs.planned_graphs(program, target, True)
        executable = RUNTIMES[-1].executable(program, RUNTIMES[-1].gpu(SimulatedDriver().table, 0))
        for _ in range(2):
            executable(list(args))
        (use,) = uses(executable)
        assert use.nodes <= planned.nodes <= 2 * use.nodes, name


def test_which_carries_are_copied() -> None:
    copies = loop_copies(target_of(90))
    assert copies.pay([4] * 4) and not copies.pay([4] * 5)
    assert copies.pay([1 << 22]) and not copies.pay([1 << 23])
    assert not LoopCopies(0, -1).pay([])


def test_the_order_of_nodes_with_bodies() -> None:
    def node(body: int, bodies: range, *accesses: tuple[int, bool]) -> NodeMemory:
        return NodeMemory([BytesAccess(x, x + 8, writes) for x, writes in accesses], body, bodies)

    nothing = range(0)
    nodes = [
        node(0, nothing, (0, True)),
        node(0, range(1, 3), (0, False)),  # what is in its bodies comes between
        node(1, nothing, (16, True)),
        node(1, range(3, 4)),
        node(3, nothing, (16, False), (24, True)),
        node(2, nothing, (32, True)),
        node(0, nothing, (24, False)),
        node(0, nothing, (40, True)),
    ]
    assert order_in_bodies(nodes, []) == [(), (0,), (), (2,), (), (), (1,), ()]


# ---- the kernels that set conditions, and the driver ---------------------------------------------


@pytest.mark.parametrize("dtype", ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"))
def test_numbers_of_branches_are_kept_within_bounds(dtype: str) -> None:
    from functrax.backends.cuda.simulator.launch import launch
    from functrax.backends.cuda.simulator.memory import DeviceMemory
    from functrax.backends.cuda.simulator.module import Module

    memory, kind = DeviceMemory(), np.dtype(dtype)
    cell = memory.allocate(8)
    kernel = Module(SETTING_PTX).kernels[
        SETTING_KERNELS[setting_kernel(kind.itemsize, kind.kind == "u")]
    ]
    limits = np.iinfo(kind)
    for value in (limits.min, 0, 1, 5, 6, limits.max):
        memory.write(cell, np.array([value], kind).view(np.uint8))
        done = launch(kernel, (1, 1, 1), (1, 1, 1), [1 << 40, cell, 5], memory)
        assert done.conditions == {1 << 40: min(max(value, 0), 5)}


def test_a_condition_is_set_once_by_a_launch_and_in_graphs_alone() -> None:
    from functrax.backends.cuda.simulator.launch import launch
    from functrax.backends.cuda.simulator.memory import DeviceMemory
    from functrax.backends.cuda.simulator.module import Module

    memory, kernel = DeviceMemory(), Module(SETTING_PTX).kernels[SETTING_KERNELS[0]]
    cell = memory.allocate(8)
    memory.write(cell, np.ones(1, np.uint8))
    with pytest.raises(DataRace, match="set twice"):
        launch(kernel, (1, 1, 1), (2, 1, 1), [1 << 40, cell, 1], memory)
    simulated = SimulatedDriver()
    gpu = RUNTIMES[0].gpu(simulated.table, 0)
    array = RUNTIMES[0].array.of(gpu, np.ones(4, np.uint8))
    setting = gpu.load(SETTING_PTX, SETTING_KERNELS[0])
    gpu.launch(setting, 1, 1, [1 << 40, array.address], np.ones(1, np.int64))
    with pytest.raises(DeviceError):
        gpu.synchronize()
    assert isinstance(simulated.fault, ConditionFault)


def test_the_kernels_are_taken_by_every_gpu() -> None:
    assert re.search(r"\.version 6\.3\n\.target sm_75\n", SETTING_PTX)


def test_the_structure_is_that_of_the_driver() -> None:
    node = api.ConditionalNode
    assert ctypes.sizeof(node) == 256
    offsets = (node.handle.offset, node.kind.offset, node.size.offset, node.bodies.offset)
    assert offsets == (16, 24, 28, 32)


@pytest.mark.parametrize("name", ("off", "simulated", "on"))
def test_the_option(name: str) -> None:
    simulated = SimulatedDriver().table
    of_a_gpu = Table(simulated.addresses, object())
    assert (simulated.is_simulated, of_a_gpu.is_simulated) == (True, False)
    with Override("cuda_conditional_nodes", name):
        assert graphs.gpu_decides(simulated) == (name != "off")
        assert graphs.gpu_decides(of_a_gpu) == (name == "on")


def test_a_driver_without_the_functions_goes_on() -> None:
    simulated = SimulatedDriver()
    some = {k: v for k, v in simulated.table.addresses.items() if k not in api.CONDITIONS}
    assert Table(some, simulated).has_graphs and not Table(some, simulated).has_conditions


# ---- planted faults ------------------------------------------------------------------------------

Plant = Callable[[SimulatedDriver], Callable[..., int]]


def _is_setting(simulated: SimulatedDriver, at: int) -> bool:
    kernel = simulated.of_handle(api.KernelNode.from_address(at).function)
    return str(kernel.name).startswith("functrax_set_condition")


def not_set(which: int) -> Plant:
    """A kernel sets another condition than its own, counted as they are made."""

    def plant(simulated: SimulatedDriver) -> Callable[..., int]:
        seen: list[int] = []
        other = ctypes.c_uint64(1 << 60)

        def add(f: Any, out: int, graph: int, after: int, count: int, at: int) -> int:
            if _is_setting(simulated, at):
                seen.append(at)
                if len(seen) == which + 1:
                    parameters = api.KernelNode.from_address(at).parameters
                    ctypes.c_uint64.from_address(parameters).value = ctypes.addressof(other)
            return int(f(out, graph, after, count, at))

        return add

    return plant


def setting_waits_for_nobody(simulated: SimulatedDriver) -> Callable[..., int]:
    def add(f: Any, out: int, graph: int, after: int, count: int, at: int) -> int:
        return int(f(out, graph, after, 0 if _is_setting(simulated, at) else count, at))

    return add


def waits_for_nobody(simulated: SimulatedDriver) -> Callable[..., int]:
    return lambda f, out, graph, after, count, *rest: int(f(out, graph, after, 0, *rest))


def only_in_bodies(change: Callable[[int], int]) -> Plant:
    """What nodes of bodies wait for is changed: how many of them there are."""

    def plant(simulated: SimulatedDriver) -> Callable[..., int]:
        def add(f: Any, out: int, graph: int, after: int, count: int, *rest: int) -> int:
            inside = simulated.of_handle(graph).outer is not None
            return int(f(out, graph, after, change(count) if inside else count, *rest))

        return add

    return plant


def in_the_outer_graph(simulated: SimulatedDriver) -> Callable[..., int]:
    """Copies of a body are nodes of the graph around it."""
    first: list[int] = []

    def add(f: Any, out: int, graph: int, after: int, count: int, *rest: int) -> int:
        known = simulated.of_handle(graph)
        if known.outer is None:
            first.append(graph)
            return int(f(out, graph, after, count, *rest))
        return int(f(out, first[-1] if first else graph, after, 0, *rest))

    return add


def not_patched_in_bodies(simulated: SimulatedDriver) -> Callable[..., int]:
    def patch(f: Any, executable: int, node: int, *rest: int) -> int:
        inside = simulated.of_handle(simulated.of_handle(node).graph).outer is not None
        return 0 if inside else int(f(executable, node, *rest))

    return patch


def other_kind(simulated: SimulatedDriver) -> Callable[..., int]:
    def add(f: Any, out: int, graph: int, after: int, count: int, at: int) -> int:
        node = api.ConditionalNode.from_address(at)
        node.kind = api.SWITCH if node.kind == api.WHILE else api.WHILE
        return int(f(out, graph, after, count, at))

    return add


KERNEL, COPY, NODE = "cuGraphAddKernelNode", "cuGraphAddMemcpyNode", "cuGraphAddNode"
FAULTS: dict[str, tuple[str, Plant]] = {
    **{f"condition {n} is not set": (KERNEL, not_set(n)) for n in (0, 1, 2)},
    "a condition is set too soon": (KERNEL, setting_waits_for_nobody),
    "a decision waits for nobody": (NODE, waits_for_nobody),
    "kernels of bodies wait for nobody": (KERNEL, only_in_bodies(lambda count: 0)),
    "kernels of bodies do not wait for the last": (KERNEL, only_in_bodies(lambda n: max(n - 1, 0))),
    "the carry is copied too soon": (COPY, only_in_bodies(lambda count: 0)),
    "the carry is copied outside of the body": (COPY, in_the_outer_graph),
    "kernels of bodies are not patched": ("cuGraphExecKernelNodeSetParams", not_patched_in_bodies),
    "copies of bodies are not patched": ("cuGraphExecMemcpyNodeSetParams", not_patched_in_bodies),
    "loops are branches": (NODE, other_kind),
}


class WrongNumbersError(AssertionError):
    """Numbers that are not those of loops that the host drives."""


def work(runtime: GpuRuntime, gpu: Any, theirs: dict[Any, list[np.ndarray[Any, Any]]]) -> None:
    for f in (changing_places, nested):
        program = program_of(f, X)
        if f not in theirs:
            theirs[f] = decided_by_the_host(program, (X,))
        executable = runtime.executable(program, gpu)
        sets = [[runtime.array.of(gpu, X)] for _ in range(3)]
        kept: list[Any] = []
        for n in range(5):
            kept = [*kept[-1:], executable(sets[n % 3])]
            for x, y in zip(kept[-1], theirs[f], strict=True):
                if not np.array_equal(np.asarray(x), y):
                    raise WrongNumbersError
    del kept, sets, executable
    gpu.trim()


@both
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, runtime: GpuRuntime) -> None:
    (function, plant), theirs = FAULTS[name], {}
    for seed in range(4):
        simulated = SimulatedDriver(seed)
        table = altered(simulated, **{function: plant(simulated)})
        try:
            work(runtime, runtime.gpu(table, 0), theirs)
        except (DeviceError, WrongNumbersError) as error:
            found = simulated.fault or error
            if name.startswith("condition"):
                assert isinstance(found, ConditionFault)
            return
    pytest.fail("not found")
