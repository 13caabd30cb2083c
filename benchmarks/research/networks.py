"""Neural networks: training steps and sampling."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster


def perceptron(rng: np.random.Generator, *sizes: int) -> list[dict[str, np.ndarray]]:
    """Weights and zero biases of a perceptron's layers."""
    return [
        {
            "w": rng.standard_normal((m, n), np.float32) / np.float32(m**0.5),
            "b": np.zeros(n, np.float32),
        }
        for m, n in itertools.pairwise(sizes)
    ]


def forward(jax: Any, activation: Any = None) -> Any:
    """A function that applies a perceptron's layers to a vector or a batch of them."""
    activation = activation or jax.numpy.tanh

    def apply(layers: Any, x: Any) -> Any:
        for layer in layers[:-1]:
            x = activation(x @ layer["w"] + layer["b"])
        return x @ layers[-1]["w"] + layers[-1]["b"]

    return apply


def descend(jax: Any, rate: Any) -> Any:
    """A step of gradient descent on a tree."""
    return lambda tree, slope: jax.tree_util.tree_map(lambda w, g: w - rate * g, tree, slope)


# ---- equations ----------------------------------------------------------------------------------


def burgers_points() -> tuple[Any, ...]:
    """A network of time and place, 256 points inside, 64 at the start."""
    rng = np.random.default_rng(0)
    inside = rng.uniform(-1, 1, (256, 2)).astype(np.float32)
    return perceptron(rng, 2, 32, 32, 1), inside, np.linspace(-1, 1, 64, dtype=np.float32)


def pinn(jax: Any) -> Any:
    """Ten steps of a physics-informed network on Burgers' equation: u_t + u u_x = ν u_xx."""
    jnp = jax.numpy
    apply = forward(jax)
    update = descend(jax, 0.01)

    def loss(layers: Any, inside: Any, start: Any) -> Any:
        def u(t: Any, x: Any) -> Any:
            return apply(layers, jnp.stack([t, x]))[0]

        def residual(point: Any) -> Any:
            t, x = point
            u_x = jax.grad(u, 1)
            return jax.grad(u)(t, x) + u(t, x) * u_x(t, x) - 0.01 * jax.grad(u_x, 1)(t, x)

        at_start = jax.vmap(lambda x: u(0.0, x))(start) + jnp.sin(jnp.pi * start)
        return jnp.mean(jax.vmap(residual)(inside) ** 2) + jnp.mean(at_start**2)

    def run(layers: Any, inside: Any, start: Any) -> Any:
        def step(layers: Any, _: Any) -> Any:
            value, slope = jax.value_and_grad(loss)(layers, inside, start)
            return update(layers, slope), value

        return jax.lax.scan(step, layers, None, length=10)

    return run


def spirals() -> tuple[Any, ...]:
    """A network of the plane, 64 starting points, and 20 states of each path."""
    rng = np.random.default_rng(0)
    starts = rng.standard_normal((64, 2), np.float32)
    t = np.linspace(0.1, 2, 20)[:, None, None]
    angle = np.exp(-0.1 * t) * (starts * np.cos(t) + starts[:, ::-1] * [[-1, 1]] * np.sin(t))
    return perceptron(rng, 2, 32, 2), starts, angle.astype(np.float32)


