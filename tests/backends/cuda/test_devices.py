"""Arrays on the CPU and on the simulated GPU side by side: where they are, where programs run."""

from __future__ import annotations

import copy
import os
import pickle
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
from functrax.backends.device import Device
from functrax.backends.places import unbound
from functrax.core import native
from functrax.core.errors.typed import ArgumentError, ShardingError, UnavailableError
from functrax.core.events.recorder import recorder
from functrax.profiler.tables import report_of

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def with_a_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("llvm"):
        yield


@pytest.fixture
def gpu() -> Device:
    return functrax.devices("gpu")[0]


@pytest.fixture
def cpu() -> Device:
    return functrax.devices("cpu")[0]


def test_what_devices_say_of_themselves(cpu: Device, gpu: Device) -> None:
    assert functrax.devices() == functrax.local_devices() == [cpu]
    assert functrax.devices("cuda") == functrax.devices("gpu") == [gpu]
    assert (repr(cpu), str(cpu), cpu.platform) == ("CpuDevice(id=0)", "cpu:0", "cpu")
    assert (repr(gpu), str(gpu), gpu.platform) == ("CudaDevice(id=0)", "cuda:0", "gpu")
    assert (gpu.id, gpu.process_index, gpu.local_hardware_id) == (0, 0, 0)
    assert gpu.device_kind == "simulated GPU" and cpu.device_kind == "cpu"
    assert functrax.default_backend() == "cpu" and functrax.device_count("gpu") == 1
    assert cpu.memory_stats() is None
    with functrax.backend("cuda"):
        assert functrax.devices() == [gpu] and functrax.devices("cpu") == [cpu]
        assert functrax.default_backend() == "gpu"


def test_unknown_platforms_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="Unknown backend tpu"):
        functrax.devices("tpu")

    def no_driver() -> Any:
        raise RuntimeError("no driver of NVIDIA's")

    monkeypatch.setattr("functrax.backends.cuda.choice.gpu", no_driver)
    with pytest.raises(UnavailableError, match="no platforms that are instances of gpu"):
        functrax.devices("gpu")


def test_memory_is_counted(gpu: Device) -> None:
    before = gpu.memory_stats()
    x = functrax.device_put(X, gpu)
    after = gpu.memory_stats()
    assert before is not None and after is not None
    assert after["bytes_in_use"] - before["bytes_in_use"] == x.nbytes
    assert after["num_allocs"] - before["num_allocs"] == 1
    assert after["largest_alloc_size"] >= x.nbytes


def test_arrays_know_where_they_are(cpu: Device, gpu: Device) -> None:
    x = functrax.device_put(X, gpu)
    assert (x.device, x.devices(), x.committed) == (gpu, {gpu}, True)
    assert x.sharding == functrax.sharding.SingleDeviceSharding(gpu)
    assert type(unbound(x.buffer)) is DeviceArray
    np.testing.assert_array_equal(x, X)
    back = functrax.device_put(x, cpu)
    assert back.device is cpu and back.committed and type(unbound(back.buffer)) is np.ndarray
    np.testing.assert_array_equal(back, X)
    free = jnp.asarray(X)
    assert free.device is cpu and not free.committed
    assert free.to_device(gpu).device is gpu
    assert jnp.zeros(2, device=gpu).device is gpu
    assert functrax.device_put(x).device is gpu


RESULTS: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x + 1,
    "operator with NumPy": lambda x: X * x,
    "jit": functrax.jit(lambda x: x * 2),
    "jit with another": lambda x: functrax.jit(lambda a, b: a + b)(x, X),
    "index": lambda x: x[1],
    "update": lambda x: x.at[0, 0].set(3.0),
    "gradient": functrax.grad(lambda x: (jnp.sin(x) * x).sum()),
    "gradient of jit": functrax.grad(functrax.jit(lambda x: (jnp.sin(x) * x).sum())),
    "forward": functrax.jacfwd(lambda x: x * x),
    "vmap": functrax.vmap(lambda r: r / r.sum()),
    "scan": lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x)[1],
    "cond": lambda x: lax.cond(x[0, 1] > 5, jnp.sin, jnp.cos, x),
    "while": lambda x: lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x),
    "sort": lambda x: jnp.sort(-x, 1),
    "stack": lambda x: jnp.stack([x, jnp.ones((2, 3))]),
    "zeros like": jnp.zeros_like,
    "full like": lambda x: jnp.full_like(x, 3, int),
    "key": lambda x: functrax.random.normal(functrax.random.key(x[0, 1].astype(int)), (2,)),
    "copy": lambda x: copy.deepcopy(x).astype(np.int32),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_where_their_operands_are(name: str, cpu: Device, gpu: Device) -> None:
    f = RESULTS[name]
    expected = f(jnp.asarray(X))
    for _ in range(2):
        for device in (gpu, cpu):
            found = f(functrax.device_put(X, device))
            assert found.device is device and found.committed
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not expected.committed and expected.device is cpu


