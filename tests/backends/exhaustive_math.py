"""The errors of the float32 functions at every float32, found by compiled code.

The oracle is the float64 function of the same name, itself tested against longer numbers.  One
kernel computes both and the error, so that all 2^32 numbers take half a minute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.kernels.math.expression import Expr, where
from functrax.core.scalars.scalar import Builder
from functrax.core.types import dtypes
from tests.backends.llvm.scalar_kernels import Kernel, load

_CHUNK = 1 << 20


class Worst(NamedTuple):
    """The largest error in ulp, and where."""

    error: float
    at: float


def _error(b: Builder, name: str) -> Expr:
    def function(x: Expr) -> Expr:
        return Expr(b, EXPANSIONS[name](b, x.s))

    x = Expr(b, load(b, dtypes.uint32)).seen_as(dtypes.float32)
    wide = x.to(dtypes.float64)
    got, want = function(x), function(wide)
    size = abs(want)
    if name in ("lgamma", "digamma"):
        terms = function(abs(wide) + (0 if name == "lgamma" else 1))
        terms = where(abs(terms) < np.inf, abs(terms), 0.0)
        size = where(wide < 0, size + terms + 1, size)
    least = size.like(2.0**-126)
    size = where(size > least, size, least)
    unit = (size.bits & (0x7FF << 52)).seen_as(dtypes.float64) * 2.0**-23
    limit = size.like(2.0**128)
    shown = where(abs(got) < np.inf, got.to(dtypes.float64), where(got > 0, limit, -limit))
    error = abs(shown - want) / unit
    error = where(abs(error) < np.inf, error, np.inf)
    same = got.equals(want.to(dtypes.float32)) | (got.differs(got) & want.differs(want))
    return where(same, error.like(0), error).to(dtypes.float32)


def worst(name: str) -> Worst:
    """The largest error of a function of one float32."""
    kernel = Kernel([_error(Builder(), name).s], [np.uint32], 16)
    bits, errors = np.arange(_CHUNK, dtype=np.uint32), np.empty(_CHUNK, np.float32)
    found = Worst(0.0, 0.0)
    for _ in range(2**32 // _CHUNK):
        kernel.run(bits, errors)
        k = int(errors.argmax())
        if errors[k] > found.error:
            found = Worst(float(errors[k]), float(bits[k : k + 1].view(np.float32)[0]))
        bits += np.uint32(_CHUNK)
    return found
