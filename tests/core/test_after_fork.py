"""A process forks while its other threads compile, record and run: the child does the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import os, sys, threading
import numpy as np
import functrax, functrax.numpy as jnp
sys.setswitchinterval(1e-5)

def check(number):
    x = jnp.arange(4000.0)
    y = jnp.tanh(x + number).sum() * 2 + (x * 3).sum()
    want = np.tanh(np.arange(4000.0) + number).sum() * 2 + np.arange(4000.0).sum() * 3
    assert abs(float(y) - want) < 1e-4 * want
    text = "".join(f"+ jnp.sin(x * {number + k})" for k in range(3))  # never compiled before
    f = functrax.jit(eval(f"lambda x: x {text}"))
    assert np.isfinite(np.asarray(f(x))).all()

check(0.5)
end = threading.Event()
def work(number):
    while not end.is_set():
        check(number)
        number += 10.5
threads = [threading.Thread(target=work, args=(k + 0.25,)) for k in range(3)]
for t in threads:
    t.start()
codes = []
for number in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        try:
            check(number + 0.75)
            os._exit(0)
        finally:
            os._exit(1)
    codes.append(os.waitpid(pid, 0)[1])
end.set()
for t in threads:
    t.join()
print(codes)
"""


@pytest.mark.parametrize("forks", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_forks_while_other_threads_work(forks: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _SCRIPT, str(forks)],
        capture_output=True,
        text=True,
        timeout=300 * max(1, forks / 10),  # a machine may have much else to do
        env={**os.environ, "FUNCTRAX_CACHE": "0"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, str([0] * forks)), done.stderr