def neural_ode(jax: Any, unrolled: bool = False) -> Any:
    """A training step of a neural ODE: 20 Runge-Kutta steps, and the gradient through them."""
    jnp = jax.numpy
    apply = forward(jax)
    update = descend(jax, 0.01)

    def rk4(layers: Any, x: Any) -> Any:
        k1 = apply(layers, x)
        k2 = apply(layers, x + 0.05 * k1)
        k3 = apply(layers, x + 0.05 * k2)
        k4 = apply(layers, x + 0.1 * k3)
        return x + (0.1 / 6) * (k1 + 2 * k2 + 2 * k3 + k4)

    def scanned(layers: Any, starts: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            x = rk4(layers, x)
            return x, x

        return jax.lax.scan(step, starts, None, length=20)[1]

    def written_out(layers: Any, x: Any) -> Any:
        path = []
        for _ in range(20):
            x = rk4(layers, x)
            path.append(x)
        return jnp.stack(path)

    def run(layers: Any, starts: Any, paths: Any) -> Any:
        solve = written_out if unrolled else scanned

        def loss(layers: Any) -> Any:
            return jnp.mean((solve(layers, starts) - paths) ** 2)

        value, slope = jax.value_and_grad(loss)(layers)
        return update(layers, slope), value

    return run


def neural_ode_unrolled(jax: Any) -> Any:
    """The same with its steps written out by a Python loop."""
    return neural_ode(jax, unrolled=True)


# ---- graphs, transformers -----------------------------------------------------------------------


def molecules() -> tuple[Any, ...]:
    """A graph of 512 nodes and 4,096 edges, its features, weights of three rounds, a target."""
    rng = np.random.default_rng(0)
    senders, receivers = rng.integers(0, 512, (2, 4096)).astype(np.int32)
    rounds = [
        {"edge": perceptron(rng, 64, 32, 32), "node": perceptron(rng, 64, 32, 32)} for _ in range(3)
    ]
    features = rng.standard_normal((512, 32), np.float32)
    return rounds, features, senders, receivers, rng.standard_normal((512, 32), np.float32)


def message_passing(jax: Any) -> Any:
    """A training step of three rounds of messages along edges, summed by their receivers."""
    jnp = jax.numpy
    apply = forward(jax, jax.nn.relu)
    update = descend(jax, 0.01)

    def run(rounds: Any, features: Any, senders: Any, receivers: Any, target: Any) -> Any:
        def loss(rounds: Any) -> Any:
            x = features
            for layers in rounds:
                pair = jnp.concatenate([x[senders], x[receivers]], 1)
                messages = apply(layers["edge"], pair)
                total = jax.ops.segment_sum(messages, receivers, 512)
                count = jax.ops.segment_sum(jnp.ones(4096), receivers, 512)
                mean = total / jnp.maximum(count, 1)[:, None]
                x = x + apply(layers["node"], jnp.concatenate([x, mean], 1))
            return jnp.mean((x - target) ** 2)

        value, slope = jax.value_and_grad(loss)(rounds)
        return update(rounds, slope), value

    return run


def graph_attention(jax: Any) -> Any:
    """Attention along edges: a softmax over the edges of each receiver by segment_max and _sum."""
    jnp = jax.numpy

    def run(rounds: Any, features: Any, senders: Any, receivers: Any, _: Any) -> Any:
        def layer(w: Any, x: Any) -> Any:
            h = x @ w
            scores = jax.nn.leaky_relu((h[senders] * h[receivers]).sum(1) / 32**0.5)
            top = jax.ops.segment_max(scores, receivers, 512)
            weights = jnp.exp(scores - top[receivers])
            total = jax.ops.segment_sum(weights, receivers, 512)
            share = weights / total[receivers]
            return jax.nn.elu(jax.ops.segment_sum(share[:, None] * h[senders], receivers, 512))

        def loss(weights: Any) -> Any:
            x = features
            for w in weights:
                x = layer(w, x)
            return jnp.mean(x**2)

        return jax.value_and_grad(loss)([r["node"][1]["w"] for r in rounds])

    return run


def tokens() -> tuple[Any, ...]:
    """Weights of two layers of width 128, stacked, and 8 × 64 tokens."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) / np.float32(shape[-2] ** 0.5)

    layers = {
        "qkv": matrix(2, 128, 384),
        "out": matrix(2, 128, 128),
        "up": matrix(2, 128, 512),
        "down": matrix(2, 512, 128),
    }
    weights = {"embed": matrix(256, 128), "layers": layers}
    return weights, rng.integers(0, 256, (8, 65)).astype(np.int32)


def transformer(jax: Any) -> Any:
    """A training step of a causal transformer: layers in a scan, dropout, clipped gradients."""
    jnp = jax.numpy

    def norm(x: Any) -> Any:
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5)

    def layer(x: Any, row: Any) -> Any:
        w, key = row
        q, k, v = jnp.split(norm(x) @ w["qkv"], 3, -1)
        q, k, v = (a.reshape(8, 64, 4, 32).transpose(0, 2, 1, 3) for a in (q, k, v))
        scores = q @ k.swapaxes(-1, -2) / 32**0.5
        scores = jnp.where(jnp.tril(jnp.ones((64, 64), bool)), scores, -1e9)
        mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(8, 64, 128)
        x = x + mixed @ w["out"]
        h = jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]
        keep = jax.random.bernoulli(key, 0.9, h.shape)
        return x + jnp.where(keep, h / 0.9, 0), None

    def loss(weights: Any, tokens: Any, key: Any) -> Any:
        x = weights["embed"][tokens[:, :-1]]
        x, _ = jax.lax.scan(layer, x, (weights["layers"], jax.random.split(key, 2)))
        log_p = jax.nn.log_softmax(norm(x) @ weights["embed"].T)
        return -jnp.take_along_axis(log_p, tokens[:, 1:, None], -1).mean()

    def run(weights: Any, tokens: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(weights, tokens, jax.random.key(tokens[0, 0]))
        leaves = jax.tree_util.tree_leaves(slope)
        size = jnp.sqrt(sum(jnp.sum(g**2) for g in leaves))
        scale = jnp.minimum(1.0, 1.0 / size)
        return descend(jax, 0.1 * scale)(weights, slope), value, size

    return run


# ---- learning to learn --------------------------------------------------------------------------


def tasks() -> tuple[Any, ...]:
    """A network of one number, and 16 sinusoids of 10 points to learn and 10 to test."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (16, 20, 1)).astype(np.float32)
    phase, height = rng.uniform(1, 3, (2, 16, 1, 1))
    return perceptron(rng, 1, 40, 40, 1), x, (height * np.sin(x + phase)).astype(np.float32)


def maml(jax: Any) -> Any:
    """A step of MAML over 16 tasks, three inner steps each: a gradient through gradients."""
    jnp = jax.numpy
    apply = forward(jax, jax.nn.relu)
    inner, outer = descend(jax, 0.01), descend(jax, 0.001)

    def loss(layers: Any, x: Any, y: Any) -> Any:
        return jnp.mean((apply(layers, x) - y) ** 2)

    def adapted(layers: Any, x: Any, y: Any) -> Any:
        for _ in range(3):
            layers = inner(layers, jax.grad(loss)(layers, x[:10], y[:10]))
        return loss(layers, x[10:], y[10:])

    def run(layers: Any, x: Any, y: Any) -> Any:
        def total(layers: Any) -> Any:
            return jax.vmap(adapted, (None, 0, 0))(layers, x, y).mean()

        value, slope = jax.value_and_grad(total)(layers)
        return outer(layers, slope), value

    return run


ROWS = (
    Workload("physics-informed network", burgers_points, pinn, (faster(1),)),
    Workload("neural ODE", spirals, neural_ode, (faster(1),)),
    Workload("neural ODE, written out", spirals, neural_ode_unrolled, (faster(1),)),
    Workload("message passing", molecules, message_passing, (faster(1),)),
    Workload("graph attention", molecules, graph_attention, (faster(1),)),
    Workload("transformer in a scan", tokens, transformer, (faster(1),)),
    Workload("MAML", tasks, maml, (faster(1),)),
)
