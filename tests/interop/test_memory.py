"""Memory that is shared with NumPy, with other libraries, and with other processes."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.runtime.choice import pool_stats
from functrax.core import native
from functrax.core.arrays import dlpack
from functrax.core.process import shared_memory
from functrax.errors import ArgumentError, DTypeError

DTYPES = ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"]


def address(x: Any) -> int:
    value = x if isinstance(x, np.ndarray) else np.asarray(x)
    return int(value.__array_interface__["data"][0])


def made(shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    """An array in memory of the pool."""
    return functrax.jit(lambda: jnp.arange(np.prod(shape)).reshape(shape).astype(dtype))()


class Legacy:
    """An array of a library that knows no versions of the protocol."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self) -> Any:
        return self.x.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_numpy_sees_the_memory() -> None:
    x = made((3, 4))
    value = np.asarray(x)
    assert address(value) == x.buffer.address
    assert not value.flags.writeable
    assert address(np.array(x, copy=False)) == address(value)
    if native.extension is not None:
        assert address(np.frombuffer(memoryview(x), np.float32)) == address(value)
    np.testing.assert_array_equal(value, np.arange(12).reshape(3, 4))


@pytest.mark.skipif(
    native.extension is None, reason="NumPy's view does not tell whose memory it is"
)
def test_asarray_of_an_arrays_memory_is_no_copy() -> None:
    x = made((5,))
    again = jnp.asarray(np.asarray(x))
    assert address(again) == address(x)
    del x
    assert again.tolist() == [0, 1, 2, 3, 4]


def test_asarray_copies_what_can_be_written_to() -> None:
    value = np.zeros(3, np.float32)
    frozen = value.view()
    frozen.flags.writeable = False
    for given in (value, frozen):
        x = jnp.asarray(given)
        value[0] += 1
        assert x[0] == value[0] - 1


def test_asarray_takes_memory_where_told() -> None:
    value = np.zeros(3, np.float32)
    x = jnp.asarray(value, copy=False)
    assert address(x) == address(value)
    assert value.flags.writeable and not np.asarray(x).flags.writeable
    assert address(jnp.asarray(value, copy=True)) != address(value)
    for given in ([1.0, 2.0], np.zeros(3), np.zeros(3, np.int32).astype(object)):
        with pytest.raises((ArgumentError, DTypeError)):
            jnp.asarray(given, copy=False)
    with functrax.enable_x64():
        assert jnp.asarray(np.zeros(3), copy=False).dtype == np.float64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3)])
def test_dlpack_out_and_in(dtype: str, shape: tuple[int, ...]) -> None:
    x = made(shape, dtype)
    for there in (x, Legacy(x)):
        y = jnp.from_dlpack(there)
        assert y.aval == x.aval
        np.testing.assert_array_equal(np.asarray(y), np.asarray(x))
        if x.size:
            assert address(y) == address(x)


def test_numpy_is_told_that_arrays_are_read_only() -> None:
    x = made((4,))
    there = np.from_dlpack(x)
    assert address(there) == address(x) and not there.flags.writeable


def test_dlpack_in_shares_memory() -> None:
    for value in (np.arange(6, dtype=np.float32), np.arange(24, dtype=np.int32).reshape(4, 6)[::2]):
        x = jnp.from_dlpack(value)
        assert address(x) == address(value)
        np.testing.assert_array_equal(functrax.jit(lambda a: a + 1)(x), value + 1)
        assert address(jnp.from_dlpack(value, copy=True)) != address(value)


def test_dlpack_narrows_what_arrays_cannot_hold() -> None:
    value = np.arange(3.0)
    assert jnp.from_dlpack(value).dtype == np.float32
    with pytest.raises(ArgumentError, match="without a copy"):
        jnp.from_dlpack(value, copy=False)
    with functrax.enable_x64():
        assert address(jnp.from_dlpack(value)) == address(value)


def test_dlpack_refuses_devices_and_streams() -> None:
    x = made((2,))
    assert x.__dlpack_device__() == (1, 0)
    assert x.__dlpack__(dl_device=(1, 0)) is not None
    for options in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(ArgumentError, match="memory of the host"):
            x.__dlpack__(**options)
    there = np.from_dlpack(x, copy=True)
    assert address(there) != address(x)
    # older NumPy makes every copy read-only
    assert there.flags.writeable == np.from_dlpack(np.zeros(2), copy=True).flags.writeable


def test_dlpack_keeps_memory_alive() -> None:
    x = made((1000,))
    wanted = np.array(x)
    there = [np.from_dlpack(x), jnp.from_dlpack(Legacy(x))]
    x.delete()
    del x
    others = [made((1000,)) * 0 for _ in range(5)]
    for seen in there:
        np.testing.assert_array_equal(np.asarray(seen), wanted)
    del others


def test_donation_leaves_exported_memory_alone() -> None:
    step = functrax.jit(lambda x: x + 1, donate_argnums=0)
    x = made((100,))
    there = np.from_dlpack(x)
    wanted = there.copy()
    y = step(x)
    np.testing.assert_array_equal(there, wanted)
    assert x.is_deleted() and address(y) != address(there)


