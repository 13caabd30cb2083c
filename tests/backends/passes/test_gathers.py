"""Products of rows that are looked up, and products that are added up by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import nn
from functrax.backends.passes.contractions import gathers
from functrax.core.options.config import Override

ROWS, EDGES, IN, OUT = 13, 70, 6, 5
rng = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return (rng.standard_normal(shape) * 0.4).astype(np.float32)


def index(*shape: int, rows: int = ROWS) -> np.ndarray[Any, Any]:
    return rng.integers(0, rows, shape).astype(np.int32)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are worth it, too."""
    monkeypatch.setattr(gathers, "_saves", lambda *_: True)


def rewrites(function: Callable[..., Any], *args: Any) -> int:
    """How often the pass rewrote a program, which is right before and after it."""
    explained = functrax.explain(functrax.jit(function))(*args)
    got = functrax.jit(function)(*args)
    with functrax.backend("interp"):
        want = functrax.jit(function)(*args)
    for a, b in zip(functrax.tree.leaves(got), functrax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)
    (found,) = [x.rewrites for x in explained.passes if x.name == "gathers"]
    return found


def both(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The value and the gradients by the first so many arguments, of something not linear."""
    return functrax.value_and_grad(
        lambda *args: jnp.sum(jnp.sin(f(*args)) * 0.5), tuple(range(count))
    )


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any], int]] = {
    "rows": (lambda x, w, i: x[i] @ w, [numbers(ROWS, IN), numbers(IN, OUT), index(EDGES)], 2),
    "on the right": (
        lambda x, w, i: w @ x[i].T,
        [numbers(ROWS, IN), numbers(OUT, IN), index(EDGES)],
        2,
    ),
    "two dims of numbers": (
        lambda x, w, i: x[i] @ w,
        [numbers(ROWS, IN), numbers(IN, OUT), index(10, 7)],
        2,
    ),
    "columns": (
        lambda x, w, i: jnp.einsum("ke,ko->oe", x[:, i], w),
        [numbers(IN, ROWS), numbers(IN, OUT), index(EDGES)],
        2,
    ),
    "the middle of three": (
        lambda x, w, i: jnp.einsum("aeb,bo->aoe", x[:, i], w),
        [numbers(3, ROWS, IN), numbers(IN, OUT), index(EDGES)],
        2,
    ),
    "both ends of edges": (
        lambda x, w, i, j: jnp.concatenate([x[i], x[j]], -1) @ w,
        [numbers(ROWS, IN), numbers(2 * IN, OUT), index(EDGES), index(EDGES)],
        2,
    ),
    "nodes and features of edges": (
        lambda x, e, w, i, j: jnp.concatenate([x[i], e, x[j]], -1) @ w,
        [
            numbers(ROWS, IN),
            numbers(EDGES, 3),
            numbers(2 * IN + 3, OUT),
            index(EDGES),
            index(EDGES),
        ],
        3,
    ),
    "a layer": (
        lambda x, w, v, i, j: (
            jnp.concatenate(
                [
                    x,
                    functrax.ops.segment_sum(
                        nn.relu(jnp.concatenate([x[i], x[j]], -1) @ w), j, ROWS
                    ),
                ],
                -1,
            )
            @ v
        ),
        [
            numbers(ROWS, IN),
            numbers(2 * IN, OUT),
            numbers(IN + OUT, OUT),
            index(EDGES),
            index(EDGES),
        ],
        3,
    ),
    "used twice": (
        lambda x, w, i: (x[i] @ w) * jnp.sum(x[i], 1, keepdims=True),
        [numbers(ROWS, IN), numbers(IN, OUT), index(EDGES)],
        2,
    ),
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    function, args, count = PROGRAMS[name]
    assert rewrites(function, *args) >= 1
    assert rewrites(both(function, count), *args) >= 2


@pytest.mark.usefixtures("always")
def test_batches_of_graphs() -> None:
    def layer(x: Any, w: Any, i: Any) -> Any:
        return functrax.ops.segment_sum(x[i] @ w, i, ROWS)

    args = numbers(4, ROWS, IN), numbers(IN, OUT), index(4, EDGES)
    rewrites(functrax.vmap(layer, (0, None, 0)), *args)
    rewrites(both(functrax.vmap(layer, (0, None, 0)), 2), *args)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("fill", [0.0, np.nan, 2.5])
def test_numbers_of_rows_that_there_are_not(fill: float) -> None:
    i = index(EDGES)
    i[::5] = ROWS + 3
    x, w = numbers(ROWS, IN), numbers(IN, OUT)

    def f(x: Any, w: Any, i: Any) -> Any:
        return x.at[i].get(mode="fill", fill_value=fill) @ w

    rewrites(f, x, w, i)
    rewrites(both(lambda x, w, i: jnp.nan_to_num(f(x, w, i)), 2), x, w, i)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_rows_that_nobody_looks_up(value: float) -> None:
    """An infinity among them times the 0 that nothing adds up to would be NaN."""
    x, w, i = numbers(ROWS, IN), numbers(IN, OUT), index(EDGES, rows=ROWS - 2)
    x[-2:] = value
    assert rewrites(both(lambda x, w, i: x[i] @ w, 2), x, w, i) >= 2
    value_and_grads = functrax.jit(both(lambda x, w, i: x[i] @ w, 2))(x, w, i)
    assert all(np.isfinite(np.asarray(a)).all() for a in functrax.tree.leaves(value_and_grads))
    w[0, 0] = value
    grads = functrax.jit(both(lambda x, w, i: x[i] @ w, 1))(x[:-2], w, i[:1])[1][0]
    assert (np.asarray(grads)[[n for n in range(ROWS - 2) if n != i[0]]] == 0).all()


@pytest.mark.usefixtures("always")
def test_what_depends_on_the_row_stays() -> None:
    x, d, i = numbers(ROWS, IN), numbers(EDGES, IN), index(EDGES)
    assert rewrites(lambda x, d, i: jnp.sum(x[i] * d, 1), x, d, i) == 0
    y = numbers(EDGES, OUT)
    assert rewrites(lambda x, y, i: x[i].T @ y, x, y, i) == 1
    assert rewrites(lambda x, i: x[i] @ x[i].T, x, i) <= 2


def test_it_pays_where_there_are_fewer_rows() -> None:
    w, i = numbers(64, 64), index(5000, rows=300)
    assert rewrites(lambda x, w, i: x[i] @ w, numbers(300, 64), w, i) == 1
    assert rewrites(lambda x, w, i: x[i] @ w, numbers(6000, 64), w, i) == 0
    assert rewrites(lambda x, w, i: x[i] @ w, numbers(300, 1), w[:1], i) == 0


def test_strict_mode_and_narrow_floats_leave_them() -> None:
    x, w, i = numbers(300, 64), numbers(64, 64), index(5000, rows=300)
    half = jnp.asarray(x, jnp.bfloat16), jnp.asarray(w, jnp.bfloat16)
    explained = functrax.explain(functrax.jit(lambda x, w, i: x[i] @ w))(*half, i)
    assert [p.rewrites for p in explained.passes if p.name == "gathers"] == [0]
    with Override("strict", True):
        explained = functrax.explain(functrax.jit(lambda x, w, i: x[i] @ w))(x, w, i)
        assert not any(p.rewrites for p in explained.passes if p.name == "gathers")


def test_lengths_that_vary_share_plans() -> None:
    call = functrax.jit(both(lambda x, w, i: nn.relu(x[i] @ w), 2))
    x, w = numbers(300, 64), numbers(64, 64)
    for edges in range(5000, 5400, 37):
        i = index(edges, rows=300)
        _value, grads = call(x, w, i)
        s = np.cos(np.maximum(x[i] @ w, 0)) * 0.5 * (x[i] @ w > 0)
        np.testing.assert_allclose(np.asarray(grads[1]), x[i].T @ s, rtol=1e-3, atol=1e-2)
    assert call.cache_info().planned >= 6


def test_one_row_is_no_lookup_of_many() -> None:
    x, w = numbers(ROWS, 30, 40), numbers(40, 20)
    assert rewrites(lambda x, w, i: x[i] @ w, x, w, np.int32(3)) == 0