def test_uncommitted_arrays_follow(cpu: Device, gpu: Device) -> None:
    with functrax.default_device(gpu):
        x, y, z = jnp.ones(3), jnp.asarray(X), jnp.array([1.0, 2.0])
        assert x.device is y.device is z.device is gpu
        assert not (x.committed or y.committed or (x * 2).committed)
        assert functrax.jit(lambda v: v + 1)(x).device is gpu
        assert (functrax.device_put(X, cpu) + 1).device is cpu
        assert functrax.device_put(X).device is gpu
        assert functrax.devices() == [cpu]
    assert (x + 1).device is functrax.jit(lambda v: v + 1)(x).device is cpu
    assert (functrax.device_put(X[0], gpu) + x).device is gpu
    assert float((x + 1).sum()) == 6


@pytest.mark.parametrize("name", ["gpu", "cuda"])
def test_the_default_device_by_name(name: str, gpu: Device, cpu: Device) -> None:
    with functrax.default_device(name):
        assert jnp.ones(2).device is gpu
        with functrax.default_device("cpu"):
            assert jnp.ones(2).device is cpu
    with functrax.backend("cuda"), functrax.default_device(cpu):
        assert jnp.ones(2).device is cpu


def test_a_default_device_that_there_is_not() -> None:
    with (
        functrax.default_device("foo"),
        pytest.raises(ValueError, match=r"jax\.default_device must be passed"),
    ):
        jnp.ones(2)


def test_the_option_default_device(gpu: Device, cpu: Device) -> None:
    try:
        functrax.config.update("jax_default_device", gpu)
        f = functrax.jit(lambda x: x + 1)
        assert f(X).device is jnp.ones(2).device is gpu
        functrax.config.update("jax_default_device", None)
        assert f(X).device is jnp.ones(2).device is cpu
    finally:
        functrax.config.update("jax_default_device", None)


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda x, y: x + y,
    "comparison": lambda x, y: x == y,
    "jit": functrax.jit(lambda x, y: x + y),
    "stack": lambda x, y: jnp.stack([x, y]),
    "scan": lambda x, y: lax.scan(lambda c, a: (c + a, c), x[0], y),
    "gradient": lambda x, y: functrax.grad(lambda a: (a * y).sum())(x),
    "vmap": lambda x, y: functrax.vmap(lambda a, b: a * b)(x, y),
}


@pytest.mark.parametrize("name", MIXED)
def test_arrays_of_two_devices_are_not_mixed(name: str, cpu: Device, gpu: Device) -> None:
    x, y = functrax.device_put(X, gpu), functrax.device_put(X, cpu)
    f = MIXED[name]
    f(x, x)
    f(y, y)
    for one, other, order in ((x, y, "GPU and .* CPU"), (y, x, "CPU and .* GPU")):
        with pytest.raises(ShardingError, match=f"Received incompatible devices.* {order}"):
            f(one, other)
    with pytest.raises(ValueError, match=r"argument 0 of add with shape f32\[2,3\]"):
        x + y


def test_constants_of_a_program_do_not_say_where_it_runs(cpu: Device, gpu: Device) -> None:
    c = functrax.device_put(X, gpu)
    f = functrax.jit(lambda x: x + c)
    assert f(X).device is cpu
    assert f(functrax.device_put(X, cpu)).device is cpu
    assert f(functrax.device_put(X, gpu)).device is gpu
    np.testing.assert_array_equal(f(X), 2 * X)


def test_jit_on_a_device(cpu: Device, gpu: Device) -> None:
    for device, name in ((gpu, "gpu"), (cpu, "cpu")):
        made = (
            functrax.jit(lambda x: x * 2, device=device),
            functrax.jit(lambda x: x * 2, backend=name),
        )
        for f in made:
            for x in (X, jnp.asarray(X), *(functrax.device_put(X, d) for d in (cpu, gpu))):
                found = f(x)
                assert found.device is device and found.committed
                np.testing.assert_array_equal(found, 2 * X)
    f = functrax.jit(lambda: jnp.ones(3), backend="gpu")
    assert f().device is gpu and f().committed
    inside = functrax.jit(lambda x: functrax.jit(lambda y: y + 1, backend="gpu")(x))
    assert inside(X).device is cpu  # the program around it says where it runs


def test_jit_refuses_places_that_there_are_not(gpu: Device) -> None:
    with pytest.raises(RuntimeError, match="Unknown backend foo"):
        functrax.jit(lambda x: x, backend="foo")
    with pytest.raises(ShardingError, match="both a device and a backend"):
        functrax.jit(lambda x: x, device=gpu, backend="gpu")


def test_shardings_say_where_results_are(gpu: Device, cpu: Device) -> None:
    mesh = functrax.sharding.Mesh(np.array([gpu]), ("x",))
    sharding = functrax.NamedSharding(mesh, functrax.P("x"))
    x = functrax.device_put(X, sharding)
    assert x.device is gpu and x.sharding == sharding
    f = functrax.jit(lambda x: x + 1, out_shardings=sharding)
    assert f(X).device is gpu and f(X).sharding == sharding


