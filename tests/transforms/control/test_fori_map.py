"""``fori_loop`` and ``map`` against Python loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import ArgumentError, DTypeError, FunctraxError, ShapeError
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import close, derivatives_agree, same

X = jnp.asarray(np.array([0.3, -0.7, 1.1], "float32"))
XS = jnp.asarray(np.sin(np.arange(15.0)).reshape(5, 3).astype("float32"))


def body(i: Any, x: Any) -> Any:
    return jnp.sin(x) * (1.0 + 0.1 * i)


@pytest.mark.parametrize(("lower", "upper"), [(0, 4), (2, 5), (-2, 1), (3, 3), (5, 1)])
def test_fori_loop(lower: int, upper: int) -> None:
    def want(x: Any) -> Any:
        return unrolled.fori_loop(lower, upper, body, x)

    def static(x: Any) -> Any:
        return lax.fori_loop(lower, upper, body, x)

    @functrax.jit
    def dynamic(lower: Any, upper: Any, x: Any) -> Any:
        return lax.fori_loop(lower, upper, body, x)

    close(static(X), want(X))
    close(dynamic(lower, upper, X), want(X))
    derivatives_agree(static if lower == 0 else lambda x: dynamic(lower, upper, x), want, (X,))


def test_loop_is_a_scan_or_a_while() -> None:
    names = [
        [e.primitive.name for e in functrax.make_jaxpr(f)(3).jaxpr.eqns]
        for f in (lambda n: lax.fori_loop(0, 3, body, X), lambda n: lax.fori_loop(0, n, body, X))
    ]
    assert "scan" in names[0]
    assert "while" in names[1]


BOUNDS = {"python": 3, "int16": np.int16(3), "int32": np.int32(3)}


@pytest.mark.parametrize("names", [*itertools.product(BOUNDS, repeat=2)], ids="-".join)
def test_types_of_the_index(names: tuple[str, str]) -> None:
    lower, upper = (BOUNDS[n] for n in names)
    lower = lower * 0 if names[0] == "python" else lower - lower

    def types_with(low: Any, high: Any) -> set[str]:
        seen = set()
        lax.fori_loop(low, high, lambda i, c: seen.add(i.aval.str_short()) or c, X)
        return seen

    if "python" not in names and names[0] != names[1]:
        with pytest.raises(DTypeError, match="fori_loop must have equal types"):
            types_with(lower, upper)
        return
    assert types_with(lower, upper) == {"~i32[]"}  # known bounds are Python integers
    staged: set[str] = set()
    functrax.jit(lambda n: staged.update(types_with(lower, n)))(upper)
    index = next((n for n in names if n == "int16"), "int32")
    weak = "~" if names[0] == "python" and index == "int32" else ""
    assert staged == {f"{weak}i{index[3:]}[]"}


def test_index_of_a_narrow_carry_keeps_the_carry() -> None:
    for dtype in ("int8", "bfloat16"):
        out = lax.fori_loop(0, 3, lambda i, c: c + i, jnp.zeros((), dtype))
        assert (out.dtype, float(out)) == (jnp.dtype(dtype), 3.0)
    with pytest.raises(DTypeError, match="fori_loop must have equal types"):
        lax.fori_loop(0, jnp.uint8(3), lambda i, c: c, X)


def test_bounds_that_are_floats() -> None:
    def count(low: Any) -> Any:
        return lax.fori_loop(low, low + 3.0, lambda i, c: c + i, low)

    assert float(count(0.5)) == 0.5 + 0 + 1 + 2  # known bounds are rounded, as int() does
    assert float(functrax.jit(count)(0.5)) == 0.5 + 0.5 + 1.5 + 2.5
    assert float(functrax.jit(functrax.grad(count))(0.5)) == 4.0


def test_vmap_over_bounds() -> None:
    f = functrax.vmap(lambda n, x: lax.fori_loop(0, n, body, x))
    ns = jnp.array([0, 3, 1])
    want = [unrolled.fori_loop(0, int(n), body, X * k) for k, n in enumerate(ns)]
    close(f(ns, X * jnp.arange(3.0)[:, None]), jnp.stack(want))
    got = functrax.grad(lambda x: f(ns, x).sum())(X * jnp.arange(3.0)[:, None])
    wanted = [
        functrax.grad(lambda x, n=n: unrolled.fori_loop(0, int(n), body, x).sum())(X * k)
        for k, n in enumerate(ns)
    ]
    close(got, jnp.stack(wanted), 1e-4)


@pytest.mark.parametrize("unroll", [None, False, True, 0, 1, 2])
def test_unroll(unroll: Any) -> None:
    close(lax.fori_loop(0, 5, body, X, unroll=unroll), unrolled.fori_loop(0, 5, body, X))


def test_weak_carry_and_pytrees() -> None:
    total, tree = lax.fori_loop(
        0, 3, lambda i, c: (c[0] + XS[i, 0], {"n": c[1]["n"] + i}), (0, {"n": 0})
    )
    close(total, XS[:3, 0].sum())
    assert int(tree["n"]) == 3


def test_update_in_place() -> None:
    got = lax.fori_loop(0, 5, lambda i, a: a.at[i].set(XS[i] * i), jnp.zeros((5, 3)))
    close(got, XS * jnp.arange(5.0)[:, None])
    gradient = functrax.grad(
        lambda xs: lax.fori_loop(0, 5, lambda i, a: a.at[i].multiply(xs[4 - i]), xs).sum()
    )(XS)
    close(gradient, 2 * XS[::-1])


@pytest.mark.parametrize("batch_size", [None, 0, 1, 2, 5, 8])
def test_map(batch_size: int | None) -> None:
    def f(d: Any) -> Any:
        return {"s": jnp.sin(d["x"]) * d["n"], "t": (d["n"] * 2,)}

    xs = {"x": XS, "n": jnp.arange(5.0)}
    got = lax.map(f, xs, batch_size=batch_size)
    rows = [f({"x": XS[i], "n": jnp.float32(i)}) for i in range(5)]
    close(got, functrax.tree.map(lambda *ys: jnp.stack(ys), *rows))
    close(functrax.jit(lambda x: lax.map(f, x, batch_size=batch_size))(xs), got)
    derivatives_agree(
        lambda x: lax.map(f, {"x": x, "n": xs["n"]}, batch_size=batch_size),
        lambda x: functrax.vmap(f)({"x": x, "n": xs["n"]}),
        (XS,),
    )


def test_map_over_nothing() -> None:
    same(lax.map(lambda x: x * 2, XS[:0]), XS[:0])
    same(lax.map(lambda x: x * 2, XS[:0], batch_size=2), XS[:0])


ERRORS: list[tuple[Any, type[FunctraxError], str]] = [
    (lambda: lax.fori_loop(0, 2.5, body, X), DTypeError, "fori_loop must have equal types"),
    (lambda: lax.fori_loop(0j, 2j, body, X), DTypeError, "lower is not a real scalar"),
    (lambda: lax.fori_loop(X, 2, body, X), DTypeError, "lower is not a real scalar"),
    (
        lambda: lax.fori_loop(0, 2, lambda i, x: x[0], X),
        ShapeError,
        "carry was f32[3] and becomes f32[]",
    ),
    (
        lambda: lax.fori_loop(0, 2, lambda i, x: {"a": x["a"] > 0}, {"a": X}),
        DTypeError,
        "carry['a'] was f32[3] and becomes bool[3]",
    ),
    (
        lambda: functrax.jit(lambda n: lax.fori_loop(0, n, body, X, unroll=2))(3),
        ArgumentError,
        "unroll needs bounds",
    ),
    (lambda: lax.map(body, X, batch_size=-1), ArgumentError, "batch_size"),
    (lambda: lax.map(3, X), ArgumentError, "not a function"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case: int) -> None:
    call, kind, text = ERRORS[case]
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
