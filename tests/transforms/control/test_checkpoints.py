"""What reverse mode through ``while_loop`` and ``cond`` keeps: how much, and at what price."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.ir.jaxpr import Jaxpr, all_eqns
from functrax.errors import ArgumentError
from tests.backends.programs import peak
from tests.thinning import one_in
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import close

X = jnp.asarray(np.array([0.3, -0.7, 1.1], "float32"))
W = jnp.asarray(np.array([0.9, 0.4, -0.2], "float32"))
DEFAULT = 33


def repeat(n: Any, w: Any, x: Any, checkpoints: int | None, loop: Any = None) -> Any:
    loop = loop or (lambda *fs: lax.while_loop(*fs, checkpoints=checkpoints))
    body = lambda c: (c[0] + 1, jnp.sin(w * c[1]) + 0.1 * c[0].astype(x.dtype))
    return loop(lambda c: c[0] < n, body, (jnp.int32(0), x))[1]


def rows_of(jaxpr: Jaxpr, shape: tuple[int, ...]) -> set[int]:
    """How many values of a shape are kept, in each stack of such values in a program."""
    shapes = {v.aval.shape for e in all_eqns(jaxpr) for v in e.outvars}
    return {s[0] for s in shapes if s[1:] == shape and len(s) == 1 + len(shape)}


@pytest.mark.parametrize("checkpoints", [1, 2, 3, 7, 33, 40, None])
@pytest.mark.parametrize("n", [0, 1, 2, 9, 34])
def test_gradients_do_not_depend_on_the_checkpoints(checkpoints: int | None, n: int) -> None:
    def gradient(loop: Any) -> Any:
        f = unrolled.summed(lambda w, x: repeat(n, w, x, checkpoints, loop))
        return functrax.grad(f, (0, 1))(W, X)

    close(gradient(None), gradient(unrolled.while_loop), 1e-4)


@pytest.mark.parametrize("checkpoints", one_in(2, [3, 1, None, 5]))
def test_second_derivatives_and_batches(checkpoints: int | None) -> None:
    def slope(loop: Any) -> Any:
        f = lambda x: jnp.sum(repeat(5, W, x, checkpoints, loop) ** 2)
        return lambda x: jnp.sum(functrax.grad(f)(x) * W)

    got, want = functrax.grad(slope(None)), functrax.grad(slope(unrolled.while_loop))
    close(got(X), want(X), 1e-4)
    close(functrax.vmap(got)(jnp.stack([X, W])), jnp.stack([want(X), want(W)]), 1e-4)


@pytest.mark.parametrize("checkpoints", [4, 12, None])
def test_as_many_rows_as_are_asked_for(checkpoints: int | None) -> None:
    gradient = functrax.grad(lambda n, w, x: repeat(n, w, x, checkpoints).sum(), 2)
    jaxpr = functrax.make_jaxpr(gradient)(1000, W, X).jaxpr
    assert rows_of(jaxpr, (3,)) == {checkpoints or DEFAULT}


@pytest.mark.parametrize("checkpoints", [3, 20])
def test_peak_of_live_carries_does_not_grow_with_the_steps(checkpoints: int) -> None:
    x = jnp.zeros(1 << 16)
    size = x.nbytes

    def gradient(n: int, x: Any) -> Any:
        step = lambda i, v: jnp.sin(v)
        return functrax.grad(lambda x: lax.fori_loop(0, n, step, x, checkpoints=checkpoints).sum())(
            x
        )

    with functrax.backend("interp"):  # its memory is NumPy's, which can be measured
        gradient(60, x)  # imports and traces what it needs
        peaks = [peak(gradient, n, x) / size for n in (60, 120)]
    # The reference device writes nothing in place: each of the nested loops has the stack that it
    # was given and the one that it makes.
    for found in peaks:
        assert checkpoints <= found <= 4 * checkpoints + 12, peaks
    assert max(peaks) < peaks[0] + 1.5, peaks


@pytest.mark.parametrize(
    ("n", "checkpoints"),
    [(1, 1), (10, 4), (10, 10), (33, 33), (33, 40), (100, 8), (100, 33), (300, 16), (300, 300)],
)
def test_steps_that_are_taken_again(n: int, checkpoints: int) -> None:
    taken = 0

    def count(i: Any) -> Any:
        nonlocal taken
        taken += 1
        return np.int32(i + 1)

    def body(c: Any) -> Any:
        i = functrax.pure_callback(count, functrax.ShapeDtypeStruct((), jnp.int32), c[0])
        return i, jnp.sin(c[1]) + 0.1 * c[0].astype("float32")

    def f(x: Any) -> Any:
        start = (jnp.int32(0), x)
        return lax.while_loop(lambda c: c[0] < n, body, start, checkpoints=checkpoints)[1]

    functrax.grad(f)(jnp.float32(0.5))
    again = taken - n
    if checkpoints >= n:
        assert n <= again <= 2 * n  # counting, and going to the last step but one
    assert again <= n * (2 + math.log2(max(n / checkpoints, 1)))


def test_a_carry_that_only_the_condition_reads_is_not_saved() -> None:
    def f(x: Any) -> Any:
        body = lambda c: (c[0] * 0.9, jnp.sin(c[1]), c[2] + jnp.sum(c[1]))
        start = (jnp.ones((5, 7)), x, 0.0)
        return lax.while_loop(lambda c: c[0][0, 0] > 0.5, body, start)[1].sum()

    jaxpr = functrax.make_jaxpr(functrax.grad(f))(X).jaxpr
    assert rows_of(jaxpr, (3,)) == {DEFAULT}
    assert rows_of(jaxpr, (5, 7)) == set()
    assert {v.aval.shape for e in all_eqns(jaxpr) for v in e.outvars} >= {(DEFAULT,)}


def test_what_does_not_change_is_made_once_in_front_of_the_loop() -> None:
    def f(w: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * jnp.exp(w)), (0, x))[
            1
        ].sum()

    jaxpr = functrax.make_jaxpr(functrax.grad(f, 1))(W, X).jaxpr
    assert [e.primitive.name for e in all_eqns(jaxpr)].count("exp") == 1
    close(functrax.grad(f, 1)(W, X), jnp.exp(W) ** 4)


def test_prints_once_under_a_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    def body(c: Any) -> Any:
        functrax.debug.print("step {i}", i=c[0])
        return c[0] + 1, jnp.sin(c[1])

    functrax.grad(lambda x: lax.while_loop(lambda c: c[0] < 3, body, (0, x))[1])(0.5)
    assert capsys.readouterr().out == "step 0\nstep 1\nstep 2\n"


def test_fori_loop_of_known_bounds_with_checkpoints() -> None:
    body = lambda i, x: jnp.sin(x) * W + 0.1 * i
    f = lambda x, k: lax.fori_loop(0, 6, body, x, checkpoints=k).sum()
    names = [
        {e.primitive.name for e in functrax.make_jaxpr(lambda x, k=k: f(x, k))(X).jaxpr.eqns}
        for k in (None, 2)
    ]
    assert "scan" in names[0] and "while" in names[1]
    close(functrax.grad(lambda x: f(x, 2))(X), functrax.grad(lambda x: f(x, None))(X))
    with pytest.raises(ArgumentError, match="a loop with checkpoints is not unrolled"):
        lax.fori_loop(0, 6, body, X, unroll=2, checkpoints=2)
    with pytest.raises(ArgumentError, match="fori_loop: checkpoints is not a positive number"):
        lax.fori_loop(0, 6, body, X, checkpoints=0)


def results_of_known_cond(f: Any) -> list[str]:
    """What the first of the two ``cond``s of a gradient gives out."""
    jaxpr = functrax.make_jaxpr(functrax.value_and_grad(f, 1))(True, X).jaxpr
    first, _ = [e for e in all_eqns(jaxpr) if e.primitive.name == "cond"]
    return [v.aval.str_short() for v in first.outvars]


def test_branches_keep_what_is_dear_and_compute_the_rest_again() -> None:
    def f(p: Any, x: Any) -> Any:
        def yes(x: Any) -> Any:
            t = jnp.tanh(x)
            return t * (1.0 - t) * (2.0 + t) * (t + x)

        return lax.cond(p, yes, lambda x: x * x * x, x).sum()

    assert results_of_known_cond(f) == ["f32[3]", "f32[3]"]  # the result, and tanh


def test_branches_share_what_they_keep_and_keep_no_result_twice() -> None:
    def f(p: Any, x: Any) -> Any:
        def yes(x: Any) -> Any:
            return jnp.exp(x), jnp.sin(jnp.sin(x))

        def no(x: Any) -> Any:
            return jnp.tanh(x), jnp.cos(jnp.cos(x))

        a, b = lax.cond(p, yes, no, x)
        return (a * b).sum()

    # Two results.  One branch keeps cos x and cos sin x, the other sin x and sin cos x, in the same
    # places; exp x and tanh x are results.
    assert results_of_known_cond(f) == ["f32[3]"] * 4
    for p in (True, False):
        want = functrax.grad(lambda x, p=p: f(p, x))(X)
        close(functrax.jit(functrax.grad(f, 1))(p, X), want)