def test_copies_have_memory_of_their_own(gpu: Device, cpu: Device) -> None:
    for device in (gpu, cpu):
        x = functrax.device_put(X, device)
        y = functrax.device_put(x, may_alias=False)
        assert y.device is device and y.committed
        np.testing.assert_array_equal(y, X)
        functrax.jit(lambda v: v + 1, donate_argnums=0)(x)
        assert x.is_deleted()
        np.testing.assert_array_equal(y, X)
    x, y = functrax.device_put(X, gpu), functrax.device_put(X, gpu)
    z = functrax.device_put(x, may_alias=False)
    assert unbound(z.buffer).address != unbound(x.buffer).address
    assert unbound(functrax.device_put(x, gpu).buffer).address == unbound(x.buffer).address
    assert not pickle.loads(pickle.dumps(y)).committed


def test_functions_of_both_devices_in_one_process(cpu: Device, gpu: Device) -> None:
    f = functrax.jit(lambda x: functrax.nn.softmax(x))
    here, there = functrax.device_put(X, cpu), functrax.device_put(X, gpu)
    for _ in range(2):
        np.testing.assert_allclose(f(here), f(there), rtol=1e-6)
        np.testing.assert_allclose(f(jnp.asarray(X)), f(there), rtol=1e-6)
    assert f.cache_info().misses == 1


@pytest.mark.skipif(native.extension is None, reason="C++ makes no calls")
def test_calls_of_the_cpu_stay_in_cpp(gpu: Device) -> None:
    f = functrax.jit(lambda x: x * 3)
    x = jnp.asarray(X)
    f(functrax.device_put(X, gpu))
    f(x)
    before = f._direct_hits
    f(x)
    f(functrax.device_put(X, gpu))
    f(x)
    assert f._direct_hits == before + 2


def test_transfers_are_recorded(gpu: Device) -> None:
    f = functrax.jit(lambda x, y: x + y)
    x = functrax.device_put(X, gpu)
    f(x, X)
    recorder.start()
    try:
        f(x, X)
        functrax.device_put(x, functrax.devices("cpu")[0])
    finally:
        recording = recorder.stop()
    spans = [s for s in recording.spans if s.kind == "transfer"]
    assert [s.name for s in spans] == ["f32[2,3] cpu:0 -> cuda:0", "f32[2,3] cuda:0 -> cpu:0"]
    assert all(s.facts["bytes"] == X.nbytes and s.end > s.begin for s in spans)
    assert "test_devices.py" in spans[0].facts["line"]
    assert "transfer f32[2,3] cpu:0 -> cuda:0" in str(report_of(recording))


def test_explain_shows_transfers(gpu: Device) -> None:
    explained = functrax.explain(lambda x, y: x + y)(functrax.device_put(X, gpu), X)
    (moved,) = explained.transfers
    assert (moved.name, moved.source, moved.target) == ("[0][1]", "cpu:0", "cuda:0")
    assert moved.nbytes == X.nbytes and moved.seconds is None
    assert "cuda:0" in str(explained)
    assert ".visible .entry" in explained.kernels[0].assembly
    assert functrax.explain(lambda x: x + 1)(X).transfers == ()
    on_gpu = functrax.explain(lambda x: x + 1, backend="gpu")(X)
    assert len(on_gpu.transfers) == 1 and ".visible" in on_gpu.kernels[0].assembly


START = """
import os
exists = os.path.exists
os.path.exists = lambda path: path == "/dev/nvidiactl" or exists(path)
import functrax
print(functrax.config.backend)
"""


def run(text: str, **environment: str) -> list[str]:
    """What a new process prints, in which NVIDIA's driver seems to be there."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FUNCTRAX_BACKEND", "CUDA"))}
    out = subprocess.run(
        [sys.executable, "-c", START + text],
        env={**kept, "FUNCTRAX_CUDA_DRIVER": "simulated", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert out.returncode == 0, out.stderr
    return out.stdout.split()


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU")
def test_a_driver_that_does_not_open_is_an_error_that_says_so() -> None:
    asked = "with functrax.backend('cuda'):\n  functrax.devices('gpu')"
    with pytest.raises(AssertionError, match=r"no platforms that are instances of gpu"):
        run(asked, FUNCTRAX_CUDA_DRIVER="")


def test_platforms_by_option(gpu: Device, cpu: Device) -> None:
    before = functrax.config.backend
    assert before == "llvm"
    try:
        with functrax.backend("interp"):
            functrax.config.update("jax_platforms", "cpu")
            assert functrax.config.backend == "interp"
    finally:
        functrax.config.update("jax_platforms", "")


def test_wrong_places_are_refused(gpu: Device) -> None:
    with pytest.raises(ShardingError, match="neither a device nor a sharding"):
        functrax.device_put(X, "gpu")
    with pytest.raises(ArgumentError, match="no streams"):
        functrax.device_put(X, gpu).to_device(gpu, stream=3)
