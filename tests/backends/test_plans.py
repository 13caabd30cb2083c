"""Programs of new sizes by plans: each is the one that a compilation of its own gives, bit for bit.

``pytest -m slow tests/backends/test_plans.py`` tries all functions at many more sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, nn
from functrax.backends import internal_errors
from functrax.backends.cache import size_generic
from functrax.backends.cache.program_cache import same_programs
from functrax.backends.cache.size_generic import Families
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.cpu import CpuDevice
from functrax.backends.executables.program import RuntimeProgram
from functrax.backends.runtime.choice import load
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import Override
from functrax.core.types.symbolic_sizes import Recorded
from functrax.profiler.instructions import facts_of

#: A function and its arguments by a size.
Case = Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def values(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.uniform(-1, 1, shape).astype(np.float32)


def whole(*shape: int, below: int = 9) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, below, shape).astype(np.int32)


def loss(weights: Any, x: Any) -> Any:
    for w, b in weights:
        x = jnp.tanh(x @ w + b)
    return jnp.mean(x**2)


@case
def perceptron(n):
    return functrax.grad(loss), ([(values(24, 24), values(24))] * 2, values(n, 24))


@case
def classifier(n):
    def step(p, x, y):
        def cost(p):
            logits = nn.relu(x @ p[0] + p[1]) @ p[2]
            return -jnp.mean(jnp.sum(nn.log_softmax(logits) * y, -1))

        found, by = functrax.value_and_grad(cost)(p)
        return found, [a - 0.1 * b for a, b in zip(p, by, strict=True)]

    return step, ([values(20, 32), values(32), values(32, 10)], values(n, 20), values(n, 10))


@case
def attention(n):
    def f(x, w):
        q, k, v = jnp.split(x @ w, 3, -1)
        seen = jnp.tril(jnp.ones((n, n), bool))
        return nn.softmax(jnp.where(seen, q @ k.swapaxes(-1, -2), -1e9)) @ v

    return f, (values(2, n, 16), values(16, 48))


@case
def attention_gradient(n):
    def f(w, x):
        q, k, v = jnp.split(x @ w, 3, -1)
        return jnp.sum((nn.softmax(q @ k.swapaxes(-1, -2)) @ v) ** 2)

    return functrax.grad(f), (values(16, 48), values(n, 12, 16))


@case
def elementwise(n):
    return (lambda x, y: jnp.sin(x) * y + jnp.exp(-x) / n), (values(n, 17), values(n, 17))


@case
def softmax(n):
    return nn.softmax, (values(7, n),)


@case
def layer_norm_gradient(n):
    def f(x, g, b):
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return jnp.sum(((x - m) / jnp.sqrt(v + 1e-5) * g + b) ** 2)

    return functrax.grad(f, (0, 1, 2)), (values(n, 40), values(40), values(40))


@case
def statistics(n):
    return (lambda x: (x.var(), x.std(0), x.max(1), x.mean(0))), (values(n, 30),)


@case
def products(n):
    return (lambda x, w, v: (x @ w, v @ x, x @ x.T)), (values(n, 40), values(40, 33), values(5, n))


@case
def low_precision(n):
    def f(x, w):
        return (x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32).sum(0)

    return f, (values(n, 64), values(64, 48))


@case
def convolution(n):
    def f(w, x):
        return jnp.sum(jnp.tanh(lax.conv_general_dilated(x, w, (2, 2), "SAME")) ** 2)

    return functrax.grad(f, (0, 1)), (values(4, 3, 3, 3), values(n, 3, 10, 10))


@case
def image(n):
    return (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME")), (
        values(2, 3, n, n),
        values(4, 3, 3, 3),
    )


@case
def batch_norm(n):
    def f(x, g):
        m, v = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        return jnp.sum(nn.relu((x - m) / jnp.sqrt(v + 1e-5) * g) ** 2)

    return functrax.grad(f, (0, 1)), (values(n, 3, 5, 5), values(1, 3, 1, 1))


@case
def moves(n):
    def f(x, y):
        joined = jnp.concatenate([x, y, x * 2])
        return joined[::-1], x[1:] - x[:-1], jnp.pad(x, ((1, 2), (3, 0))), x.T * 2, x.reshape(-1)

    return f, (values(n + 1, 7), values(5, 7))


@case
def embedding(n):
    def f(table, ids):
        return jnp.sum(table[ids] ** 2) + jnp.mean(nn.one_hot(ids, 9))

    return functrax.value_and_grad(f), (values(9, 16), whole(n))


@case
def indices(n):
    def f(x, v, at):
        return x.at[at].add(v), jnp.argmax(v), v * jnp.arange(n), jnp.cumsum(v)

    return f, (values(9), values(n), whole(n))


@case
def second_derivative(n):
    return functrax.hessian(lambda x: jnp.sum(jnp.sin(x) * x)), (values(n),)


@case
def distances(n):
    return (lambda x, y: jnp.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))), (
        values(n, 3),
        values(11, 3),
    )


@case
def two_sizes(n):
    return (lambda x, y: (x[:, None] * y[None] + 1).sum(0)), (values(n), values(2 * n + 3))


@case
def update(n):
    def f(p, g, m, t):
        m = 0.9 * m + 0.1 * g
        return p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(g * g) + 1e-8), m

    return f, (values(n, 3), values(n, 3), values(n, 3), np.float32(3))


@case
def rows_of_a_loop(n):
    def f(h, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h + x), h), h, xs)

    return f, (values(n, 5), values(7, n, 5))


@case
def windows(n):
    return (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID")), (
        values(n, 8, 8),
    )


@case
def random_numbers(n):
    return (lambda k: functrax.random.normal(k, (n, 3))), (functrax.random.PRNGKey(0),)


@case
def literals(n):
    return (lambda x: (jnp.where(x > 0, 50.0, float(n)), x.sum() / 50)), (values(n),)


@case
def equal_products(n):
    return (lambda x, y: (x.reshape(-1) * 2, y.reshape(-1) * 2, x.sum(), y.sum())), (
        values(n, 6),
        values(10, 30),
    )


@case
def triangle(n):
    return (lambda x: jnp.tril(x, k=n - 50) + jnp.eye(n)), (values(n, n),)


@case
def concatenation(n):
    return (lambda x, y: jnp.concatenate([jnp.sin(x), y * 2, x[3:]])), (
        values(n + 3, 5),
        values(n // 2, 5),
    )


@case
def solution(n):
    return jnp.linalg.solve, (values(n, n) + n * np.eye(n, dtype=np.float32), values(n))


@case
def block(n):
    """The gradient of a layer of a transformer."""

    def norm(x, g):
        m = x.mean(-1, keepdims=True)
        return (x - m) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g

    def f(p, x):
        q, k, v = (t.reshape(n, 2, 8).swapaxes(0, 1) for t in jnp.split(norm(x, p[0]) @ p[1], 3, 1))
        seen = jnp.tril(jnp.ones((n, n), bool))
        parts = nn.softmax(jnp.where(seen, q @ k.swapaxes(1, 2) / 3, -1e9)) @ v
        x = x + parts.swapaxes(0, 1).reshape(n, 16) @ p[2]
        return jnp.mean((x + nn.gelu(norm(x, p[0]) @ p[3]) @ p[4]) ** 2)

    sizes = ((16,), (16, 48), (16, 16), (16, 64), (64, 16))
    return functrax.grad(f), ([values(*s) for s in sizes], values(n, 16))


def traced(name: str, n: int) -> tuple[Jaxpr, list[Any]]:
    function, args = CASES[name](n)
    closed = functrax.jit(function).lower(*args)
    leaves = functrax.tree_util.tree_leaves(args)
    return closed.jaxpr, leaves


def results(program: RuntimeProgram, leaves: list[Any]) -> list[bytes]:
    outs = load(program)([np.asarray(x) for x in leaves])
    return [np.asarray(x.materialize() if hasattr(x, "materialize") else x).tobytes() for x in outs]


def check(name: str, sizes: Iterable[int], run: bool = True) -> int:
    """How many programs plans made; all of them are what the compiler makes."""
    families, alive, made = Families(), [], 0
    for n in sizes:
        jaxpr, leaves = traced(name, n)
        fresh = compile_program(jaxpr).program
        member = families.member(jaxpr)
        assert member is not None
        program = member.planned() or member.plan(lambda fresh=fresh: fresh)
        if program is None:
            member.add(fresh)
            alive.append(fresh)
            continue
        made += 1
        assert same_programs(program, fresh), (name, n)
        if run:
            assert results(program, leaves) == results(fresh, leaves), (name, n)
    return made


QUICK = ["perceptron", "attention", "statistics", "moves"]


@pytest.mark.parametrize("name", QUICK)
def test_a_plan_makes_what_the_compiler_makes(name):
    assert check(name, (33, 34, 35, 39, 48, 47)) >= 3


@pytest.mark.parametrize(
    ("name", "least"),
    [("concatenation", 16), ("solution", 14), ("products", 11), ("perceptron", 11)],
)
def test_most_sizes_far_apart_are_made_from_plans(name, least):
    """What the compiler decides by costs is one for all sizes of a class."""
    sizes = np.random.default_rng(1).permutation(np.arange(33, 600))[:20].tolist()
    assert check(name, sizes, run=False) >= least


def test_literals_that_are_equal_by_chance_are_told_from_others():
    assert check("literals", (37, 38, 41, 50, 43)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_plans_make_what_the_compiler_makes_at_all_sizes(name, seed):
    rng = random.Random(seed)
    near = [rng.randrange(1, 40) for _ in range(6)] + [rng.randrange(40, 140) for _ in range(8)]
    powers = [max(1, 2 ** rng.randrange(10) + rng.choice((-1, 0, 1))) for _ in range(6)]
    sizes = [*near, *powers, *(rng.randrange(140, 1100) for _ in range(4)), *range(33, 43)]
    rng.shuffle(sizes)
    largest = 140 if name in ("second_derivative", "image", "triangle") else 1100
    assert check(name, [n for n in sizes if n <= largest]) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sizes_that_are_like_other_numbers_of_a_program(name):
    like = (24, 48, 50, 12, 9, 16, 17, 40, 33, 5, 30, 10, 3, 64, 25, 11, 7, 8, 2, 1, 100)
    assert check(name, (37, 38, 41, 43, *like)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_results_by_plans_are_those_of_the_reference(name):
    for n in (50, 51, 52, 57, 61):
        function, args = CASES[name](n)
        got = functrax.jit(function)(*args)
        with functrax.backend("interp"):
            want = functrax.jit(function)(*args)
        flat = zip(*map(functrax.tree_util.tree_leaves, (got, want)), strict=True)
        for x, y in flat:
            np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3)


def tanh_sum() -> Any:
    """A jitted function that nothing else has traced."""
    return functrax.jit(lambda x, w: jnp.tanh(x @ w).mean(0))


def test_fifty_sizes_take_two_compilations_and_a_plan():
    f, w = tanh_sum(), values(12, 9)
    for n in range(65, 115):
        x = values(n, 12)
        np.testing.assert_allclose(f(x, w), np.tanh(x @ w).mean(0), rtol=1e-4, atol=1e-5)
    info = f.cache_info()
    assert info.misses == 50 and info.planned >= 45
    assert info.compiles <= 6  # kernels and what they call, of the first size


def test_results_do_not_depend_on_whether_there_is_a_plan():
    w, sizes = values(12, 9), (40, 41, 42, 43, 47)
    f, g = tanh_sum(), tanh_sum()
    by_plans = [np.asarray(f(values(n, 12), w)) for n in sizes]
    with Override("plans", False):
        alone = [np.asarray(g(values(n, 12), w)) for n in reversed(sizes)]
    assert f.cache_info().planned and not g.cache_info().planned
    assert [x.tobytes() for x in by_plans] == [x.tobytes() for x in reversed(alone)]


def test_a_plan_that_makes_another_program_is_thrown_away(monkeypatch):
    monkeypatch.setattr(size_generic, "same_programs", lambda x, y: False)
    f, w = tanh_sum(), values(13, 9)
    for n in range(65, 80):
        x = values(n, 13)
        np.testing.assert_allclose(f(x, w), np.tanh(x @ w).mean(0), rtol=1e-4, atol=1e-5)
    assert f.cache_info().planned == 0


def test_a_compiler_that_does_not_take_recorded_numbers_compiles_each_size(monkeypatch):
    def fails(jaxpr):
        assert any(type(n) is Recorded for v in jaxpr.invars for n in v.aval.shape)
        raise TypeError("not a number")

    monkeypatch.setattr("functrax.backends.compilation.compiler.assembled_parts", fails)
    errors = []
    monkeypatch.setattr(internal_errors, "observers", [errors.append])
    f, w = functrax.jit(lambda x, w: jnp.cosh(x @ w).mean(0)), values(14, 9)
    for n in range(65, 70):
        x = values(n, 14)
        np.testing.assert_allclose(f(x, w), np.cosh(x @ w).mean(0), rtol=1e-4, atol=1e-5)
    assert f.cache_info().planned == 0
    assert [str(e) for e in errors] == ["not a number"]


def test_other_axes_of_a_running_sum():
    """The axis is a number that differs between members of a family, like a size."""
    for axis, n in ((0, 5), (0, 6), (1, 7), (1, 8), (2, 9)):
        x = values(4, 3, n)
        got = functrax.jit(lambda x, axis=axis: lax.cumsum(x, axis=axis, reverse=True))(x)
        want = np.flip(np.cumsum(np.flip(x, axis), axis), axis)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_other_dtypes_and_ranks_have_plans_of_their_own():
    f = functrax.jit(lambda x: (x * 2 + x.shape[0]).sum(0))
    for n in range(40, 46):
        for x in (values(n, 3), whole(n, 3), values(n), values(n, 3, 2)):
            np.testing.assert_allclose(f(x), (x * 2 + n).sum(0), rtol=1e-5)
    assert f.cache_info().planned >= 8


def test_python_code_that_looks_at_sizes_is_traced_for_each():
    f = functrax.jit(lambda x: jnp.sin(x) if x.shape[0] % 3 else jnp.cos(x) * x.shape[0])
    for n in range(40, 60):
        x = values(n, 3)
        want = np.sin(x) if n % 3 else np.cos(x) * n
        np.testing.assert_allclose(f(x), want, rtol=1e-5, atol=1e-6)
    assert f.cache_info().planned >= 12


def test_gradients_of_a_planned_program_and_empty_arrays():
    f = functrax.jit(lambda x: jnp.sum(jnp.sin(x) ** 2))
    for n in (5, 6, 7, 8, 0, 9, 1):
        x = values(n)
        np.testing.assert_allclose(functrax.grad(f)(x), np.sin(2 * x), rtol=1e-4, atol=1e-6)


def test_the_profiler_knows_the_instructions_of_a_planned_program():
    families = Families()
    programs = []
    for n in (40, 41, 42):
        jaxpr, _ = traced("statistics", n)
        program = CpuDevice().compiled(jaxpr).program
        member = families.member(jaxpr)
        programs.append(member.plan(lambda program=program: program) or program)
        member.add(program)
    assert programs[2] is not program
    assert len(facts_of(programs[2])) == len(programs[2].instructions)
