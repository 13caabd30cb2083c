"""``cond`` and ``switch`` against Python's ``if``: values, derivatives, batching, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import ArgumentError, DTypeError, FunctraxError, PyTreeError
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import close, derivatives_agree, same

X = jnp.asarray(np.array([0.3, -0.7, 1.1], "float32"))
Y = jnp.asarray(np.array([0.9, 0.4, -0.2], "float32"))

BRANCHES = [
    lambda x, y: (jnp.sin(x) * y, jnp.sum(x)),
    lambda x, y: (x * x * x, jnp.prod(y)),
    lambda x, y: (jnp.exp(y), jnp.float32(2.0)),
]


def switched(i: Any, x: Any, y: Any) -> Any:
    return lax.switch(i, BRANCHES, x, y)


def python(i: int, x: Any, y: Any) -> Any:
    return BRANCHES[min(max(i, 0), 2)](x, y)


@pytest.mark.parametrize("i", [-3, 0, 1, 2, 7])
def test_values_and_derivatives(i: int) -> None:
    index = jnp.asarray(np.int32(i))
    close(switched(index, X, Y), python(i, X, Y))
    same(functrax.jit(switched)(index, X, Y), switched(index, X, Y))
    staged = functrax.jit(switched)
    derivatives_agree(lambda x, y: staged(index, x, y), lambda x, y: python(i, x, y), (X, Y))


@pytest.mark.parametrize("pred", [True, False, 1, 0.0, jnp.asarray(True), np.bool_(False)])
def test_kinds_of_predicates(pred: Any) -> None:
    got = lax.cond(pred, lambda x: x + 1, lambda x: x - 1, X)
    close(got, X + 1 if pred else X - 1)
    close(functrax.jit(lambda p: lax.cond(p, lambda x: x + 1, lambda x: x - 1, X))(pred), got)


def test_closures_and_no_operands() -> None:
    def f(p: Any, x: Any) -> Any:
        return lax.cond(p, lambda: jnp.sin(x), lambda: x * Y)

    def g(p: Any, x: Any) -> Any:
        return jnp.sin(x) if p else x * Y

    for p in (True, False):
        close(f(p, X), g(p, X))
        derivatives_agree(lambda x, p=p: f(p, x), lambda x, p=p: g(p, x), (X,))


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
    args = [
        v if a is not None else v[1]
        for v, a in zip(
            (jnp.array([2, 0, 1, 5]), jnp.stack([X, Y, X * Y, X + 1]), jnp.stack([Y, X, X, Y])),
            axes,
            strict=True,
        )
    ]
    rows = [[x if a is None else x[i] for x, a in zip(args, axes, strict=True)] for i in range(4)]

    def stacked(f: Any) -> Any:
        return functrax.tree.map(lambda *ys: jnp.stack(ys), *[f(int(i), x, y) for i, x, y in rows])

    close(functrax.vmap(switched, axes)(*args), stacked(python))
    gradient = functrax.grad(unrolled.summed(switched), (1, 2))
    wanted = stacked(
        lambda i, x, y: functrax.grad(unrolled.summed(lambda *xy: python(i, *xy)), (0, 1))(x, y)
    )
    close(functrax.vmap(gradient, axes)(*args), wanted, 1e-4)


def test_unbatched_predicate_stays_a_choice() -> None:
    f = functrax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), (None, 0))
    jaxpr = functrax.make_jaxpr(f)(True, X).jaxpr
    names = [e.primitive.name for e in jaxpr.eqns]
    assert "cond" in names
    assert "select_n" not in names


def test_known_predicate_takes_the_branch() -> None:
    def f(x: Any) -> Any:
        return lax.cond(True, jnp.sin, jnp.cos, x), lax.switch(1, [jnp.exp, jnp.tanh], x)

    jaxpr = functrax.make_jaxpr(f)(X).jaxpr
    assert [e.primitive.name for e in jaxpr.eqns] == ["sin", "tanh"]


def test_only_one_branch_runs() -> None:
    ran: list[str] = []

    def branch(name: str) -> Any:
        def run(x: Any) -> Any:
            functrax.debug.callback(lambda: ran.append(name))
            return x

        return run

    f = functrax.jit(lambda p: lax.cond(p, branch("yes"), branch("no"), X))
    f(True)
    f(False)
    assert ran == ["yes", "no"]


def test_gradient_of_the_branch_not_taken_does_not_spoil() -> None:
    def f(x: Any) -> Any:
        return lax.cond(x > 0.0, lambda x: jnp.sqrt(x), lambda x: 0.0 * x, x)

    assert float(functrax.jit(functrax.grad(f))(jnp.float32(0.0))) == 0.0


def test_weak_types_are_those_of_the_first_branch() -> None:
    strong, weak = lambda: jnp.float32(2.0), lambda: 1.0
    for yes, no in itertools.product([strong, weak], repeat=2):
        for p in (True, False, jnp.asarray(True)):
            assert lax.cond(p, yes, no).weak_type == (no is weak)
            assert functrax.jit(lambda p, a=yes, b=no: lax.cond(p, a, b))(p).weak_type == (
                no is weak
            )
            assert lax.switch(p * 1, [yes, no, yes]).weak_type == (yes is weak)
    for other in (jnp.float16, jnp.int32):
        with pytest.raises(DTypeError, match="the branches return different types"):
            lax.cond(True, weak, lambda other=other: other(2))
    with pytest.raises(DTypeError, match=r"result is ~f32\[\] and bf16\[\]"):
        lax.cond(True, lambda: 1.0, lambda: jnp.bfloat16(2.0))


def test_older_ways_to_give_operands() -> None:
    f, g = (lambda x: x + 1.0), (lambda x: x * 2.0)
    same(lax.cond(True, f, g, operand=X), X + 1.0)
    assert lax.cond(False, lambda _: 1, lambda _: 2, operand=None) == 2
    same(lax.cond(True, X, f, Y, g), X + 1.0)
    same(lax.cond(False, X, f, Y, g), Y * 2.0)
    same(lax.switch(1, [f, g], operand=X), X * 2.0)
    # Functions among the operands of new programs are operands.
    h = lambda x, f: f(x)
    with pytest.raises(DTypeError, match="not an array"):
        lax.cond(True, h, h, X, g)


def test_pytrees_and_one_branch() -> None:
    out = lax.cond(False, lambda d: d, lambda d: {"a": d["b"], "b": d["a"]}, {"a": X, "b": Y})
    same(out, {"a": Y, "b": X})
    same(lax.switch(5, [lambda x: x + 1], X), X + 1)
    assert lax.cond(True, lambda: (), lambda: ()) == ()


ERRORS: list[tuple[Any, type[FunctraxError], str]] = [
    (
        lambda: lax.cond(X > 0, lambda: 1, lambda: 2),
        DTypeError,
        "the predicate is not a real scalar\n  got   bool[3]",
    ),
    (lambda: lax.cond(None, lambda: 1, lambda: 2), DTypeError, "cond predicate is None"),
    (
        lambda: functrax.jit(lambda p: lax.cond(p, lambda: {"a": X}, lambda: {"a": X[:2]}))(True),
        DTypeError,
        "true_fun <lambda> and false_fun <lambda>: result['a'] is f32[3] and f32[2]",
    ),
    (
        lambda: functrax.jit(lambda p: lax.cond(p, lambda: X, lambda: (X,)))(True),
        PyTreeError,
        "same pytree structure",
    ),
    (
        lambda: lax.cond(True, lambda: X, lambda: X.astype("float16")),
        DTypeError,
        "result is f32[3] and f16[3]",
    ),
    (lambda: lax.switch(1.0, BRANCHES, X, Y), DTypeError, "not a scalar integer\n  got   ~f32"),
    (lambda: lax.switch(1, [], X), ArgumentError, "there are no branches"),
    (lambda: lax.cond(True, 1, lambda: 2), ArgumentError, "not a function"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case: int) -> None:
    call, kind, text = ERRORS[case]
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


def test_a_function_that_is_several_branches_is_traced_once() -> None:
    traced = []

    def double(x: Any) -> Any:
        traced.append(x)
        return 2 * x

    assert functrax.jit(lambda p, x: lax.cond(p, double, double, x))(True, 3.0) == 6
    assert len(traced) == 1
    chosen = functrax.jit(lambda i, x: lax.switch(i, [double, jnp.sin, double], x))
    assert [float(chosen(i, 0.0)) for i in range(3)] == [0, 0, 0]
    assert len(traced) == 2
