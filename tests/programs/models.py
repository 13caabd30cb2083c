"""Small models and estimators as they are written for JAX, for ``test_ported.py``.

Only the imports name functrax.  With them changed to ``import jax as fx`` and so on, the same
lines run under JAX; ``data/record_models.py`` does that, and records what comes out.  Each function
in ``PROGRAMS`` takes nothing and returns a pytree of arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import functrax as fx
import functrax.numpy as jnp
from functrax import grad, jit, lax, nn, random, vmap

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[function.__name__] = function
    return function


def wave(*shape: int, start: float = 0.0) -> np.ndarray:
    """Numbers in [-1, 1] that look random and need no generator."""
    return np.sin(start + 1.7 * np.arange(np.prod(shape)) ** 1.1).reshape(shape).astype(np.float32)


def init_mlp(sizes: list[int], key: Any) -> Any:
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (m, n)) * jnp.sqrt(2.0 / m), "b": jnp.zeros(n)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:])
    ]


def mlp(params: Any, x: Any) -> Any:
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def adam(params: Any, grads: Any, state: Any, rate: float = 1e-2) -> Any:
    m, v, t = state
    t = t + 1
    m = fx.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = fx.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, grads)

    def step(p: Any, m: Any, v: Any) -> Any:
        return p - rate * m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

    return fx.tree.map(step, params, m, v), (m, v, t)


@program
def classifier() -> Any:
    params = init_mlp([12, 16, 4], random.PRNGKey(0))
    x, labels = wave(10, 12), jnp.arange(10) % 4

    def loss(params: Any) -> Any:
        return -jnp.mean(jnp.sum(nn.log_softmax(mlp(params, x)) * nn.one_hot(labels, 4), axis=1))

    @jit
    def step(params: Any, state: Any) -> Any:
        value, grads = fx.value_and_grad(loss)(params)
        return value, *adam(params, grads, state)

    zeros = fx.tree.map(jnp.zeros_like, params)
    state, losses = (zeros, zeros, 0), []
    for _ in range(5):
        value, params, state = step(params, state)
        losses.append(value)
    accuracy = jnp.mean(jnp.argmax(mlp(params, x), axis=1) == labels)
    return losses, params, state, accuracy


@program
def convolutional() -> Any:
    x, w1, w2 = wave(2, 9, 9, 3), wave(3, 3, 3, 4), wave(3, 3, 4, 5)
    layout = ("NHWC", "HWIO", "NHWC")

    def pool(x: Any, init: float, op: Any) -> Any:
        return lax.reduce_window(x, init, op, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")

    def net(w1: Any, w2: Any, x: Any) -> Any:
        h = nn.relu(lax.conv_general_dilated(x, w1, (1, 1), "SAME", dimension_numbers=layout))
        h = pool(h, -jnp.inf, lax.max)
        pads = [(1, 1), (0, 2)]
        h = jnp.tanh(lax.conv_general_dilated(h, w2, (2, 2), pads, dimension_numbers=layout))
        h = pool(h, 0.0, lax.add) / pool(jnp.ones_like(h), 0.0, lax.add)
        return jnp.mean(h**2, axis=(1, 2, 3))

    def loss(*args: Any) -> Any:
        return net(*args).sum()

    by_example = vmap(grad(lambda w, x: loss(w, w2, x[None])), in_axes=(None, 0))(w1, x)
    curved = fx.jvp(lambda w: grad(loss)(w, w2, x), (w1,), (jnp.ones_like(w1),))[1]
    return net(w1, w2, x), jit(grad(loss, argnums=(0, 1, 2)))(w1, w2, x), by_example, curved


@program
def normalizations() -> Any:
    x, scale = wave(4, 3, 5, 5), wave(3)

    def batch_norm(x: Any, scale: Any) -> Any:
        mean = jnp.mean(x, (0, 2, 3), keepdims=True)
        var = jnp.mean(x * x, (0, 2, 3), keepdims=True) - mean * mean
        return (x - mean) / jnp.sqrt(var + 1e-5) * scale[None, :, None, None]

    def layer_norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-6)

    def running(x: Any, old: Any) -> Any:
        new = {"mean": 0.9 * old["mean"] + 0.1 * x.mean((0, 2, 3))}
        return jnp.sum(jnp.sin(x - new["mean"][:, None, None])), new

    grads = grad(lambda *a: (batch_norm(*a) ** 3).sum(), argnums=(0, 1))(x, scale)
    half = layer_norm(jnp.asarray(x, jnp.bfloat16))
    return grads, layer_norm(x), half, grad(running, has_aux=True)(x, {"mean": jnp.zeros(3)})


@program
def attention() -> Any:
    x = wave(2, 5, 8)
    params = {"qkv": wave(8, 24) / 3, "out": wave(8, 8, start=1.0)}

    def attend(params: Any, x: Any) -> Any:
        b, t, d = x.shape
        q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
        q, k, v = (a.reshape(b, t, 2, d // 2).transpose(0, 2, 1, 3) for a in (q, k, v))
        scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / jnp.sqrt(d // 2)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
        mixed = jnp.einsum("bhts,bhsd->bhtd", nn.softmax(scores), v)
        return mixed.swapaxes(1, 2).reshape(b, t, d) @ params["out"]

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean(attend(params, x) ** 2)

    curved = fx.jvp(lambda p: grad(loss)(p, x), (params,), (params,))[1]
    causal = fx.jacobian(lambda x: attend(params, x[None])[0].sum(-1))(x[0]).sum(-1)
    return jit(fx.value_and_grad(loss, argnums=(0, 1)))(params, x), curved, causal


@program
def recurrent() -> Any:
    params = {"wi": wave(16, 3), "wh": wave(16, 4), "b": wave(16)}
    xs = wave(6, 2, 3)

    def cell(params: Any, carry: Any, x: Any) -> Any:
        h, c = carry
        gates = x @ params["wi"].T + h @ params["wh"].T + params["b"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return nn.sigmoid(o) * jnp.tanh(c), c

    def run(params: Any, xs: Any) -> Any:
        carry = jnp.zeros((2, 4)), jnp.zeros((2, 4))
        hs = []
        for x in xs:
            carry = cell(params, carry, x)
            hs.append(carry[0])
        return jnp.stack(hs), carry

    def loss(params: Any, xs: Any) -> Any:
        return (run(params, xs)[0] ** 2).mean()

    return run(params, jnp.asarray(xs)), jit(grad(loss, argnums=(0, 1)))(params, xs)


@program
def embedding() -> Any:
    table, ids = wave(7, 3), jnp.array([1, 4, 1, 6, 0, -1])
    segments = jnp.array([0, 2, 2, 1, 0, 9])

    def loss(table: Any) -> Any:
        rows = jnp.asarray(table)[ids]
        pooled = jnp.zeros((3, 3)).at[segments].add(rows)
        return jnp.sum(jnp.tanh(pooled @ table.T) ** 2)

    largest = jnp.full((3, 3), -jnp.inf).at[segments].max(jnp.asarray(table)[ids])
    taken = [jnp.take(table, jnp.array([0, 9]), axis=0, mode=m) for m in ("clip", "wrap", "fill")]
    by_row = vmap(grad(lambda t, i: (t[i] ** 2).sum()), in_axes=(None, 0))(jnp.asarray(table), ids)
    return loss(table), jit(grad(loss))(jnp.asarray(table)), largest, taken, by_row


@program
def variational() -> Any:
    keys = random.split(random.key(3), 4)
    params = {
        "encode": random.normal(keys[0], (6, 4)) / 3,
        "decode": random.normal(keys[1], (2, 6)) / 3,
    }
    x = random.bernoulli(keys[2], 0.5, (5, 6)).astype(jnp.float32)

    def elbo(params: Any, key: Any, x: Any) -> Any:
        mean, log_var = jnp.split(x @ params["encode"], 2)
        z = mean + jnp.exp(0.5 * log_var) * random.normal(key, mean.shape)
        signs = jnp.where(x, -1.0, 1.0)
        likelihood = -jnp.sum(jnp.logaddexp(0.0, signs * (z @ params["decode"])))
        return likelihood + 0.5 * jnp.sum(1 + log_var - mean**2 - jnp.exp(log_var))

    def loss(params: Any) -> Any:
        return -jnp.mean(vmap(elbo, (None, 0, 0))(params, random.split(keys[3], 5), x))

    return jit(fx.value_and_grad(loss))(params), fx.value_and_grad(loss)(params)


@program
def contrastive() -> Any:
    a, b = wave(4, 8), wave(4, 8, start=2.0)

    def loss(a: Any, b: Any) -> Any:
        z = jnp.concatenate([a, b])
        z = z / jnp.linalg.norm(z, axis=1, keepdims=True)
        scores = jnp.where(jnp.eye(8, dtype=bool), -jnp.inf, z @ z.T / 0.5)
        partner = (jnp.arange(8) + 4) % 8
        logs = scores - nn.logsumexp(scores, axis=1, keepdims=True)
        return -jnp.take_along_axis(logs, partner[:, None], 1).mean()

    return fx.value_and_grad(loss, argnums=(0, 1))(a, b)


@program
def uniformity_and_boxes() -> Any:
    def uniformity(x: Any, t: float = 2.0) -> Any:
        x = x / jnp.sqrt(jnp.sum(x**2, 1, keepdims=True))
        n = x.shape[0]
        squares = (x**2).sum(1)[None] + (x**2).sum(1)[:, None] - 2 * x @ x.T
        return jnp.log(jnp.sum(jnp.tril(jnp.exp(-t * squares), -1)) * 2 / (n**2 - n))

    def ratio_iou(x1: Any, y1: Any, w1: Any, h1: Any, x2: Any, y2: Any, w2: Any, h2: Any) -> Any:
        xi, yi = jnp.maximum(x1, x2), jnp.maximum(y1, y2)
        wi = jnp.clip(jnp.minimum(x1 + w1, x2 + w2) - xi, min=0)
        hi = jnp.clip(jnp.minimum(y1 + h1, y2 + h2) - yi, min=0)
        both = wi * hi
        return both / jnp.clip(w1 * h1 + w2 * h2 - both, min=1e-5)

    boxes = [np.exp(wave(10, 7, start=float(k))) for k in range(8)]

    def total(*boxes: Any) -> Any:
        return ratio_iou(*boxes).sum()

    return (
        jit(fx.value_and_grad(uniformity))(wave(16, 8)),
        ratio_iou(*boxes),
        jit(grad(total, argnums=tuple(range(8))))(*boxes),
    )


@program
def critic_penalty() -> Any:
    params, xs = (wave(4, 3), wave(3)), wave(5, 4)

    def critic(params: Any, x: Any) -> Any:
        return jnp.sum(params[1] * jnp.tanh(x @ params[0]))

    def penalty(params: Any) -> Any:
        slopes = vmap(grad(critic, argnums=1), in_axes=(None, 0))(params, xs)
        return jnp.mean((jnp.linalg.norm(slopes, axis=1) - 1) ** 2)

    return jit(fx.value_and_grad(penalty))(params)


@program
def physics_informed() -> Any:
    params, xs = (wave(6), wave(6, start=1.0)), jnp.linspace(0, 1, 7)

    def u(params: Any, x: Any) -> Any:
        return jnp.sum(params[1] * jnp.sin(params[0] * x + 1.0))

    slope = grad(u, argnums=1)
    third = grad(grad(slope, argnums=1), argnums=1)

    def residual(params: Any, x: Any) -> Any:
        return third(params, x) + 6 * u(params, x) * slope(params, x)

    def loss(params: Any) -> Any:
        return jnp.mean(vmap(residual, (None, 0))(params, xs) ** 2)

    return jit(fx.value_and_grad(loss))(params), [third(params, x) for x in (0.0, 0.5)]


@program
def second_order() -> Any:
    w, x, v = wave(4, 4), wave(4), wave(4, start=1.0)

    def f(x: Any) -> Any:
        return jnp.sum(jnp.tanh(w @ x) ** 2) + jnp.prod(x) + jnp.sum(jnp.log1p(jnp.exp(x)))

    products = [
        fx.jvp(grad(f), (x,), (v,))[1],
        grad(lambda x: jnp.vdot(grad(f)(x), v))(x),
        fx.linearize(grad(f), x)[1](v),
        grad(lambda x: fx.jvp(f, (x,), (v,))[1])(x),
    ]
    hessians = [fx.hessian(f)(x), fx.jacrev(fx.jacrev(f))(x), fx.jacfwd(fx.jacfwd(f))(x)]
    jacobian = fx.jacobian(lambda x: jnp.tanh(w @ x))(x)
    return products, hessians, jacobian.T @ jacobian, fx.jacfwd(fx.hessian(f))(x)


@program
def own_derivatives() -> Any:
    @fx.custom_jvp
    def log_sum_exp(x: Any) -> Any:
        return x.max() + jnp.log(jnp.sum(jnp.exp(x - x.max())))

    @log_sum_exp.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return log_sum_exp(x), jnp.vdot(jnp.exp(x - log_sum_exp(x)), t)

    @fx.custom_vjp
    def clip_gradient(low: Any, high: Any, x: Any) -> Any:
        return x

    clip_gradient.defvjp(
        lambda low, high, x: (x, (low, high)),
        lambda limits, ct: (None, None, jnp.clip(ct, *limits)),
    )

    @partial(fx.custom_vjp, nondiff_argnums=(0,))
    def doubled(f: Any, x: Any) -> Any:
        return f(x)

    doubled.defvjp(lambda f, x: (f(x), x), lambda f, x, ct: (2 * grad(f)(x) * ct,))
    x = wave(5)
    return (
        [log_sum_exp(x), grad(log_sum_exp)(x), fx.hessian(log_sum_exp)(x)],
        vmap(grad(log_sum_exp))(wave(3, 5)),
        grad(lambda x: 10 * clip_gradient(-1, 1, x).sum())(x),
        jit(grad(lambda x: clip_gradient(-1.0, 1.0, x * x)))(3.0),
        grad(lambda x: doubled(jnp.sin, x))(1.0),
    )


@program
def checkpointed() -> Any:
    weights = [wave(6, 6, start=float(k)) / 2 for k in range(6)]
    x = wave(3, 6)

    def net(weights: Any, wrap: Any) -> Any:
        h = x
        for w in weights:
            h = wrap(lambda w, h: jnp.sin(h @ w))(w, h)
        return (h**2).sum()

    loss = partial(net, wrap=fx.checkpoint)
    curved = fx.jvp(grad(loss), (weights,), (weights,))[1]
    return grad(loss)(weights), jit(grad(loss))(weights), curved


class State(NamedTuple):
    count: Any
    mean: Any


@partial(fx.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["activation"])
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    activation: str

    def __call__(self, x: Any) -> Any:
        return getattr(jnp, self.activation)(self.w @ x + self.b)


@program
def containers() -> Any:
    layer = Layer(wave(2, 3), jnp.zeros(2), "tanh")
    slope = jit(grad(lambda layer, x: layer(x).sum()))(layer, jnp.arange(3.0))
    state = State(0, {"mean": jnp.zeros(3), "none": None})
    update = jit(lambda s, x: s._replace(count=s.count + 1, mean={"mean": x, "none": None}))
    axes = ({"a": 0, "b": None}, 1)
    scaled = vmap(lambda d, y: d["a"] + d["b"] * y, axes, 1)(
        {"a": wave(3, 2), "b": 2.0}, wave(2, 3)
    )
    aux = grad(lambda x: (x**2, {"aux": jnp.sin(x)}), has_aux=True)(2.0)
    norm = jnp.sqrt(sum(jnp.vdot(x, x) for x in fx.tree.leaves(slope)))
    return slope, update(state, jnp.arange(3.0)), scaled, aux, norm


@program
def mixed_precision() -> Any:
    out = []
    for dtype in (jnp.bfloat16, jnp.float16):
        x, w = jnp.asarray(wave(6, 5), dtype), wave(5, 4)

        def loss(w: Any, x: Any = x, dtype: Any = dtype) -> Any:
            return 8.0 * jnp.mean((x @ w.astype(dtype)).astype(jnp.float32) ** 2)

        narrow = w.astype(dtype)
        out.append((loss(w), grad(loss)(w), x @ narrow, jnp.mean(x @ narrow), x * 2.0, x + wave(5)))
    return out


@program
def complex_numbers() -> Any:
    z = wave(4) + 1j * wave(4, start=1.0)
    holomorphic = grad(lambda z: jnp.sum(z**3 * jnp.exp(z)), holomorphic=True)(z)
    energy = grad(lambda z: jnp.real(jnp.vdot(z, jnp.arange(4) * z)))(z)
    phase = grad(lambda x: jnp.abs(jnp.sum(jnp.exp(1j * x))))(wave(4))
    jacobian = fx.jacrev(lambda z: jnp.abs(z) * z[0].real)(z)
    waves = jit(vmap(lambda k, x: jnp.exp(1j * k * x), (None, 0)))(2.0, jnp.linspace(0, 1, 4))
    return holomorphic, energy, phase, jacobian, waves, jnp.sqrt(z), jnp.angle(z), jnp.prod(z)


@program
def integers_and_masks() -> Any:
    i8, u8 = jnp.array([127, -128, 5], jnp.int8), jnp.array([255, 0, 7], jnp.uint8)
    i = jnp.array([7, -7, 2])
    positive = i > 0
    return (
        [i8 + 1, -i8, jnp.abs(i8), u8 + 1, u8 - 8, i8 + u8, i8.sum(), u8.prod(), i8.mean()],
        [i // 2, i % -3, i // -2, lax.div(i, 2 * i), lax.rem(i, jnp.int32(4)), i / 0, i**3],
        [u8 >> 1, i8 << 1, ~u8, jnp.left_shift(i, 33), lax.population_count(u8), i & 6, i ^ -1],
        [positive + positive, positive * 2.0, positive.sum(), positive & (i < 5), i8 < u8],
        [jnp.array([1e20, -3.7]).astype(jnp.int32), jnp.array([300]).astype(jnp.uint8)],
    )


@program
def weak_types() -> Any:
    x, h, i, s = jnp.arange(3.0), jnp.ones(3, jnp.bfloat16), jnp.arange(3), jnp.asarray(2.0)
    return (
        [x + 1, i + 1.0, h + 1.0, h * s, s * 2, s + np.float32(1), i / 2, h + np.float32(1), i * s],
        [jnp.where(i > 0, 1.0, 0), jnp.where(i > 0, h, 0.0), jnp.maximum(1, 2), jnp.full(2, 1.0)],
        [jnp.stack([s, s]), jnp.sum(s), jnp.exp(2), jnp.clip(h, 0.0, 1), jnp.zeros_like(s), s**2],
        [grad(lambda x: x * 2.0)(1.0), grad(lambda x: jnp.max(jnp.stack([x, 0 * x])))(1.0)],
        [jit(lambda x: x)(1), jit(lambda x: h * x)(2.0), vmap(lambda x: 1.0)(i)],
    )


@program
def numbers_that_are_not() -> Any:
    x = jnp.array([1.0, jnp.nan, -3.0, jnp.inf, 0.0])

    def safe(x: Any) -> Any:
        return jnp.sum(jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0))

    return (
        [x.max(), x.argmax(), x.argmin(), jnp.maximum(x, 0), jnp.fmin(x, 0), jnp.clip(x, -1, 1)],
        [jnp.nanmax(x), jnp.sign(x), x / 0, x // 1, x % 2, x == x, jnp.cumsum(x), x**0],
        [
            grad(safe)(jnp.array([0.0, 4.0, -1.0])),
            grad(jnp.max)(x),
            grad(lambda x: (x**2).sum())(x),
        ],
    )


@program
def indexing() -> Any:
    x, i = jnp.asarray(wave(4, 5, 6)), jnp.array([0, 2, 1])
    picks = [
        lambda x: x[i, :, i],
        lambda x: x[i[:, None], i],
        lambda x: x[0, i, 1:3],
        lambda x: x[4:0:-2, None, ..., ::-1],
        lambda x: x[np.array([True, False, True, True]), 1],
        lambda x: lax.dynamic_slice(x, (1, 9, -1), (2, 2, 2)),
        lambda x: x.at[i, 0].multiply(2.0).at[1:, ::2].add(1.0).at[..., -1].min(0.0),
    ]
    moved = vmap(lambda k: lax.dynamic_slice_in_dim(x, k, 2).at[k, 0].set(k))(jnp.array([0, 3, -1]))
    return [(jit(f)(x), grad(lambda x, f=f: (f(x) ** 2).sum())(x)) for f in picks], moved


@program
def samples() -> Any:
    key = random.PRNGKey(42)
    a, b, c = random.split(key, 3)
    typed = random.fold_in(random.key(7), 5)
    return (
        [key, random.key_data(typed), random.normal(a, (3, 2)), random.uniform(b, (4,), minval=-1)],
        [random.randint(c, (5,), 0, 10), random.bernoulli(a, 0.3, (6,)), random.permutation(b, 6)],
        [random.categorical(c, jnp.log(jnp.array([0.1, 0.2, 0.7])), shape=(5,))],
        [random.choice(a, 5, (3,), replace=False), random.gumbel(b, (3,), jnp.float16)],
        jit(vmap(lambda k: random.normal(k, (2,), jnp.bfloat16)))(random.split(typed, 3)),
        grad(lambda m, s: (m + s * random.normal(a, (8,))).mean(), argnums=(0, 1))(1.0, 2.0),
    )
