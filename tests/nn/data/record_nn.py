"""Writes nn.json, values of jax.nn and their gradients, beside itself. Needs jax.

    python tests/nn/data/record_nn.py

A case of "functions" is the function's name, its arguments, keyword arguments, the value, and the
gradient of the sum of the value by the first argument (null for integers).  A case of
"initializers" is the name, the arguments that make the initializer, shape, dtype and seed, and
the array.  Arrays are dtype, shape and bytes in hexadecimal.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

INF, NAN = np.inf, np.nan
X = np.float32([-100, -4, -3, -1.5, -1, -0.25, 0, 0.25, 1, 1.5, 3, 4, 6, 7, 100])
ELEMENTWISE = [
    *("relu", "relu6", "sigmoid", "log_sigmoid", "softplus", "squareplus", "sparse_plus"),
    *("sparse_sigmoid", "soft_sign", "silu", "swish", "mish", "elu", "celu", "selu", "gelu"),
    *("leaky_relu", "hard_tanh", "hard_sigmoid", "hard_silu", "hard_swish", "identity", "tanh"),
]
INFINITE = ["relu", "relu6", "sigmoid", "elu", "leaky_relu", "hard_tanh", "selu"]


def encoded(x: Any) -> Any:
    """An array as JSON."""
    array = np.asarray(x)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "hex": array.tobytes().hex()}


def decoded(x: Any) -> Any:
    """An argument from JSON."""
    if isinstance(x, dict):
        return np.frombuffer(bytes.fromhex(x["hex"]), x["dtype"]).reshape(x["shape"])
    return tuple(x) if isinstance(x, list) else x


def function_cases() -> list[Any]:
    """All functions."""
    a = np.float32([[0.5, -1.0, 2.0, 0.25], [3.0, 3.0, -2.0, 1.0], [0, 0, 0, 0]])
    mask = np.array([[True, False, True, True], [False] * 4, [True] * 4])
    low = np.float32([[-INF, 0.0, 1.0, -INF], [-INF] * 4])
    cases: list[Any] = [(n, [X], {}) for n in ELEMENTWISE]
    cases += [(n, [X.astype(jnp.bfloat16)], {}) for n in ("relu", "gelu", "softplus", "silu")]
    cases += [(n, [np.float32([-INF, INF, NAN])], {}) for n in INFINITE]
    cases += [(n, [np.int32([-2, 0, 9])], {}) for n in ("relu", "elu", "hard_tanh", "soft_sign")]
    cases += [
        ("softplus", [np.float32([-INF, INF])], {}),
        ("gelu", [X], {"approximate": False}),
        ("elu", [X, 0.5], {}),
        ("celu", [X, 0.5], {}),
        ("leaky_relu", [X, 0.3], {}),
        ("squareplus", [X, 1.0], {}),
        ("log1mexp", [np.float32([0.1, 0.5, 0.7, 1, 20])], {}),
        ("glu", [a], {}),
        ("one_hot", [np.int32([0, 2, -1, 3]), 3], {}),
        ("one_hot", [np.int32([[0, 1]]), 2], {"axis": 0, "dtype": "int32"}),
        ("one_hot", [np.int32([[0, 1]]), 2], {"axis": -2}),
    ]
    for name in ("softmax", "log_softmax"):
        cases += [(name, [a], {"axis": x}) for x in (-1, 0, None, (0, 1))]
        cases += [(name, [a], {"where": mask}), (name, [np.int32([0, 1, 2])], {})]
        cases += [(name, [low[:1]], {}), (name, [a.astype(jnp.bfloat16)], {})]
    for name in ("logsumexp", "logmeanexp"):
        cases += [(name, [a], {"axis": x}) for x in (-1, 0, None, (0, 1))]
        cases += [(name, [a], {"axis": 1, "where": mask, "keepdims": True})]
        cases += [(name, [low], {"axis": 1})]
    cases += [
        ("logsumexp", [np.float32([INF, 1.0])], {}),
        ("logsumexp", [a], {"b": np.float32([1, -2, 0, 0.5])}),
        ("logsumexp", [a[:1]], {"b": np.float32([-1, -2, 0, 0.5])}),
        ("standardize", [a], {}),
        ("standardize", [a], {"axis": 0, "algorithm": "stable"}),
        ("standardize", [a], {"where": mask | True, "epsilon": 0.1}),
        ("standardize", [a], {"mean": 1.0, "variance": 4.0}),
    ]
    return cases + attention_cases()


def attention_cases() -> list[Any]:
    """Attention with every kind of mask."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, 5, 4, 3)).astype(np.float32)
    k, v = rng.normal(size=(2, 2, 6, 2, 3)).astype(np.float32)
    bias = rng.normal(size=(1, 4, 5, 6)).astype(np.float32)
    mask = rng.random((2, 1, 5, 6)) < 0.7
    lengths = {
        "query_seq_lengths": np.int32([5, 3]),
        "key_value_seq_lengths": np.int32([6, 2]),
    }
    name = "dot_product_attention"
    return [
        (name, [q, k, v], {}),
        (name, [q[0], k[0], v[0]], {"scale": 0.3}),
        (name, [q, k, v, bias, mask], {}),
        (name, [q, k, v], {"is_causal": True}),
        (name, [q, k, v], {"local_window_size": 1}),
        (name, [q, k, v], {"local_window_size": (2, 0)}),
        (name, [q, k, v], lengths),
        (name, [q.astype(jnp.bfloat16), k.astype(jnp.bfloat16), v.astype(jnp.bfloat16)], {}),
    ]


