"""Writes dtypes.json, JAX's own answers, beside itself. Needs jax; the tests only read the file.

    python tests/numpy/data/record_dtypes.py

For every function the dtype ("~" marks a weak one) of its result on arguments of several dtypes,
or "error". A result that JAX calls a weak boolean is recorded as a boolean.
"""

from __future__ import annotations

import json
import pathlib
import warnings

import jax
import jax.numpy as jnp

UNARY = [
    "abs",
    "fabs",
    "sin",
    "exp",
    "exp2",
    "cbrt",
    "log10",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "sign",
    "square",
    "reciprocal",
    "deg2rad",
    "real",
    "imag",
    "conj",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "sinc",
    "i0",
    "spacing",
    "positive",
    "bitwise_count",
    "invert",
    "logical_not",
    "angle",
    "nan_to_num",
    "negative",
    "round",
    "sqrt",
    "log1p",
    "tanh",
    "arcsinh",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "mod",
    "fmod",
    "power",
    "float_power",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "arctan2",
    "copysign",
    "nextafter",
    "gcd",
    "lcm",
    "heaviside",
    "maximum",
    "minimum",
    "fmax",
    "left_shift",
    "right_shift",
    "bitwise_and",
    "logical_and",
    "ldexp",
    "equal",
    "less",
    "where",
    "isclose",
]
REDUCTIONS = [
    "sum",
    "prod",
    "mean",
    "var",
    "std",
    "max",
    "any",
    "argmax",
    "cumsum",
    "cumprod",
    "nansum",
    "nanmean",
    "median",
    "ptp",
    "count_nonzero",
    "average",
    "nanmax",
    "argmin",
]
PYTHON = {"int": 3, "float": 2.5, "complex": 2j}
OPERANDS = [
    "bool",
    "int8",
    "uint8",
    "int32",
    "int",
    "float",
    "bfloat16",
    "float16",
    "float32",
    "complex64",
    "complex",
]


def operand(name: str) -> object:
    """A Python scalar, or an array of the dtype of that name."""
    return PYTHON[name] if name in PYTHON else jnp.asarray(1, name)


def answer(function: object, *args: object) -> str:
    """The dtype of a function's result."""
    try:
        out = function(*args)
    except (TypeError, ValueError):
        return "error"
    return "~" * (out.weak_type and out.dtype != bool) + out.dtype.name


def where(x: object, y: object) -> jax.Array:
    """The choice between two operands."""
    return jnp.where(True, x, y)


def main() -> None:
    """Record all tables."""
    warnings.simplefilter("ignore")
    values = [operand(o) for o in OPERANDS]
    arrays = [jnp.ones(2, o) for o in OPERANDS if o not in PYTHON]
    table = {
        "jax": jax.__version__,
        "operands": OPERANDS,
        "unary": {n: " ".join(answer(getattr(jnp, n), v) for v in values) for n in UNARY},
        "binary": {},
        "reductions": {n: " ".join(answer(getattr(jnp, n), v) for v in arrays) for n in REDUCTIONS},
    }
    for name in BINARY:
        function = where if name == "where" else getattr(jnp, name)
        table["binary"][name] = [" ".join(answer(function, x, y) for y in values) for x in values]
    text = json.dumps(table, indent=1)
    pathlib.Path(__file__).with_name("dtypes.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
