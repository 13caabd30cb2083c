"""The pool and the Buffers in it, on both implementations."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from functrax.backends.executables.program import RuntimeProgram
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.runtime.choice import Runtime
from functrax.backends.runtime.pool import size_class
from functrax.core.errors.typed import DonatedBufferError
from tests.backends.runtime.programs import F32, function_program, host

pytestmark = pytest.mark.usefixtures("no_collection", "empty_pool")

LARGE = ((1 << 20,), F32)  # 4 MB
OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


@pytest.fixture
def empty_pool(runtime: Runtime) -> None:
    """Without blocks of other tests, which may be larger than what is asked for."""
    runtime.pool_trim()


def increment() -> RuntimeProgram:
    return function_program([LARGE], [(lambda x: x + 1, LARGE)])


def test_a_buffer_that_goes_frees_its_memory_at_once(runtime: Runtime) -> None:
    before = runtime.pool_stats().in_use
    buffers = [runtime.buffer((1000,), F32) for _ in range(5)]
    assert runtime.pool_stats().in_use == before + 5 * size_class(4000)
    del buffers[1:]
    assert runtime.pool_stats().in_use == before + size_class(4000)
    view = buffers[0].materialize()
    del buffers
    assert runtime.pool_stats().in_use == before + size_class(4000)
    del view
    assert runtime.pool_stats().in_use == before


def test_a_steady_state_asks_the_system_for_nothing(runtime: Runtime) -> None:
    b = ProgramBuilder("step")
    y = b.input(*LARGE)
    for _ in range(4):
        y = host(b, lambda v: v + 1, (y,), LARGE)
    call = runtime.load(b.build((y, host(b, np.sum, (y,), ((), F32)))))
    value = call([np.zeros(1 << 20, F32)])[0]
    for _ in range(3):
        value = call([value])[0]
    before = runtime.pool_stats()
    for _ in range(10):
        value = call([value])[0]
    after = runtime.pool_stats()
    assert after.allocations == before.allocations
    assert after.hits > before.hits and after.in_use == before.in_use
    assert np.asarray(value)[-1] == 4 * 14


def test_a_chain_uses_two_buffers_beside_its_result(runtime: Runtime) -> None:
    b = ProgramBuilder("chain")
    x = b.input(*LARGE)
    for _ in range(100):
        x = host(b, lambda v: v, (x,), LARGE)
    call = runtime.load(b.build((x,)))
    start = np.zeros(1 << 20, F32)
    call([start])
    before = runtime.pool_stats().in_use
    runtime.pool_reset_peak()
    call([start])
    assert runtime.pool_stats().peak - before <= 13 << 20  # the arena is rounded up


def test_large_blocks_begin_at_different_places_of_a_page(runtime: Runtime) -> None:
    if runtime.name == "python":
        pytest.skip("NumPy decides there")
    buffers = [runtime.buffer((1 << 18,), F32) for _ in range(40)]
    places = {b.materialize().ctypes.data % 4096 for b in buffers}
    assert len(places) >= 20 and all(p % 64 == 0 for p in places)


def test_trim_and_limit(runtime: Runtime) -> None:
    buffers = [runtime.buffer((1 << 20,), F32) for _ in range(3)]
    runtime.pool_trim()
    assert runtime.pool_stats().cached == 0
    del buffers
    assert runtime.pool_stats().cached == 3 * (4 << 20)
    runtime.pool_trim(5 << 20)
    assert runtime.pool_stats().cached == 4 << 20
    assert runtime.pool_limit(6 << 20) == 6 << 20
    buffers = [runtime.buffer((1 << 20,), F32) for _ in range(3)]
    del buffers
    assert runtime.pool_stats().cached == 4 << 20
    runtime.pool_limit(0)
    assert runtime.pool_stats().cached == 0


@pytest.mark.parametrize(("part", "again"), [(0.99, True), (0.7, True), (0.6, False), (1.1, False)])
def test_a_block_is_used_again_for_what_is_a_little_smaller(
    runtime: Runtime, part: float, again: bool
) -> None:
    if runtime.name == "python":
        pytest.skip("a block is used again for its own size alone")
    runtime.pool_trim()
    before = runtime.pool_stats()
    buffer = runtime.buffer((1 << 20,), np.int8)
    size = runtime.pool_stats().in_use - before.in_use
    del buffer
    buffer = runtime.buffer((int(part * (1 << 20)),), np.int8)
    after = runtime.pool_stats()
    assert after.allocations - before.allocations == (1 if again else 2)
    assert after.cached == (0 if again else size)
    assert (after.in_use - before.in_use == size) == again
    del buffer
    assert runtime.pool_stats().in_use == before.in_use


def test_small_blocks_are_cached_and_trimmed(runtime: Runtime) -> None:
    sizes = (1, 64, 65, 1024)
    buffers = [runtime.buffer((n,), np.int8) for n in sizes]
    runtime.pool_trim()
    del buffers
    assert runtime.pool_stats().cached == 64 + 64 + 128 + 1024
    before = runtime.pool_stats()
    buffers = [runtime.buffer((n,), np.int8) for n in sizes]
    after = runtime.pool_stats()
    assert (after.cached, after.hits) == (0, before.hits + 4)
    assert after.allocations == before.allocations
    del buffers
    runtime.pool_trim(64)
    assert runtime.pool_stats().cached == 64
    runtime.pool_trim()
    assert runtime.pool_stats().cached == 0


def test_memory_that_there_is_not(runtime: Runtime) -> None:
    before = runtime.pool_stats().in_use
    with pytest.raises(MemoryError, match=r"1125899906842624|4503599627370560"):
        runtime.buffer((1 << 50,), F32)
    assert runtime.pool_stats().in_use == before
    with pytest.raises(ValueError):
        runtime.buffer((-1,), F32)


@pytest.mark.skipif(
    OVERCOMMIT.exists() and OVERCOMMIT.read_text().strip() == "1",
    reason="the system gives any number of bytes",
)
def test_more_than_the_machine_has_is_refused(runtime: Runtime) -> None:
    """Else the system ends the process when the elements are written."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with pytest.raises(MemoryError):
        runtime.buffer((8 * machine,), np.int8)


