"""``custom_vmap``: batching rules of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.custom_batching import custom_vmap, sequential_vmap
from functrax.errors import ArgumentError, PyTreeError, ShapeError
from tests.transforms.control.unrolled import close

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2) / 4


@custom_vmap
def scaled(x: Any, y: Any) -> Any:
    """What the rule does differently: it adds 100, so that it shows."""
    return {"out": jnp.sin(x) * y, "total": x.sum()}


@scaled.def_vmap
def _rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
    x_batched, _ = in_batched
    assert axis_size == 3
    total = x.sum(axis=-1) if x_batched else x.sum()
    return {"out": jnp.sin(x) * y + 100, "total": total}, {"out": True, "total": x_batched}


def test_without_vmap_the_rule_does_not_run() -> None:
    close(scaled(ROWS[1], 2.0)["out"], 2 * np.sin(ROWS[1]))
    close(functrax.jit(scaled)(ROWS[1], 2.0)["total"], ROWS[1].sum())


@pytest.mark.parametrize("jit", [lambda f: f, functrax.jit])
def test_the_rule_says_what_vmap_does(jit: Any) -> None:
    by_rows = jit(functrax.vmap(scaled, (0, None)))(ROWS, ROWS[0])
    close(by_rows["out"], np.sin(ROWS) * ROWS[0] + 100)
    close(by_rows["total"], ROWS.sum(1))
    by_second = jit(functrax.vmap(jit(scaled), (None, 0)))(ROWS[1], ROWS)
    close(by_second["out"], np.sin(ROWS[1]) * ROWS + 100)
    close(by_second["total"], np.full(3, ROWS[1].sum()))


def test_a_second_vmap_batches_what_the_rule_does() -> None:
    twice = functrax.vmap(functrax.vmap(scaled))(ROWS[None], ROWS[None])
    close(twice["out"], (np.sin(ROWS) * ROWS + 100)[None])


def test_in_a_loop_under_vmap() -> None:
    def f(row: Any) -> Any:
        return functrax.lax.scan(lambda c, x: (c + 1, scaled(x, row)["out"]), 0, row[None])[1]

    close(functrax.vmap(f)(ROWS), (np.sin(ROWS) * ROWS + 100)[:, None])


def test_forward_mode_differentiates_function_and_rule() -> None:
    @custom_vmap
    def f(x: Any, n: Any) -> Any:
        return x**2, n

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, n: Any) -> Any:
        return (x**3, n), tuple(in_batched)

    x, t = ROWS[:, 0], np.ones(3, np.float32)
    close(functrax.jvp(lambda x: f(x, 1)[0], (x[1],), (1.0,))[1], 2 * x[1])
    for run in (
        lambda: functrax.jvp(functrax.vmap(lambda x: f(x, 1)[0]), (x,), (t,)),
        lambda: functrax.vmap(lambda x, t: functrax.jvp(lambda x: f(x, 1)[0], (x,), (t,)))(x, t),
        lambda: functrax.vmap(lambda t: functrax.jvp(lambda x: f(x, 1)[0], (x[2],), (t,)))(t),
    ):
        value, tangent = run()
        at = x if value.shape == (3,) and float(value[0]) != float(x[2] ** 3) else x[2]
        close(value, at**3 * t)
        close(tangent, 3 * at**2 * t)


def test_reverse_mode_goes_through_the_function() -> None:
    found = functrax.vmap(functrax.grad(lambda x: scaled(x, 2.0)["out"].sum()))(ROWS)
    close(found, 2 * np.cos(ROWS))


def test_sequential_vmap() -> None:
    shapes = []

    @sequential_vmap
    def f(x: Any, y: Any) -> Any:
        shapes.append(x.shape)
        return jnp.cumsum(x) * y["a"]

    close(functrax.vmap(f, (0, None))(ROWS, {"a": 2.0}), np.cumsum(ROWS, 1) * 2)
    assert set(shapes) == {(2,)}


@pytest.mark.parametrize(
    ("rule", "error", "said"),
    [
        (lambda n, b, x: x, PyTreeError, "does not return a pair"),
        (lambda n, b, x: (x, (True, True)), PyTreeError, "out_batched of another structure"),
        (lambda n, b, x: (x.sum(), True), ShapeError, "without the mapped axis"),
    ],
)
def test_wrong_rules(rule: Any, error: type[Exception], said: str) -> None:
    f = custom_vmap(lambda x: x)
    f.def_vmap(rule)
    with pytest.raises(error, match=said):
        functrax.vmap(functrax.jit(f))(ROWS)


def test_a_missing_rule_and_mapped_closures() -> None:
    with pytest.raises(ArgumentError, match="No batching rule defined"):
        functrax.vmap(custom_vmap(jnp.sin))(ROWS)

    def closes_over(row: Any) -> Any:
        f = custom_vmap(lambda x: x + row)
        f.def_vmap(lambda n, b, x: (x, b[0]))
        return functrax.jit(f)(1.0)

    with pytest.raises(ArgumentError, match="closes over a value that is being mapped"):
        functrax.vmap(closes_over)(ROWS)


def test_the_derivatives_rule_gets_what_value_and_tangent_share() -> None:
    seen = []

    @custom_vmap
    def f(x: Any) -> Any:
        return jnp.sin(x)

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any) -> Any:
        seen.append(list(in_batched))
        return jnp.cos(x), in_batched[0]

    def push(x: Any, t: Any) -> Any:
        return functrax.jvp(f, (x,), (t,))

    xs, ts = ROWS[:, 0], np.arange(2.0, 5.0, dtype=np.float32)
    value, tangent = functrax.vmap(push, in_axes=(None, 0), out_axes=(None, 0))(xs[1], ts)
    close(value, np.cos(xs[1]))
    close(tangent, -np.sin(xs[1]) * ts)
    value, tangent = functrax.vmap(push, in_axes=(0, None))(xs, ts[0])
    close(value, np.cos(xs))
    close(tangent, -np.sin(xs) * ts[0])
    assert seen == [[False], [False]]
    value, tangent = functrax.jit(functrax.vmap(push))(xs, ts)
    close(tangent, -np.sin(xs) * ts)
    assert seen[2:] == [[True]]


def test_rule_with_batched_results_of_an_argument_and_a_tangent_that_are_batched_apart() -> None:
    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return x * y

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        x, y = (a if b else jnp.stack([a] * axis_size) for a, b in zip((x, y), in_batched))
        return x * y * 2, True

    x, y, tx, ty = np.arange(1.0, 13.0, dtype=np.float32).reshape(4, 3)
    apart = functrax.vmap(
        lambda x, y, tx: functrax.jvp(f, (x, y), (tx, ty[0])), in_axes=(0, 0, None)
    )
    value, tangent = apart(x, y, tx[0])
    close(value, 2 * x * y)
    close(tangent, 2 * (tx[0] * y + x * ty[0]))


def test_rules_that_return_another_structure_than_the_function() -> None:
    @custom_vmap
    def f(x: Any) -> Any:
        return x * 2.0

    f.def_vmap(lambda size, batched, x: ([x], [True]))
    with pytest.raises(PyTreeError, match="does not match that of original custom-vmapped"):
        functrax.vmap(functrax.jit(f))(ROWS)
