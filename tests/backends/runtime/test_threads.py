"""Threads, processes and signals, on both implementations."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from functrax.backends import threads
from functrax.backends.executables.program import (
    CopyInstruction,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    WhileInstruction,
)
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.runtime.choice import PYTHON, Runtime
from functrax.core.errors.typed import ArgumentError
from functrax.core.process import cgroups
from tests.backends.runtime.programs import F32, I32, host

pytest.importorskip("llvmlite")

from tests.backends.runtime.kernels import kernels

N = 1 << 16
VEC = ((N,), F32)
X = np.linspace(0, 1, N, dtype=F32)
BIG = 10_000_000  # a cost at which all threads take part


def affine_program(steps: int = 3, cost: int = BIG, grain: int = 1) -> RuntimeProgram:
    """``x -> 2 x + 1``, repeatedly."""
    k = kernels()
    b = ProgramBuilder("affine")
    x = b.input(*VEC)
    for _ in range(steps):
        y = b.value(*VEC)
        b.add(k.launch("affine", (x,), (y,), units=N, cost=cost, grain=grain))
        x = y
    return b.build((x,))


def affine(x: np.ndarray[Any, Any], steps: int = 3) -> np.ndarray[Any, Any]:
    for _ in range(steps):
        x = np.float32(2) * x + np.float32(1)
    return x


@pytest.mark.parametrize("grain", [1, 7, 64, N, 2 * N])
@pytest.mark.parametrize("units", [0, 1, 5, 1000, 4097])
def test_every_unit_is_run_once(runtime: Runtime, units: int, grain: int) -> None:
    k = kernels()
    b = ProgramBuilder("count")
    out = b.value((units,), np.int64)
    options = {"units": units, "cost": BIG, "grain": grain}
    b.add(k.launch("count_down", (), (out,), params=(units,), **options))
    for n in (1, 2, 3, 5):
        runtime.set_num_threads(n)
        assert runtime.num_threads() == n
        (got,) = runtime.load(b.build((out,)))([])
        np.testing.assert_array_equal(np.asarray(got), units - np.arange(units))


def test_results_do_not_depend_on_the_number_of_threads(runtime: Runtime) -> None:
    call = runtime.load(affine_program())
    results = []
    for n in (1, 2, 4, 1, 3):
        runtime.set_num_threads(n)
        results += [np.asarray(call([X])[0]).tobytes() for _ in range(3)]
    assert set(results) == {affine(X).tobytes()}


def test_eight_threads_call_one_program(runtime: Runtime) -> None:
    runtime.set_num_threads(3)
    call = runtime.load(affine_program(steps=5))
    wrong: list[int] = []

    def work(k: int) -> None:
        x = X + np.float32(k)
        expected = affine(x, 5)
        for _ in range(20):
            if not np.array_equal(np.asarray(call([x])[0]), expected):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


@pytest.mark.parametrize(
    ("written_by_one", "reads", "cost", "shared"),
    [
        (True, True, 30_000, False),  # less work than to bring 128 kB to other threads
        (True, True, 200_000, True),
        (False, True, 30_000, True),
        (True, False, 30_000, True),
    ],
)
def test_a_short_kernel_stays_with_the_thread_that_wrote_what_it_reads(
    runtime: Runtime, written_by_one: bool, reads: bool, cost: int, shared: bool
) -> None:
    if runtime is PYTHON:
        pytest.skip("its threads are for what is long")
    runtime.set_num_threads(2)
    k, units = kernels(), 1 << 14
    b = ProgramBuilder("handed")
    first, out = b.value((units,), np.int64), b.value((units,), np.int64)
    before = 5_000 if written_by_one else BIG
    b.add(k.launch("begins", (), (first,), units=units, cost=before))
    if reads:
        b.add(k.launch("begins_of_reader", (first,), (out,), units=units, cost=cost))
    else:
        b.add(k.launch("begins", (), (out,), units=units, cost=cost))
    made, got = runtime.load(b.build((first, out)))([])
    assert (len(np.unique(np.asarray(made))) > 1) != written_by_one
    assert (len(np.unique(np.asarray(got))) > 1) == shared


@pytest.mark.parametrize("size", [1, 1 << 12, (1 << 12) + 1, 1 << 16, 1 << 20])
def test_threads_share_long_copies(runtime: Runtime, size: int) -> None:
    runtime.set_num_threads(3)
    b = ProgramBuilder("copy")
    x, y = b.input((size,), F32), b.value((size,), F32)
    b.add(CopyInstruction(x, y))
    data = np.arange(size, dtype=F32)
    np.testing.assert_array_equal(np.asarray(runtime.load(b.build((y,)))([data])[0]), data)


def waiting_program() -> tuple[RuntimeProgram, np.ndarray[Any, Any]]:
    """``while flag < 10: pass``, and the flag, which the caller changes meanwhile."""
    k = kernels()
    b = ProgramBuilder("cond")
    flag, _, out = b.input((), I32), b.input((), I32), b.value((), np.bool_)
    b.add(k.launch("below_ten", (flag,), (out,)))
    cond = b.build((out,))
    b = ProgramBuilder("body")
    body = b.build((b.input((), I32),))
    b = ProgramBuilder("wait")
    flag, n, out = b.input((), I32), b.input((), I32), b.value((), I32)
    b.add(WhileInstruction(cond, body, (flag,), (), (n,), (out,)))
    return b.build((out,)), np.zeros((), I32)


def test_other_threads_run_meanwhile(runtime: Runtime) -> None:
    program, flag = waiting_program()
    results: list[Any] = []
    call = runtime.load(program)
    worker = threading.Thread(target=lambda: results.extend(call([flag, np.int32(3)])))
    worker.start()
    flag[...] = 10  # were the lock held, nobody would come here
    worker.join(120)
    assert not worker.is_alive() and np.asarray(results[0]) == 3


@pytest.mark.usefixtures("no_collection")
def test_an_interrupt_ends_a_long_loop(runtime: Runtime) -> None:
    program, flag = waiting_program()
    call = runtime.load(program)
    before = runtime.pool_stats().in_use
    before_us = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()  # in here, for the machine may run this thread again when it is over
        call([flag, np.int32(3)])
    timer.join()
    signal.signal(signal.SIGINT, before_us)
    assert runtime.pool_stats().in_use == before
    flag[...] = 10
    assert np.asarray(call([flag, np.int32(3)])[0]) == 3


def test_a_kernel_inside_a_kernel_stays_on_its_thread(runtime: Runtime) -> None:
    runtime.set_num_threads(3)
    inner = runtime.load(affine_program())
    results: dict[int, bytes] = {}

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def kernel(buffers: Any, params: Any, begin: int, end: int) -> None:
        for unit in range(begin, end):
            results[unit] = np.asarray(inner([X + np.float32(unit)])[0]).tobytes()

    b = ProgramBuilder("outer")
    out = b.value((6,), F32)
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    assert address
    b.add(Launch(address, "nested", (), (out,), units=6, cost=BIG))
    runtime.load(b.build((out,)))([])
    assert results == {k: affine(X + np.float32(k)).tobytes() for k in range(6)}


def test_a_long_scan_runs_without_python(runtime: Runtime) -> None:
    k = kernels()
    length = 100_000 if runtime.name == "native" else 500
    b = ProgramBuilder("body")
    n, out = b.input((), I32), b.value((), I32)
    b.add(k.launch("increment", (n,), (out,)))
    body = b.build((out,))
    b = ProgramBuilder("scan")
    n, out = b.input((), I32), b.value((), I32)
    b.add(ScanInstruction(body, length, (), (n,), (), (out,)))
    assert np.asarray(runtime.load(b.build((out,)))([np.int32(5)])[0]) == length + 5


def test_python_functions_between_kernels_of_many_threads(runtime: Runtime) -> None:
    runtime.set_num_threads(2)
    k = kernels()
    b = ProgramBuilder("mixed")
    x = b.input(*VEC)
    for _ in range(4):
        y = b.value(*VEC)
        b.add(k.launch("affine", (x,), (y,), units=N, cost=BIG))
        x = host(b, lambda v: v - 1, (y,), VEC)
    call = runtime.load(b.build((x,)))
    expected = X
    for _ in range(4):
        expected = affine(expected, 1) - 1
    for _ in range(5):
        np.testing.assert_array_equal(np.asarray(call([X])[0]), expected)


_SCRIPT = """
import os, sys, threading
import numpy as np
from tests.backends.runtime.test_threads import X, affine, affine_program, waiting_program
from functrax.backends.runtime import choice as r
rt = r.NATIVE if sys.argv[1] == "native" else r.PYTHON
rt.set_num_threads(3)
call = rt.load(affine_program())
def check():
    for _ in range(10):
        assert np.array_equal(np.asarray(call([X])[0]), affine(X))
