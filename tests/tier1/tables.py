"""Every table of samples; the names of tier 1 that they have to cover."""

from __future__ import annotations

import json
from pathlib import Path

from tests.tier1 import (
    arrays,
    elementwise,
    lax_arrays,
    lax_contractions,
    lax_indexed,
    making,
    randomness,
    reductions,
    shaping,
    transforms,
    trees,
)
from tests.tier1.sample import TABLE

NAMES = Path(__file__).parents[2] / "scripts" / "jax_names.json"
MODULES = (
    arrays,
    elementwise,
    lax_arrays,
    lax_contractions,
    lax_indexed,
    making,
    randomness,
    reductions,
    shaping,
    transforms,
    trees,
)
SAMPLES = TABLE.samples


def tier1() -> list[str]:
    """The names of tier 1, in the list that docs/jax_compatibility.md is written from."""
    listed = json.loads(NAMES.read_text(encoding="utf-8"))
    return [
        f"{entry['module']}.{name}"
        for entry in listed
        if str(entry["tier"]) == "1"
        for name in entry["names"]
    ]