def recorded_function(case: Any) -> dict[str, Any]:
    """A case with JAX's value and gradient."""
    name, args, kwargs = case
    function = getattr(jax.nn, name)
    rest = args[1:]
    first = jnp.asarray(args[0])
    value = function(first, *rest, **kwargs)
    gradient = None
    if jnp.issubdtype(first.dtype, np.floating):
        gradient = encoded(jax.grad(lambda x: function(x, *rest, **kwargs).sum())(first))
    wrap = lambda x: encoded(x) if isinstance(x, np.ndarray) else x
    return {
        "name": name, "args": [*map(wrap, args)], "kwargs": {k: wrap(v) for k, v in kwargs.items()},
        "out": encoded(value), "grad": gradient,
    }  # fmt: skip


def initializer_cases() -> list[Any]:
    """Initializers: name, arguments that make it, shape, dtype."""
    scaled = ["glorot", "xavier", "lecun", "he", "kaiming"]
    cases: list[Any] = [
        (f"{n}_{d}", {}, [4, 6], None) for n in scaled for d in ("uniform", "normal")
    ]
    cases += [
        ("zeros", None, [2, 3], None),
        ("ones", None, [2], "int32"),
        ("constant", {"value": 1.5}, [3], "bfloat16"),
        ("uniform", {}, [5], None),
        ("uniform", {"scale": 3.0, "dtype": "float16"}, [5], None),
        ("normal", {"stddev": 2.0}, [5], None),
        ("truncated_normal", {"stddev": 0.5, "upper": 1.0}, [5], None),
        ("glorot_uniform", {"in_axis": 0, "out_axis": [1, 2]}, [3, 2, 4], None),
        ("he_normal", {"batch_axis": 0}, [2, 3, 4], "bfloat16"),
        ("lecun_normal", {}, [3, 3, 2, 5], None),
    ]
    for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        for distribution in ("uniform", "normal", "truncated_normal"):
            made = {"scale": 2.0, "mode": mode, "distribution": distribution}
            cases.append(("variance_scaling", made, [3, 5], None))
    for distribution in ("uniform", "normal", "truncated_normal"):
        made = {"scale": 1.0, "mode": "fan_in", "distribution": distribution}
        cases.append(("variance_scaling", made, [3, 2], "complex64"))
    cases += [("orthogonal", {}, shape, None) for shape in ([3, 3], [2, 5], [5, 2], [2, 3, 4])]
    cases += [
        ("orthogonal", {"scale": 2.0, "column_axis": 0}, [4, 3], None),
        ("orthogonal", {"column_axis": 1}, [2, 4, 3], None),
        ("orthogonal", {}, [0, 3], "float16"),
        ("orthogonal", {}, [3, 3], "complex64"),
        ("delta_orthogonal", {}, [3, 2, 4], None),
        ("delta_orthogonal", {"scale": 0.5}, [2, 3, 3, 3], None),
        ("delta_orthogonal", {"column_axis": 0}, [2, 1, 4, 2, 3], None),
    ]
    return cases


def recorded_initializer(case: Any) -> dict[str, Any]:
    """A case with JAX's array."""
    name, made, shape, dtype = case
    make = getattr(jax.nn.initializers, name)
    kwargs = {} if dtype is None else {"dtype": jnp.dtype(dtype)}
    decoded_args = {k: decoded(v) for k, v in (made or {}).items()}
    init = make if made is None else make(**decoded_args)
    out = init(jax.random.key(3), tuple(shape), **kwargs)
    return {"name": name, "made": made, "shape": shape, "dtype": dtype, "out": encoded(out)}


def main() -> None:
    """Record all cases."""
    functions = [json.dumps(recorded_function(c)) for c in function_cases()]
    initializers = [json.dumps(recorded_initializer(c)) for c in initializer_cases()]
    text = "{\n" + f'"jax": "{jax.__version__}",\n"functions": [\n' + ",\n".join(functions)
    text += '\n],\n"initializers": [\n' + ",\n".join(initializers) + "\n]\n}\n"
    pathlib.Path(__file__).with_name("nn.json").write_text(text)


if __name__ == "__main__":
    main()
