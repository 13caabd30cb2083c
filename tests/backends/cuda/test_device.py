"""Programs on the simulated GPU: values, where arrays are, what is said when something fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.backends.cuda.runtime import DeviceArray
from functrax.backends.device import executable_of
from functrax.core.errors.typed import ArgumentError, DonatedBufferError, OutOfDeviceMemory

X = np.random.default_rng(0).normal(size=(6, 70)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("cuda"):
        yield


def both(f: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """A jitted function's result here and on the CPU."""
    here = functrax.tree.map(np.asarray, functrax.jit(lambda *a: f(*a))(*args))
    with functrax.backend("llvm"):
        return here, functrax.tree.map(np.asarray, functrax.jit(lambda *a: f(*a))(*args))


def collatz(n: Any) -> Any:
    def body(state: Any) -> Any:
        n, steps = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

    return lax.while_loop(lambda s: s[0] != 1, body, (n, 0))[1]


def loop_of_the_host(x: Any) -> Any:
    """A loop that is no kernel; its number is written over, by one thread of a block."""

    def body(state: Any) -> Any:
        n, value = state
        n = functrax.pure_callback(lambda n: np.int32(n + 1), type_of(n), n)
        return n, jnp.sin(value) + n.astype(jnp.float32)

    return lax.while_loop(lambda s: s[0] < 5, body, (jnp.int32(0), x))[1]


