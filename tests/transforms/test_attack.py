"""Unlikely but legal programs: deep nestings, interruptions, reentrancy, awkward structures."""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from tests.transforms.numeric import TRANSFORMS, forward_over_custom_vjp

ORDERS = list(itertools.permutations(["vmap", "jit", "checkpoint", "custom_vjp", "grad"], 4))


@pytest.mark.parametrize("names", ORDERS[::5], ids="-".join)
def test_four_deep(names: tuple[str, ...]) -> None:
    if forward_over_custom_vjp(names):
        pytest.skip("forward mode")
    f: Any = lambda x: jnp.sin(x) * x[::-1]
    g: Any = lambda x: np.sin(x) * x[::-1]
    for name in names:
        f, g = TRANSFORMS[name][0](f), TRANSFORMS[name][1](g)
    x = np.array([0.3, 0.9])
    with functrax.enable_x64():
        np.testing.assert_allclose(np.asarray(f(x)), g(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["jit", "checkpoint", "custom_jvp", "custom_vjp", "vmap"])
def test_third_order_of_everything(name: str) -> None:
    wrap = TRANSFORMS[name][0]
    f = wrap(lambda x: jnp.sin(x) * x)

    def total(x: Any) -> Any:
        return jnp.sum(f(x))

    def wanted(x: np.ndarray) -> np.ndarray:
        return -3 * np.sin(x) - x * np.cos(x)

    x = np.array([0.3, 0.9])
    expected = wanted(x)
    if name == "vmap":  # the oracle's vmap maps over x and 0.4 x + 0.15
        expected = expected + 0.4**3 * wanted(0.4 * x + 0.15)
    once = functrax.grad(total)
    twice = functrax.grad(lambda x: jnp.sum(once(x)))
    thrice = functrax.grad(lambda x: jnp.sum(twice(x)))
    with functrax.enable_x64():
        for g in (thrice, functrax.jit(thrice)):
            np.testing.assert_allclose(np.asarray(g(x)), expected, rtol=1e-10)


def test_second_derivatives_of_reductions_and_indexing() -> None:
    cases = {
        "prod": (lambda xp, x: xp.prod(x), (4,)),
        "max": (lambda xp, x: xp.max(x * x * x), (4,)),
        "cumulative": (lambda xp, x: xp.sum(xp.cumsum(x) ** 3), (4,)),
        "gather": (lambda xp, x: xp.sum(x[np.array([0, 0, 3])] ** 3 * x[1]), (4,)),
        "sort": (lambda xp, x: xp.sum(xp.sort(x) ** 2 * np.arange(4.0)), (4,)),
        "norm": (lambda xp, x: xp.sqrt(xp.sum(x * x)), (4,)),
    }
    x = np.array([0.5, -1.2, 0.8, 2.0])
    h = 1e-4
    for name, (f, _) in cases.items():
        if not hasattr(jnp, {"cumulative": "cumsum", "sort": "sort"}.get(name, "sum")):
            continue
        eye = np.eye(4) * h
        wanted = [
            [
                (f(np, x + a + b) - f(np, x + a - b) - f(np, x - a + b) + f(np, x - a - b))
                / (4 * h * h)
                for a in eye
            ]
            for b in eye
        ]
        with functrax.enable_x64():
            g = functools.partial(f, jnp)
            for hessian in (functrax.hessian(g), functrax.jacrev(functrax.jacrev(g))):
                found = np.asarray(hessian(x))
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=name)


def test_interrupted_transformations_leave_no_trace() -> None:
    """An exception at each operation in turn, at each level of a deep nesting."""

    class StopError(Exception):
        pass

    countdown = [0]

    def tick(x: Any) -> Any:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise StopError
        return x

    @functrax.custom_jvp
    def inner(x: Any) -> Any:
        return tick(jnp.sin(tick(x)))

    inner.defjvp(lambda p, t: (tick(inner(*p)), tick(t[0]) * jnp.cos(p[0])))

    def f(x: Any) -> Any:
        y = functrax.checkpoint(lambda x: tick(inner(x)) * tick(x))(x)
        return tick(functrax.jit(lambda y: tick(y) * 2)(y))

    def run(x: Any) -> Any:
        return functrax.vmap(functrax.grad(functrax.jit(f)), axis_name="i")(x)

    x = np.array([0.3, 0.9], np.float32)
    wanted = 2 * (np.cos(x) * x + np.sin(x))
    stops = 0
    for k in range(1, 60):
        countdown[0] = k
        with contextlib.suppress(StopError):
            run(x)
            break
        stops += 1
        countdown[0] = 0
        assert float(functrax.grad(lambda x: x * x)(3.0)) == 6.0
        with pytest.raises(functrax.errors.AxisNameError):
            lax.axis_index("i")
    assert stops >= 5
    countdown[0] = 0
    np.testing.assert_allclose(np.asarray(run(x)), wanted, rtol=1e-6)


