"""``f.trace`` and ``f.eval_shape`` of jitted functions, and their pickles."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp


@functrax.jit
def decorated(x: Any, y: Any = 1) -> Any:
    return x + y, {"a": x}


class Holder:
    @functrax.jit
    def method(self: Any) -> Any:
        return self * 2


def test_trace() -> None:
    outside = jnp.ones(3)
    f = functrax.jit(lambda x, n: (x * outside, n), static_argnums=1, donate_argnums=0)
    traced = f.trace(functrax.ShapeDtypeStruct((3,), "float32"), 2)
    assert traced.fun_name == "<lambda>" and traced.donate_argnums == (0,)
    assert isinstance(traced.jaxpr, functrax.ClosedJaxpr)
    assert len(traced.jaxpr.consts) == 1 and traced.jaxpr.in_avals[0].shape == (3,)
    assert traced.out_info[0].shape == traced.out_avals[0].shape == (3,)
    assert traced.args_info[0][0].shape == traced.in_avals[0][0].shape == (3,)
    (first, second) = traced.lower().compile()(jnp.arange(3.0))
    assert first.tolist() == [0, 1, 2] and int(second) == 2
    assert f.cache_info().misses == 1 and f.lower(jnp.ones(3), 2).jaxpr is traced.lower().jaxpr


def test_eval_shape() -> None:
    value, rest = decorated.eval_shape(jnp.ones((2, 3)), y=2)
    assert value.shape == rest["a"].shape == (2, 3) and value.dtype == jnp.float32


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [decorated, Holder.method])
def test_a_function_of_a_module_is_pickled_by_its_name(function: Any, protocol: int) -> None:
    if function is not decorated and protocol < 4:
        pytest.skip("names with dots are of protocol 4")
    data = pickle.dumps(function, protocol)
    assert len(data) < 200 and pickle.loads(data) is function
    assert copy.copy(function) is copy.deepcopy(function) is function


def test_others_are_not() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>"):
        pickle.dumps(functrax.jit(lambda x: x))
