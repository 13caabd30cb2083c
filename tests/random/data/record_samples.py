"""Writes samples.json, JAX's own samples, beside itself. Needs jax; the tests only read the file.

    PYTHONPATH=. python tests/random/data/record_samples.py

The cases are those of ``tests/random/cases.py``, each with the result as "out"; "seeds" are seeds
and the words of the keys made from them: plainly, and "traced" from an array of two of a "dtype".
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jax
import numpy as np

from tests.random.cases import cases
from tests.random.recorded import encoded, sampled

SEEDS = [0, 1, 42, -3, 2**31 + 5, 2**40 + 17, -(2**35), 2**63 - 1, -(2**63)]


def recorded_seed(seed: int, x64: bool) -> dict[str, Any]:
    """The words of a key."""
    with jax.enable_x64(x64):
        words = np.asarray(jax.random.PRNGKey(seed)).tolist()
        assert np.asarray(jax.random.key_data(jax.random.key(seed))).tolist() == words
        dtype = "int64" if x64 else "int32" if abs(seed) < 2**31 else None
        traced = None
        if dtype is not None:
            keys = jax.jit(jax.vmap(jax.random.PRNGKey))(np.full(2, seed, dtype))
            traced = np.asarray(keys).tolist()
    return {"seed": seed, "x64": x64, "words": words, "dtype": dtype, "traced": traced}


def main() -> None:
    """Record all cases."""
    seeds = [recorded_seed(seed, x64) for x64 in (False, True) for seed in SEEDS]
    lines = [json.dumps({**case, "out": encoded(sampled(jax, case))}) for case in cases()]
    text = "{\n" + f'"jax": "{jax.__version__}",\n"seeds": {json.dumps(seeds)},\n'
    text += '"cases": [\n' + ",\n".join(lines) + "\n]\n}\n"
    pathlib.Path(__file__).with_name("samples.json").write_text(text)


if __name__ == "__main__":
    main()
