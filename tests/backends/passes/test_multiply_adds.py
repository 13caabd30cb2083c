"""Products that are added once are rounded with their sum, decided for the whole program."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.passes.clean.multiply_adds import multiply_adds
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import subjaxprs
from functrax.core.options.config import Override
from tests.backends.machines import processor, write_for
from tests.backends.passes import pass_checks as check

X, Y, Z = (np.linspace(a, a + 1, 12, dtype=np.float32) for a in (1, 2, 3))

FMA, NONE = processor("x86_64", "fma"), processor("x86_64")


@pytest.fixture(autouse=True)
def processor(monkeypatch):
    """The pass writes for a processor that has the instruction, wherever it is tested."""
    write_for(monkeypatch, FMA)


def program(function, *args):
    return functrax.make_jaxpr(function)(*args).jaxpr


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def after(function, *args, limit=None):
    return multiply_adds(program(function, *args), Rewrites(limit))


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x, y, z: x * y + z, ["fma"]),
        (lambda x, y, z: z + x * y, ["fma"]),
        (lambda x, y, z: x * y - z, ["neg", "fma"]),
        (lambda x, y, z: z - x * y, ["neg", "fma"]),
        (lambda x, y, z: z - x * 2, ["fma"]),
        (lambda x, y, z: x * y - 2, ["fma"]),
        (lambda x, y, z: x * y + z * x, ["mul", "fma"]),
        (lambda x, y, z: (x * y + z) * y + x, ["fma", "fma"]),
    ],
)
def test_a_product_joins_the_sum_that_alone_uses_it(function, wanted):
    jaxpr = program(function, X, Y, Z)
    found = multiply_adds(jaxpr, Rewrites())
    assert names(found) == wanted
    exact = function(*(v.astype(np.float64) for v in (X, Y, Z)))
    (got,) = check.run_reference(found, [X, Y, Z])
    np.testing.assert_allclose(got, exact, rtol=3e-7)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: (x * y + z, x * y),  # after cse: one product, which is a result as well
        lambda x, y, z: (lambda u: (u + z, u - y))(x * y),
        lambda x, y, z: (lambda u: u + u)(x * y),
        lambda x, y, z: (x * y).reshape(3, 4) + z.reshape(3, 4),
        lambda x, y, z: (x[0] * y[0]) + z,
        lambda x, y, z: x * y * z,
        lambda x, y, z: jnp.exp(x * y) + z,
    ],
)
def test_others_are_rounded_for_themselves(function):
    from functrax.backends.passes.clean.cse import cse

    jaxpr = cse(program(function, X, Y, Z), Rewrites())
    assert multiply_adds(jaxpr, Rewrites()) is jaxpr


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "complex64"])
def test_only_floats_that_processors_multiply_and_add(dtype):
    args = [jnp.asarray(v).astype(dtype) for v in (X, Y, Z)]
    assert "fma" not in names(after(lambda x, y, z: x * y + z, *args))


def test_steps_of_loops():
    def f(x, y):
        return lax.fori_loop(0, 9, lambda k, c: c * y + x, x)

    (loop,) = after(f, X, Y).eqns
    assert any("fma" in names(inner) for inner in subjaxprs(loop))


def test_strict_mode_rounds_each():
    with Override("strict", True):
        assert names(after(lambda x, y, z: x * y + z, X, Y, Z)) == ["mul", "add"]


def test_a_processor_without_the_instruction_rounds_each(monkeypatch):
    write_for(monkeypatch, NONE)
    assert names(after(lambda x, y, z: x * y + z, X, Y, Z)) == ["mul", "add"]


def test_rewrites_are_counted_and_limited():
    def f(x, y, z):
        return x * y + (y * z + x * z)

    counted = Rewrites()
    multiply_adds(program(f, X, Y, Z), counted)
    assert counted.count == 2
    assert names(after(f, X, Y, Z, limit=1)).count("fma") == 1


def test_a_value_has_the_same_bits_in_all_kernels():
    """One kernel stores a product and finds the maximum of what follows; another asks where."""
    rng = np.random.default_rng(3)
    x, y, z = (rng.standard_normal((400, 330)).astype(np.float32) for _ in range(3))

    def f(x, y, z):
        u = x * y
        v = u - z
        return jnp.roll(u, 7, 0), (v == v.max()).sum()

    assert int(functrax.jit(f)(x, y, z)[1]) == 1


def test_derivatives_of_extrema():
    """Each result's slope goes to the element that attains it, whichever kernel looks for it."""
    rng = np.random.default_rng(4)
    x, y, z = (rng.standard_normal((64, 96)).astype(np.float32) for _ in range(3))

    def loss(x):
        u = x * y
        return ((u - z).max(1) * jnp.arange(64.0)).sum() + jnp.roll(u, 1, 0).min()

    slope = functrax.jit(functrax.grad(loss))(x)
    with Override("backend", "interp"):
        wanted = functrax.grad(loss)(x)
    np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-5)
