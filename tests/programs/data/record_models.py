"""Run ``tests/programs/models.py`` under JAX and record what its programs return.

Run from the repository's root with an interpreter that has JAX 0.10.2:
``python tests/programs/data/record_models.py``.  It changes the import lines and nothing else.
"""

from __future__ import annotations

import json
import pathlib
import sys
import types
import warnings
from typing import Any

import jax
import numpy as np

HERE = pathlib.Path(__file__).parent


def summary(x: Any) -> list[Any]:
    """Dtype, weak type, shape, and the elements, or weighted sums of them where they are many."""
    array = jax.random.key_data(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else x
    name, values = str(array.dtype), np.asarray(array)
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64).ravel()
    if wide.size > 12:
        wide = np.cos(np.outer(np.arange(4), np.arange(wide.size))) @ wide
    parts = np.stack([wide.real, wide.imag]) if wide.dtype.kind == "c" else wide
    return [name, bool(getattr(x, "weak_type", False)), list(x.shape), parts.tolist()]


def main() -> None:
    source = (HERE.parent / "models.py").read_text()
    source = source.replace("import functrax", "import jax").replace("from functrax", "from jax")
    models = types.ModuleType("models")
    sys.modules["models"] = models  # where dataclasses look for their module
    exec(compile(source, "models.py", "exec"), models.__dict__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorded = {
            name: [summary(x) for x in jax.tree.leaves(function())]
            for name, function in models.PROGRAMS.items()
        }
    text = ",\n".join(
        f'"{name}": [\n' + ",\n".join(f" {json.dumps(x)}" for x in found) + "\n]"
        for name, found in recorded.items()
    )
    (HERE / "models.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
