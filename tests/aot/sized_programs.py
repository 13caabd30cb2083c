"""Programs with named sizes, and arrays for some values of them.

Start at :data:`PROGRAMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import ShapeDtypeStruct
from functrax.export import SymbolicScope, symbolic_shape


def loss(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> Any:
    """Of a perceptron of two layers."""
    return jnp.mean((jnp.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Of rows."""
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift


def attention(q: Any, k: Any, v: Any) -> Any:
    """Of one head."""
    return functrax.nn.softmax(q @ k.T / 4.0) @ v


def recurrent(w: Any, xs: Any, h: Any) -> Any:
    """A loop of fixed length over a batch."""

    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x)
        return h, jnp.sum(h, -1)

    return functrax.lax.scan(step, h, xs)


def newton(a: Any) -> Any:
    """Square roots, by a loop that ends when all are good."""

    def step(state: Any) -> Any:
        n, x = state
        return n + 1, 0.5 * (x + a / x)

    return functrax.lax.while_loop(
        lambda s: (jnp.max(jnp.abs(s[1] ** 2 - a)) > 1e-3) & (s[0] < 20), step, (0, a)
    )


def image_sums(images: Any, kernel: Any) -> Any:
    """A convolution and the gradient of its sum."""

    def total(k: Any) -> Any:
        return jnp.sum(functrax.lax.conv(images, k, (1, 1), "SAME") ** 2)

    return functrax.value_and_grad(total)(kernel)


def places(x: Any) -> Any:
    """Sizes as numbers of the program: indices, and what is divided by."""
    b = x.shape[0]
    rows = jnp.arange(b, dtype=jnp.float32) / b
    return jnp.concatenate([x + rows[:, None], x[::-1]]), jnp.argmax(x, 0), x.reshape(-1)[: 2 * b]


def chosen(k: Any, x: Any) -> Any:
    """One of two programs of matrices."""
    return functrax.lax.cond(k > 0, lambda x: jnp.tanh(x @ x.T).sum(0), lambda x: x.sum(1), x)


def outer(x: Any, y: Any) -> Any:
    """Two sizes."""
    return jnp.exp(-((x[:, None] - y[None, :]) ** 2)) + jnp.sum(x) * jnp.max(y)


_PERCEPTRON: Final = ("20, 32", "32", "32, 10", "10", "b, 20", "b, 10")
#: By name: a function, the shapes of its arguments, and constraints of sizes.
PROGRAMS: Final[dict[str, tuple[Callable[..., Any], Sequence[str], Sequence[str]]]] = {
    "loss": (loss, _PERCEPTRON, ()),
    "slopes": (functrax.value_and_grad(loss, argnums=(0, 1, 2, 3)), _PERCEPTRON, ()),
    "softmax": (functrax.nn.softmax, ("b, 10",), ()),
    "long_softmax": (functrax.nn.softmax, ("3, n",), ()),
    "layer_norm": (layer_norm, ("b, 33", "33", "33"), ()),
    "attention": (attention, ("n, 16", "n, 16", "n, 16"), ()),
    "recurrent": (recurrent, ("8, 8", "5, b, 8", "b, 8"), ()),
    "newton": (newton, ("b",), ()),
    "image_sums": (image_sums, ("b, 3, 8, 8", "4, 3, 3, 3"), ()),
    "places": (places, ("b, 4",), ()),
    "chosen": (chosen, ("", "b, 6"), ()),
    "outer": (outer, ("m", "n"), ()),
    "even": (lambda x: jnp.sum(x.reshape(-1, 2), 1), ("b",), ("mod(b, 2) == 0", "b >= 4")),
    "expressions": (lambda x, y: x[: y.shape[0]] * y, ("2*b + 1", "b"), ()),
}
#: Values of one size, and of two.
VALUES: Final = {1: [(1,), (2,), (3,), (17,), (1000,)], 2: [(1, 1), (3, 2), (17, 1), (2, 1000)]}


def specs_of(name: str) -> tuple[SymbolicScope, list[ShapeDtypeStruct]]:
    """The types of a program's arguments, with the scope of their sizes."""
    _, shapes, constraints = PROGRAMS[name]
    scope = SymbolicScope(constraints)
    return scope, [
        ShapeDtypeStruct(symbolic_shape(text, scope=scope), np.float32) for text in shapes
    ]


def arrays_of(name: str, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Arguments for some values of the sizes."""
    scope, specs = specs_of(name)
    generator = np.random.default_rng(seed)
    found = []
    for spec in specs:
        shape = [
            functrax.core.types.size_polynomials.evaluated(scope.polynomial(n), sizes)
            for n in spec.shape
        ]
        found.append(np.asarray(1.5 + np.tanh(generator.standard_normal(shape)), np.float32))
    return found


def cases_of(names: Sequence[str], name: str) -> Iterator[dict[str, int]]:
    """Values of sizes that a program is for."""
    for values in VALUES[len(names)]:
        if name != "even" or values[0] in (1000,):
            yield dict(zip(names, values, strict=True))
