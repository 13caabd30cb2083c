"""The primitives, one class each in one file per family, and the NumPy values that define them.

Importing the package fills ``functrax.core.tracing.primitive.registry``, but for linear algebra and
Fourier transforms, which it imports when it is asked for them.
"""

from functrax.core.prims import (
    analytic,
    arithmetic,
    bitwise,
    convert,
    cumulative,
    fused,
    identity,
    mapped,
    ordering,
    powers,
    reduce,
    reindex,
    rounding,
    slicing,
    special,
)

__all__ = [
    "analytic",
    "arithmetic",
    "bitwise",
    "convert",
    "cumulative",
    "fused",
    "identity",
    "mapped",
    "ordering",
    "powers",
    "reduce",
    "reindex",
    "rounding",
    "slicing",
    "special",
]
