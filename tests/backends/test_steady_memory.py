"""Memory of compiled programs: peaks, when it is freed, and what the system is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import nn
from functrax.backends.machine_code.kernel_jit import machine
from functrax.backends.runtime import choice
from functrax.core.options.config import Override
from functrax.tree_util import tree_map

N = 1 << 18
BYTES = 4 * N


@pytest.fixture(autouse=True)
def compiled(no_collection: None) -> Iterator[None]:
    with fx.backend("llvm"):
        yield


def pool() -> Any:
    return choice.CURRENT.pool_stats()


def peak(function: Any, *args: Any) -> int:
    """Bytes of the pool that a second run takes, its result included."""
    function(*args)
    choice.CURRENT.pool_trim()  # a block that waits may be larger than what is asked for
    before = pool().in_use
    choice.CURRENT.pool_reset_peak()
    function(*args)
    return int(pool().peak - before)


def chain(x: Any, operation: Any = jnp.sin) -> Any:
    for _ in range(100):
        x = fx.stop_fuse(operation(x))
    return x


def test_a_chain_takes_two_buffers_at_most() -> None:
    """Each of the 100 kernels can write where its operand is; that of the program stays."""
    x = jnp.ones(N, jnp.float32)
    record = fx.explain(fx.jit(chain))(x)
    assert len(record.kernels) == 100
    assert record.peak_bytes <= BYTES
    assert peak(fx.jit(chain), x) <= 2 * BYTES
    assert float(x[0]) == 1.0


def test_a_chain_that_cannot_be_in_place_takes_three() -> None:
    """A reversal reads what it would have overwritten: two places, and the result."""
    x = jnp.arange(N, dtype=jnp.float32)
    reversals = fx.jit(lambda x: chain(x, lambda y: jnp.flip(y) + 1))
    assert peak(reversals, x) <= 3.25 * BYTES  # the arena is a little more than two, rounded up
    np.testing.assert_array_equal(np.asarray(reversals(x)), np.arange(N) + 100)


def test_in_place_kernels_read_what_they_need_first() -> None:
    """Operands that are read elsewhere too, or again later, are not written over."""
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)

    def function(x: Any) -> Any:
        y = fx.stop_fuse(jnp.sin(x))
        z = fx.stop_fuse(y + y.T)
        w = fx.stop_fuse(y * z)
        return w + z[::-1] + y

    y = np.sin(x)
    z = y + y.T
    wanted = y * z + z[::-1] + y
    np.testing.assert_allclose(fx.jit(function)(x), wanted, rtol=1e-5, atol=1e-6)


def test_several_results_are_in_place_of_what_was_read_before() -> None:
    """The first result must not be written over the operand of the second."""

    def function(x: Any, y: Any) -> Any:
        a, b = fx.stop_fuse((x + 1, y + 1))
        c, d = fx.stop_fuse((jnp.sin(b) * 2, a + b))
        return jnp.cos(d), c + d, jnp.cos(c)

    x, y = jnp.arange(5.0), jnp.arange(5.0) * 0.3
    for got, wanted in zip(fx.jit(function)(x, y), function(x, y), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("run", [lambda f: f, fx.jit], ids=["eager", "jit"])
def test_del_frees_at_once(run: Any) -> None:
    x = jnp.ones(N, jnp.float32)
    function = run(lambda x: jnp.sin(x) * 2)
    function(x)
    choice.CURRENT.pool_trim()  # a block that waits may be larger than what is asked for
    before = pool().in_use
    result = function(x)
    held = pool().in_use - before
    del result
    assert pool().in_use == before
    if run is fx.jit:
        assert held == BYTES


# ---- training -----------------------------------------------------------------------------------


def parameters(*sizes: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    return [
        (jnp.asarray(rng.standard_normal((m, n)) * 0.1, jnp.float32), jnp.zeros(n, jnp.float32))
        for m, n in itertools.pairwise(sizes)
    ]


def loss(params: Any, x: Any, y: Any) -> Any:
    for w, b in params[:-1]:
        x = nn.relu(x @ w + b)
    w, b = params[-1]
    return jnp.mean((x @ w + b - y) ** 2)


def adam(params: Any, mean: Any, square: Any, step: Any, x: Any, y: Any) -> Any:
    slope = fx.grad(loss)(params, x, y)
    step = step + 1
    mean = tree_map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
    square = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, square, slope)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return p - 1e-3 * (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)

    return tree_map(moved, params, mean, square), mean, square, step


@pytest.mark.parametrize("width", [16, 256])
def test_training_asks_the_system_for_nothing(width: int) -> None:
    params = parameters(32, width, width, 8)
    zeros = tree_map(jnp.zeros_like, params)
    state = (params, zeros, zeros, jnp.zeros((), jnp.float32))
    x, y = jnp.ones((64, 32), jnp.float32), jnp.ones((64, 8), jnp.float32)
    step = fx.jit(adam)
    for _ in range(3):
        state = step(*state, x, y)
    before = pool()
    for _ in range(10):
        state = step(*state, x, y)
    after = pool()
    assert after.allocations == before.allocations
    assert after.hits > before.hits
    assert after.in_use == before.in_use


# ---- sizes --------------------------------------------------------------------------------------


def compiled_by(function: Any, *args: Any) -> int:
    """How many kernels LLVM compiles for a call; nothing is looked up on the disk."""
    before = machine().count
    with Override("cache", False):
        function(*args)
    return int(machine().count - before)


def test_another_size_runs_the_same_machine_code() -> None:
    @fx.jit
    def function(x: Any) -> Any:
        return jnp.sum(jnp.exp(x) * x + 1, axis=1) + jnp.tanh(x).mean(1)

    assert compiled_by(function, jnp.ones((100, 1000))) > 0
    assert compiled_by(function, jnp.ones((101, 1000))) == 0


def test_batch_sizes_compile_no_machine_code_after_the_first_two() -> None:
    slope = fx.jit(fx.grad(loss))
    params = parameters(32, 64, 48, 8)
    sizes = np.random.default_rng(0).permutation(np.arange(257, 513))[:50]
    counts = [
        compiled_by(slope, params, jnp.ones((n, 32)), jnp.ones((n, 8))) for n in map(int, sizes)
    ]
    assert sum(counts[2:]) == 0, counts
    # Sums of products are planned for sizes rounded up to a power of two: some of them need new
    # machine code in the next class, and none after that.
    more = [
        compiled_by(slope, params, jnp.ones((n, 32)), jnp.ones((n, 8))) for n in (700, 613, 1024)
    ]
    assert more[0] <= 5 and more[1:] == [0, 0], more


def test_alternating_signatures_keep_their_programs() -> None:
    traces = []

    @fx.jit
    def function(x: Any) -> Any:
        traces.append(x.shape)
        return jnp.sin(x) + 1

    inputs = [jnp.ones(3), jnp.ones((2, 3)), jnp.ones(3, jnp.int32)]
    for x in inputs:
        function(x)
    compiled = machine().count
    for _ in range(5):
        for x in inputs:
            np.testing.assert_allclose(function(x), np.sin(np.asarray(x)) + 1, rtol=1e-6)
    assert len(traces) == 3
    assert machine().count == compiled


def test_other_numbers_run_the_same_machine_code() -> None:
    x = jnp.ones(100)
    assert compiled_by(fx.jit(lambda x: jnp.sin(x) * 0.1 + 0.37), x) > 0
    again = fx.jit(lambda x: jnp.sin(x) * 0.7 + 3.25)
    assert compiled_by(again, x) == 0
    np.testing.assert_allclose(again(x), np.sin(1.0) * 0.7 + 3.25, rtol=1e-6)
