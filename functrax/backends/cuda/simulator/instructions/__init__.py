"""The instructions of PTX, a file per family; importing this declares them all.

The meaning of each stands once, beside the section of NVIDIA's manual ("Parallel Thread Execution
ISA", version 8.8) that defines it.
"""

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
