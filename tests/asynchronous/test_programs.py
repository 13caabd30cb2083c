"""Programs that run while Python goes on: the option ``async_dispatch``."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, profiler
from functrax.core import native
from functrax.core.options.config import Override

pytestmark = pytest.mark.skipif(native.extension is None, reason="the C++ runtime does it")


@pytest.fixture(autouse=True)
def asynchronous() -> Iterator[None]:
    with Override("async_dispatch", True):
        yield
    native.extension.tasks_drain()


def heavy(x: Any) -> Any:
    """Some milliseconds of work for 3e5 elements."""
    return lax.fori_loop(0, 20, lambda _, y: jnp.sin(y) * 1.01 + 0.1, x)


def synchronous(f: Any, *args: Any) -> Any:
    with Override("async_dispatch", False):
        return f(*args)


SIZE = 300_000


def start() -> Any:
    return functrax.jit(lambda k: jnp.linspace(0, 1, SIZE) * k)(1.0).block_until_ready()


def test_calls_return_before_the_work_is_done() -> None:
    step = functrax.jit(heavy)
    x = step(start()).block_until_ready()
    before = []
    for _ in range(20):  # on a busy machine this thread may wait until the work is done
        y = step(step(x))
        before.append(not y.is_ready())
        y.block_until_ready()
    assert any(before)
    assert y.is_ready()
    want = synchronous(step, synchronous(step, x))
    assert np.asarray(y).tobytes() == np.asarray(want).tobytes()


@pytest.mark.parametrize("donate", [(), (0,)])
def test_a_chain_has_the_same_bits(donate: tuple[int, ...]) -> None:
    step = functrax.jit(heavy, donate_argnums=donate)
    small = functrax.jit(lambda x: x[::1000] + 1)
    results = []
    for on in (True, False):
        with Override("async_dispatch", on):
            x, seen = step(start()), []
            for _ in range(30):
                seen.append(small(x))
                x = step(x)
            results.append([np.asarray(v).tobytes() for v in (*seen, x)])
    assert results[0] == results[1]


def test_diamonds() -> None:
    """J36: two branches that do not depend on each other, and what depends on both."""
    f, g = functrax.jit(heavy), functrax.jit(lambda x: heavy(x + 1))
    join = functrax.jit(lambda a, b: a * 2 - b)
    x = start()
    want = [np.asarray(synchronous(lambda: join(f(x), g(x)))).tobytes()] * 20
    got = [join(f(x), g(x)) for _ in range(20)]
    assert [np.asarray(v).tobytes() for v in got] == want


def test_independent_programs_overlap() -> None:
    """N22: two programs run at the same time, in different threads."""
    if functrax.backends.runtime.choice.CURRENT.num_threads() < 2:
        pytest.skip("one thread runs everything")
    f, g = functrax.jit(heavy), functrax.jit(lambda x: heavy(x + 1))
    x = start()
    functrax.block_until_ready((f(x), g(x)))
    functrax.block_until_ready((f(x), g(x)))
    for _ in range(10):  # a busy machine may run one after the other
        profiler.start_trace()
        functrax.block_until_ready([k(x) for _ in range(4) for k in (f, g)])
        recording = functrax.core.events.recorder.recorder.stop()
        runs = recording.runs
        if any(
            a.thread != b.thread and a.begin < b.end and b.begin < a.end for a in runs for b in runs
        ):
            return
    raise AssertionError("no two programs ran at the same time")


@pytest.mark.usefixtures("no_collection")
def test_a_donated_input_is_updated_in_place() -> None:
    functrax.backends.runtime.choice.CURRENT.pool_trim()  # blocks that wait may be larger
    step = functrax.jit(heavy, donate_argnums=0)
    x = step(step(start()))
    x = step(step(x))
    before = functrax.backends.runtime.choice.pool_stats().in_use
    for _ in range(20):
        x = step(x)
    functrax.effects_barrier()
    assert functrax.backends.runtime.choice.pool_stats().in_use <= before + 4 * SIZE
    del x


def test_a_reader_sees_the_value_before_the_donation() -> None:
    step = functrax.jit(heavy, donate_argnums=0)
    reader = functrax.jit(lambda x: heavy(x) * 3)
    got, want = [], []
    for on, out in ((True, got), (False, want)):
        with Override("async_dispatch", on):
            x = step(start())
            for _ in range(10):
                out.append(reader(x))
                x = step(x)
    assert [np.asarray(v).tobytes() for v in got] == [np.asarray(v).tobytes() for v in want]


def test_arrays_may_die_while_they_are_computed() -> None:
    step = functrax.jit(heavy)
    x = start()
    expected = np.asarray(synchronous(step, x)).tobytes()
    for k in range(40):
        y = step(x)
        if k % 3 == 0:
            y.delete()
        del y
    assert np.asarray(step(x)).tobytes() == expected
    functrax.effects_barrier()


def test_memory_of_others_may_change_after_the_call() -> None:
    small, large = np.ones(16, np.float32), np.ones(SIZE, np.float32)
    step = functrax.jit(lambda x, a, b: heavy(x) + a[0] + b)
    x = start()
    want = np.asarray(synchronous(step, x, small, large)).tobytes()
    got = []
    for _ in range(10):
        small[:], large[:] = 1, 1
        got.append(step(x, small, large))
        small[:], large[:] = np.nan, np.nan
    assert {np.asarray(v).tobytes() for v in got} == {want}


def test_what_is_unfinished_is_bounded() -> None:
    step = functrax.jit(heavy)
    x = step(start())
    most = 0
    for _ in range(40):
        x = step(x)
        most = max(most, native.extension.tasks_unfinished())
    assert 1 <= most <= 8
    x.block_until_ready()
    assert native.extension.tasks_unfinished() == 0


def test_fetches_of_what_is_not_computed_yet() -> None:
    step = functrax.jit(heavy, donate_argnums=0)
    x, seen, want = step(start()), [], []
    for _ in range(10):
        x.fetch(lambda v: seen.append(v.tobytes()))
        x = step(x)
    functrax.effects_barrier()
    y = synchronous(step, start())
    for _ in range(10):
        want.append(np.asarray(y).tobytes())
        y = synchronous(step, y)
    assert seen == want


def test_programs_that_call_python_wait_for_their_inputs() -> None:
    seen: list[float] = []
    step = functrax.jit(heavy)

    @functrax.jit
    def spy(x: Any) -> Any:
        functrax.debug.callback(lambda v: seen.append(float(v)), x[7])
        return x * 2

    x = start()
    for _ in range(5):
        x = step(x)
        spy(x)
    functrax.effects_barrier()
    y, want = start(), []
    for _ in range(5):
        y = synchronous(step, y)
        want.append(float(y[7]))
    assert seen == want


def test_eager_operations_wait_for_their_operands() -> None:
    step = functrax.jit(heavy)
    x = start()
    want = np.asarray(synchronous(step, x)) * 2 + 1
    np.testing.assert_allclose(np.asarray(step(x) * 2 + 1), want, rtol=1e-6)
    assert float(step(x)[3]) == pytest.approx(float(want[3] - 1) / 2)
    assert np.asarray(memoryview(step(x))).tobytes() == np.asarray(synchronous(step, x)).tobytes()
    assert np.from_dlpack(step(x)).tobytes() == np.asarray(synchronous(step, x)).tobytes()


def test_nans_are_found_at_once() -> None:
    step = functrax.jit(lambda x: heavy(jnp.log(x - 10)))
    with functrax.debug_nans(True), pytest.raises(FloatingPointError):
        step(start())


def test_many_threads() -> None:
    step = functrax.jit(heavy)
    mixed = functrax.jit(lambda x, y: x * 0.5 + y * 0.5)
    x = start()

    def work(seed: int) -> bytes:
        a, b = step(x * seed), step(x + seed)
        for _ in range(6):
            a, b = mixed(step(a), b), step(b)
        return np.asarray(a).tobytes() + np.asarray(b).tobytes()

    want = [synchronous(work, k) for k in range(8)]
    got: list[Any] = [None] * 8

    def run(k: int) -> None:
        with Override("async_dispatch", True):
            got[k] = work(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
    assert got == want


def python(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    head = (
        "import functrax, functrax.numpy as jnp, os, signal, sys, threading, time\n"
        "from functrax import lax\n"
        "functrax.config.update('async_dispatch', True)\n"
        "step = functrax.jit(lambda x: lax.fori_loop(0, 20, lambda _, y: jnp.sin(y) + 0.1, x))\n"
        "x = step(jnp.ones(300_000)).block_until_ready()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=300, **options
    )


def test_the_process_ends_while_programs_run() -> None:
    done = python("for _ in range(6): y = step(x)\nprint('end')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_the_process_ends_while_an_endless_program_runs() -> None:
    done = python(
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # else of who started it
        "f = functrax.jit(lambda x, n: lax.while_loop(lambda y: y[0] < n, jnp.sin, x))\n"
        "f(x, -9.0).block_until_ready()\n"
        "y = f(x, 9.0)\nprint('end')"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_an_interrupt_stops_what_is_waited_for() -> None:
    done = python(
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # else of who started it
        "f = functrax.jit(lambda x, n: lax.while_loop(lambda y: y[0] < n, jnp.sin, x))\n"
        "f(x, -9.0).block_until_ready()\n"
        "y = f(x, 9.0)\nz = step(y)\n"
        "try:\n"
        "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    y.block_until_ready()\n"
        "except KeyboardInterrupt: print('stopped')\n"
        "for v in (y, z):\n"
        "    try: v.block_until_ready()\n"
        "    except functrax.errors.InterruptedProgramError: print('no value')\n"
        "print(step(x).shape)"
    )
    assert done.stdout == "stopped\nno value\nno value\n(300000,)\n", done.stderr


def test_a_fork_while_programs_run() -> None:
    done = python(
        "y = step(step(x))\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    same = bool((step(y) == step(step(step(x)))).all())\n"
        "    os._exit(0 if same else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), step(y).shape)"
    )
    assert done.stdout == "0 (300000,)\n", done.stderr


def test_without_the_option_calls_wait() -> None:
    step = functrax.jit(heavy)
    with Override("async_dispatch", False):
        x = start()
        for _ in range(3):
            x = step(x)
            assert x.is_ready()
    assert native.extension.tasks_unfinished() == 0


def test_threads_that_call_one_function_use_all_cores() -> None:
    """Eight threads at once, each call inline: the machine code runs without the GIL."""
    if functrax.backends.runtime.choice.CURRENT.num_threads() < 2:
        pytest.skip("one core")
    step = functrax.jit(heavy)
    inputs = [start() + k for k in range(8)]
    functrax.block_until_ready(inputs)
    want = [np.asarray(synchronous(step, x)).tobytes() for x in inputs]
    got: list[Any] = [None] * 8

    def run(k: int) -> None:
        with Override("async_dispatch", False):
            got[k] = np.asarray(step(inputs[k])).tobytes()

    for _ in range(10):
        profiler.start_trace()
        threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(300)
        runs = functrax.core.events.recorder.recorder.stop().runs
        assert got == want
        if any(a.thread != b.thread and a.begin < b.begin < a.end for a in runs for b in runs):
            return
    raise AssertionError("no two calls ran at the same time")
