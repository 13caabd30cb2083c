"""Writes libraries.json, values of jax.image and jax.example_libraries, beside itself. Needs jax.

    python tests/data/record_libraries.py

"image" has flattened results by method, shape and antialias, of the image in ``IMAGE``;
"optimizers" the parameters after four steps; "stax" the outputs of a network.
"""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import image
from jax.example_libraries import optimizers, stax

IMAGE = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4) ** 3
METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5", "area", "cubic-pytorch")
OPTIMIZERS = {
    "sgd": (), "momentum": (0.9,), "nesterov": (0.9,), "adagrad": (), "rmsprop": (),
    "rmsprop_momentum": (), "adam": (), "adamax": (), "sm3": (),
}  # fmt: skip


def rounded(values: object) -> list[float]:
    return [round(float(v), 6) for v in np.ravel(np.asarray(values))]


def images() -> dict[str, list[float]]:
    out = {}
    for method in METHODS:
        for shape in ((5, 4), (2, 7)):
            for antialias in (True, False):
                key = f"{method} {shape[0]} {shape[1]} {int(antialias)}"
                out[key] = rounded(image.resize(IMAGE, shape, method, antialias))
        if method != "nearest":
            scale, shift = jnp.array([1.3, 0.6]), jnp.array([0.5, -1.1])
            moved = image.scale_and_translate(IMAGE, (3, 3), (0, 1), scale, shift, method)
            out[f"{method} moved"] = rounded(moved)
    return out


def descents() -> dict[str, list[float]]:
    out = {}
    for name, args in OPTIMIZERS.items():
        rate = optimizers.exponential_decay(0.1, 10, 0.5)
        init, update, get_params = getattr(optimizers, name)(rate, *args)
        state = init({"a": jnp.arange(1.0, 5.0).reshape(2, 2), "b": jnp.array(2.0)})
        for step in range(4):
            loss = jax.grad(lambda p: jnp.sum(p["a"] ** 2) + jnp.cos(p["b"]))
            state = update(step, loss(get_params(state)), state)
        params = get_params(state)
        out[name] = rounded(params["a"]) + rounded(params["b"])
    return out


def network() -> list[float]:
    init, apply = stax.serial(
        stax.Conv(4, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu,
        stax.MaxPool((2, 2), (2, 2)), stax.ConvTranspose(3, (2, 2), (2, 2)),
        stax.AvgPool((2, 2), padding="SAME"), stax.FanOut(2),
        stax.parallel(stax.Identity, stax.Tanh), stax.FanInConcat(), stax.Dropout(0.9),
        stax.Flatten, stax.Dense(5), stax.LogSoftmax,
    )  # fmt: skip
    _, params = init(jax.random.PRNGKey(0), (-1, 8, 8, 3))
    inputs = jnp.sin(jnp.arange(2 * 8 * 8 * 3.0)).reshape(2, 8, 8, 3)
    return rounded(apply(params, inputs, rng=jax.random.PRNGKey(1)))


if __name__ == "__main__":
    data = {"image": images(), "optimizers": descents(), "stax": network()}
    parts = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in data.items()]
    path = Path(__file__).with_name("libraries.json")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
