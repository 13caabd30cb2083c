"""Loops as one kernel: rows of lanes, arrays in memory, and what is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.codegen import group_code
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.executables.program import (
    RuntimeProgram,
    ScanInstruction,
    WhileInstruction,
    all_programs,
)
from functrax.backends.kernels.refusal import Refusal
from functrax.core.options.config import Override


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with fx.backend("llvm"):
        yield


def program_of(function: Any, *args: Any) -> RuntimeProgram:
    return compile_program(fx.make_jaxpr(function)(*args).jaxpr).program


def loops_of(program: RuntimeProgram) -> int:
    """How many loops are not one kernel."""
    found = (x for p in all_programs(program) for x in p.instructions)
    return sum(isinstance(x, ScanInstruction | WhileInstruction) for x in found)


def agrees(function: Any, *args: Any, rtol: float = 2e-5, atol: float = 2e-5) -> None:
    got = fx.tree_util.tree_leaves(fx.jit(function)(*args))
    with fx.backend("interp"):
        want = fx.tree_util.tree_leaves(fx.jit(function)(*args))
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=atol)


def data(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(dtype) if dtype != np.int32 else (values * 9).astype(dtype)


# ---- rows of lanes ------------------------------------------------------------------------------


def many(operation: Any, times: int = 10) -> Any:
    """A step of many operations: too many for scalars, and for one expression."""

    def body(v: Any, x: Any) -> Any:
        for _ in range(times):
            v = operation(v, x)
        return v, (v[..., 0], v)

    return lambda v, xs: lax.scan(body, v, xs)


def padded(v: Any) -> Any:
    """One place further, a zero in front."""
    return jnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(1, 0)])[..., :-1]


def chosen(v: Any, x: Any) -> Any:
    return jnp.where(jnp.arange(v.shape[-1]) % 3 == 0, jnp.sin(v), jnp.roll(v, 2, -1) - x)


def around(v: Any) -> Any:
    return jnp.roll(v, 1, -1) + jnp.roll(v, -1, -1)


OPERATIONS = {
    "a rotation": lambda v, x: jnp.roll(jnp.sin(v), 1, -1) + x,
    "a reversal": lambda v, x: jnp.tanh(v)[..., ::-1] - x,
    "a shift with a fill": lambda v, x: jnp.sin(padded(v)) + x,
    "neighbours": lambda v, x: 0.5 * v + 0.25 * around(v) - 0.1 * x,
    "a sum along the row": lambda v, x: 0.5 * v - jnp.mean(jnp.sin(v), -1, keepdims=True) + x,
    "the largest": lambda v, x: 0.5 * v - jnp.max(v, -1, keepdims=True) * 0.2 + x,
    "the place of the largest": lambda v, x: (
        0.5 * v + 0.1 * jnp.argmax(x[..., ::-1] + 0.0 * v, -1, keepdims=True)
    ),
    "parts": lambda v, x: jnp.concatenate([v[..., 2:] * 0.5, jnp.cos(v[..., :2])], -1) + x,
    "one element for all": lambda v, x: 0.3 * jnp.sin(v + v[..., 1:2]) - x,
    "a choice": chosen,
}


@pytest.mark.parametrize("shape", [(32,), (5,), (1, 32), (2, 7)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_rows(name: str, shape: tuple[int, ...]) -> None:
    run = many(OPERATIONS[name])
    v, xs = data(*shape), data(3, *shape, seed=1)
    agrees(run, v, xs, rtol=1e-4, atol=1e-4)
    if shape[-1] == 32:
        assert loops_of(program_of(run, v, xs)) == 0


def test_rows_backwards_and_while() -> None:
    operation = OPERATIONS["a rotation"]

    def backwards(v: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (operation(c, x), jnp.sum(c)), v, xs, reverse=True)

    def until(v: Any, x: Any) -> Any:
        def body(state: Any) -> Any:
            n, v = state
            for _ in range(20):
                v = operation(v, x)
            return n + 1, v

        return lax.while_loop(lambda s: (s[0] < 5) & (s[1][0] < 9), body, (0, v))

    agrees(backwards, data(32), data(4, 32))
    agrees(until, data(32), data(32))
    agrees(
        fx.grad(lambda v, x: jnp.sum(many(operation)(v, x)[0])), data(32), data(3, 32), atol=1e-3
    )


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_rows_of_other_dtypes(dtype: Any) -> None:
    with fx.enable_x64():
        run = many(lambda v, x: jnp.roll(v, 3) * 3 - jnp.minimum(x, v[::-1]), 40)
        agrees(run, data(24, dtype=dtype), data(3, 24, dtype=dtype, seed=1), rtol=1e-9)


def test_products_of_small_matrices() -> None:
    def body(m: Any, x: Any) -> Any:
        for _ in range(3):
            m = jnp.tanh(m @ x) @ m.T
        return m, jnp.trace(m)

    agrees(lambda m, xs: lax.scan(body, m, xs), 0.1 * data(6, 6), 0.1 * data(5, 6, 6, seed=1))


@pytest.mark.parametrize("batch", [1, 2, 3, 9])
def test_a_recurrent_network_on_a_batch(batch: int) -> None:
    """A batch of one is computed in rows, as without it; one that fills vectors point by point."""

    def run(h: Any, xs: Any, w: Any, u: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z = fx.nn.sigmoid(x @ w + h @ u)
            h = (1 - z) * h + z * jnp.tanh((z * h) @ w)
            return h, h

        return lax.scan(step, h, xs)

    args = data(batch, 16), data(6, batch, 16, seed=2), data(16, 16) / 4, data(16, 16, seed=1) / 4
    agrees(run, *args, rtol=1e-4, atol=1e-5)
    agrees(fx.grad(lambda *args: jnp.sum(run(*args)[1] ** 2), (0, 2)), *args, rtol=1e-3, atol=1e-4)
    if batch == 1:
        alone = fx.jit(run)(args[0][0], args[1][:, 0], *args[2:])[1]
        got = fx.jit(run)(*args)[1][:, 0]
        np.testing.assert_allclose(np.asarray(got), np.asarray(alone), rtol=1e-5, atol=1e-6)
        assert loops_of(program_of(run, *args)) == 0


def test_what_is_unrolled_is_bounded() -> None:
    """A step of many operations on an array that fits no registers is no kernel."""

    def body(v: Any, x: Any) -> Any:
        for _ in range(40):
            v = jnp.roll(jnp.sin(v), 1) + x
        return v, None

    jaxpr = fx.make_jaxpr(lambda v, xs: lax.scan(body, v, xs)[0])(data(200), data(3, 200)).jaxpr
    (loop,) = run_pipeline(jaxpr).program.eqns
    assert isinstance(group_code(loop), Refusal)
    agrees(lambda v, xs: lax.scan(body, v, xs)[0], data(200), data(3, 200))


# ---- arrays in memory ---------------------------------------------------------------------------


UPDATES = {
    "add": lambda c, i: c.at[i].add(1.5),
    "of another element": lambda c, i: c.at[i].set(c[(i * 7) % 50] + 1),
    "a recurrence": lambda c, i: c.at[i % 48 + 2].set(c[i % 48] + c[i % 48 + 1]),
    "two at once": lambda c, i: c.at[jnp.stack([i, i])].add(jnp.stack([c[0], c[i]]) + 1),
    "outside": lambda c, i: c.at[i * 3].add(1.0),
    "negative": lambda c, i: c.at[-i].mul(1.25),
    "a window": lambda c, i: lax.dynamic_update_slice(c, c[3:6] + 1, (i,)),
    "the largest": lambda c, i: c.at[i].max(c[(i + 1) % 50] * 0.5),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_in_memory(name: str) -> None:
    update, start = UPDATES[name], data(50)
    places = np.array([3, 0, 49, 3, 3, 17, 48, 2, 1, 0, 25], np.int32)

    def run(c: Any, places: Any) -> Any:
        return lax.scan(lambda c, i: (update(c, i), (c[i], c[1])), c, places)

    def count(c: Any) -> Any:
        return lax.while_loop(
            lambda s: (s[0] < 40) & (s[1][5] < 30), lambda s: (s[0] + 1, update(s[1], s[0])), (0, c)
        )

    def two(c: Any, d: Any, places: Any) -> Any:
        step = lambda s, i: ((update(s[0], i), s[1].at[i].set(s[0][i])), s[1][0])
        return lax.scan(step, (c, d), places)

    agrees(run, start, places)
    agrees(count, start)
    agrees(two, start, data(50, seed=3), places)
    assert loops_of(program_of(run, start, places)) == 0


def test_an_updated_array_that_is_read_afterwards_is_no_kernel_of_this_kind() -> None:
    def body(c: Any, i: Any) -> Any:
        c = c.at[i].add(1.0)
        return c, c[i]

    places = np.array([3, 0, 3, 3, 7], np.int32)
    agrees(lambda c, i: lax.scan(body, c, i), data(100), places)


def test_strict_mode_gives_the_bits_of_single_steps() -> None:
    def step(v: Any, x: Any) -> Any:
        for _ in range(12):
            v = jnp.roll(jnp.sin(v), 1) + x
        return v - 0.1 * jnp.sum(v), None

    v, xs = data(32), data(3, 32)
    with Override("strict", True):
        together = fx.jit(lambda v, xs: lax.scan(step, v, xs)[0])(v, xs)
        alone = jnp.asarray(v)
        for x in xs:
            alone = fx.jit(step)(alone, x)[0]
    np.testing.assert_array_equal(np.asarray(together), np.asarray(alone))
