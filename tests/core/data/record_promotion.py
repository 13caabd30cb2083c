"""Writes promotion.json, JAX's own answers, beside itself. Needs jax; the tests only read the file.

    python tests/core/data/record_promotion.py

For x64 off and on, and standard and strict promotion: ``promote_types`` of every two dtypes and
weak types (``int``, ``float``, ``complex``), and the result of adding every two arrays, weak or
not ("~" marks weak). Each row holds the results with the row's own name and, in turn, every name of
its table.
"""

from __future__ import annotations

import json
import pathlib

import jax
import jax.numpy as jnp

INTEGERS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]
FLOATS = ["bfloat16", "float16", "float32", "float64", "complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS]
PYTHON = {"int": int, "float": float, "complex": complex}


def promoted(a: str, b: str) -> str:
    """JAX's promote_types."""
    try:
        return jnp.promote_types(PYTHON.get(a, a), PYTHON.get(b, b)).name
    except ValueError:
        return "error"


def joined(a: str, b: str) -> str:
    """The dtype and weak type of an operation on arrays of dtypes ``a`` and ``b``."""
    avals = [jax.ShapeDtypeStruct((), s.lstrip("~"), weak_type=s.startswith("~")) for s in (a, b)]
    try:
        out = jax.eval_shape(lambda x, y: jnp.where(True, x, y), *avals)
    except ValueError:
        return "error"
    return ("~" if out.weak_type else "") + out.dtype.name


def main() -> None:
    """Record all tables."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    names = [*DTYPES, *PYTHON]
    weak = ["~" + name for name in DTYPES if name != "bool"]
    for x64 in (False, True):
        for mode in ("standard", "strict"):
            with jax.enable_x64(x64), jax.numpy_dtype_promotion(mode):
                held = [n for n in DTYPES + weak if x64 or is_narrow(n.lstrip("~"))]
                tables[f"{mode} {'x64' if x64 else 'x32'}"] = {
                    "promote_types": {a: " ".join(promoted(a, b) for b in names) for a in names},
                    "result": {a: " ".join(joined(a, b) for b in held) for a in held},
                }
    text = json.dumps({"jax": jax.__version__, "tables": tables}, indent=1)
    pathlib.Path(__file__).with_name("promotion.json").write_text(text + "\n")


def is_narrow(name: str) -> bool:
    """Whether arrays of the dtype exist while x64 is off."""
    return bool(jax.dtypes.canonicalize_dtype(name) == name)


if __name__ == "__main__":
    main()
