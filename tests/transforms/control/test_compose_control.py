"""Control flow inside control flow, under and around every other transformation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import close, derivatives_agree, same

X = jnp.asarray(np.array([0.3, -0.7, 1.1], "float32"))
XS = jnp.asarray(np.sin(np.arange(12.0)).reshape(4, 3).astype("float32"))


def scan_of_cond_of_vmap(h: Any, xs: Any, loop: Any = lax.scan, choose: Any = lax.cond) -> Any:
    def step(h: Any, x: Any) -> Any:
        def yes(h: Any) -> Any:
            return functrax.vmap(lambda a, b: jnp.sin(a) * b)(h, x)

        def no(h: Any) -> Any:
            return functrax.vmap(lambda a: a * jnp.sum(jnp.cos(x)))(h)

        new = choose(x[0] > 0.0, yes, no, h)
        return new, new * x

    return loop(step, h, xs)


def python_cond(p: Any, yes: Any, no: Any, *args: Any) -> Any:
    return jnp.where(p, yes(*args), no(*args))


def test_gradient_of_scan_of_cond_of_vmap() -> None:
    def want(h: Any, xs: Any) -> Any:
        return scan_of_cond_of_vmap(h, xs, unrolled.scan, python_cond)

    close(scan_of_cond_of_vmap(X, XS), want(X, XS))
    derivatives_agree(scan_of_cond_of_vmap, want, (X, XS))
    batch = (jnp.stack([X, 2 * X]), jnp.stack([XS, -XS]))
    gradient = functrax.grad(unrolled.summed(scan_of_cond_of_vmap), (0, 1))
    wanted = functrax.grad(unrolled.summed(want), (0, 1))
    close(functrax.vmap(gradient)(*batch), functrax.vmap(wanted)(*batch), 1e-4)


def scan_in_while(x: Any, scan: Any, loop: Any) -> Any:
    def body(c: Any) -> Any:
        i, x = c
        inner = scan(lambda h, s: (jnp.tanh(h + s), h * s), x, XS)
        return i + 1, inner[0] + jnp.sum(inner[1], 0)

    return loop(lambda c: c[0] < 3, body, (jnp.int32(0), x))[1]


def test_scan_inside_while() -> None:
    derivatives_agree(
        lambda x: scan_in_while(x, lax.scan, lax.while_loop),
        lambda x: scan_in_while(x, unrolled.scan, unrolled.while_loop),
        (X,),
        1e-3,
    )


def while_in_scan(x: Any, xs: Any, scan: Any, loop: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        def body(c: Any) -> Any:
            return c[0] + 1, jnp.sin(c[1]) * x

        return loop(lambda c: c[0] < 3, body, (jnp.int32(0), h))[1], h

    return scan(step, x, xs)


def test_while_inside_scan() -> None:
    derivatives_agree(
        lambda x, xs: while_in_scan(x, xs, lax.scan, lax.while_loop),
        lambda x, xs: while_in_scan(x, xs, unrolled.scan, unrolled.while_loop),
        (X, XS),
    )


def test_while_with_a_length_that_each_step_of_a_scan_decides() -> None:
    def f(x: Any, ns: Any) -> Any:
        def step(h: Any, n: Any) -> Any:
            return lax.fori_loop(0, n, lambda i, a: jnp.sin(a) + 0.1 * i, h), None

        return lax.scan(step, x, ns)[0]

    def g(x: Any) -> Any:
        for n in (2, 0, 3):
            for i in range(n):
                x = jnp.sin(x) + 0.1 * i
        return x

    derivatives_agree(lambda x: f(x, jnp.array([2, 0, 3])), g, (X,))
    ns = jnp.array([[2, 0, 3], [2, 0, 3]])
    got = functrax.vmap(functrax.grad(lambda x, n: f(x, n).sum()))(jnp.stack([X, 2 * X]), ns)
    close(got, functrax.vmap(functrax.grad(lambda x: g(x).sum()))(jnp.stack([X, 2 * X])))


def test_cond_inside_while_inside_jit() -> None:
    def f(x: Any, choose: Any, loop: Any) -> Any:
        def body(c: Any) -> Any:
            i, x = c
            return i + 1, choose(i % 2 == 0, jnp.sin, lambda v: v * v + 0.5, x)

        return loop(lambda c: c[0] < 5, body, (jnp.int32(0), x))[1]

    derivatives_agree(
        functrax.jit(lambda x: f(x, lax.cond, lax.while_loop)),
        lambda x: f(x, python_cond, unrolled.while_loop),
        (X,),
        1e-3,
    )


def test_scan_of_scan() -> None:
    def f(h: Any, xs: Any, scan: Any) -> Any:
        def outer(h: Any, x: Any) -> Any:
            return scan(lambda a, b: (jnp.sin(a) * x + b, a), h, xs)

        return scan(outer, h, xs)

    derivatives_agree(
        lambda h, xs: f(h, xs, lax.scan), lambda h, xs: f(h, xs, unrolled.scan), (X, XS), 2e-3
    )


def _wrap(name: str, f: Any) -> Any:
    if name == "jit":
        return functrax.jit(f)
    if name == "checkpoint":
        return functrax.checkpoint(f)
    if name == "custom_jvp":
        wrapped = functrax.custom_jvp(f)
        wrapped.defjvp(lambda primals, tangents: functrax.jvp(f, primals, tangents))
        return wrapped
    wrapped = functrax.custom_vjp(f)
    wrapped.defvjp(lambda *a: (f(*a), a), lambda a, ct: functrax.vjp(f, *a)[1](ct))
    return wrapped


@pytest.mark.parametrize("name", ["jit", "checkpoint", "custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("loop", ["scan", "while"])
def test_wrapped_function_inside_a_loop(name: str, loop: str) -> None:
    inner = _wrap(name, lambda h, x: jnp.tanh(h) * x + jnp.sin(h))

    def f(h: Any, xs: Any) -> Any:
        if loop == "scan":
            return lax.scan(lambda h, x: (inner(h, x), h), h, xs)[0]
        body = lambda c: (c[0] + 1, inner(c[1], xs[c[0]]))
        return lax.while_loop(lambda c: c[0] < 4, body, (jnp.int32(0), h))[1]

    def g(h: Any, xs: Any) -> Any:
        for i in range(4):
            h = jnp.tanh(h) * xs[i] + jnp.sin(h)
        return h

    close(f(X, XS), g(X, XS))
    gradient, wanted = (functrax.grad(unrolled.summed(h), (0, 1)) for h in (f, g))
    close(gradient(X, XS), wanted(X, XS))
    close(functrax.jit(gradient)(X, XS), wanted(X, XS))
    batch = (jnp.stack([X, X + 1]), jnp.stack([XS, 2 * XS]))
    close(functrax.vmap(gradient)(*batch), functrax.vmap(wanted)(*batch), 1e-4)
    slopes = (functrax.grad(lambda x, d=d: unrolled.summed(d)(x, XS)) for d in (gradient, wanted))
    close(*(s(X) for s in slopes), 1e-3)


def test_checkpoint_of_a_scan() -> None:
    def f(h: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (jnp.sin(h) * x, h), h, xs)

    derivatives_agree(functrax.checkpoint(f), f, (X, XS))


@pytest.mark.parametrize("loop", ["scan", "fori", "while"])
def test_collectives_over_a_mapped_axis_inside_a_loop(loop: str) -> None:
    def step(h: Any, x: Any) -> Any:
        return h - lax.pmean(h, "i") + jnp.sin(x) * lax.axis_index("i")

    def f(h: Any, xs: Any) -> Any:
        if loop == "scan":
            return lax.scan(lambda h, x: (step(h, x), None), h, xs)[0]
        if loop == "fori":
            return lax.fori_loop(0, 4, lambda i, h: step(h, xs[i]), h)
        body = lambda c: (c[0] + 1, step(c[1], xs[c[0]]))
        return lax.while_loop(lambda c: c[0] < 4, body, (jnp.int32(0), h))[1]

    def g(hs: Any, xss: Any) -> Any:
        for i in range(4):
            index = jnp.arange(2.0)[:, None]
            hs = hs - hs.mean(0) + jnp.sin(xss[:, i]) * index
        return hs

    hs, xss = jnp.stack([X, 2 * X + 1]), jnp.stack([XS, -XS])
    mapped = functrax.vmap(f, axis_name="i")
    close(mapped(hs, xss), g(hs, xss))
    got = functrax.grad(unrolled.summed(mapped), (0, 1))(hs, xss)
    close(got, functrax.grad(unrolled.summed(g), (0, 1))(hs, xss))


def test_prints_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def step(i: Any, _: Any) -> Any:
        functrax.debug.print("step {i}", i=i)
        lax.cond(i % 2 == 0, lambda: functrax.debug.print("even"), lambda: None)
        return i + 1, None

    wanted = "".join(f"step {i}\n" + ("even\n" if i % 2 == 0 else "") for i in range(4))
    f = lambda: lax.scan(step, jnp.int32(0), None, length=4)
    for run in (f, functrax.jit(f)):
        run()
        assert capsys.readouterr().out == wanted
    lax.while_loop(lambda i: i < 4, lambda i: step(i, None)[0], jnp.int32(0))
    assert capsys.readouterr().out == wanted


def test_prints_under_a_gradient_once(capsys: pytest.CaptureFixture[str]) -> None:
    def step(c: Any, _: Any) -> Any:
        i, x = c
        functrax.debug.print("step {i}", i=i)
        return (i + 1, jnp.sin(x)), None

    functrax.grad(lambda x: lax.scan(step, (jnp.int32(0), x), None, length=3)[0][1].sum())(X)
    assert capsys.readouterr().out == "step 0\nstep 1\nstep 2\n"


OUTER = {
    "grad": lambda f: functrax.grad(unrolled.summed(f)),
    "jvp": lambda f: lambda x: functrax.jvp(f, (x,), (jnp.cos(x),))[1],
    "vmap": lambda f: lambda x: functrax.vmap(f)(jnp.stack([x, x * 0.5])).sum(0),
    "jit": functrax.jit,
    "linearize": lambda f: lambda x: functrax.linearize(f, x)[1](jnp.cos(x)),
    "jacrev": lambda f: lambda x: functrax.jacrev(f)(x).sum(0),
}


@pytest.mark.parametrize("names", [*itertools.product(OUTER, repeat=2)], ids="-".join)
def test_two_transformations_over_nested_loops(names: tuple[str, str]) -> None:
    def f(x: Any, scan: Any, loop: Any, choose: Any) -> Any:
        def step(h: Any, y: Any) -> Any:
            h = choose(h[0] > 0.2, jnp.sin, lambda v: v * v, h)
            body = lambda c: (c[0] + 1, c[1] * y + 0.1)
            h = loop(lambda c: c[0] < 2, body, (jnp.int32(0), h))[1]
            return h, None

        return scan(step, x, XS[:2])[0]

    got = lambda x: f(x, lax.scan, lax.while_loop, lax.cond)
    want = lambda x: f(x, unrolled.scan, unrolled.while_loop, python_cond)
    for name in names:
        got, want = OUTER[name](got), OUTER[name](want)
    close(got(X), want(X), 1e-4)


def test_jit_of_everything_is_eager() -> None:
    f = functrax.value_and_grad(unrolled.summed(lambda h: scan_of_cond_of_vmap(h, XS)))
    same(functrax.jit(f)(X), f(X))


@pytest.mark.parametrize("reverse", [False, True])
def test_without_jit_loops_are_python_loops(reverse: bool) -> None:
    seen: list[Any] = []

    def look(c: Any) -> None:
        if looking:
            seen.append(float(c))

    def step(c: Any, x: Any) -> Any:
        look(c)
        return jnp.sin(c) + x, {"y": c * x}

    def body(c: Any) -> Any:
        look(c)
        return c * 1.5

    def f(x: Any) -> Any:
        c, ys = lax.scan(step, x, XS[:, 0], reverse=reverse)
        c = lax.fori_loop(0, 2, lambda i, v: v + step(v, 1.0)[0], c)
        return lax.while_loop(lambda c: c < 5.0, body, c), ys

    looking = True
    with functrax.disable_jit():
        got = f(jnp.float32(0.5))
        assert len(seen) > 6
        slope = functrax.grad(lambda x: f(x)[0])(jnp.float32(0.5))
        empty = lax.scan(lambda c, x: (c, x), X, XS[:0])[1]
        staged = functrax.make_jaxpr(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + 1, 0))(
            3
        )
    looking = False
    close(got, f(jnp.float32(0.5)))
    close(slope, functrax.grad(lambda x: f(x)[0])(jnp.float32(0.5)))
    assert empty.shape == (0, 3)
    assert [e.primitive.name for e in staged.eqns] == ["while"]
