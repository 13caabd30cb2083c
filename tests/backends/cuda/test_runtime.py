"""The runtime of GPUs, both halves of it: orders of streams, memory, what is said of failures."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice, driver as api
from functrax.backends.cuda.driver import SIGNATURES, Table
from functrax.backends.cuda.libcuda import open_libcuda
from functrax.backends.cuda.runtime import NATIVE, GpuRuntime
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.core import native
from functrax.core.errors.typed import (
    ArgumentError,
    DeviceError,
    DonatedBufferError,
    OutOfDeviceMemory,
    UnavailableError,
)
from tests.backends.cuda.runtimes import RUNTIMES, X, altered, pointer, program_of

both = pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    yield


def mixed(x: Any, n: Any) -> Any:
    """Launches, a loop whose end the host reads, a branch, a function of the host."""
    y, _ = lax.while_loop(lambda s: s[0].sum() < n, lambda s: (s[0] + 1, s[1] + 1), (x, 0))
    z, sums = lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), y[0], y)
    w = lax.cond(n > 3, lambda a: jnp.sort(a, -1), lambda a: a * 2, y)
    return z, sums, w @ w.T


@both
@pytest.mark.parametrize("seed", range(4))
def test_streams_in_any_order_give_the_same(runtime: GpuRuntime, seed: int) -> None:
    n = np.float32(100)
    program = program_of(mixed, X, n)
    gpu = runtime.gpu(SimulatedDriver(seed).table, 0)
    executable = runtime.executable(program, gpu)
    with functrax.backend("interp"):
        expected = functrax.jit(mixed)(X, n)
    first = executable([X, n])
    second = executable([runtime.array.of(gpu, X), n])
    for ours, again, theirs in zip(first, second, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5)
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(again))


@both
def test_a_call_returns_before_its_work_is_done(runtime: GpuRuntime) -> None:
    finished = False

    def query(f: Any, event: int) -> int:
        return f(event) if finished else api.NOT_READY

    gpu = runtime.gpu(altered(SimulatedDriver(), cuEventQuery=query), 0)
    executable = runtime.executable(program_of(lambda x: x * 2, X), gpu)
    (y,) = executable([X])
    (z,) = executable([y])
    assert not z.is_ready()
    finished = True
    z.wait()
    assert z.is_ready() and y.is_ready()
    np.testing.assert_array_equal(z.materialize(), X * 4)


@both
def test_a_steady_state_asks_the_driver_for_no_memory(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver()
    gpu = runtime.gpu(simulated.table, 0)
    executable = runtime.executable(program_of(lambda x: jnp.tanh(x).sum(0), X), gpu)
    for _ in range(2):
        y = executable([X])
    asked = simulated.calls["cuMemAlloc_v2"]
    for _ in range(200):  # more than there are events
        y = executable([X])
    assert simulated.calls["cuMemAlloc_v2"] == asked
    np.testing.assert_allclose(np.asarray(y[0]), np.tanh(X).sum(0), rtol=1e-5)


@both
def test_waiting_memory_is_returned_before_there_is_too_little(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver(limit=5000)
    gpu = runtime.gpu(simulated.table, 0)
    small = [runtime.array(gpu, (256,), np.float32) for _ in range(4)]
    del small
    assert gpu.stats().cached == 4096 == simulated.memory.used
    large = runtime.array(gpu, (1000,), np.float32)
    assert gpu.stats().cached == 0
    with pytest.raises(OutOfDeviceMemory, match=r"f32\[500\].*\n.*f32\[1000\] \(4,000 bytes\)"):
        runtime.array(gpu, (500,), np.float32)
    assert large.nbytes == 4000


@both
def test_arrays(runtime: GpuRuntime) -> None:
    gpu = runtime.gpu(SimulatedDriver().table, 0)
    x = runtime.array.of(gpu, X.T)
    assert (x.shape, x.dtype, x.nbytes, x.label) == ((40, 3), np.float32, X.nbytes, "f32[40,3]")
    assert x.gpu is gpu and f"{x.address:#x}" in repr(x)
    np.testing.assert_array_equal(x.materialize(), X.T)
    assert x.materialize() is x.materialize() and not x.materialize().flags.writeable
    assert np.asarray(x, np.float64).dtype == np.float64
    x.delete()
    assert x.deleted and "deleted" in repr(x)
    for look in (x.materialize, lambda: x.address, lambda: np.asarray(x)):
        with pytest.raises(DonatedBufferError):
            look()
    empty = runtime.array.of(gpu, np.empty((0, 3)))
    assert empty.address == 0 and empty.materialize().shape == (0, 3)


@both
def test_donated_arguments_give_their_memory_up(runtime: GpuRuntime) -> None:
    gpu = runtime.gpu(SimulatedDriver().table, 0)
    executable = runtime.executable(program_of(lambda x: x + 1, X), gpu)
    x = runtime.array.of(gpu, X)
    (y,) = executable([x], (0,))
    assert x.deleted
    np.testing.assert_array_equal(y.materialize(), X + 1)
    if runtime is NATIVE:
        address = y.address
        values = [y]
        del y
        (z,) = executable(values, donated=(0,))
        assert z.address == address
        np.testing.assert_allclose(z.materialize(), X + 2, rtol=1e-6)


@both
def test_what_a_program_may_not_be_given(runtime: GpuRuntime) -> None:
    gpu = runtime.gpu(SimulatedDriver().table, 0)
    executable = runtime.executable(program_of(lambda x: x + 1, X), gpu)
    with pytest.raises(ArgumentError, match="wrong number of inputs"):
        executable([X, X])
    with pytest.raises(ArgumentError, match="another array"):
        executable([X[:2]])


@both
def test_two_gpus(runtime: GpuRuntime) -> None:
    simulated = SimulatedDriver(devices=2)
    here, there = (runtime.gpu(simulated.table, n) for n in range(2))
    assert (here.name, there.name) == ("simulated GPU 0", "simulated GPU 1")
    program = program_of(lambda x: x * 3, X)
    (y,) = runtime.executable(program, here)([X])
    (z,) = runtime.executable(program, there)([y])
    assert (y.gpu, z.gpu) == (here, there)
    np.testing.assert_allclose(z.materialize(), X * 9, rtol=1e-6)


def wrong_address(f: Any, *arguments: Any) -> int:
    """A launch whose first operand is nowhere."""
    first = pointer(arguments[-2])
    ctypes.c_uint64.from_address(first).value = 1 << 40
    return f(*arguments)


@both
def test_a_failed_kernel_is_named_with_its_line(runtime: GpuRuntime) -> None:
    table = altered(SimulatedDriver(), cuLaunchKernel=wrong_address)
    gpu = runtime.gpu(table, 0)
    executable = runtime.executable(program_of(lambda x: x * 2, X), gpu)
    (y,) = executable([X])  # which may be too early to know
    for _ in range(2):  # later ones say so too
        with pytest.raises(DeviceError, match="kernel functrax_") as info:
            y.wait()
        assert "illegal address (error 700 of the driver)" in str(info.value)
        assert "test_runtime.py" in str(info.value)
        assert "OutOfBounds" in repr(info.value.__cause__)
    with pytest.raises(DeviceError):
        executable([X])
        y.materialize()


@both
def test_of_several_kernels_all_are_named(runtime: GpuRuntime) -> None:
    calls = 0

    def query(f: Any, event: int) -> int:
        nonlocal calls
        calls += 1
        return api.LAUNCH_FAILED

    gpu = runtime.gpu(altered(SimulatedDriver(), cuEventQuery=query), 0)
    executable = runtime.executable(program_of(lambda x: jnp.sin(x @ x.T) @ x, X), gpu)
    y = executable([X])
    with pytest.raises(DeviceError, match=r"one of \d kernels failed"):
        y[0].wait()
    assert calls == 1


@both
def test_a_launch_that_hangs(runtime: GpuRuntime) -> None:
    table = altered(SimulatedDriver(), cuEventQuery=lambda f, event: api.NOT_READY)
    gpu = runtime.gpu(table, 0)
    executable = runtime.executable(program_of(lambda x: x * 2, X), gpu)
    (y,) = executable([X])
    functrax.config.update("device_timeout", 1)
    try:
        with pytest.raises(DeviceError, match="did not answer for 1 seconds") as info:
            y.wait()
    finally:
        functrax.config.update("device_timeout", 0)
    assert "functrax_" in str(info.value) and "test_runtime.py" in str(info.value)


def test_no_driver_and_one_that_is_too_old() -> None:
    with pytest.raises(UnavailableError, match=r"libnowhere\.so cannot be opened"):
        open_libcuda("libnowhere.so")
    with pytest.raises(UnavailableError, match="too old"):
        open_libcuda("libc.so.6")
    functions = {name: 1 for name in SIGNATURES if name != "cuEventQuery"}
    with pytest.raises(KeyError, match="cuEventQuery"):
        Table(functions)


def test_no_gpu_and_a_driver_that_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "table", lambda: SimulatedDriver(devices=0).table)
    with pytest.raises(UnavailableError, match="knows no such GPU"):
        choice.gpu.__wrapped__()
    broken = altered(SimulatedDriver(), cuInit=lambda f, flags: 999)
    monkeypatch.setattr(choice, "table", lambda: broken)
    with pytest.raises(UnavailableError, match=r"cuInit.*error 999"):
        choice.count()


@both
def test_text_that_the_driver_refuses(runtime: GpuRuntime) -> None:
    gpu = runtime.gpu(SimulatedDriver().table, 0)
    with pytest.raises(DeviceError, match="cuModuleLoadData: simulated invalid ptx"):
        gpu.load("no PTX", "k")
    np.testing.assert_array_equal(runtime.array.of(gpu, X).materialize(), X)  # others go on


@pytest.mark.skipif(NATIVE is None, reason="of the C++ extension")
def test_the_empty_driver_has_every_function() -> None:
    addresses = native.extension.cuda_empty_functions()
    assert list(addresses) == list(SIGNATURES)
    assert NATIVE is not None
    gpu = NATIVE.gpu(Table(addresses), 0)
    assert (gpu.name, gpu.capability) == ("empty GPU", 80)
    with pytest.raises(KeyError, match="cuInit"):
        NATIVE.gpu(type("Nothing", (), {"addresses": {}})(), 0)


def test_no_library_of_cuda_is_open_here() -> None:
    if not os.path.exists("/dev/nvidia0"):
        with open("/proc/self/maps", encoding="utf-8") as maps:
            assert "libcuda" not in maps.read()
