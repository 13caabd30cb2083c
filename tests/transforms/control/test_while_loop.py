"""``while_loop`` against Python loops: values, derivatives, batching, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import ArgumentError, DTypeError, FunctraxError, PyTreeError, ShapeError
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import close, derivatives_agree, same

X = jnp.asarray(np.array([0.3, -0.7, 1.1], "float32"))
W = jnp.asarray(np.array([0.9, 0.4, -0.2], "float32"))


def repeat(n: Any, w: Any, x: Any, loop: Any = lax.while_loop) -> Any:
    """``n`` steps of a nonlinear map, with an integer beside the differentiable carry."""

    def body(carry: Any) -> Any:
        i, x = carry
        return i + 1, jnp.sin(w * x) + 0.1 * i.astype(x.dtype)

    return loop(lambda carry: carry[0] < n, body, (jnp.int32(0), x))[1]


def unrolled_repeat(n: int, w: Any, x: Any) -> Any:
    return repeat(n, w, x, unrolled.while_loop)


@pytest.mark.parametrize("n", range(41))
def test_reverse_mode_is_that_of_the_unrolled_loop(n: int) -> None:
    f = functrax.grad(unrolled.summed(lambda w, x: repeat(n, w, x)), (0, 1))
    got = f(W, X)
    w, x, trail = np.asarray(W, np.float64), np.asarray(X, np.float64), []
    for i in range(n):
        trail.append(x)
        x = np.sin(w * x) + 0.1 * i
    ct, ct_w = np.cos(1.0 + np.arange(3.0)), np.zeros(3)
    for x in reversed(trail):
        slope = ct * np.cos(w * x)
        ct_w, ct = ct_w + slope * x, slope * w
    np.testing.assert_allclose(np.asarray(got[0]), ct_w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(got[1]), ct, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_all_modes_and_second_derivatives(n: int) -> None:
    derivatives_agree(lambda w, x: repeat(n, w, x), lambda w, x: unrolled_repeat(n, w, x), (W, X))


def test_number_of_steps_known_only_at_run_time() -> None:
    f = functrax.jit(functrax.grad(unrolled.summed(repeat), (1, 2)))
    for n in (0, 1, 3, 8):
        want = functrax.grad(unrolled.summed(lambda w, x, n=n: unrolled_repeat(n, w, x)), (0, 1))(
            W, X
        )
        close(f(n, W, X), want, 1e-4)


def test_gradient_stops_where_the_condition_says() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: v < 100.0, lambda v: v * v * x, x + 1.0)

    x = jnp.float32(2.0)
    assert float(f(x)) == 648.0
    v = 2.0 + 1.0
    dv = 1.0
    while v < 100.0:
        v, dv = v * v * 2.0, 2.0 * v * dv * 2.0 + v * v
    np.testing.assert_allclose(float(functrax.grad(f)(x)), dv, rtol=1e-6)
    np.testing.assert_allclose(float(functrax.jvp(f, (x,), (jnp.float32(1),))[1]), dv, rtol=1e-6)


def test_jit_is_eager() -> None:
    same(functrax.jit(repeat)(7, W, X), repeat(7, W, X))


def test_one_equation() -> None:
    eqns = functrax.make_jaxpr(repeat)(7, W, X).jaxpr.eqns
    assert [e.primitive.name for e in eqns] == ["while"]


@pytest.mark.parametrize(
    "axes",
    [
        (a, b, c)
        for a in (None, 0)
        for b in (None, 0)
        for c in (None, 0)
        if (a, b, c) != (None,) * 3
    ],
)
def test_vmap(axes: tuple[int | None, ...]) -> None:
    ns, ws, xs = np.array([4, 0, 2], np.int32), np.outer([1, 0.5, -1], W), np.outer([1, 2, 0.1], X)
    args = [
        jnp.asarray(v.astype(u.dtype)) if a is not None else u
        for v, u, a in zip((ns, ws, xs), (jnp.int32(3), W, X), axes, strict=True)
    ]
    rows = [[x if a is None else x[i] for x, a in zip(args, axes, strict=True)] for i in range(3)]
    want = jnp.stack([unrolled_repeat(int(n), w, x) for n, w, x in rows])
    close(functrax.vmap(repeat, axes)(*args), want)
    gradient = functrax.grad(unrolled.summed(repeat), (1, 2))
    wanted = [
        functrax.grad(unrolled.summed(lambda w, x, n=n: unrolled_repeat(int(n), w, x)), (0, 1))(
            w, x
        )
        for n, w, x in rows
    ]
    want = functrax.tree.map(lambda *ys: jnp.stack(ys), *wanted)
    close(functrax.vmap(gradient, axes)(*args), want, 1e-4)


def test_vmap_where_only_the_condition_is_batched() -> None:
    def f(limit: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] * 2, c[1] + 1), (1, 0))

    got = functrax.vmap(f)(jnp.array([1, 2, 100]))
    np.testing.assert_array_equal(np.asarray(got[0]), [1, 2, 128])
    np.testing.assert_array_equal(np.asarray(got[1]), [0, 1, 7])


def test_finished_elements_do_not_spoil_the_gradient() -> None:
    def f(x: Any) -> Any:  # 1 / 0 in the steps after an element has finished
        return lax.while_loop(lambda c: c > 0.5, lambda c: c - 0.5 / c, x)

    xs = jnp.array([0.9, 1.0, 4.0])
    got = functrax.vmap(functrax.grad(f))(xs)
    want = jnp.stack([functrax.grad(f)(x) for x in xs])
    assert np.isfinite(np.asarray(got)).all()
    close(got, want)


def test_no_steps_and_empty_carries() -> None:
    same(lax.while_loop(lambda c: False, lambda c: c + 1, X), X)
    assert lax.while_loop(lambda c: False, lambda c: c, ()) == ()
    assert lax.while_loop(lambda c: False, lambda c: c, {"a": None}) == {"a": None}


def test_weak_types_settle() -> None:
    out = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * jnp.bfloat16(2)), (0, 1.0))
    assert [a.dtype for a in out] == [jnp.int32, jnp.bfloat16]
    assert float(out[1]) == 8.0
    # A body that makes an integer of a float does not make the initial 0.5 a 0.
    with pytest.raises(DTypeError, match=r"carry was ~f32\[\] and becomes i32\[\]"):
        lax.while_loop(lambda c: c < 3, lambda c: jnp.int32(4), 0.5)


def test_keys_as_carries() -> None:
    def body(carry: Any) -> Any:
        i, key = carry
        return i + 1, functrax.random.split(key)[0]

    key = functrax.random.key(3)
    got = lax.while_loop(lambda c: c[0] < 4, body, (jnp.int32(0), key))[1]
    want = unrolled.while_loop(lambda c: c[0] < 4, body, (jnp.int32(0), key))[1]
    same(functrax.random.key_data(got), functrax.random.key_data(want))


ERRORS: list[tuple[Any, type[FunctraxError], str]] = [
    (
        lambda: lax.while_loop(lambda c: True, lambda c: {"a": c["a"][None]}, {"a": X}),
        ShapeError,
        "carry['a'] was f32[3] and becomes f32[1,3]",
    ),
    (
        lambda: lax.while_loop(lambda c: True, lambda c: (c[0], c[1] + 0.5), (X, jnp.int32(1))),
        DTypeError,
        "carry[1] was i32[] and becomes ~f32[]",
    ),
    (lambda: lax.while_loop(lambda c: True, lambda c: (c,), X), PyTreeError, "another structure"),
    (
        lambda: lax.while_loop(lambda c: c > 0, lambda c: c, X),
        ShapeError,
        "does not return one scalar of bool\n  got   bool[3]",
    ),
    (lambda: lax.while_loop(lambda c: c, lambda c: c, 1), ShapeError, "scalar of bool"),
    (lambda: lax.while_loop(lambda c: (c, c), lambda c: c, 1), ShapeError, "scalar of bool"),
    (lambda: lax.while_loop(True, lambda c: c, 1), ArgumentError, "not a function"),
    *(
        (
            lambda k=k: lax.while_loop(lambda c: c < 1, lambda c: c, 1, checkpoints=k),
            ArgumentError,
            f"while_loop: checkpoints is not a positive number of carries\n  got   checkpoints={k}",
        )
        for k in (0, -3, True, 2.0)
    ),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case: int) -> None:
    call, kind, text = ERRORS[case]
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
