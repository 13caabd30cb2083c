"""Ranges of integers hold what is computed, and answer what indexing asks."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.passes.algebra import ranges as ranges_module
from functrax.backends.passes.algebra.ranges import Range, range_of
from functrax.backends.passes.algebra.rule import Made
from functrax.backends.passes.algebra.simplify import simplify
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Jaxpr, Literal
from functrax.core.prims.arithmetic import add, clamp, max_, min_, rem, select_n, sub
from functrax.core.prims.comparisons import and_, lt
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import iota, rev
from functrax.core.tracing.primitive import like
from tests.backends.passes import pass_checks as check

N = 24


def program(function, *args):
    return functrax.make_jaxpr(function)(*args).jaxpr


def ranges(jaxpr):
    made = Made({v: eqn for eqn in jaxpr.eqns for v in eqn.outvars})
    return {v: range_of(v, made) for v in made}


def narrowed(u):
    wide = convert_element_type.bind(u, dtype=np.dtype(np.int16), weak_type=False)
    return convert_element_type.bind(wide, dtype=np.dtype(np.int32), weak_type=False)


def chosen(u, v, limit):
    return select_n.bind(lt.bind(u, like(u, limit)), u, v)


#: Of two arrays and two numbers.
STEPS = [
    lambda u, v, low, high: add.bind(u, like(u, low)),
    lambda u, v, low, high: sub.bind(like(u, high), u),
    lambda u, v, low, high: rem.bind(u, like(u, high)),
    lambda u, v, low, high: rem.bind(u, v),
    lambda u, v, low, high: and_.bind(u, like(u, abs(low))),
    lambda u, v, low, high: min_.bind(u, v),
    lambda u, v, low, high: max_.bind(u, like(u, low)),
    lambda u, v, low, high: clamp.bind(like(u, min(low, high)), u, like(u, max(low, high))),
    lambda u, v, low, high: chosen(u, v, low),
    lambda u, v, low, high: chosen(u, add.bind(u, like(u, high)), low),
    lambda u, v, low, high: add.bind(rev.bind(u, axes=(0,)), v),
    lambda u, v, low, high: narrowed(u),
]


def arithmetic(rng):
    """A function of an array of integers that gives all values of some random steps."""
    steps = [(STEPS[rng.integers(len(STEPS))], *rng.integers(0, 99, 2)) for _ in range(12)]
    numbers = [tuple(int(n) for n in rng.integers(-9, 10, 2)) for _ in steps]

    def f(x):
        values = [x, iota.bind(shape=(N,), dtype=np.dtype(np.int32), axis=0)]
        for (step, i, j), pair in zip(steps, numbers, strict=True):
            u, v = values[-1 - i % len(values)], values[-1 - j % len(values)]
            values.append(step(u, v, *pair))
        return values

    return f


@pytest.mark.parametrize("block", range(10))
def test_values_are_in_their_ranges(block):
    narrower = 0
    for seed in range(30 * block, 30 * block + 30):
        rng = np.random.default_rng(seed)
        x = rng.integers(-(2**31), 2**31, N, np.int64).astype(np.int32)
        x[:8] = rng.integers(-20, 20, 8)
        jaxpr = program(arithmetic(rng), x)
        known = ranges(jaxpr)
        whole = Jaxpr((), jaxpr.invars, tuple(known), jaxpr.eqns, "values")
        for v, found in zip(known, check.run_reference(whole, [x]), strict=True):
            if known[v] is None:
                continue
            info = np.iinfo(np.int32)
            narrower += known[v].most - known[v].least < int(info.max) - int(info.min)
            assert known[v].least <= int(found.min()) <= int(found.max()) <= known[v].most, v
        after = simplify(jaxpr, Rewrites())
        assert check.same_bits(check.run_reference(after, [x]), check.run_reference(jaxpr, [x]))
    assert narrower > 100


def test_each_value_is_looked_at_a_few_times(monkeypatch):
    """However many ways lead to it: choices between choices double them at each step."""
    looked = []
    computed = ranges_module._computed
    monkeypatch.setattr(
        ranges_module, "_computed", lambda eqn, *rest: looked.append(eqn) or computed(eqn, *rest)
    )

    def f(n):
        for k in range(40):
            n = jnp.where(n < k, n + 3, jnp.where(n < 2 * k, n * 3 + n, n - 1))
        return jnp.where(n < 0, n + 5, n)

    jaxpr = program(f, np.arange(N, dtype=np.int32))
    simplify(jaxpr, Rewrites())
    assert 0 < len(looked) <= 8 * len(jaxpr.eqns)


@pytest.mark.parametrize(
    ("function", "least", "most"),
    [
        (lambda n: jnp.argmax(n) + 3, 3, N + 2),
        (lambda n: n % 5, 0, 4),
        (lambda n: jnp.where(n < 0, N, n), 0, 2**31 - 1),
        (lambda n: jnp.clip(n, 2, 9) - 4, -2, 5),
        (lambda n: lax.rem(n, np.int32(0)), -(2**31), 2**31 - 1),
        (lambda n: (n > 3).astype(np.int32) * 1, 0, 1),
    ],
)
def test_what_is_known(function, least, most):
    jaxpr = simplify(program(function, np.arange(N, dtype=np.int32)), Rewrites())
    out = jaxpr.outvars[0]
    assert ranges(jaxpr)[out] == Range(least, most)


@pytest.mark.parametrize(
    "function",
    [
        lambda v, n: v[jnp.argmax(v)],
        lambda v, n: v[n % 5],
        lambda v, n: v[jnp.arange(N)[::-1]],
        lambda v, n: jnp.take(v, jnp.clip(n, 0, N - 1)),
    ],
)
def test_indices_that_are_inside_are_taken_as_they_are(function):
    v, n = np.ones(N, np.float32), np.arange(N, dtype=np.int32)
    jaxpr = run_pipeline(program(function, v, n))["dce"].program
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    index = next(eqn for eqn in jaxpr.eqns if eqn.primitive.name == "reindex").invars[1]
    assert "clamp" not in names
    assert not any(
        eqn.primitive is lt and isinstance(eqn.invars[1], Literal) and eqn.invars[0] is index
        for eqn in jaxpr.eqns
    )


def test_an_index_that_may_be_negative_is_counted_from_the_end():
    v, n = np.arange(5, dtype=np.float32), np.array([-1, 0, -5, 4], np.int32)
    np.testing.assert_array_equal(functrax.jit(lambda v, n: v[n])(v, n), v[n])