def test_more_than_a_container_may_have_is_refused(runtime: Runtime) -> None:
    """What waits to be used again goes first."""
    before = runtime.pool_most()
    runtime.pool_trim()
    try:
        most = runtime.pool_stats().in_use + (8 << 20)
        assert runtime.pool_most(most) == most
        kept = runtime.buffer((3 << 20,), np.int8)
        del kept  # which waits now
        runtime.pool_limit(64 << 20)
        held = runtime.buffer((6 << 20,), np.int8)
        assert runtime.pool_stats().in_use + runtime.pool_stats().cached <= most
        with pytest.raises(MemoryError):
            runtime.buffer((3 << 20,), np.int8)
        del held
        assert runtime.buffer((7 << 20,), np.int8).nbytes == 7 << 20
    finally:
        runtime.pool_most(before)


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 1024, 1025, 4096, 5000, 1 << 21, 5 << 21])
def test_memory_is_aligned_and_padded(runtime: Runtime, nbytes: int) -> None:
    before = runtime.pool_stats().in_use
    buffer = runtime.buffer((nbytes,), np.int8)
    assert buffer.address % 64 == 0
    used = runtime.pool_stats().in_use - before
    assert used == size_class(nbytes) >= nbytes and used % 64 == 0
    assert nbytes <= 1024 or used <= 1.125 * nbytes


def test_size_classes_grow_and_hold_what_is_asked() -> None:
    previous = 0
    for n in sorted({k + d for p in range(30) for k in (1 << p, 3 << p) for d in (-1, 0, 1)}):
        assert size_class(n) >= max(n, previous) and size_class(size_class(n)) == size_class(n)
        previous = size_class(n)


@pytest.mark.parametrize("name", ["float32", "bool", "complex64", "bfloat16", "int8", "float16"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_views(runtime: Runtime, name: str, shape: tuple[int, ...]) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    values = np.ones(shape, dtype)
    program = function_program([(shape, dtype)], [(lambda x: x, (shape, dtype))])
    buffer = runtime.load(program)([values])[0]
    assert buffer.shape == shape and buffer.dtype == dtype and buffer.nbytes == values.nbytes
    for array in (buffer.materialize(), np.asarray(buffer)):
        assert array.dtype == dtype and array.shape == shape and not array.flags.writeable
        np.testing.assert_array_equal(array, values)
        if values.size:
            assert array.ctypes.data == buffer.address
    converted = np.asarray(buffer, np.complex64)
    assert converted.dtype == np.complex64 and converted.shape == shape
    own = np.array(buffer)
    assert own.dtype == dtype and own.flags.writeable
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(buffer.materialize())), values)


def test_the_buffer_protocol(runtime: Runtime) -> None:
    buffer = runtime.load(function_program([((2,), F32)], [(np.copy, ((2,), F32))]))(
        [np.float32([1, 2])]
    )[0]
    if runtime.name == "python":  # Python classes have it from 3.12 on
        assert list(buffer.__buffer__(0)) == [1, 2]
        return
    view = memoryview(buffer)
    assert view.readonly and view.format == "f" and list(view) == [1, 2]
    before = runtime.pool_stats().in_use
    del buffer
    assert runtime.pool_stats().in_use == before and list(view) == [1, 2]


def test_a_deleted_buffer_says_so(runtime: Runtime) -> None:
    before = runtime.pool_stats().in_use
    buffer = runtime.buffer((3,), F32)
    buffer.delete()
    assert runtime.pool_stats().in_use == before and buffer.deleted
    for look in (buffer.materialize, buffer.__array__, lambda: buffer.address):
        with pytest.raises(DonatedBufferError, match=r"float32\[3\]"):
            look()
    assert "deleted" in repr(buffer)


def test_many_threads_use_the_pool(runtime: Runtime) -> None:
    before = runtime.pool_stats().in_use
    rounds = 2000 if runtime.name == "native" else 200

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        kept: list[Any] = []
        for size in rng.integers(1, 5000, rounds):
            kept.append(runtime.buffer((int(size),), np.int8))
            if len(kept) > 10:
                del kept[int(size) % 10]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert runtime.pool_stats().in_use == before
