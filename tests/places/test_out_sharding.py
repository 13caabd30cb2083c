"""``out_sharding`` of the functions of ``functrax.numpy`` and ``functrax.lax`` that have it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import ShardingError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NUMBERS = (((1,), (1,)), ((), ()))
CASES: dict[str, Callable[..., Any]] = {
    "lax.broadcast": lambda **k: lax.broadcast(X, (2,), **k),
    "lax.broadcast_in_dim": lambda **k: lax.broadcast_in_dim(X, (2, 2, 3), (1, 2), **k),
    "lax.broadcasted_iota": lambda **k: lax.broadcasted_iota(int, (2, 3), 1, **k),
    "lax.conv_general_dilated": lambda **k: lax.conv_general_dilated(
        X[None], X[:1, :2, None], (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"), **k
    ),
    "lax.dot": lambda **k: lax.dot(X, X.T, **k),
    "lax.dot_general": lambda **k: lax.dot_general(X, X, NUMBERS, **k),
    "lax.reshape": lambda **k: lax.reshape(X, (3, 2), **k),
    "numpy.broadcast_to": lambda **k: jnp.broadcast_to(X, (4, 2, 3), **k),
    "numpy.dot": lambda **k: jnp.dot(X, X.T, **k),
    "numpy.einsum": lambda **k: jnp.einsum("ij,kj", X, X, **k),
    "numpy.matmul": lambda **k: jnp.matmul(X, X.T, **k),
    "numpy.ravel": lambda **k: jnp.ravel(X, **k),
    "numpy.repeat": lambda **k: jnp.repeat(X, 2, **k),
    "numpy.reshape": lambda **k: jnp.reshape(X, (3, 2), **k),
    "numpy.tensordot": lambda **k: jnp.tensordot(X, X.T, 1, **k),
}


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_the_same_and_where_it_is_wanted(name: str) -> None:
    make = CASES[name]
    wanted = make()
    single = functrax.sharding.SingleDeviceSharding(functrax.devices()[0])
    for _ in range(2):  # the second call of some is recorded by a recipe
        np.testing.assert_array_equal(make(out_sharding=None), wanted)
        np.testing.assert_array_equal(make(out_sharding=functrax.typeof(wanted).sharding), wanted)
        found = make(out_sharding=single)
        assert found.committed
        np.testing.assert_array_equal(found, wanted)
    jitted = functrax.jit(lambda: make(out_sharding=single))()
    np.testing.assert_allclose(jitted, wanted, rtol=1e-6)
    module, _, function = name.partition(".")
    assert (
        "out_sharding" in inspect.signature(getattr(getattr(functrax, module), function)).parameters
    )


def test_what_is_no_sharding_is_refused() -> None:
    with pytest.raises(ShardingError):
        jnp.dot(X, X.T, out_sharding=functrax.devices()[0])
    with pytest.raises(TypeError, match="out_sharding"):
        jnp.sin(X, out_sharding=None)
