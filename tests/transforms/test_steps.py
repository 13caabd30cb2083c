"""Many steps as one program: equal in every bit, and no more launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.executables.program import Launch, all_programs
from functrax.core.options.config import Override, config
from functrax.errors import ArgumentError, DTypeError, PyTreeError, ShapeError


def draw(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), jnp.float32)


def mlp_loss(p: Any, batch: Any) -> Any:
    x, y = batch
    return jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2)


def sgd(carry: Any, batch: Any) -> Any:
    p, n = carry
    value, g = functrax.value_and_grad(mlp_loss)(p, batch)
    rate = 0.1 / (1 + 0.01 * n)
    return (functrax.tree.map(lambda a, d: a - rate * d, p, g), n + 1), {"loss": value, "g": g["b"]}


def adam(carry: Any, batch: Any) -> Any:
    p, m, v, n = carry
    g = functrax.grad(mlp_loss)(p, batch)
    m = functrax.tree.map(lambda a, d: 0.9 * a + 0.1 * d, m, g)
    v = functrax.tree.map(lambda a, d: 0.99 * a + 0.01 * d * d, v, g)
    n = n + 1
    p = functrax.tree.map(
        lambda a, b, c: a - 0.01 * (b / (1 - 0.9**n)) / (jnp.sqrt(c / (1 - 0.99**n)) + 1e-8),
        p,
        m,
        v,
    )
    return (p, m, v, n), None


def pointwise(c: Any, x: Any) -> Any:
    """A loop around it would be one kernel; the product of the sum is an fma in one of them."""
    row = (c * x).sum(1, keepdims=True)
    return c * 0.9 + x * row, jnp.sin(c * x + 1)


def normalised(c: Any, x: Any) -> Any:
    h = c @ x
    h = (h - h.mean(0)) / jnp.sqrt(h.var(0) + 1e-5)
    return c + 0.1 * h * functrax.nn.softmax(h), h[0]


def with_loop(c: Any, x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, a: jnp.sin(a) + x[i] * a, c), c.sum()


def with_callback(c: Any, x: Any) -> Any:
    y = functrax.pure_callback(
        lambda a: np.cumsum(a), functrax.ShapeDtypeStruct(c.shape, c.dtype), c * x
    )
    return c + 0.1 * y, (c, y)


PARAMS = {"w": draw(6, 16), "b": jnp.zeros(16), "v": draw(16, 1)}
ZEROS = functrax.tree.map(jnp.zeros_like, PARAMS)
BATCHES = (draw(7, 32, 6), draw(7, 32, 1))
CASES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "sgd": (sgd, (PARAMS, 0), BATCHES),
    "adam": (adam, (PARAMS, ZEROS, ZEROS, 0.0), BATCHES),
    "pointwise": (pointwise, draw(5, 9), draw(7, 5, 9)),
    "normalised": (normalised, draw(12, 12), draw(7, 12, 12)),
    "a loop inside": (with_loop, draw(4), draw(7, 4)),
    "a callback": (with_callback, draw(8), draw(7, 8)),
    "the carry as it is": (lambda c, x: (c, (x, c)), draw(3), draw(7, 3)),
    "nothing but numbers": (lambda c, x: (c * 2 + 1, None), 1, jnp.zeros(7)),
    "weak, then strong": (lambda c, x: (c * x, c), 2.0, draw(7)),
}


def rows(tree: Any, i: int) -> Any:
    return functrax.tree.map(lambda x: x[i], tree)


def called(step: Any, carry: Any, batches: Any, k: int) -> Any:
    outs = []
    for i in range(k):
        carry, out = step(carry, rows(batches, i))
        outs.append(out)
    return carry, functrax.tree.map(lambda *xs: jnp.stack(xs), *outs)


def first(tree: Any, k: int) -> Any:
    return functrax.tree.map(lambda x: x[:k], tree)


def assert_same_bits(got: Any, wanted: Any) -> None:
    assert functrax.tree.structure(got) == functrax.tree.structure(wanted)
    for a, b in zip(functrax.tree.leaves(got), functrax.tree.leaves(wanted)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [1, 2, 7])
def test_equal_to_calls(name: str, k: int) -> None:
    step, carry, batches = CASES[name]
    jitted = functrax.jit(step)
    wanted = called(jitted, carry, batches, k)
    for given in (step, jitted):
        many = functrax.steps(given, k)
        for _ in range(2):
            assert_same_bits(many(carry, first(batches, k)), wanted)


@pytest.mark.parametrize("name", CASES)
def test_batches_of_a_function(name: str) -> None:
    step, carry, batches = CASES[name]
    wanted = called(functrax.jit(step), carry, first(batches, 5), 5)
    wanted_later = called(functrax.jit(step), carry, functrax.tree.map(lambda x: x[2:], batches), 5)
    many = functrax.steps(step, 5, batch=lambda data, i: rows(data, i))
    assert_same_bits(many(carry, batches), wanted)
    assert_same_bits(many(carry, batches, 2), wanted_later)


def test_a_batch_may_be_drawn() -> None:
    def batch(key: Any, i: Any) -> Any:
        return functrax.random.normal(functrax.random.fold_in(key, i), (5, 9))

    key = functrax.random.PRNGKey(3)
    drawn = functrax.jit(batch)
    carry = draw(5, 9)
    jitted = functrax.jit(pointwise)
    for i in range(4):
        carry, _ = jitted(carry, drawn(key, jnp.int32(i)))
    assert_same_bits(functrax.steps(pointwise, 4, batch=batch)(draw(5, 9), key)[0], carry)


@pytest.mark.parametrize("name", ["sgd", "pointwise", "weak, then strong"])
def test_other_ways_of_running(name: str) -> None:
    step, carry, batches = CASES[name]
    many = functrax.steps(step, 7)
    with Override("strict", True):
        got, wanted = many(carry, batches), called(functrax.jit(step), carry, batches, 7)
    assert_same_bits(got, wanted)
    for context in (functrax.backend("interp"), functrax.disable_jit()):
        with context:
            got, wanted = many(carry, batches), called(functrax.jit(step), carry, batches, 7)
        for a, b in zip(functrax.tree.leaves(got), functrax.tree.leaves(wanted), strict=True):
            # NumPy's sums depend on where a row lies in memory.
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)


def test_under_transformations_it_is_a_scan() -> None:
    step, carry, batches = CASES["pointwise"]
    many = functrax.steps(step, 7)

    def total(run: Any) -> Callable[..., Any]:
        return lambda c: run(c, batches)[0].sum()

    def scanned(c: Any, xs: Any) -> Any:
        return lax.scan(step, c, xs)

    for transform in (
        functrax.jit, functrax.grad, lambda f: functrax.jit(functrax.grad(f)), functrax.vmap,
    ):  # fmt: skip
        given = jnp.stack([carry, 2 * carry]) if transform is functrax.vmap else carry
        got, wanted = transform(total(many))(given), transform(total(scanned))(given)
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-5)


@pytest.mark.skipif(
    config.backend not in ("auto", "llvm"), reason="the interpreter launches nothing"
)
def test_launches_per_step_stay() -> None:
    step, carry, batches = CASES["adam"]
    many = functrax.transforms.staging.steps.Steps(step, 7, None)
    many.stacked(carry, batches)
    (loop,) = many._loops.values()
    launches = [
        sum(type(x) is Launch for x in p.instructions)
        for p in all_programs(loop.executable.program)
    ]
    compiled = functrax.jit(step).lower(carry, rows(batches, 0)).compile().compiled.program
    assert sum(launches) == sum(type(x) is Launch for x in compiled.instructions) > 0


def test_a_program_is_compiled_once() -> None:
    traces: list[int] = []

    def step(c: Any, x: Any) -> Any:
        traces.append(1)
        return c + x, None

    many = functrax.steps(step, 3)
    for _ in range(3):
        many(jnp.zeros(2), jnp.ones((3, 2)))
    assert len(traces) == 1
    many(jnp.zeros(4), jnp.ones((3, 4)))
    assert len(traces) == 2


def test_under_nan_checks() -> None:
    many = functrax.steps(lambda c, x: (jnp.sqrt(c - x), None), 3)
    with functrax.debug_nans(), pytest.raises(FloatingPointError, match="sqrt gave a NaN"):
        many(jnp.ones(2), jnp.ones((3, 2)))


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ArgumentError, "number of steps", lambda: functrax.steps(sgd, 0)),
        (ArgumentError, "number of steps", lambda: functrax.steps(sgd, 2.0)),
        (ShapeError, "run 3 times", lambda: functrax.steps(pointwise, 3)(draw(5), draw(2, 5))),
        (ShapeError, "run 3 times", lambda: functrax.steps(pointwise, 3)(draw(5), jnp.ones(()))),
        (
            ShapeError,
            "changes the shape",
            lambda: functrax.steps(lambda c, x: (c[None], None), 3)(draw(5), draw(3)),
        ),
        (
            DTypeError,
            "changes the dtype",
            lambda: functrax.steps(lambda c, x: (c + 0.5, None), 3)(jnp.arange(3), draw(3)),
        ),
        (
            PyTreeError,
            "another structure",
            lambda: functrax.steps(lambda c, x: ((c, c), None), 3)(draw(5), draw(3)),
        ),
        (PyTreeError, "a pair", lambda: functrax.steps(lambda c, x: c, 3)(draw(5), draw(3))),
        (
            ArgumentError,
            "the first step",
            lambda: functrax.steps(sgd, 3, batch=rows)(draw(5), draw(3), 0.5),
        ),
    ],
)
def test_errors(error: type[Exception], match: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=match):
        call()
