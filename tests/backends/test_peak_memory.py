"""The memory of an operation is its operands and results, and at most a tenth of them more.

    python -m pytest -m slow tests/backends/test_peak_memory.py

Arrays of 64 MB; what the system counts, not what the pool does: copies that NumPy makes are seen.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.runtime import choice

N = 16_000_000
ROWS, COLUMNS = 4000, 4000
#: Of operands and results together.
TENTH = 0.1

OPERATIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "map": (lambda x: x * 2 + 1, ("x",)),
    "exp": (jnp.exp, ("x",)),
    "where": (lambda x: jnp.where(x > 0, x, -x), ("x",)),
    "convert": (lambda x: x.astype(jnp.float16), ("x",)),
    "compare": (lambda x: x > 0, ("x",)),
    "slice": (lambda x: x[5:], ("x",)),
    "every second": (lambda x: x[::2] + 1, ("x",)),
    "reverse": (lambda x: x[::-1] + 1, ("x",)),
    "transpose": (lambda x: x.T + 1, ("q",)),
    "pad": (lambda x: jnp.pad(x, 5), ("x",)),
    "concatenate": (lambda x: jnp.concatenate([x, x[:1000]]), ("x",)),
    "roll": (lambda x: jnp.roll(x, 5), ("x",)),
    "delete": (lambda x: jnp.delete(x, 5), ("x",)),
    "repeat": (lambda x: jnp.repeat(x, 2), ("x",)),
    "gather": (lambda x, i: x[i], ("x", "i")),
    "take rows": (lambda q, r: q[r], ("q", "r")),
    "dynamic_slice": (lambda x, r: lax.dynamic_slice(x, (r[0],), (N - 5000,)), ("x", "r")),
    "dynamic_update_slice": (
        lambda x, r: lax.dynamic_update_slice(x, jnp.ones(99), (r[0],)),
        ("x", "r"),
    ),
    "at set": (lambda x, i: x.at[i].set(1.0), ("x", "i")),
    "at add": (lambda x, i: x.at[i].add(1.0), ("x", "i")),
    "sum": (jnp.sum, ("x",)),
    "sum of rows": (lambda q: q.sum(1), ("q",)),
    "sum of columns": (lambda q: q.sum(0), ("q",)),
    "var": (jnp.var, ("x",)),
    "argmax": (jnp.argmax, ("x",)),
    "argmax of columns": (lambda q: jnp.argmax(q, 0), ("q",)),
    "cumsum": (jnp.cumsum, ("x",)),
    "cumsum of columns": (lambda q: jnp.cumsum(q, 0), ("q",)),
    "cummax": (lax.cummax, ("x",)),
    "softmax": (lambda q: functrax.nn.softmax(q, 1), ("q",)),
    "sort": (jnp.sort, ("x",)),
    "sort of rows": (jnp.sort, ("q",)),
    "top_k": (lambda x: lax.top_k(x, 100), ("x",)),
    "matrix times vector": (lambda q: q @ q[0], ("q",)),
    "outer product": (lambda q: q[0][:, None] * q[1][None], ("q",)),
    "matrix product": (lambda q: q @ q, ("q",)),
    "scan": (lambda q: lax.scan(lambda c, a: (c + a, c * a), q[0], q)[1], ("q",)),
    "map of rows": (lambda q: lax.map(lambda a: a * 2, q), ("q",)),
    "cond": (lambda x: lax.cond(x[0] > 0, lambda x: x + 1, lambda x: x - 1, x), ("x",)),
    "windows": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME"),
        ("x",),
    ),
    "uniform": (lambda: functrax.random.uniform(functrax.random.key(1), (N,)), ()),
    "arange": (lambda: jnp.arange(N), ()),
    "fft of rows": (jnp.fft.fft, ("c",)),
    "gradient of squares": (functrax.grad(lambda x: (x * x).sum()), ("x",)),
    "gradient of a slice": (functrax.grad(lambda x: x[5::2].sum()), ("x",)),
    "gradient of softmax": (
        functrax.grad(lambda q: (functrax.nn.softmax(q, 1) ** 2).sum()),
        ("q",),
    ),
}


@cache
def operands() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(N).astype(np.float32)
    return {
        "x": jnp.asarray(x),
        "q": jnp.asarray(x.reshape(ROWS, COLUMNS)),
        "c": jnp.asarray(x.view(np.complex64).reshape(-1, 1000)),
        "i": jnp.asarray(rng.integers(0, N, N // 4).astype(np.int32)),
        "r": jnp.asarray(rng.integers(0, ROWS, ROWS).astype(np.int32)),
    }


def resident(name: str) -> int:
    """Bytes of resident memory now (VmRSS) or at the peak (VmHWM)."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split(f"{name}:")[1].split()[0])


def measured(function: Callable[..., Any], args: list[Any]) -> tuple[int, int]:
    """The bytes that a second call needs at its peak, and those of its results."""
    for _ in range(2):
        gc.collect()
        choice.CURRENT.pool_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = resident("VmRSS")
        results = functrax.tree_util.tree_leaves(function(*args))
        for result in results:
            np.asarray(result)
        peak = resident("VmHWM") - before
        size = sum([result.nbytes for result in results])
        del results, result
    return peak, size


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["jit", "eager"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str, mode: str) -> None:
    function, names = OPERATIONS[name]
    args = [operands()[x] for x in names]
    peak, size = measured(functrax.jit(function) if mode == "jit" else function, args)
    more = (peak - size) / (size + sum([x.nbytes for x in args]))
    assert more <= TENTH, f"{more:.2f} of operands and results more"
