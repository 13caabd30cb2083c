"""The primitives, one class each in one file per family, and the NumPy values that define them.

Importing the package fills ``functrax.core.primitive.registry``.
"""

from functrax.core.prims import (
    analytic,
    arithmetic,
    bitwise,
    convert,
    cumulative,
    factorisations,
    fourier,
    identity,
    linear_systems,
    mapped,
    ordering,
    powers,
    reduce,
    reindex,
    rounding,
    slicing,
    special,
    spectra,
)

__all__ = [
    "analytic",
    "arithmetic",
    "bitwise",
    "convert",
    "cumulative",
    "factorisations",
    "fourier",
    "identity",
    "linear_systems",
    "mapped",
    "ordering",
    "powers",
    "reduce",
    "reindex",
    "rounding",
    "slicing",
    "special",
    "spectra",
]
