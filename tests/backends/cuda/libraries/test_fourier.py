"""Fourier transforms by a simulated cuFFT, in both halves of the runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.backends.cuda.runtime import GpuRuntime
from functrax.backends.cuda.simulator.queues import StreamRace
from functrax.core.errors.typed import DeviceError
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64
from tests.backends.cuda.libraries.machines import Machine
from tests.backends.cuda.runtimes import RUNTIMES, program_of

both = pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)
RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(2, 3, 4, 5))
COMPLEX = REAL + 1j * RNG.normal(size=REAL.shape)
#: Transforms of ``jnp.fft``, and how they are called.
TRANSFORMS: list[tuple[str, dict[str, Any]]] = [
    ("fft", {}),
    ("fft", {"axis": 1}),
    ("ifft", {}),
    ("rfft", {}),
    ("irfft", {}),
    ("irfft", {"n": 9}),
    ("fft2", {}),
    ("ifft2", {}),
    ("rfft2", {}),
    ("irfft2", {}),
    ("irfft2", {"s": (4, 9)}),
    ("fftn", {"axes": (1, 2, 3)}),
    ("ifftn", {"axes": (1, 2, 3)}),
    ("rfftn", {"axes": (1, 2, 3)}),
    ("irfftn", {"axes": (1, 2, 3)}),
]


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    yield


def operand_of(name: str, wide: bool) -> Any:
    if name.startswith("r"):
        return REAL.astype(np.float64 if wide else np.float32)
    return COMPLEX.astype(np.complex128 if wide else np.complex64)


def near(ours: Any, theirs: Any) -> None:
    wide = ours.dtype in (np.float64, np.complex128)
    bound = (1e-14 if wide else 2e-6) * max(np.abs(theirs).max(), 1)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound)


@both
@pytest.mark.parametrize("wide", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("seed", range(2))
def test_transforms_are_those_of_numpy(runtime: GpuRuntime, wide: bool, seed: int) -> None:
    with enable_x64(wide):
        machine = Machine(runtime, seed)
        for name, how in TRANSFORMS:
            x = operand_of(name, wide)
            (found,) = machine.run(partial(getattr(jnp.fft, name), **how), x)
            near(found, getattr(np.fft, name)(x, **how))
            assert found.dtype.itemsize == (8 if wide else 4) * (1 + (found.dtype.kind == "c"))
    calls = machine.simulated.calls
    executed = sum(n for name, n in calls.items() if "Exec" in name)
    assert executed == len(TRANSFORMS)


@both
def test_neighbours_derivatives_and_batches(runtime: GpuRuntime) -> None:
    x = REAL[0, 0].astype(np.float32)

    def f(x: Any) -> Any:
        return jnp.abs(jnp.fft.rfft(jnp.sin(x) * 2) ** 2).sum()

    def g(x: Any) -> Any:
        return functrax.vmap(lambda r: jnp.fft.irfft(jnp.fft.rfft(r) * 1j, 5) + r)(x)

    def h(x: Any) -> Any:
        return lax.scan(lambda c, r: (jnp.fft.ifft(c * r).real, c), x[0], x)

    for function in (functrax.grad(f), g, h):
        program: Callable[..., Any] = function
        machine = Machine(runtime)
        with functrax.backend("interp"):
            theirs = [np.asarray(y) for y in functrax.tree.leaves(functrax.jit(program)(x))]
        for ours, wanted in zip(machine.run(program, x), theirs, strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)


@both
def test_a_plan_is_made_once_and_memory_for_work_is_given_back(runtime: GpuRuntime) -> None:
    machine = Machine(runtime)
    z = np.ones((3, 96), np.complex64)
    executables = [machine.executable(f, z) for f in (lambda z: jnp.fft.ifft(z) + 1, jnp.fft.ifft)]
    operand = runtime.array.of(machine.gpu, z)
    bits = set()
    for n in range(4):
        for executable in executables:
            (y,) = executable([operand])
            bits.add(np.asarray(y).tobytes())
            del y
        if n == 0:
            before = machine.gpu.stats()
    assert len(bits) == 2
    after = machine.gpu.stats()
    assert (after.in_use, after.allocations) == (before.in_use, before.allocations)
    calls = machine.simulated.calls
    assert calls["cufftMakePlanMany64"] == 1 and calls["cufftExecC2C"] == 8
    assert calls["cufftSetWorkArea"] == 8


@both
def test_a_status_is_told_once_and_the_host_goes_on(runtime: GpuRuntime) -> None:
    z = operand_of("fft", False)
    for name, text in (("cufftMakePlanMany64", "ALLOC_FAILED"), ("cufftExecC2C", "ALLOC_FAILED")):
        machine = Machine(runtime)
        program = program_of(lambda z: jnp.fft.ifft(z), z)
        machine.simulated.statuses[name] = 2
        executable = runtime.executable(program, machine.gpu)
        with pytest.warns(RuntimeWarning, match=f"cuFFT failed, and the host.*{name}.*{text}"):
            (y,) = executable([z])
        near(np.asarray(y), np.fft.ifft(z))
        (y,) = executable([z])
        near(np.asarray(y), np.fft.ifft(z))
        (call,) = [x.device for x in program.instructions if hasattr(x, "device")]
        assert "on the host, because cufft" in machine.libraries.who(call)
        assert machine.driver.fault is None
    assert not machine.simulated.plans or "cufftDestroy" not in machine.simulated.calls


@both
def test_threads_share_a_plan(runtime: GpuRuntime) -> None:
    machine = Machine(runtime)
    z = [(COMPLEX[0] * k).astype(np.complex64) for k in range(1, 4)]
    executable = machine.executable(lambda z: jnp.fft.ifft2(z * 2), z[0])
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(15):
            (y,) = executable([z[k]])
            if not np.allclose(np.asarray(y), np.fft.ifft2(z[k] * 2), rtol=1e-4, atol=1e-5):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(z))]
    for x in threads:
        x.start()
    for x in threads:
        x.join(60)
    assert not wrong and machine.driver.fault is None
    assert machine.simulated.calls["cufftExecC2C"] == 45


@both
def test_the_host_computes_where_there_is_no_library(runtime: GpuRuntime) -> None:
    z = operand_of("fft", False)
    machine = Machine(runtime)
    machine.simulated.absent.add("cufft")
    (y,) = machine.executable(lambda z: jnp.fft.ifft(z), z)([z])
    near(np.asarray(y), np.fft.ifft(z))
    assert machine.simulated.calls == {}


@both
@pytest.mark.parametrize(("option", "value"), [("strict", True), ("cuda_libraries", "off")])
def test_options_leave_it_to_the_host(runtime: GpuRuntime, option: str, value: Any) -> None:
    z = operand_of("fft", False)
    machine = Machine(runtime)
    with Override(option, value):
        (y,) = machine.executable(lambda z: jnp.fft.irfft(z, 9), z)([z])
    near(np.asarray(y), np.fft.irfft(z, 9))
    assert machine.simulated.calls == {}


@both
@pytest.mark.filterwarnings("ignore:cuFFT failed")  # as a GPU that does nothing more says
def test_what_libraries_do_to_memory_is_checked(runtime: GpuRuntime) -> None:
    """A plan for one transform too many, and one that works on no stream of the GPU's."""
    z = operand_of("fft", False)

    def more(machine: Machine) -> None:
        for plan in machine.simulated.plans.values():
            plan.batch += 1

    def elsewhere(machine: Machine) -> None:
        for plan in machine.simulated.plans.values():
            plan.stream = machine.driver.handle(machine.driver.queues.stream())

    for plant, kind in ((more, ValueError), (elsewhere, StreamRace)):
        faults = []
        for seed in range(4):
            machine = Machine(runtime, seed)
            executable = machine.executable(lambda z: jnp.fft.fft(z * 2) + 1, z)
            np.asarray(executable([z])[0])
            plant(machine)
            try:
                np.asarray(executable([z])[0])
            except DeviceError:
                faults.append(machine.driver.fault)
        assert faults and all(isinstance(x, kind) for x in faults)


def test_explanations_say_who_computes_it() -> None:
    z = operand_of("fft", False)

    def f(z: Any) -> Any:
        return jnp.fft.ifft(z), jnp.fft.fftn(z, axes=(1, 2, 3)), jnp.linalg.eigvalsh(z[..., :4])

    with functrax.backend("cuda"):
        text = str(functrax.explain(f)(z))
        assert "unscaled_inverse_fft by cuFFT (simulated)" in text
        assert " fft by cuFFT (simulated)" in text
        assert "eigh on the host, because no library is used for it" in text
        with Override("strict", True):
            text = str(functrax.explain(f)(z))
            assert " fft on the host, because strict mode" in text
        with Override("cuda_libraries", "off"):
            text = str(functrax.explain(f)(z))
            assert " fft on the host, because the option cuda_libraries is 'off'" in text
