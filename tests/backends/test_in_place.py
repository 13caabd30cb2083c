"""Updates in place: carries of loops and donated arrays, against NumPy and the reference device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.executables.program import (
    RuntimeProgram,
    ScanInstruction,
    WhileInstruction,
    all_programs,
    updated_in_place,
)
from functrax.backends.runtime import choice


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with fx.backend("llvm"):
        yield


def program_of(function: Any, *args: Any) -> RuntimeProgram:
    closed = fx.make_jaxpr(function)(*args)
    assert not closed.consts
    return compile_program(closed.jaxpr).program


def loop_of(function: Any, *args: Any) -> ScanInstruction | WhileInstruction:
    (loop,) = [
        x
        for p in all_programs(program_of(function, *args))
        for x in p.instructions
        if isinstance(x, ScanInstruction | WhileInstruction)
    ]
    return loop


def agrees(function: Any, *args: Any) -> None:
    """The compiled program gives what the reference device gives, on each executor."""
    program = program_of(function, *args)
    with fx.backend("interp"):
        expected = fx.tree_util.tree_leaves(fx.jit(function)(*args))
    for load in {r.load for r in (choice.PYTHON, choice.CURRENT)}:
        leaves = [np.asarray(x) for x in fx.tree_util.tree_leaves(args)]
        before = [x.copy() for x in leaves]
        results = load(program)(leaves)
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-5)
        for x, y in zip(leaves, before, strict=True):
            np.testing.assert_array_equal(x, y)


CARRY = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
PLACES = np.array([3, 0, 0, 2, 3], np.int32)
#: Bodies, and whether the carry stays where it is.
BODIES = {
    "overwrite a row with a function of it": (lambda c, i: c.at[i].set(jnp.sin(c[i]) + 1), True),
    "add to a row, whatever it holds": (lambda c, i: c.at[i].add(1.5), True),
    "one element from others": (lambda c, i: c.at[i, 0].set(c[0, 1] + c[i, 2]), True),
    "a window": (lambda c, i: lax.dynamic_update_slice(c, c[1:3] * 2, (i, 0)), False),
    "rows that are exchanged": (
        lambda c, i: c.at[jnp.stack([i, 0])].set(c[jnp.stack([0, i])]),
        False,
    ),
    "every element": (lambda c, i: c * 0.5 + i, True),
    "every element from its neighbours": (lambda c, i: c + jnp.roll(c, 1, axis=0), False),
    "read after the write": (lambda c, i: c.at[i].add(1.0) + 0.25 * c[::-1], False),
    "a choice of updates": (
        lambda c, i: lax.cond(i > 1, lambda c: c.at[i].mul(2.0), lambda c: c.at[0].add(1.0), c),
        True,
    ),
    "a choice between an update and nothing": (
        lambda c, i: lax.cond(i > 1, lambda c: c.at[i].mul(2.0), lambda c: c, c),
        True,
    ),
}  # fmt: skip


def scan_of(body: Any, size: int) -> Any:
    """A scan with a body that is no single kernel: what it carries is too large for registers."""

    def run(carry: Any, places: Any) -> Any:
        carry = jnp.tile(carry, (1, size))
        return lax.scan(lambda c, i: (body(c, i), c[0, 1]), carry, places)

    return run


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    body, _ = BODIES[name]
    agrees(scan_of(body, 40), CARRY, PLACES)
    agrees(lambda c, i: lax.scan(lambda c, i: (body(c, i), None), c, i)[0], CARRY, PLACES)
    agrees(
        lambda c: lax.while_loop(
            lambda s: s[0] < 4, lambda s: (s[0] + 1, body(s[1], s[0])), (0, c)
        ),
        CARRY,
    )


@pytest.mark.parametrize("name", BODIES)
def test_which_bodies_update_in_place(name: str) -> None:
    body, in_place = BODIES[name]

    def run(carry: Any, places: Any) -> Any:
        return lax.scan(lambda c, i: (fx.stop_fuse(body(c, i)), None), carry, places)[0]

    carry = np.tile(CARRY, (1, 40))
    try:
        loop = loop_of(run, carry, PLACES)
    except ValueError:  # it is one kernel
        return
    assert updated_in_place(loop) == (in_place,)


class Bodies:
    """Random bodies of loops over arrays of integers, that update what they carry."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, carry: tuple[Any, ...], i: Any) -> tuple[tuple[Any, ...], Any]:
        rng = np.random.default_rng(self.seed)
        values = list(carry)
        for _ in range(rng.integers(1, 6)):
            k, m = (int(n) for n in rng.integers(len(values), size=2))
            values[k] = self._update(rng, values[k], values[m], carry[m], i)
        if rng.random() < 0.3:
            rng.shuffle(values)
        return tuple(values), carry[int(rng.integers(len(carry)))][0]

    def _update(self, rng: Any, x: Any, y: Any, z: Any, i: Any) -> Any:
        kind = rng.choice(["row", "add", "window", "all", "roll", "cond", "fuse", "gather"])
        if kind == "row":
            return x.at[i].set(y[(i + 1) % 5] + 1)
        if kind == "add":
            return x.at[(i * 2) % 5].add(z[i])
        if kind == "window":
            return lax.dynamic_update_slice(x, y[:2] * 3, (i, 0))
        if kind == "all":
            return x * 3 + z
        if kind == "roll":
            return jnp.roll(x, 1, axis=0) - y
        if kind == "gather":
            return x.at[jnp.stack([i, (i + 2) % 5])].set(y[jnp.stack([(i + 1) % 5, i])])
        if kind == "fuse":
            return fx.stop_fuse(x + 1)
        return lax.cond(i % 2 == 0, lambda a, b: a.at[i].set(b[0]), lambda a, b: a, x, y)


