"""Loops that show how far they have come give the same results; bars are right."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
from functrax.notebook import bars, watched_loops


class Seen:
    """Stands in for a bar: what a loop reports."""

    reports: list[Any]

    def __init__(self, title: str, total: int | None) -> None:
        Seen.reports = [(title, total)]

    def at(self, done: int, total: int | None = None) -> None:
        Seen.reports.append(done if total is None else (done, total))

    def end(self) -> None:
        Seen.reports.append("end")


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_loops, "Bar", Seen)


def body(c: Any, x: Any) -> Any:
    return jnp.sin(c) + x, {"sum": c.sum(), "x": x * 2}


def equal(one: Any, other: Any) -> bool:
    leaves = zip(functrax.tree.leaves(one), functrax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 7, 100, 360, 1009])
def test_scan(steps: int, reverse: bool) -> None:
    xs = jnp.arange(float(steps))
    plain = functrax.jit(lambda xs: lax.scan(body, jnp.ones(3), xs, reverse=reverse))
    watched = functrax.jit(
        lambda xs: functrax.progress(lax.scan)(body, jnp.ones(3), xs, reverse=reverse)
    )
    assert equal(plain(xs), watched(xs))
    if steps:
        functrax.effects_barrier()
        (title, total), *done, end = Seen.reports
        assert (title, total, end) == ("body", steps, "end")
        assert done[0] == 0 and done == sorted(done) and len(done) <= 100 and done[-1] < steps


@pytest.mark.parametrize("bounds", [(0, 0), (5, 3), (2, 9), (-3, 360), (1, 1010)])
@pytest.mark.parametrize("known", [True, False])
def test_fori_loop(bounds: tuple[int, int], known: bool) -> None:
    def step(i: Any, v: Any) -> Any:
        return jnp.sin(v) * 0.5 + i

    lower, upper = bounds
    v = jnp.arange(4.0)
    expected = lax.fori_loop(lower, upper, step, v)
    loop = functrax.progress(lax.fori_loop, title="steps")
    if known:
        assert equal(functrax.jit(lambda v: loop(lower, upper, step, v))(v), expected)
    else:
        run = functrax.jit(lambda lower, upper, v: loop(lower, upper, step, v))
        assert equal(run(lower, upper, v), expected)
        functrax.effects_barrier()
        assert Seen.reports[0] == ("steps", None) and Seen.reports[-1] == "end"
        if upper > lower:
            done = Seen.reports[1:-1]
            assert done[0] == (0, upper - lower) and len(done) <= 100


def test_updates_bound_the_calls() -> None:
    functrax.progress(lax.scan, updates=4)(body, jnp.ones(3), jnp.ones(1000))
    functrax.effects_barrier()
    assert Seen.reports[1:] == [0, 250, 500, 750, "end"]


def test_pytrees_and_loops_without_slices() -> None:
    xs = {"a": np.arange(300.0), "b": jnp.ones((300, 2))}

    def nested(c: Any, x: Any) -> Any:
        return c + x["a"] * x["b"], None

    for f, data, length in ((nested, xs, None), (lambda c, _: (c * 2 + 1, c), None, 300)):
        expected = lax.scan(f, jnp.ones(2), data, length)
        assert equal(functrax.progress(lax.scan)(f, jnp.ones(2), data, length), expected)


def test_derivatives_and_batches() -> None:
    def last(loop: Any, v: Any) -> Any:
        return loop(body, v, jnp.linspace(0.0, 1.0, 300))[0].sum()

    v = jnp.arange(3.0)
    watched = functrax.progress(lax.scan)
    got = functrax.grad(lambda v: last(watched, v))(v)
    np.testing.assert_allclose(got, functrax.grad(lambda v: last(lax.scan, v))(v), rtol=1e-6)
    many = jnp.ones((2, 3))
    got = functrax.vmap(lambda v: last(watched, v))(many)
    np.testing.assert_allclose(got, functrax.vmap(lambda v: last(lax.scan, v))(many), rtol=1e-6)


def test_what_is_wrong() -> None:
    with pytest.raises(errors.ArgumentError, match=r"lax\.scan"):
        functrax.progress(lax.while_loop)
    with pytest.raises(errors.ArgumentError, match="positive"):
        functrax.progress(lax.scan, updates=0)
    with pytest.raises(errors.ShapeError):
        functrax.progress(lax.scan)(body, jnp.ones(3), (jnp.ones(3), jnp.ones(4)))
    with pytest.raises(TypeError):
        functrax.progress(lax.scan)(body, jnp.ones(3), 2.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_the_line_without_tqdm(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "find_spec", lambda name: None)
    file = kind()
    monkeypatch.setattr(sys, "stderr", file)
    bar = bars.Bar("work", 10)
    for _ in range(2):  # a program that runs again
        for done in (0, 4, 8):
            bar.at(done)
        bar.end()
    text = file.getvalue()
    assert text.count("work: 100% |##############################| 10/10") == 2
    assert ("\r" in text) == file.isatty() and text.endswith("\n")


def test_a_loop_that_broke_off_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = bars.Bar("work", 10)
    bar.at(0)
    bar.at(6)
    bar.at(0)  # the first run ended by an error
    bar.at(2)
    assert bar._drawn.n == 2
    bar.end()
    assert bar._drawn is None


def test_tqdm_draws_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    bar = bars.Bar("work", 10)
    bar.at(0)
    bar.end()
    assert "10/10" in file.getvalue() and "work" in file.getvalue()
