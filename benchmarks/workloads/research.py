"""Research programs as people write them; ``benchmarks/research`` has them, a module per field."""

from __future__ import annotations

from benchmarks.research import (
    decisions,
    fluids,
    generation,
    inference,
    inversion,
    networks,
    physics,
    sequences,
)

TITLE = "Research programs"

ROWS = (
    *fluids.ROWS,
    *physics.ROWS,
    *inversion.ROWS,
    *inference.ROWS,
    *sequences.ROWS,
    *decisions.ROWS,
    *networks.ROWS,
    *generation.ROWS,
)
