"""The edges of loops and branches: no steps, nothing to carry, narrow and complex types."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import close, same

X = jnp.asarray(np.array([0.3, -0.7, 1.1], "float32"))
XS = jnp.asarray(np.sin(np.arange(12.0)).reshape(4, 3).astype("float32"))

#: Loops that take no step, as functions of a carry ``h`` and of ``w``.
NO_STEPS: dict[str, Any] = {
    "scan": lambda w, h: lax.scan(lambda c, x: (c * x * w, c + w), h, XS[:0])[0],
    "scan of a length": lambda w, h: lax.scan(lambda c, _: (c * w, w), h, None, length=0)[0],
    "scan in reverse, unrolled": lambda w, h: lax.scan(
        lambda c, x: (c * x * w, c), h, XS[:0], reverse=True, unroll=True
    )[0],
    "fori": lambda w, h: lax.fori_loop(3, 1, lambda i, c: c * w * i, h),
    "traced fori": lambda w, h: functrax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c * w, h))(
        0
    ),
    "while": lambda w, h: lax.while_loop(lambda c: c[0] > 9.0, lambda c: c * w, h),
    "while of a closure": lambda w, h: lax.while_loop(lambda c: w[0] > 9.0, lambda c: c / 0.0, h),
}


@pytest.mark.parametrize("name", NO_STEPS)
def test_no_steps(name: str) -> None:
    f = NO_STEPS[name]
    same(f(X, XS[0]), XS[0])
    got = functrax.grad(lambda w, h: jnp.sum(f(w, h) ** 2), (0, 1))
    same(got(X, XS[0]), (jnp.zeros(3), 2.0 * XS[0]))
    same(functrax.jit(got)(X, XS[0]), (jnp.zeros(3), 2.0 * XS[0]))
    close(functrax.vmap(got, (None, 0))(X, XS), (jnp.zeros((4, 3)), 2.0 * XS))
    close(functrax.jvp(f, (X, XS[0]), (X, XS[1]))[1], XS[1])
    close(functrax.hessian(lambda h: jnp.sum(f(X, h) ** 2))(X), 2.0 * jnp.eye(3))


def test_results_of_no_steps_have_their_types_and_zero_gradients() -> None:
    def f(h: Any, xs: Any) -> Any:
        _, ys = lax.scan(lambda c, x: (c, {"a": c * x, "b": (jnp.int8(1), None)}), h, xs)
        return ys

    ys = f(X, XS[:0])
    assert (ys["a"].shape, ys["b"][0].shape, ys["b"][0].dtype) == ((0, 3), (0,), jnp.int8)
    gradient = functrax.grad(lambda h, xs: jnp.sum(f(h, xs)["a"]), (0, 1))(X, XS[:0])
    same(gradient, (jnp.zeros(3), XS[:0]))
    assert functrax.vmap(f, (None, 1), 1)(X, XS[:0, :, None])["a"].shape == (0, 3, 3)


def test_map_and_prefixes_of_nothing() -> None:
    assert lax.map(lambda x: {"y": x * 2, "n": None}, XS[:0])["y"].shape == (0, 3)
    for size in (0, 1):
        same(lax.associative_scan(jnp.multiply, XS[:size]), XS[:size])
        gradient = functrax.grad(lambda x: jnp.sum(lax.associative_scan(jnp.multiply, x)))
        same(gradient(XS[:size]), jnp.ones((size, 3)))


EMPTY: list[Any] = [(), {}, None, [], {"a": None, "b": ((), None)}]


@pytest.mark.parametrize("tree", EMPTY, ids=repr)
def test_empty_pytrees(tree: Any) -> None:
    assert lax.scan(lambda c, x: (c, x), tree, tree, length=3) == (tree, tree)
    assert lax.while_loop(lambda c: False, lambda c: c, tree) == tree
    assert lax.fori_loop(0, 3, lambda i, c: c, tree) == tree
    assert lax.cond(True, lambda c: c, lambda c: c, tree) == tree
    assert functrax.jit(lambda i: lax.switch(i, [lambda c: c] * 3, tree))(1) == tree
    assert functrax.vmap(lambda p: lax.cond(p > 0, lambda: tree, lambda: tree))(X) == tree

    def f(x: Any) -> Any:
        def step(c: Any, pair: Any) -> Any:
            (nothing, value), (also, y) = c, pair
            assert nothing == also == tree
            return (nothing, jnp.sin(value) * y), (also, value)

        return lax.scan(step, (tree, x), (tree, XS))

    assert f(X)[0][0] == f(X)[1][0] == tree
    wanted = functrax.grad(
        lambda x: unrolled.scan(lambda c, y: (jnp.sin(c) * y, c), x, XS)[0].sum()
    )(X)
    close(functrax.grad(lambda x: f(x)[0][1].sum())(X), wanted)


def mixed(loop: Any, n: Any, flag: Any, x: Any) -> Any:
    """Integer, boolean and floating carries that depend on one another."""

    def body(c: Any) -> Any:
        i, n, flag, x = c
        x = jnp.where(flag, jnp.sin(x) * n, x * 0.5)
        return i + 1, (n * 3 + 1) % 7, flag ^ (x[0] > 0.1), x

    return loop(lambda c: c[0] < 5, body, (jnp.int32(0), n, flag, x))[1:]


@pytest.mark.parametrize("flag", [True, False])
def test_integers_and_booleans_beside_what_is_differentiated(flag: bool) -> None:
    args = (jnp.int32(2), jnp.asarray(flag), X)

    def scanned(_: Any, body: Any, init: Any) -> Any:
        return lax.scan(lambda c, _: (body(c), None), init, None, length=5)[0]

    want = mixed(unrolled.while_loop, *args)
    wanted = functrax.vjp(lambda x: mixed(unrolled.while_loop, *args[:2], x)[2], X)[1](X)[0]
    for loop in (lax.while_loop, scanned):
        close(mixed(loop, *args), want)
        _, pull = functrax.vjp(lambda *a, loop=loop: mixed(loop, *a), *args)
        float0 = np.zeros((), functrax.float0)
        cts = pull((float0, float0, X))
        assert [ct.dtype for ct in cts[:2]] == [functrax.float0] * 2
        close(cts[2], wanted)
        tangent = functrax.jvp(lambda *a, loop=loop: mixed(loop, *a), args, (float0, float0, X))[1]
        assert [t.dtype for t in tangent[:2]] == [functrax.float0] * 2
        close(jnp.sum(tangent[2] * X), jnp.sum(wanted * X))


TYPES = ["float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize(("name", "dtype"), [*itertools.product(["scan", "while", "cond"], TYPES)])
def test_types_of_carries(name: str, dtype: str) -> None:
    x = (X + (0.2j * X if dtype == "complex64" else 0.0)).astype(dtype)
    tol = {"float16": 2e-2, "bfloat16": 0.1}.get(dtype, 1e-5)

    def f(x: Any, flow: Any) -> Any:
        if name == "scan":
            h, ys = flow.scan(lambda c, i: (c * x + i, c), x, jnp.arange(3).astype(dtype))
            return h + ys.sum(0)
        if name == "while":
            step = lambda c: (c[0] + 1, c[1] * x + c[1])
            return flow.while_loop(lambda c: c[0] < 3, step, (0, x))[1]
        choose = functrax.jit(lambda p, x: lax.cond(p, lambda x: x * x, lambda x: -x, x))
        return x * x if flow is unrolled else choose(True, x)

    loss = lambda x, flow: jnp.sum(jnp.real(f(x, flow) * jnp.conj(f(x, flow))))
    got, want = (functrax.grad(lambda x, s=s: loss(x, s))(x) for s in (lax, unrolled))
    assert got.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(np.asarray(got, complex), np.asarray(want, complex), tol, tol)
    batched = functrax.vmap(functrax.grad(lambda x: loss(x, lax)))(jnp.stack([x, x * 0]))
    assert batched.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(np.asarray(batched[0], complex), np.asarray(want, complex), tol, tol)


def test_closures_over_values_of_every_level() -> None:
    def f(scale: Any, flow: Any) -> Any:
        def of_row(row: Any) -> Any:
            def step(c: Any, x: Any) -> Any:
                inner = lambda v: (v[0] + 1, v[1] * scale + c * x + row)
                out = flow.while_loop(lambda v: v[0] < 2, inner, (0, row))[1]
                return flow.cond(lambda: out + c * scale, lambda: row * scale), out

            return flow.scan(step, row * 0.1, row[:2])[0]

        return jnp.sum(flow.vmap(of_row)(XS) ** 2)

    class Staged:
        scan, while_loop, vmap = lax.scan, lax.while_loop, functrax.vmap
        cond = staticmethod(lambda yes, no: lax.cond(X[0] > 0.0, yes, no))

    class Python:
        scan, while_loop = unrolled.scan, unrolled.while_loop
        vmap = staticmethod(lambda f: lambda xs: jnp.stack([f(x) for x in xs]))
        cond = staticmethod(lambda yes, no: yes())

    for order in (functrax.value_and_grad, lambda g: functrax.grad(functrax.grad(g))):
        got, want = (order(lambda s, flow=flow: f(s, flow)) for flow in (Staged, Python))
        close(got(0.7), want(0.7), 1e-4)
        close(functrax.jit(got)(0.7), want(0.7), 1e-4)


def test_weak_carries_stay_weak_under_derivatives() -> None:
    f = lambda x: lax.scan(lambda c, _: (c * x, c), 1.0, None, length=3)[0]
    g = lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * x, 1.0)
    for h, want in ((f, 12.0), (g, 32.0)):
        slope = functrax.grad(h)(2.0)
        assert (float(slope), slope.dtype, slope.weak_type) == (want, jnp.float32, True)
        assert functrax.grad(h)(jnp.bfloat16(2.0)).dtype == jnp.bfloat16
        assert float(functrax.vmap(functrax.grad(h))(jnp.array([2.0, 3.0]))[0]) == want


def test_branch_not_taken_spoils_a_batch_in_both_modes_as_where_does() -> None:
    def f(x: Any) -> Any:
        safe = jnp.where(x > 0.0, x, 1.0)
        return lax.cond(x > 0.0, lambda: jnp.log(safe), lambda: x * 2.0)

    xs = jnp.array([-1.0, 0.0, 2.0])
    same(functrax.vmap(functrax.grad(f))(xs), jnp.array([2.0, 2.0, 0.5]))
    close(functrax.vmap(lambda x: functrax.jvp(f, (x,), (3.0,))[1])(xs), jnp.array([6.0, 6.0, 1.5]))


def test_hoisted_value_that_the_body_needs_as_well() -> None:
    # The wide matrix is made in the body; a sum, made in front of the loop, needs it too.
    def f(w: Any, h: Any, flow: Any) -> Any:
        wide = lambda: jnp.broadcast_to(w, (3, 3)) * 2.0
        step = lambda c, _: ((wide() @ c) * jnp.sum(jnp.sin(wide()), 0), None)
        return jnp.sum(flow.scan(step, h, None, length=2)[0])

    got, want = (functrax.grad(lambda w, h, s=s: f(w, h, s), (0, 1)) for s in (lax, unrolled))
    close(got(X, X * 0.1), want(X, X * 0.1), 1e-4)


LINEAR: dict[str, Any] = {
    "scan": lambda x: lax.scan(lambda c, w: (c * w + c, c * w), x, XS),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * X), (0, x))[
        1
    ],
    "cond": lambda x: functrax.jit(
        lambda p, x: lax.cond(p, lambda x: 2.0 * x, lambda x: x[::-1], x)
    )(False, x),
    "associative_scan": lambda x: lax.associative_scan(jnp.add, x, reverse=True),
    "custom_linear_solve": lambda x: lax.custom_linear_solve(
        lambda v: X * v, x, lambda _, b: b / X, symmetric=True
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_transposes_of_linear_programs(name: str) -> None:
    f = LINEAR[name]
    out = f(XS[0])
    ct = functrax.tree.map(lambda y: jnp.cos(y + 1.0), out)
    (back,) = functrax.linear_transpose(f, X)(ct)
    products = functrax.tree.map(lambda y, c: jnp.sum(y * c), out, ct)
    close(jnp.sum(back * XS[0]), sum(functrax.tree.leaves(products)), 1e-5)


def test_third_derivative_of_a_while_loop() -> None:
    def f(x: Any, loop: Any) -> Any:
        return loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jnp.sin(c[1]) * x), (0, x))[1]

    def third(loop: Any) -> Any:
        return functrax.grad(functrax.grad(functrax.grad(lambda x: f(x, loop))))(0.5)

    close(third(lax.while_loop), third(unrolled.while_loop))
