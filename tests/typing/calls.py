"""A hundred typical calls, and the types that a checker gives their results.

``test_calls.py`` has mypy and pyright check the file, and runs it: what is asserted here for the
checkers holds when the calls are made.  Gradients are in ``gradients.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import Array, lax, nn, random

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value, _):
        return value


class Params(NamedTuple):
    w: Array
    b: Array


x = jnp.arange(6.0).reshape(2, 3)
y = jnp.ones((3, 2))
n = np.ones((2, 3), np.float32)
v = jnp.arange(3.0)
params = Params(y, jnp.zeros(2))
key = random.key(0)


def loss(params: Params, x: Array) -> Array:
    return jnp.mean(jnp.tanh(x @ params.w + params.b) ** 2)


def scaled(x: Array, by: int = 2) -> Array:
    return x * by


# ---- arrays: operators, methods, properties

assert_type(x, Array)
assert_type(x + 1, Array)
assert_type(1.5 - x, Array)
assert_type(x * n, Array)
assert_type(x @ y, Array)
assert_type(-x, Array)
assert_type(x > 0, Array)
assert_type(x == 1, Array)
assert_type(x[0], Array)
assert_type(x[:, None], Array)
assert_type(x.T, Array)
assert_type(x.shape, tuple[int, ...])
assert_type(x.ndim, int)
assert_type(float(x[0, 0]), float)
assert_type(x.sum(), Array)
assert_type(x.sum(axis=(0, 1), keepdims=True), Array)
assert_type(x.mean(0), Array)
assert_type(x.reshape(-1), Array)
assert_type(x.reshape((3, 2)), Array)
assert_type(x.astype(jnp.int32), Array)
assert_type(x.astype("float16"), Array)
assert_type(x.transpose(1, 0), Array)
assert_type(x.at[0].set(1.0), Array)
assert_type(x.at[0, 1].add(v[0]), Array)
assert_type(x.at[5].get(mode="fill", fill_value=0), Array)
assert_type(x.argmax(-1), Array)
assert_type(x.nonzero(), tuple[Array, ...])
assert_type(list(x), list[Array])

# ---- making arrays

assert_type(jnp.array([[1, 2], [3, 4]]), Array)
assert_type(jnp.asarray(n, dtype=jnp.bfloat16), Array)
assert_type(jnp.zeros(3), Array)
assert_type(jnp.zeros((2, np.int64(3)), int), Array)
assert_type(jnp.ones(x.shape, x.dtype), Array)
assert_type(jnp.full((2, 2), 7, dtype="int8"), Array)
assert_type(jnp.zeros_like(x), Array)
assert_type(jnp.eye(3), Array)
assert_type(jnp.arange(0, 10, 2), Array)
assert_type(jnp.linspace(0.0, 1.0, 5), Array)
assert_type(jnp.linspace(0.0, 1.0, 5, retstep=True), tuple[Array, Array])
assert_type(jnp.meshgrid(v, v), list[Array])

# ---- functions of arrays

assert_type(jnp.sin(x), Array)
assert_type(jnp.sin(0.5), Array)
assert_type(jnp.add(x, 1), Array)
assert_type(jnp.maximum(x, 0), Array)
assert_type(jnp.clip(x, 0, 1), Array)
assert_type(jnp.sum(x), Array)
assert_type(jnp.sum(n, axis=-1, keepdims=True), Array)
assert_type(jnp.max(x, axis=(0, 1), initial=0), Array)
assert_type(jnp.std(x, axis=0, ddof=1), Array)
assert_type(jnp.cumsum(x, axis=1), Array)
assert_type(jnp.where(x > 0, x, 0), Array)
assert_type(jnp.where(x > 0), tuple[Array, ...])
assert_type(jnp.concatenate([x, n]), Array)
assert_type(jnp.stack((v, v)), Array)
assert_type(jnp.split(v, 3), list[Array])
assert_type(jnp.expand_dims(v, 0), Array)
assert_type(jnp.squeeze(x[None]), Array)
assert_type(jnp.transpose(x, (1, 0)), Array)
assert_type(jnp.moveaxis(x, 0, -1), Array)
assert_type(jnp.broadcast_to(v, (2, 3)), Array)
assert_type(jnp.take(v, jnp.array([0, 2])), Array)
assert_type(jnp.sort(v), Array)
assert_type(jnp.argsort(v, descending=True), Array)
assert_type(jnp.unique(v), Array)
assert_type(jnp.dot(x, y), Array)
assert_type(jnp.einsum("ij,jk->ik", x, y), Array)
assert_type(jnp.tensordot(x, y, axes=1), Array)
assert_type(jnp.allclose(x, n), Array)
assert_type(jnp.pad(v, (1, 1)), Array)
assert_type(jnp.interp(0.5, v, v), Array)
assert_type(jnp.histogram(v, bins=3), tuple[Array, Array])
assert_type(jnp.quantile(v, 0.5), Array)
assert_type(jnp.linalg.norm(x), Array)
assert_type(jnp.linalg.solve(jnp.eye(3), v), Array)
assert_type(jnp.linalg.svd(x, compute_uv=False), Array)
assert_type(jnp.linalg.eigvalsh(jnp.eye(2)), Array)
assert_type(jnp.fft.fft(v), Array)
assert_type(jnp.finfo(jnp.float32).bits, int)

# ---- lax, nn, random

assert_type(lax.dot_general(x, y, (((1,), (0,)), ((), ()))), Array)
assert_type(lax.stop_gradient(x), Array)
assert_type(lax.cond(True, scaled, scaled, x), Array)
assert_type(lax.switch(1, [scaled, scaled], x), Array)
assert_type(lax.while_loop(lambda c: c[-1] < 3, scaled, v), Array)
assert_type(lax.fori_loop(0, 3, lambda i, c: scaled(c), v), Array)
assert_type(lax.map(scaled, x), Array)
assert_type(lax.rsqrt(x), Array)
assert_type(nn.relu(x), Array)
assert_type(nn.softmax(x, axis=-1), Array)
assert_type(nn.logsumexp(x, axis=1), Array)
assert_type(nn.one_hot(jnp.array([0, 1]), 3), Array)
assert_type(random.split(key), Array)
assert_type(random.split(key, 3), Array)
assert_type(random.normal(key, (2, 3)), Array)
assert_type(random.uniform(key, minval=-1.0), Array)
assert_type(random.permutation(key, 5), Array)
assert_type(random.exponential(key, (3,), dtype=jnp.float32), Array)

# ---- transformations

assert_type(functrax.jit(scaled)(x, by=3), Array)
assert_type(functrax.jit(loss)(params, x), Array)
assert_type(functrax.vmap(scaled)(x), Array)
assert_type(functrax.vmap(loss, in_axes=(None, 0))(params, x), Array)
assert_type(functrax.checkpoint(scaled)(x), Array)
assert_type(functrax.jvp(scaled, (x,), (x,)), tuple[Array, Array])
assert_type(functrax.vjp(scaled, x), tuple[Array, Callable[[Array], tuple[Array, ...]]])
assert_type(functrax.value_and_grad(loss)(params, x)[0], Array)
assert_type(functrax.make_jaxpr(scaled)(x), functrax.ClosedJaxpr)
assert_type(functrax.jit(scaled).cache_info().misses, int)


@functrax.jit
def step(params: Params, x: Array) -> tuple[Params, Array]:
    value, slope = functrax.value_and_grad(loss)(params, x)
    return functrax.tree.map(lambda p, g: p - 0.1 * g, params, slope), value


@functrax.jit(static_argnames="by")
def grown(x: Array, by: int) -> Array:
    return x * by


class Model:
    @functrax.jit
    def run(self, x: Array) -> Array:
        return x


functrax.tree_util.register_pytree_node(Model, lambda _: ((), None), lambda *_: Model())
assert_type(step(params, x), tuple[Params, Array])
assert_type(grown(x, by=3), Array)
assert_type(Model().run(x), Array)

# ---- functions without annotations pass

functrax.grad(lambda x: x.sum())(v)
functrax.grad(lambda p: loss(p, x))(params).w.sum()
functrax.grad(lambda p: jnp.sum(p["w"] @ x))({"w": y})["w"].sum()
functrax.grad(functrax.grad(lambda x: x**3))(1.0)
functrax.jit(functrax.grad(lambda x: jnp.sum(jnp.sin(x) * x.T)))(x[:, :2])
functrax.vmap(functrax.grad(loss), (None, 0))(params, x)
functrax.hessian(lambda x: jnp.sum(x**3))(v)
lax.scan(lambda c, a: (c + a, c), 0.0, v)
