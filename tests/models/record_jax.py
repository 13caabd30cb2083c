"""Records the losses that JAX finds when it trains the models of ``training.py``.

    python -m tests.models.record_jax

writes ``tests/models/jax_losses.json``: of each model the losses of 20 steps in float32 and in
float64.  What the two differ by is what rounding makes of a training run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.training import MODELS, STEPS, losses

RECORDED = Path(__file__).with_name("jax_losses.json")


def recorded() -> dict[str, dict[str, Any]]:
    """The losses by model and dtype."""
    text = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {name: {kind: np.asarray(x) for kind, x in of.items()} for name, of in text.items()}


def record() -> dict[str, dict[str, Any]]:
    """Train all models by JAX."""
    import jax

    found: dict[str, dict[str, Any]] = {}
    for name in MODELS:
        found[name] = {}
        for dtype in ("float32", "float64"):
            with jax.enable_x64(dtype == "float64"):
                found[name][dtype] = losses(jax, name, STEPS, dtype)
    return found


if __name__ == "__main__":
    rows = {name: {kind: x.tolist() for kind, x in of.items()} for name, of in record().items()}
    RECORDED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
