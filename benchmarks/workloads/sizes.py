"""First calls with sizes that a jitted function has not seen: 100 of 1 to 600, in random order.

The first two are left out; the figure is the mean of the others, for what some of them take longer
is a part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Workload, at_most, faster

TITLE = "New sizes, each"
MILLISECONDS = 1e3
WIDTH, HEADS = 64, 4


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def weights(*shape: int) -> np.ndarray:
    return numbers(*shape) / np.float32(np.sqrt(shape[0]))


def places(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 1000, size).astype(np.int32)


def squared_sum(jax: Any, function: Callable[..., Any], argument: Any = 0) -> Callable[..., Any]:
    """The gradient of the sum of a function's squares."""
    return jax.grad(lambda *args: jax.numpy.sum(function(*args) ** 2), argument)


def perceptron(jax: Any) -> Callable[..., Any]:
    jnp = jax.numpy

    def loss(layers: Any, x: Any) -> Any:
        for w, b in layers:
            x = jnp.tanh(x @ w + b)
        return jnp.mean(x**2)

    return jax.grad(loss)


def convolution(jax: Any) -> Callable[..., Any]:
    return lambda w, x: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")


def attention(jax: Any) -> Callable[..., Any]:
    return lambda q, k, v: jax.nn.softmax(q @ k.T / 6) @ v


def block(jax: Any) -> Callable[..., Any]:
    """The gradient of a layer of a transformer by its weights."""
    jnp = jax.numpy

    def norm(x: Any, g: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g

    def loss(p: Any, x: Any) -> Any:
        n = x.shape[0]
        parts = jnp.split(norm(x, p["norm"]) @ p["qkv"], 3, -1)
        q, k, v = (t.reshape(n, HEADS, -1).swapaxes(0, 1) for t in parts)
        seen = jnp.tril(jnp.ones((n, n), bool))
        scores = jnp.where(seen, q @ k.swapaxes(1, 2) / 4, -1e9)
        mixed = (jax.nn.softmax(scores) @ v).swapaxes(0, 1).reshape(n, WIDTH)
        x = x + mixed @ p["out"]
        return jnp.mean((x + jax.nn.gelu(norm(x, p["norm"]) @ p["up"]) @ p["down"]) ** 2)

    return jax.grad(loss)


LAYERS = [(weights(64, 128), numbers(128)), (weights(128, 128), numbers(128))]
BLOCK = {
    "norm": np.ones(WIDTH, np.float32),
    "qkv": weights(WIDTH, 3 * WIDTH),
    "out": weights(WIDTH, WIDTH),
    "up": weights(WIDTH, 4 * WIDTH),
    "down": weights(4 * WIDTH, WIDTH),
}
TABLE = numbers(1000, 32)
FILTERS = weights(8, 3, 3, 3)
#: For each kind its function, and its arguments by a size.
KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[int], tuple[Any, ...]]]] = {
    "elementwise": (
        lambda jax: lambda x: jax.numpy.tanh(x) * 2 + x,
        lambda n: (numbers(n, 7),),
    ),
    "softmax": (lambda jax: lambda x: jax.nn.softmax(x), lambda n: (numbers(n, 33),)),
    "running sum": (lambda jax: lambda x: jax.numpy.cumsum(x), lambda n: (numbers(n),)),
    "sort": (lambda jax: lambda x: jax.numpy.sort(x), lambda n: (numbers(n),)),
    "product": (lambda jax: lambda w, x: x @ w, lambda n: (weights(64, 48), numbers(n, 64))),
    "square product": (lambda jax: lambda x: x @ x.T, lambda n: (numbers(n, 40),)),
    "gather and its gradient": (
        lambda jax: squared_sum(jax, lambda table, at: table[at]),
        lambda n: (TABLE, places(n)),
    ),
    "concatenation": (
        lambda jax: lambda x, y: jax.numpy.concatenate([jax.numpy.sin(x), y]),
        lambda n: (numbers(n, 5), numbers(n + 3, 5)),
    ),
    "reshape": (lambda jax: lambda x: x.reshape(-1, 6).T * 2, lambda n: (numbers(n, 12),)),
    "gradient of a perceptron": (perceptron, lambda n: (LAYERS, numbers(n, 64))),
    "gradient of a convolution": (
        lambda jax: squared_sum(jax, convolution(jax)),
        lambda n: (FILTERS, numbers(n, 3, 16, 16)),
    ),
    "gradient of attention": (
        lambda jax: squared_sum(jax, attention(jax), (0, 1, 2)),
        lambda n: (numbers(n, 32), numbers(n, 33)[:, :32], numbers(n, 34)[:, :32]),
    ),
    "solve": (
        lambda jax: lambda a, b: jax.numpy.linalg.solve(a, b),
        lambda n: (numbers(n, n) + n * np.eye(n, dtype=np.float32), numbers(n)),
    ),
    "gradient of a transformer's layer": (block, lambda n: (BLOCK, numbers(n, WIDTH))),
}
ROWS = tuple(
    Workload(
        f"a new size: {name}",
        text=function,
        targets=(at_most(2 * MILLISECONDS), faster(30)),
        mode="new sizes",
        at_size=arguments,
    )
    for name, (function, arguments) in KINDS.items()
)
