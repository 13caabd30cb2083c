"""Writes samples.json, JAX's own samples, beside itself. Needs jax; the tests only read the file.

    python tests/random/data/record_samples.py

A case is the function's name, its arguments after the key, keyword arguments, the seed, whether x64
is on, and the result: dtype, shape, and the elements' bytes in hexadecimal (little-endian). An
array among the arguments is written in the same way.
"""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import jax
import numpy as np

SHAPES: list[list[int]] = [[], [1], [7], [3, 5], [0, 2], [2, 1, 4]]
FLOATS = ["float16", "bfloat16", "float32"]
UNSIGNED = ["uint8", "uint16", "uint32"]
SEEDS = [0, 1, 42, -3, 2**31 + 5, 2**40 + 17, -(2**35)]
SIMPLE = ["normal", "uniform", "exponential", "gumbel", "laplace", "logistic", "cauchy"]


def encoded(x: Any) -> dict[str, Any]:
    """An array as JSON."""
    array = np.asarray(x)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "hex": array.tobytes().hex()}


def f32(*values: float) -> dict[str, Any]:
    """A float32 vector as JSON."""
    return encoded(np.array(values, np.float32))


def i32(*values: int) -> dict[str, Any]:
    """An int32 vector as JSON."""
    return encoded(np.array(values, np.int32))


def bit_cases() -> list[Any]:
    """Keys and bits."""
    cases: list[Any] = [("split", [n], {}) for n in (2, 3, 7, [2, 3], 0)]
    cases += [("fold_in", [n], {}) for n in (0, 1, 77, 2**31, 2**32 - 1)]
    cases += [("bits", [s], {"dtype": d}) for s, d in itertools.product(SHAPES, UNSIGNED)]
    return cases


def float_cases() -> list[Any]:
    """Continuous distributions."""
    cases: list[Any] = [(n, [[5]], {"dtype": d}) for n, d in itertools.product(SIMPLE, FLOATS)]
    cases += [("uniform", [s, "float32", -2.5, 4.0], {}) for s in SHAPES]
    cases += [
        ("uniform", [[2, 3]], {"minval": encoded(np.float32([[0], [5]])), "maxval": 9}),
        ("normal", [[4], "complex64"], {}),
        ("gumbel", [[6]], {"mode": "high"}),
        ("truncated_normal", [-2.0, 2.0, [9]], {}),
        ("truncated_normal", [0.5, 1.5, [3, 3], "float16"], {}),
        ("truncated_normal", [f32(-1, 0, 1), f32(0, 2, 1.5)], {}),
        ("lognormal", [0.5, [5]], {}),
        ("pareto", [f32(1, 2.5), [3, 2]], {}),
        ("rayleigh", [f32(1, 2.5), [3, 2]], {}),
        ("weibull_min", [2.0, 1.5, [5]], {}),
        ("triangular", [-1.0, 0.25, 2.0, [6]], {}),
        ("maxwell", [[5]], {}),
        ("double_sided_maxwell", [1.0, 2.0, [5]], {}),
    ]
    return cases