@pytest.mark.parametrize("width", [3, 70])
@pytest.mark.parametrize("seed", range(10))
def test_random_bodies(seed: int, width: int) -> None:
    """int32 wraps alike everywhere, so that every bit must be equal."""
    start = tuple(np.arange(5 * width, dtype=np.int32).reshape(5, width) * k for k in (1, 7, -3))
    steps = np.array([4, 0, 2, 2, 1, 3], np.int32)
    body = Bodies(seed)

    def run(a: Any, b: Any, c: Any, steps: Any) -> Any:
        return lax.scan(body, (a, b, c), steps, reverse=seed % 2 == 0)

    agrees(run, *start, steps)
    donating = fx.jit(run, donate_argnums=(0, 1, 2))
    copies = fx.jit(lambda xs: [x + 0 for x in xs])
    with fx.backend("interp"):
        expected = fx.tree_util.tree_leaves(fx.jit(run)(*start, steps))
    for _ in range(2):  # the second call is C++'s
        arrays = copies(list(start))
        results = fx.tree_util.tree_leaves(donating(*arrays, steps))
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


# ---- donation -----------------------------------------------------------------------------------

N = 1 << 20


def donations(function: Any, *args: Any) -> int:
    """How many bytes of the pool a second call with donated arguments takes at most."""
    jitted = fx.jit(function, donate_argnums=tuple(range(len(args))))
    make = fx.jit(lambda *xs: [2 * x for x in xs])  # results of programs are in the pool
    for _ in range(2):
        arrays = fx.block_until_ready(make(*args))
        before = choice.pool_stats().in_use
        choice.CURRENT.pool_reset_peak()
        fx.block_until_ready(jitted(*arrays))
    return int(choice.pool_stats().peak - before)


@pytest.mark.usefixtures("no_collection")
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.skipif(choice.NATIVE is None, reason="C++ makes the calls that donate memory")
@pytest.mark.parametrize(
    "function",
    [
        lambda x, g: (x - 0.1 * g, 0.9 * g),
        lambda x, g: (x.at[3].set(g[0]), jnp.sum(g)),
        lambda x, g: (lax.fori_loop(0, 3, lambda i, x: x.at[i].add(1.0), x), jnp.sum(g)),
        lambda x, g: lax.dynamic_update_slice(x, g[:2], (5,)),
    ],
)
def test_donated_memory_is_used_again(function: Any) -> None:
    x = np.ones(N, np.float32)
    assert donations(function, x, 2 * x) < N


def test_a_donated_array_that_is_read_late_keeps_its_memory() -> None:
    def run(x: Any) -> Any:
        y = fx.stop_fuse(x.at[0].set(5.0))
        return y + x[::-1]

    x = np.arange(N, dtype=np.float32)
    donating = fx.jit(run, donate_argnums=0)
    for _ in range(2):
        got = donating(fx.jit(lambda x: x + 0)(x))
        want = x.copy()
        want[0] = 5.0
        np.testing.assert_array_equal(np.asarray(got), want + x[::-1])


def test_an_array_that_is_donated_and_given_is_not_written_to() -> None:
    f = fx.jit(lambda x, y: (x + 1, x * y), donate_argnums=0)
    for _ in range(2):
        x = fx.jit(lambda: jnp.arange(8.0))()
        view = np.asarray(x)
        total, product = f(x, view)
        np.testing.assert_array_equal(np.asarray(total), np.arange(8.0) + 1)
        np.testing.assert_array_equal(np.asarray(product), np.arange(8.0) ** 2)
        np.testing.assert_array_equal(view, np.arange(8.0))
