"""Choices between an array and its updates: the same bits as of the program as it is written."""

from __future__ import annotations

import re

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.passes.algebra.simplify import simplify
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.rewrites import Rewrites
from tests.backends.passes.pass_checks import run_reference

RNG = np.random.default_rng(3)
OPS = ("set", "add", "multiply", "max", "min")


def simplified(f, *args):
    program = fx.make_jaxpr(f)(*args).jaxpr
    return dce(simplify(program, Rewrites()), Rewrites())


def array(shape, dtype):
    x = RNG.integers(-4, 5, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x.flat[::3] = RNG.choice([-0.0, np.inf, -np.inf, np.nan], x.flat[::3].shape)
    if np.dtype(dtype).kind == "c":
        x.flat[::3] = RNG.choice([complex(-0.0, -0.0), complex(np.inf, 1.0)], x.flat[::3].shape)
    return x


def updated(x, op, index, u, mode):
    return getattr(x.at[index], op)(u, mode=mode)


def check(f, *args, gone=True, signs=True):
    """Compiled code agrees with the program as it is written, by default in zeros' signs, too."""
    full = args[1].shape
    chosen = [e for e in simplified(f, *args).eqns if e.primitive.name == "select_n"]
    assert gone == all(e.outvars[0].aval.shape != full for e in chosen)
    program = fx.make_jaxpr(f)(*args).jaxpr
    values = [np.asarray(x, a.dtype) for x, a in zip(args, program.in_avals, strict=True)]
    with np.errstate(all="ignore"):
        (expected,) = run_reference(program, values)
    found = np.asarray(fx.jit(f)(*args))
    np.testing.assert_array_equal(found, expected)
    if signs and expected.dtype.kind == "f":
        known = ~np.isnan(expected)  # the bits of a NaN are free
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, bool])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("order", [True, False])
def test_updates_at_repeated_and_invalid_places(op, dtype, order):
    if dtype is bool and op != "set":
        pytest.skip("numbers only")
    if dtype is np.complex64 and op in ("max", "min"):
        pytest.skip("complex numbers have no order of that kind")

    def f(which, x, u, i, j):
        new = updated(x, op, (i, j), u, "drop")
        return jnp.where(which, new, x) if order else jnp.where(which, x, new)

    which = RNG.random((6, 5)) < 0.5
    i, j = np.array([0, 5, 7, 2, 2]), np.array([1, 4, 2, 3, 3])
    gone = not (dtype is np.complex64 and op == "multiply")
    signs = op not in ("add", "min", "max")  # the least of 0 and -0 is either
    check(f, which, array((6, 5), dtype), array(5, dtype), i, j, gone=gone, signs=signs)


def test_several_updates_and_a_batch():
    def f(which, x, u, i):
        new = x.at[i].set(u).at[i + 1].add(2 * u)
        return jnp.where(which, new, x)

    x, u, i = array(9, np.float32), np.float32(3), np.int32(4)
    check(f, RNG.random(9) < 0.5, x, u, i, signs=False)  # the reference adds 0 to all elements
    batched = fx.vmap(f, in_axes=(0, 0, None, 0))
    check(batched, np.array([True, False, True])[:, None] & np.ones((3, 9), bool),
          array((3, 9), np.float32), u, np.array([0, 3, 8], np.int32), signs=False)  # fmt: skip


def test_most_of_an_array_is_left_as_it_is_written():
    def f(which, x, u):
        return jnp.where(which, x.at[1:7].set(u), x)

    check(f, RNG.random(8) < 0.5, array(8, np.float32), np.float32(1), gone=False)


def test_a_batched_loop_updates_in_place():
    """Steps cost what they change: 20 times the length takes about 20 times as long, not 400."""

    @fx.jit
    @fx.vmap
    def f(step, xs):
        def body(carry):
            step, xs = carry
            return step + 1, xs.at[step].set(step + 1.0)

        return lax.while_loop(lambda carry: carry[0] < xs.size, body, (step, xs))[1]

    out = np.asarray(f(np.array([0, 3]), np.zeros((2, 50))))
    expected = np.arange(1.0, 51)
    np.testing.assert_array_equal(out[0], expected)
    np.testing.assert_array_equal(out[1], np.where(np.arange(50) < 3, 0, expected))
    program = fx.make_jaxpr(f)(np.array([0, 3]), np.zeros((2, 50)))
    text = str(dce(simplify(program.jaxpr, Rewrites()), Rewrites()))
    assert "f32[2,50] = select_n" not in text and "= scatter" in text


@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_what_is_read_in_range_is_read_where_it_is_written(mode):
    def f(which, x, u, i):
        def one(which, x, u, i):
            return x.at[i].set(jnp.where(which, u, x.at[i].get(mode=mode)))

        return fx.vmap(one)(which, x, u, i)

    which = np.array([True, False, True, False, True, False])
    x, u = array((6, 9), np.float32), array(6, np.float32)
    i = np.array([0, 8, -1, 3, 12, -20], np.int32)
    np.testing.assert_array_equal(fx.jit(f)(which, x, u, i), f(which, x, u, i))
    text = fx.jit(f).lower(which, x, u, i).compile().as_text()
    assert "clamp" not in text


def test_an_index_within_less_than_the_axis_is_another_one():
    def f(which, x, u, i):
        def one(which, x, u, i):
            return x.at[i].set(jnp.where(which, u, x[jnp.clip(i, 0, 5)]))

        return fx.vmap(one)(which, x, u, i)

    x, u, i = array((4, 9), np.float32), array(4, np.float32), np.array([7, 2, 6, 8], np.int32)
    which = np.array([False, True, False, False])
    want = x.copy()
    want[np.arange(4), i] = np.where(which, u, x[np.arange(4), np.clip(i, 0, 5)])
    np.testing.assert_array_equal(fx.jit(f)(which, x, u, i), want)


def test_a_loop_with_other_results_updates_in_place():
    """Each step changes one element of each row, and reads it before."""

    @fx.jit
    def f(start, xs):
        def body(carry):
            step, xs, total = carry
            old = fx.vmap(lambda x, i: x[i])(xs, step)
            xs = fx.vmap(lambda x, i, v: x.at[i].set(v))(xs, step, jnp.where(step % 2 == 0, old, 1))
            return step + 1, xs, total + jnp.sort(xs[:, :3], axis=1)[:, 0]  # sorting is no kernel

        return lax.while_loop(
            lambda carry: jnp.any(carry[0] < xs.shape[1]), body, (start, xs, 0.0 * start)
        )

    start, xs = np.array([0, 3]), np.zeros((2, 60), np.float32)
    out = np.asarray(f(start, xs)[1])
    assert out[0, 1::2].all() and not out[:, ::2].any()
    text = f.lower(start, xs).compile().as_text()
    assert re.search(r"alias o1 = i1", text)