def integer_cases() -> list[Any]:
    """Discrete distributions, permutations, choices."""
    logits = encoded(np.log(np.float32([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])))
    matrix = encoded(np.arange(12, dtype=np.int32).reshape(3, 4))
    cases: list[Any] = [
        ("randint", [s, lo, hi], {})
        for s in ([9], [2, 3])
        for lo, hi in ((0, 10), (-7, 8), (5, 5), (6, 2), (-(2**31), 2**31 - 1))
    ]
    cases += [
        ("randint", [[9], 0, 256, d], {}) for d in ("uint8", "int8", "int16", "uint32", "int32")
    ]
    cases += [("randint", [[9], -300, 300, d], {}) for d in ("uint8", "int8", "uint16")]
    cases += [
        ("randint", [[2, 3], i32(0, 5, 9), i32(4, 50, 8)], {}),
        ("bernoulli", [], {}),
        ("bernoulli", [0.3, [11]], {}),
        ("bernoulli", [f32(0.1, 0.5, 0.9), [4, 3]], {}),
        ("bernoulli", [0.3, [11]], {"mode": "high"}),
        ("rademacher", [[9]], {}),
        ("rademacher", [[9], "float32"], {}),
        ("geometric", [0.3, [9]], {}),
        ("categorical", [logits], {}),
        ("categorical", [logits], {"shape": [5, 2]}),
        ("categorical", [logits], {"axis": 0}),
        ("categorical", [logits], {"axis": 0, "shape": [2, 2, 3]}),
        ("categorical", [logits], {"shape": [3, 2], "replace": False}),
        ("categorical", [logits], {"axis": 0, "shape": [2, 3], "replace": False}),
        ("categorical", [logits], {"mode": "high"}),
        ("permutation", [1], {}),
        ("permutation", [0], {}),
        ("permutation", [5], {}),
        ("permutation", [1700], {}),
        ("permutation", [i32(3, 1, 4, 1, 5)], {}),
        *[
            ("permutation", [matrix], {"axis": a, "independent": i})
            for a in (0, 1, -1)
            for i in (True, False)
        ],
        ("choice", [10], {}),
        ("choice", [10, [4]], {}),
        ("choice", [10, [2, 3], False], {}),
        ("choice", [matrix, [2, 2]], {"axis": 1}),
        ("choice", [matrix, [2]], {"axis": 0, "replace": False}),
        ("choice", [4, [9], True, f32(0.1, 0.2, 0.0, 0.7)], {}),
        ("choice", [4, [3], False, f32(0.1, 0.2, 0.3, 0.4)], {}),
        ("choice", [matrix, [3], True, f32(0.5, 0.3, 0.2)], {}),
    ]
    return cases


def x64_cases() -> list[Any]:
    """What 64 bits add."""
    cases: list[Any] = [("bits", [s], {}) for s in SHAPES]
    cases += [(n, [[5]], {}) for n in SIMPLE]
    cases += [
        ("normal", [[4], "complex128"], {}),
        ("truncated_normal", [-2.0, 2.0, [9]], {}),
        ("randint", [[9], 0, 10], {}),
        ("randint", [[9], -(2**40), 2**62], {}),
        ("randint", [[9], 0, 2**31, "int32"], {}),
        ("randint", [[9], 0, 2**32, "uint32"], {}),
        ("randint", [[9], -(2**63), 2**63 - 1, "uint64"], {}),
        ("bernoulli", [0.3, [5]], {}),
        ("rademacher", [[5]], {}),
        ("permutation", [9], {}),
        ("choice", [9, [3]], {}),
        ("fold_in", [12345], {}),
        ("split", [3], {}),
    ]
    return cases


def decoded(x: Any) -> Any:
    """An argument from JSON."""
    if isinstance(x, dict):
        return np.frombuffer(bytes.fromhex(x["hex"]), x["dtype"]).reshape(x["shape"])
    return tuple(x) if isinstance(x, list) else x


def recorded(case: Any, seed: int, x64: bool) -> dict[str, Any]:
    """A case with JAX's result."""
    name, args, kwargs = case
    with jax.enable_x64(x64):
        out = getattr(jax.random, name)(
            jax.random.PRNGKey(seed),
            *map(decoded, args),
            **{k: decoded(v) for k, v in kwargs.items()},
        )
        return {
            "name": name, "args": args, "kwargs": kwargs, "seed": seed, "x64": x64,
            "out": encoded(out),
        }  # fmt: skip


def main() -> None:
    """Record all cases."""
    seeds = [
        {"seed": s, "x64": x64, "words": np.asarray(words).tolist()}
        for x64 in (False, True)
        for s in [*SEEDS, 2**63 - 1, -(2**63)]
        for words in [_words(s, x64)]
    ]
    cases = [recorded(c, s, False) for c in bit_cases() for s in (0, 42)]
    cases += [recorded(c, 7, False) for c in float_cases() + integer_cases()]
    cases += [recorded(c, 2**40 + 17, True) for c in x64_cases()]
    lines = [json.dumps(case) for case in cases]
    text = "{\n" + f'"jax": "{jax.__version__}",\n"seeds": {json.dumps(seeds)},\n'
    text += '"cases": [\n' + ",\n".join(lines) + "\n]\n}\n"
    pathlib.Path(__file__).with_name("samples.json").write_text(text)


def _words(seed: int, x64: bool) -> Any:
    with jax.enable_x64(x64):
        return jax.random.PRNGKey(seed)


if __name__ == "__main__":
    main()
