"""The types of gradients: those of what they are by; Any where nothing says what that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import functrax
import functrax.numpy as jnp
from functrax import Array

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value, _):
        return value


class Params(NamedTuple):
    w: Array
    b: Array


x = jnp.arange(3.0)
params = Params(x, x)


def loss(params: Params, x: Array, y: float = 0.0) -> Array:
    return jnp.sum((params.w * x + params.b - y) ** 2)


def with_aux(params: Params, x: Array) -> tuple[Array, dict[str, Array]]:
    return loss(params, x), {"x": x}


def square(x: Array) -> Array:
    return jnp.sum(x * x)


assert_type(functrax.grad(jnp.tanh)(1.0), Array)
assert_type(functrax.grad(square)(x), Array)
assert_type(functrax.grad(functrax.grad(jnp.tanh))(1.0), Array)
assert_type(functrax.grad(loss)(params, x, y=1.0), Params)
assert_type(functrax.grad(with_aux, has_aux=True)(params, x), tuple[Params, dict[str, Array]])
assert_type(functrax.value_and_grad(loss)(params, x), tuple[Array, Params])
assert_type(
    functrax.value_and_grad(with_aux, has_aux=True)(params, x),
    tuple[tuple[Array, dict[str, Array]], Params],
)
assert_type(functrax.grad(loss, argnums=1)(params, x), Any)
assert_type(functrax.grad(lambda p: loss(p, x))(params), Any)
assert_type(functrax.value_and_grad(lambda p: loss(p, x))(params)[1], Any)
assert_type(functrax.vmap(functrax.grad(lambda x: x * x))(x), Any)
assert_type(functrax.jit(functrax.value_and_grad(loss))(params, x), tuple[Array, Params])
assert_type(functrax.jit(functrax.grad(loss))(params, x), Params)
assert_type(functrax.vmap(functrax.grad(loss), (None, 0))(params, x), Params)
assert_type(functrax.jit(functrax.vmap(functrax.grad(square)))(x[:, None]), Array)