def test_bfloat16_has_its_own_type_in_dlpack() -> None:
    capsule = dlpack.exported(np.zeros(2, ml_dtypes.bfloat16), made((2,), "bfloat16").aval)
    assert dlpack._rename(capsule, 4, 4)


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    "convert",
    [np.asarray, np.from_dlpack, jnp.from_dlpack, lambda x: jnp.asarray(np.asarray(x))],
    ids=["asarray", "np.from_dlpack", "jnp.from_dlpack", "jnp.asarray"],
)
def test_nothing_is_copied(convert: Callable[[Any], Any], request: pytest.FixtureRequest) -> None:
    if native.extension is None and request.node.callspec.id == "jnp.asarray":
        pytest.skip("NumPy's view does not tell whose memory it is")
    for x in made((256,)), made((1 << 20,)):
        in_use = pool_stats().in_use
        converted = convert(x)
        assert address(converted) == address(x)
        assert pool_stats().in_use <= in_use


def test_pickles_hold_the_elements() -> None:
    x = made((300, 300))
    for protocol in range(2, 6):
        data = pickle.dumps(x, protocol)
        assert len(data) > x.nbytes
        y = pickle.loads(data)
        assert y.aval == x.aval and not np.asarray(y).flags.writeable
        np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_pickles_out_of_band_are_no_copies() -> None:
    x = made((300, 300))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    y = pickle.loads(data, buffers=buffers)
    assert address(y) == address(x)


def _double(connection: Any) -> None:
    while (x := connection.recv()) is not None:
        connection.send((x * 2, x))
    connection.close()


@pytest.fixture
def other() -> Any:
    """A connection to a process that doubles arrays."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_double, args=(theirs,))
    process.start()
    yield ours
    ours.send(None)
    process.join(60)
    ours.close()
    theirs.close()
    assert process.exitcode == 0


def test_processes_send_arrays_in_shared_memory(other: Any) -> None:
    large, small = made((1 << 18,)), made((3,))
    tree = {"w": large, "b": small}
    wanted = {k: np.array(v) for k, v in tree.items()}
    for k, x in tree.items():
        other.send(x)
        doubled, same = other.recv()
        np.testing.assert_array_equal(np.asarray(doubled), wanted[k] * 2)
        np.testing.assert_array_equal(np.asarray(same), wanted[k])
        assert same.aval == x.aval
        assert not np.asarray(same).flags.writeable
        assert (shared_memory.segment_of(np.asarray(doubled)) is not None) == (k == "w")
    assert shared_memory.segment_of(np.asarray(large)) is not None
    segment = shared_memory.segment_of(np.asarray(large))
    other.send(large)  # a second time without a copy
    other.recv()
    assert shared_memory.segment_of(np.asarray(large)) is segment
    np.testing.assert_array_equal(functrax.jit(lambda x: x + 1)(large), wanted["w"] + 1)


def test_what_travels_is_small() -> None:
    x = made((1 << 20,))
    from multiprocessing.reduction import ForkingPickler

    assert len(ForkingPickler.dumps([x, {"again": x}])) < 4000


def test_descriptors_are_closed() -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    for _ in range(20):
        value = shared_memory.shared(np.ones(1 << 16, np.float32))
        del value
    assert count() <= before + 1


def test_shared_is_for_processes_only() -> None:
    weights = functrax.interop.Shared([np.ones(3, np.float32)])
    weights.add([np.ones(3)])
    assert weights.arrays[0].tolist() == [2, 2, 2]
    with pytest.raises(ArgumentError, match="sent to a process"):
        pickle.dumps(weights)


HOGWILD = """
import multiprocessing, sys
import numpy as np
import functrax, functrax.numpy as jnp

def predict(p, x):
    return jnp.tanh(x @ p["w"] + p["b"]) @ p["v"]

@functrax.jit
def gradient(p, x, y):
    return functrax.grad(lambda p: jnp.mean((predict(p, x) - y) ** 2))(p)

def loss(p, x, y):
    return float(jnp.mean((predict(p, x) - y) ** 2))

def data(seed, n):
    x = np.random.default_rng(seed).uniform(-1, 1, (n, 2)).astype(np.float32)
    return x, x[:, 0] * x[:, 1]

def train(shared, seed):
    for step in range(800):
        x, y = data((seed, step), 32)
        updates = gradient(shared.arrays, x, y)
        shared.add(functrax.tree.map(lambda g: -0.05 * np.asarray(g), updates))

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    shared = functrax.interop.Shared({
        "w": rng.normal(size=(2, 32)).astype(np.float32), "b": np.zeros(32, np.float32),
        "v": (rng.normal(size=32) / 8).astype(np.float32)})
    test = data(99, 1000)
    before = loss(shared.arrays, *test)
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=train, args=(shared, k)) for k in range(2)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    print([w.exitcode for w in workers], before > 0.08, loss(shared.arrays, *test) < 0.02)
"""


@pytest.mark.parametrize("start", ["spawn", "forkserver"])  # the latter is 3.14's own choice
def test_hogwild_converges(start: str, tmp_path: Path) -> None:
    script = tmp_path / "hogwild.py"
    script.write_text(HOGWILD)
    command = [sys.executable, str(script), start]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "[0, 0] True True", done.stdout + done.stderr