def type_of(x: Any) -> functrax.ShapeDtypeStruct:
    return functrax.ShapeDtypeStruct(x.shape, x.dtype)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "map": (lambda x: jnp.tanh(x) * 2 + jnp.exp(-x * x), (X,)),
    "softmax of a warp's rows": (lambda x: functrax.nn.softmax(x), (X,)),
    "softmax of a block's rows": (lambda x: functrax.nn.softmax(jnp.tile(x, (1, 30))), (X,)),
    "sums": (lambda x: (x.sum(), x.sum(0), x.sum(1), x.max(1), jnp.argmin(x, 1)), (X,)),
    "long sum": (lambda x: jnp.tile(x, (1, 100)).sum(), (X,)),
    "running sum": (lambda x: jnp.cumsum(x, 1), (X,)),
    "transpose": (lambda x: x.T * 2, (X,)),
    "product": (lambda x: x @ x.T, (X,)),
    "gather": (lambda x: x[jnp.array([5, 0, 0])] + 1, (X,)),
    "scatter": (lambda x: x.at[jnp.array([5, 0, 0])].add(1.0), (X,)),
    "sort": (lambda x: jnp.sort(x, 1), (X,)),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), (X,)),
    "inverse": (lambda x: jnp.linalg.inv(x @ x.T + jnp.eye(6)), (X,)),
    "bits": (lambda x: functrax.random.bits(functrax.random.key(3), x.shape), (X,)),
    "normal": (lambda x: functrax.random.normal(functrax.random.key(3), x.shape), (X,)),
    "complex": (lambda x: jnp.abs(jnp.exp(1j * x) + x), (X,)),
    "float16": (lambda x: (x.astype(jnp.float16) * 2).sum(1), (X,)),
    "bfloat16": (lambda x: x.astype(jnp.bfloat16) + 1, (X,)),
    "integers": (lambda x: x.astype(np.int32) // 3 + (x.astype(np.int32) % 5), (X * 100,)),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), x[0], x), (X,)),
    "while on the host": (loop_of_the_host, (np.float32(2),)),
    "while": (collatz, (np.int32(27),)),
    "cond": (lambda x: lax.cond(x[0, 0] > 100, jnp.sin, jnp.square, x), (X,)),
    "gradient": (functrax.grad(lambda x: (jnp.sin(x) @ jnp.cos(x).T).sum()), (X,)),
    "vmap": (functrax.vmap(lambda r: functrax.nn.relu(r) / r.std()), (X,)),
    "nothing": (lambda x: x[:0].sum(1), (X,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_on_the_cpu(name: str) -> None:
    f, args = PROGRAMS[name]
    here, there = both(f, *args)
    for ours, theirs in zip(functrax.tree.leaves(here), functrax.tree.leaves(there), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if ours.dtype.kind in "biu":
            np.testing.assert_array_equal(ours, theirs)
        else:
            exact = [x.astype(np.float64) for x in (ours, theirs)]
            np.testing.assert_allclose(*exact, rtol=1e-5, atol=1e-5)


def test_runs_give_the_same_bits() -> None:
    f = functrax.jit(lambda x: functrax.nn.softmax(jnp.tile(x, (1, 30))).sum())
    assert len({np.asarray(f(X)).tobytes() for _ in range(3)}) == 1


def test_operations_outside_of_jit() -> None:
    x = jnp.asarray(X)
    np.testing.assert_allclose((x * 2 + 1).sum(1), (X * 2 + 1).sum(1), rtol=1e-5)
    assert float(x[0, 0]) == X[0, 0]
    assert type((x + 1).buffer) is DeviceArray


def test_results_stay_on_the_device() -> None:
    f = functrax.jit(lambda x: x * 2)
    y = f(jnp.asarray(X))
    assert type(y.buffer) is DeviceArray
    calls = choice.table().owner.calls
    before = calls["cuMemcpyDtoHAsync_v2"]
    z = f(f(y))
    assert calls["cuMemcpyDtoHAsync_v2"] == before
    np.testing.assert_array_equal(z, X * 8)
    np.testing.assert_array_equal(z, X * 8)
    assert calls["cuMemcpyDtoHAsync_v2"] == before + 1  # what was copied once is kept


def test_one_function_and_one_array_on_both() -> None:
    f = functrax.jit(lambda x: x * 2)
    here = f(X)
    with functrax.backend("llvm"):
        there = f(here)
        assert type(there.buffer) is not DeviceArray
    assert type(f(there).buffer) is DeviceArray
    np.testing.assert_array_equal(f(there), X * 8)


def test_memory_is_given_back() -> None:
    gpu = choice.gpu()
    f = functrax.jit(lambda x: jnp.sin(x).sum(0))
    y = f(X)
    y = f(X)
    before = gpu.stats()
    for _ in range(3):
        y = f(X)
    after = gpu.stats()
    assert (after.in_use, after.allocations) == (before.in_use, before.allocations)
    del y
    assert gpu.stats().in_use < before.in_use


def test_donated_arrays_are_deleted() -> None:
    x = functrax.jit(lambda x: x + 1)(X)
    functrax.jit(lambda x: x * 2, donate_argnums=0)(x)
    with pytest.raises(DonatedBufferError):
        np.asarray(x)


def test_too_little_memory_is_an_error_and_the_process_goes_on() -> None:
    memory = choice.table().owner.memory
    f = functrax.jit(lambda x: x + 1)
    kept = f(X)
    choice.gpu().trim()
    before, memory.limit = memory.limit, memory.used + 100
    try:
        with pytest.raises(OutOfDeviceMemory, match=r"largest arrays.*f32\[6,70\]") as info:
            f(X)
        assert "test_device.py" in str(info.value)
    finally:
        memory.limit = before
    np.testing.assert_array_equal(f(X), kept)


def test_explain_shows_ptx() -> None:
    explained = functrax.explain(lambda x: functrax.nn.softmax(x))(X)
    (kernel,) = explained.kernels
    assert ".visible .entry" in kernel.assembly and "shfl.sync.bfly" in kernel.assembly
    assert "share d1" in kernel.loops
    assert "ptx_kernel" in kernel.llvm


def test_compiled_programs_are_remembered() -> None:
    traced = functrax.make_jaxpr(lambda x: x * 3)(X).jaxpr
    assert type(executable_of(traced)).__name__ == "DeviceExecutable"
    assert executable_of(traced) is executable_of(traced)


def run(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A new process."""
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_import_loads_nothing_of_gpus() -> None:
    out = run("import functrax, sys; print([m for m in sys.modules if 'cuda' in m or 'ptx' in m])")
    assert out.stdout.strip() == "[]", out.stderr


def test_without_a_driver_the_error_says_what_to_do() -> None:
    text = "import functrax\nwith functrax.backend('cuda'):\n functrax.jit(lambda x: x + 1)(1.0)"
    out = run(text, FUNCTRAX_CUDA_DRIVER="none")
    assert ArgumentError.__name__ in out.stderr and "'libcuda' or 'simulated'" in out.stderr
    if not os.path.exists("/dev/nvidia0"):
        out = run(text, FUNCTRAX_CUDA_DRIVER="")
        assert "libcuda.so.1" in out.stderr and "FUNCTRAX_CUDA_DRIVER=simulated" in out.stderr


def test_nans_are_found_where_they_arise() -> None:
    x = jnp.asarray(X)
    with functrax.debug_nans():
        for f in (lambda x: jnp.sqrt(x) + 1, functrax.jit(lambda x: jnp.sqrt(x) + 1)):
            with pytest.raises(FloatingPointError, match=r"sqrt gave a NaN(.|\n)*test_device.py"):
                f(x)
        many = functrax.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sqrt(c - 1), x))
        with pytest.raises(FloatingPointError, match="sqrt gave a NaN"):
            many(jnp.ones(2))
    assert np.isnan(functrax.jit(jnp.sqrt)(x)).any()
