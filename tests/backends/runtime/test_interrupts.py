"""Ctrl-C, and the end of the process, while a kernel runs that would run for long, or for ever."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.executables.program import Launch
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.runtime.choice import NATIVE, PYTHON, Runtime
from tests.backends.runtime.programs import F32

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(NATIVE is None, reason="the C++ runtime does it")

#: Sends itself SIGINT ten times a second, which counts while `armed`: a machine that has much else
#: to do may be late with everything, and with one signal alone the program might miss it.
_HEAD = """
import os, signal, threading, time
import functrax, functrax.numpy as jnp
from functrax import lax
from functrax.backends.runtime.choice import pool_stats

armed = []

def handler(*_):
    if armed:
        armed.clear()
        raise KeyboardInterrupt

def send():
    while True:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, handler)

def halve(c):
    return c[0] * 1.0, c[1] * 0.5 + 1.25

endless = functrax.jit(lambda n, x: lax.while_loop(lambda c: c[0] < n, halve, (0.0, x)))
"""
_INTERRUPT = """
counted = functrax.jit(lambda x: lax.fori_loop(0, 2_000_000_000, lambda i, y: y * 0.5 + 1.25, x))
many = jnp.ones(300_000)
for warm in (1.0, many):
    endless(-1.0, warm)
before = pool_stats().in_use
threading.Thread(target=send, daemon=True).start()
for call in (
    lambda: endless(3.0, 1.0),
    lambda: endless(3.0, many),
    lambda: counted(1.0),
    lambda: endless(3.0, 2.0),
):
    try:
        armed.append(True)
        call()
    except KeyboardInterrupt:
        print("stopped", pool_stats().in_use - before)
print(float(endless(-1.0, 7.0)[1]), float(endless(-1.0, many)[1].sum()))
"""
_END = """
for x in (1.0, jnp.ones(300_000)):
    endless(-1.0, x)
    threading.Thread(target=endless, args=(3.0, x), daemon=True).start()
time.sleep(0.2)
print("end")
"""
_TASKS = """
functrax.config.update("async_dispatch", True)
many = jnp.ones(300_000)
for warm in range(2):
    endless(-1.0, many)[1].block_until_ready()
x = endless(3.0, many)[1]  # does not wait
threading.Thread(target=send, daemon=True).start()
try:
    armed.append(True)
    x.block_until_ready()
except KeyboardInterrupt:
    print("stopped")
endless(3.0, many)
print("end")
"""


@pytest.mark.parametrize(
    ("script", "output"),
    [
        (_INTERRUPT, 4 * "stopped 0\n" + "7.0 300000.0\n"),
        (_END, "end\n"),
        (_TASKS, "stopped\nend\n"),
    ],
    ids=["interrupt", "end", "tasks"],
)
def test_endless_kernels_end(script: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + script], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


@pytest.mark.parametrize("runtime", [NATIVE, PYTHON], ids=["native", "python"])
def test_loops_that_ask_go_on(runtime: Runtime) -> None:
    """Kernels of many steps ask whether to end; here the answer is no, or nobody is there."""
    steps = 300_000

    def count(n: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 5 + 3), (0, 1))

    program = compile_program(functrax.make_jaxpr(count)(np.int32(0)).jaxpr).program
    assert any(isinstance(x, Launch) for x in program.instructions)
    wanted = 1
    for _ in range(steps):
        wanted = (wanted * 5 + 3) & 0xFFFFFFFF
    result = np.asarray(runtime.load(program)([np.int32(steps)])[1])
    assert result.astype(np.uint32) == wanted


def test_only_long_loops_ask() -> None:
    def steps(n: int) -> str:
        explained = functrax.explain(lambda x: lax.fori_loop(0, n, lambda _, y: y * 0.5 + 1, x))(
            1.0
        )
        return "".join(k.llvm for k in explained.kernels)

    assert "%stopped" in steps(1_000_000_000) and "%stopped" not in steps(1000)


def test_ranges_of_long_launches_are_short() -> None:
    """Between ranges, which are estimated to take 10 ms at most, signals are looked at."""
    ranges: list[tuple[int, int]] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def kernel(buffers: Any, params: Any, begin: int, end: int) -> None:
        ranges.append((begin, end))

    b = ProgramBuilder("long")
    out = b.value((1,), F32)
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    assert address
    b.add(Launch(address, "long", (), (out,), units=100, cost=400_000_000, grain=2))
    assert NATIVE is not None
    call, before = NATIVE.load(b.build((out,))), NATIVE.num_threads()
    try:
        for n in (1, 2):
            NATIVE.set_num_threads(n)
            ranges.clear()
            call([])
            assert sorted(ranges) == [(k, k + 2) for k in range(0, 100, 2)]
    finally:
        NATIVE.set_num_threads(before)
