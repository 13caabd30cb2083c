"""``stop_fuse``: where kernels end, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax, stop_fuse

X = jnp.asarray(np.linspace(-2.0, 2.0, 35).reshape(5, 7), jnp.float32)


def kernels(function: Any, *args: Any) -> int:
    with fx.backend("llvm"):
        return len(fx.explain(fx.jit(function))(*args).kernels)


def chain(x: Any, stops: int) -> Any:
    """Eight operations, with ``stops`` places among them where fusion stops."""
    for k in range(8):
        x = jnp.tanh(x + 0.5)
        if k < stops:
            x = stop_fuse(x)
    return x


@pytest.mark.parametrize("stops", [0, 1, 2, 5, 7])
def test_each_stop_adds_a_kernel(stops: int) -> None:
    assert kernels(lambda x: chain(x, stops), X) == 1 + stops
    np.testing.assert_allclose(fx.jit(chain, static_argnums=1)(X, stops), chain(X, 0), rtol=1e-6)


def test_a_tree_is_one_stop() -> None:
    def function(x: Any) -> Any:
        held = stop_fuse({"a": jnp.sin(x), "b": [jnp.cos(x), None]})
        return held["a"] * held["b"][0]

    assert kernels(function, X) == 2
    assert stop_fuse(()) == ()
    assert stop_fuse({"a": None}) == {"a": None}


def test_nothing_is_simplified_across() -> None:
    assert kernels(lambda x: -jnp.negative(x), X) == 0
    assert kernels(lambda x: -stop_fuse(-x), X) == 2
    assert kernels(lambda x: jnp.sin(x) + jnp.sin(stop_fuse(x)), X) == 1


def test_gradients_stop_at_the_same_place() -> None:
    def loss(x: Any, stop: Any) -> Any:
        return jnp.sum(jnp.sin(stop(jnp.exp(x))))

    free, held = (fx.grad(lambda x, s=s: loss(x, s)) for s in (lambda x: x, stop_fuse))
    assert kernels(held, X) > kernels(free, X)
    np.testing.assert_allclose(fx.jit(held)(X), free(X), rtol=1e-5, atol=1e-6)


def test_it_composes_with_transformations() -> None:
    def function(x: Any) -> Any:
        return jnp.sin(stop_fuse(x * x))

    def plain(x: Any) -> Any:
        return jnp.sin(x * x)

    row = X[0]
    for change in (fx.vmap, fx.jacfwd, fx.jacrev, fx.hessian, lambda f: fx.jit(fx.vmap(f))):
        np.testing.assert_allclose(change(function)(row), change(plain)(row), rtol=1e-5, atol=1e-6)
    stepped = lax.map(function, X)
    np.testing.assert_allclose(stepped, plain(X), rtol=1e-6)


def test_jax_calls_it_optimization_barrier() -> None:
    assert kernels(lambda x: jnp.exp(lax.optimization_barrier(jnp.sin(x))), X) == 2
    assert "optimization_barrier" in str(fx.make_jaxpr(stop_fuse)(X))