check()
"""
_FORK = """
pid = os.fork()
if pid == 0:
    check()
    grandchild = os.fork()
    if grandchild == 0:
        check()
        os._exit(0)
    assert os.waitpid(grandchild, 0)[1] == 0
    os._exit(0)
check()
assert os.waitpid(pid, 0)[1] == 0
print("done")
"""
_EXIT = """
program, flag = waiting_program()
waiting = rt.load(program)
threading.Thread(target=waiting, args=([flag, np.int32(0)],), daemon=True).start()
check()
print("done")
"""
# Tests of libraries do that; the end of the process is still to come.
_EXIT_FUNCTIONS = (
    """
import atexit
atexit._run_exitfuncs()
thread = threading.Thread(target=check)
thread.start()
thread.join()
"""
    + _EXIT
)
_ALL_IN_CHILD = """
started = threading.Event()
def work():
    while not started.is_set():
        check()
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads:
    t.start()
try:
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            check()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
finally:
    started.set()
for t in threads:
    t.join()
print("done")
"""


@pytest.mark.parametrize(
    "script",
    [_FORK, _EXIT, _EXIT_FUNCTIONS, _ALL_IN_CHILD],
    ids=["fork", "exit", "exit functions", "busy"],
)
def test_forks_and_the_end_of_the_process(runtime: Runtime, script: str) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _SCRIPT + script, runtime.name],
        capture_output=True,
        text=True,
        timeout=300,  # a machine may have much else to do, and a sanitizer slows it down
        env={**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])},
    )
    assert (result.returncode, result.stdout.strip()) == (0, "done"), result.stderr


def test_the_number_of_threads(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUNCTRAX_NUM_THREADS", raising=False)
    assert threads.default_num_threads() == cgroups.processors()
    monkeypatch.setenv("FUNCTRAX_NUM_THREADS", " 3 ")
    assert threads.default_num_threads() == 3
    for text in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("FUNCTRAX_NUM_THREADS", text)
        with pytest.raises(ArgumentError, match="FUNCTRAX_NUM_THREADS"):
            threads.default_num_threads()
    with pytest.raises(ValueError, match="at least one thread"):
        runtime.set_num_threads(0)