def test_keyboard_interrupt_midway() -> None:
    def f(x: Any) -> Any:
        raise KeyboardInterrupt

    for transform in (functrax.jit, functrax.grad, functrax.vmap, functrax.checkpoint):
        with pytest.raises(KeyboardInterrupt):
            transform(f)(jnp.ones(2))
    assert float(functrax.jit(lambda x: x + 1)(1.0)) == 2.0


def test_generator_suspended_inside_a_transformation() -> None:
    """Two traces whose operations alternate: state is kept by values, not by time."""

    def steps(x: Any) -> Any:
        for _ in range(3):
            x = jnp.sin(x)
            yield x

    def f(x: Any) -> Any:
        return sum(a * b for a, b in zip(steps(x), steps(2.0 * x)))

    def reference(x: float) -> float:
        a, b, total = x, 2 * x, 0.0
        for _ in range(3):
            a, b = np.sin(a), np.sin(b)
            total += a * b
        return total

    h = 1e-6
    wanted = (reference(0.4 + h) - reference(0.4 - h)) / (2 * h)
    with functrax.enable_x64():
        assert float(functrax.jit(functrax.grad(f))(0.4)) == pytest.approx(wanted, rel=1e-8)


def test_debug_callbacks_that_transform_and_trace() -> None:
    seen: list[float] = []

    @functrax.jit
    def f(x: Any) -> Any:
        functrax.debug.callback(note, x)
        return x * x

    def note(x: Any) -> None:
        if float(x) > 1.0:
            seen.append(float(functrax.grad(f)(float(x) - 1.0)))

    assert float(functrax.grad(f)(3.0)) == 6.0
    assert sorted(seen) == [2.0, 4.0]


def test_inner_jit_sees_two_levels_of_outer_tracers() -> None:
    def f(a: Any) -> Any:
        def g(b: Any) -> Any:
            h = functrax.jit(lambda c: a * b * c + jnp.sum(jnp.arange(3.0) * a))
            return h(a) * h(b)

        return functrax.grad(g)(2.0)

    # h(c) = a b c + 3 a; g(b) = (a^2 b + 3a)(a b^2 + 3a)
    # g'(b) = a^2 (a b^2 + 3 a) + (a^2 b + 3 a)(2 a b) at b = 2: 7 a^3 + 8 a^3 + 12 a^2
    assert float(f(2.0)) == 15 * 8 + 12 * 4
    assert float(functrax.grad(f)(2.0)) == 45 * 4 + 24 * 2
    assert float(functrax.jit(functrax.grad(functrax.jit(f)))(2.0)) == 45 * 4 + 24 * 2
    found = functrax.vmap(functrax.grad(f))(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(found), [69.0, 228.0])


def test_custom_rule_with_jits_and_collectives_under_checkpoint_under_vmap() -> None:
    @functrax.custom_vjp
    def mean_square(x: Any) -> Any:
        return lax.pmean(x * x, "i")

    @functrax.jit
    def bwd(x: Any, ct: Any) -> Any:
        return (functrax.jit(lambda c: 2.0 * x * lax.pmean(c, "i"))(ct),)

    mean_square.defvjp(functrax.jit(lambda x: (lax.pmean(x * x, "i"), x)), bwd)
    f = functrax.checkpoint(lambda x: jnp.sin(functrax.jit(mean_square)(x)))
    x = np.array([0.3, 0.9, 0.5])
    slope = np.cos((x * x).mean()) * 2 * x
    with functrax.enable_x64():
        for g in (
            functrax.vmap(functrax.grad(f), axis_name="i"),
            functrax.jit(functrax.vmap(functrax.jit(functrax.grad(f)), axis_name="i")),
            functrax.grad(lambda x: jnp.sum(functrax.vmap(f, axis_name="i")(x))),
        ):
            np.testing.assert_allclose(np.asarray(g(x)), slope, rtol=1e-12)


