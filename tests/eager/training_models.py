"""Models of the random training programs: each makes parameters, a data set and a loss.

A model is smooth and small, so that programs that sum in another order give nearly the same
parameters after hundreds of steps: what differs by more than rounding is a fault.  ``MODELS`` lists
the functions that make them; each takes a ``Source``, which gives sizes and initial parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax, nn, random

Loss = Callable[[Any, Any, Any], tuple[Any, Any]]
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": jnp.tanh,
    "gelu": nn.gelu,
    "softplus": nn.softplus,
    "sigmoid": nn.sigmoid,
    "silu": nn.silu,
    "sin": jnp.sin,
}
INITIALISERS = ("prng", "typed", "numpy", "ones", "linspace", "asarray", "jitted")


@dataclass
class Source:
    """Where a model's sizes and parameters come from.

    Attributes:
      rng: decides, alike in every mode.
      dtype: of parameters and data.
      kind: one of ``INITIALISERS``.
    """

    rng: np.random.Generator
    dtype: Any
    kind: str
    _key: Any = None

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def data(self, *shape: int) -> np.ndarray[Any, Any]:
        return self.rng.standard_normal(shape).astype(self.dtype)

    def _next_key(self) -> Any:
        if self._key is None:
            make = random.key if self.kind == "typed" else random.PRNGKey
            self._key = make(int(self.rng.integers(1000)))
        self._key, key = random.split(self._key)
        return key

    def parameter(self, *shape: int, scale: float = 0.4) -> Any:
        """An array of ``shape``, or a NumPy array."""
        dtype = self.dtype
        if self.kind in ("prng", "typed"):
            return random.normal(self._next_key(), shape, dtype) * scale
        if self.kind == "jitted":
            return functrax.jit(lambda k: random.normal(k, shape, dtype) * scale)(self._next_key())
        if self.kind == "ones":
            return jnp.ones(shape, dtype) * (scale / 3)
        if self.kind == "linspace":
            return jnp.linspace(-scale, scale, int(np.prod(shape)), dtype=dtype).reshape(shape)
        values = self.data(*shape) * np.asarray(scale, dtype)
        return values if self.kind == "numpy" else jnp.asarray(values)

    def zeros(self, *shape: int) -> Any:
        return np.zeros(shape, self.dtype) if self.kind == "numpy" else jnp.zeros(shape, self.dtype)


@dataclass
class Model:
    """What is trained.

    Attributes:
      name: for messages.
      params: a tree of arrays.
      data: NumPy arrays with examples along their first axes; batches are slices of them.
      loss: of parameters, a batch and a key: the loss and what else is worth a look.
      second: for an adversary with parameters of its own, which are trained in turns: they are
        ``params["other"]``, and ``second`` is their loss.
      per_example: whether the loss of a batch is the mean of its examples' losses.
    """

    name: str
    params: Any
    data: tuple[np.ndarray[Any, Any], ...]
    loss: Loss
    second: Loss | None = None
    per_example: bool = True


def dense(source: Source, sizes: list[int]) -> list[Any]:
    return [
        {"w": source.parameter(m, n, scale=0.8 / m**0.5), "b": source.zeros(n)}
        for m, n in pairwise(sizes)
    ]


def apply_dense(layers: list[Any], x: Any, act: Callable[[Any], Any]) -> Any:
    for layer in layers[:-1]:
        x = act(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def dropout(x: Any, key: Any, rate: float) -> Any:
    keep = random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0.0)


def perceptron(source: Source) -> Model:
    pick = source.pick
    sizes = [pick(3, 8, 20)] + [pick(4, 16, 40) for _ in range(pick(0, 1, 2, 3))] + [pick(1, 5, 10)]
    act, rate = ACTIVATIONS[pick(*ACTIVATIONS)], pick(0.0, 0.0, 0.2)
    classes = sizes[-1] > 1 and pick(True, False)
    n = pick(32, 64, 200)
    labels = source.rng.integers(sizes[-1], size=n).astype(np.int32)

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        x, y, label = batch
        if rate:
            x = dropout(x, key, rate)
        out = apply_dense(p, x, act)
        if classes:
            chosen = nn.log_softmax(out) * nn.one_hot(label, sizes[-1], dtype=out.dtype)
            return -jnp.mean(jnp.sum(chosen, axis=-1)), {"largest": jnp.max(out)}
        return jnp.mean((out - y) ** 2), {"mean": jnp.mean(out)}

    data = (source.data(n, sizes[0]), source.data(n, sizes[-1]), labels)
    return Model("perceptron", dense(source, sizes), data, loss, per_example=not rate)


def relu_perceptron(source: Source) -> Model:
    """Its kinks are met with probability 0, except by parameters that are alike."""
    sizes = [source.pick(4, 10), source.pick(8, 24), 3]
    data = (source.data(64, sizes[0]), source.data(64, 3))

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        x, y = batch
        out = apply_dense(p, x, nn.relu)
        return jnp.mean((out - y) ** 2), out[0]

    return Model("relu perceptron", dense(source, sizes), data, loss)


def convolution(source: Source) -> Model:
    pick = source.pick
    side, c1, c2, n = pick(6, 8), pick(2, 4, 8), pick(2, 6), pick(8, 16, 32)
    pooling, act = pick("none", "window", "stride", "mean"), ACTIVATIONS[pick("tanh", "gelu")]
    params = {
        "c1": source.parameter(c1, 1, 3, 3, scale=0.3),
        "c2": source.parameter(c2, c1, 3, 3, scale=0.2),
        "w": source.parameter(c2, 3, scale=0.4),
    }

    def pooled(y: Any) -> Any:
        if pooling == "window":
            sums = lax.reduce_window(y, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            return sums / 4
        if pooling == "stride":
            return y[:, :, ::2, ::2]
        if pooling == "mean":
            return y.reshape(*y.shape[:2], side // 2, 2, side // 2, 2).mean(axis=(3, 5))
        return y

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        x, y = batch
        hidden = pooled(act(lax.conv(x, p["c1"], (1, 1), "SAME")))
        hidden = act(lax.conv(hidden, p["c2"], (1, 1), "SAME")).mean(axis=(2, 3))
        return jnp.mean((hidden @ p["w"] - y) ** 2), jnp.sum(hidden)

    data = (source.data(n, 1, side, side), source.data(n, 3))
    return Model(f"convolution, pooling {pooling}", params, data, loss)


def recurrent(source: Source) -> Model:
    pick = source.pick
    inputs, hidden, length, scanned = pick(2, 4), pick(6, 16), pick(3, 6), pick(True, False)
    params = {
        "i": source.parameter(inputs, hidden),
        "h": source.parameter(hidden, hidden, scale=0.2),
        "o": source.parameter(hidden, 2),
    }

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        x, y = batch
        state = jnp.zeros((x.shape[0], hidden), x.dtype)

        def cell(state: Any, step: Any) -> tuple[Any, Any]:
            state = jnp.tanh(step @ p["i"] + state @ p["h"])
            return state, jnp.mean(state)

        if scanned:
            state, _ = lax.scan(cell, state, jnp.swapaxes(x, 0, 1))
        else:
            for t in range(length):
                state, _ = cell(state, x[:, t])
        return jnp.mean((state @ p["o"] - y) ** 2), state

    data = (source.data(48, length, inputs), source.data(48, 2))
    return Model("recurrent, " + ("scan" if scanned else "loop"), params, data, loss)


def attention(source: Source) -> Model:
    pick = source.pick
    width, length, heads = pick(8, 16), pick(4, 7), pick(1, 2)
    params = {name: source.parameter(width, width, scale=0.3) for name in "qkvo"}
    params["scale"] = source.zeros(width)

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        (x,) = batch
        mean = x.mean(axis=-1, keepdims=True)
        normal = (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-3)
        normal = normal * (1 + p["scale"])
        q, k, v = (
            (normal @ p[name]).reshape(*x.shape[:2], heads, width // heads) for name in "qkv"
        )
        weights = nn.softmax(jnp.einsum("bihd,bjhd->bhij", q, k) / width**0.5, axis=-1)
        mixed = jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(x.shape) @ p["o"]
        return jnp.mean((x + mixed - jnp.roll(x, 1, axis=1)) ** 2), weights

    return Model("attention", params, (source.data(24, length, width),), loss)


def gan(source: Source) -> Model:
    noise, size = source.pick(2, 4), source.pick(3, 6)
    params = {"own": dense(source, [noise, 12, size]), "other": dense(source, [size, 10, 1])}

    def judged(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        (real,) = batch
        z = random.normal(key, (real.shape[0], noise), real.dtype)
        fake = apply_dense(p["own"], z, jnp.tanh)
        return tuple(apply_dense(p["other"], x, jnp.tanh) for x in (real, fake))

    def generator(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        _, fake = judged(p, batch, key)
        return jnp.mean(nn.softplus(-fake)), jnp.mean(fake)

    def critic(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        real, fake = judged(p, batch, key)
        return jnp.mean(nn.softplus(-real)) + jnp.mean(nn.softplus(fake)), jnp.mean(real)

    return Model("GAN", params, (source.data(64, size),), generator, critic, per_example=False)


def vae(source: Source) -> Model:
    size, code = source.pick(5, 12), source.pick(2, 3)
    params = {
        "encoder": dense(source, [size, 16, 2 * code]),
        "decoder": dense(source, [code, 16, size]),
    }

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        (x,) = batch
        mean, log_var = jnp.split(apply_dense(p["encoder"], x, nn.softplus), 2, axis=-1)
        z = mean + jnp.exp(log_var / 2) * random.normal(key, mean.shape, mean.dtype)
        out = apply_dense(p["decoder"], z, nn.softplus)
        apart = jnp.mean(jnp.exp(log_var) + mean**2 - 1 - log_var) / 2
        return jnp.mean((out - x) ** 2) + 0.1 * apart, (apart, z)

    return Model("VAE", params, (source.data(64, size),), loss, per_example=False)


def mixture(source: Source) -> Model:
    """Of Gaussians, by its likelihood, or of experts."""
    count, size = source.pick(2, 5), source.pick(2, 4)
    params = {
        "means": source.parameter(count, size, scale=1.0),
        "logits": source.zeros(count),
        "log_scales": source.zeros(count, size),
    }

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        (x,) = batch
        apart = (x[:, None] - p["means"]) * jnp.exp(-p["log_scales"])
        each = -0.5 * jnp.sum(apart**2, axis=-1) - jnp.sum(p["log_scales"], axis=-1)
        total = nn.logsumexp(each + nn.log_softmax(p["logits"]), axis=-1)
        return -jnp.mean(total), {"each": each}

    return Model("mixture", params, (source.data(80, size),), loss)


def experts(source: Source) -> Model:
    size, count = source.pick(3, 6), source.pick(2, 3)
    params = {
        "gate": source.parameter(size, count),
        "w": source.parameter(count, size, 2),
        "b": source.zeros(count, 2),
    }

    def loss(p: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        x, y = batch
        gates = nn.softmax(x @ p["gate"])
        each = functrax.vmap(lambda w, b: jnp.tanh(x @ w + b))(p["w"], p["b"])
        out = jnp.einsum("be,ebo->bo", gates, each)
        return jnp.mean((out - y) ** 2), gates.mean(axis=0)

    return Model("experts", params, (source.data(40, size), source.data(40, 2)), loss)


MODELS: tuple[Callable[[Source], Model], ...] = (
    perceptron,
    perceptron,
    relu_perceptron,
    convolution,
    convolution,
    recurrent,
    attention,
    gan,
    vae,
    mixture,
    experts,
)
