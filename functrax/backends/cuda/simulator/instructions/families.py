"""All families of instructions: importing this declares them."""

from functrax.backends.cuda.simulator.instructions import (
    accesses,
    atomics,
    control,
    conversions,
    copies,
    floats,
    integers,
    logic,
    matrices,
    warps,
)

__all__ = [
    "accesses",
    "atomics",
    "control",
    "conversions",
    "copies",
    "floats",
    "integers",
    "logic",
    "matrices",
    "warps",
]