def test_scale_of_jacobian_of_vmapped_gradient() -> None:
    def energy(x: Any, w: Any) -> Any:
        return jnp.sum(jnp.tanh(w @ x))

    w = np.array([[0.1, -0.4], [0.7, 0.2], [-0.3, 0.5]])
    xs = np.array([[0.2, 0.4], [-0.6, 0.3]])
    with functrax.enable_x64():
        forces = lambda w: functrax.vmap(functrax.grad(energy), (0, None))(xs, w)
        found = np.asarray(functrax.jit(functrax.jacrev(forces))(w))
    h = 1e-6

    def numeric(w: np.ndarray) -> np.ndarray:
        return np.stack([(1 - np.tanh(w @ x) ** 2) @ w for x in xs])

    wanted = np.zeros((2, 2, 3, 2))
    for i, j in itertools.product(range(3), range(2)):
        e = np.zeros_like(w)
        e[i, j] = h
        wanted[..., i, j] = (numeric(w + e) - numeric(w - e)) / (2 * h)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_random_nested_containers() -> None:
    rng = np.random.default_rng(1)

    def random_tree(depth: int) -> Any:
        kind = rng.integers(0, 6) if depth else 5
        width = int(rng.integers(0, 4)) if depth else 0
        children = [random_tree(depth - 1) for _ in range(width)]
        if kind == 0:
            return tuple(children)
        if kind == 1:
            return children
        if kind == 2:
            return {f"k{i}": c for i, c in enumerate(children)}
        if kind == 3:
            return None
        return jnp.asarray(rng.standard_normal(2).astype(np.float32))

    leaves = functrax.tree_util.tree_leaves
    for _ in range(20):
        tree = [random_tree(3), jnp.ones(2)]

        def f(t: Any) -> Any:
            return sum(jnp.sum(x**2) for x in leaves(t))

        for g in (functrax.grad(f), functrax.jit(functrax.grad(functrax.checkpoint(f)))):
            found = g(tree)
            structure = functrax.tree_util.tree_structure
            assert structure(found) == structure(tree)
            for a, b in zip(leaves(found), leaves(tree)):
                np.testing.assert_allclose(np.asarray(a), 2 * np.asarray(b), rtol=1e-6)


def test_function_that_transforms_itself() -> None:
    def f(x: Any, depth: int) -> Any:
        if depth == 0:
            return jnp.exp(2.0 * x)
        return functrax.grad(f)(x, depth - 1)

    assert float(f(0.0, 6)) == 64.0
    g = functrax.jit(f, static_argnums=1)
    assert float(functrax.vmap(lambda x: g(x, 5))(jnp.zeros(2))[1]) == 32.0


def test_same_function_under_two_transformations_at_once() -> None:
    f = functrax.jit(lambda x: x**3)

    def both(x: Any) -> Any:
        return f(x) * functrax.grad(f)(x) * functrax.jvp(f, (x,), (1.0,))[1]

    # x^3 * 3x^2 * 3x^2 = 9 x^7
    assert float(both(1.0)) == 9.0
    assert float(functrax.grad(both)(1.0)) == 63.0
    found = functrax.jit(functrax.vmap(functrax.grad(both)))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(np.asarray(found), [63.0, 63.0 * 64], rtol=1e-6)


def test_large_unrolled_program() -> None:
    def f(x: Any) -> Any:
        for k in range(400):
            x = x + 0.01 * jnp.sin(x + k)
        return jnp.sum(x)

    x = np.linspace(0.0, 1.0, 3)
    h = 1e-6

    def reference(x: np.ndarray) -> float:
        for k in range(400):
            x = x + 0.01 * np.sin(x + k)
        return float(x.sum())

    wanted = [(reference(x + h * e) - reference(x - h * e)) / (2 * h) for e in np.eye(3)]
    with functrax.enable_x64():
        found = functrax.jit(functrax.grad(f))(x)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)
