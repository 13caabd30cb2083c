"""Types for annotations: what may be given where an array, a dtype, a shape or axes are asked for.

>>> import functrax
>>> def norm(x: ArrayLike) -> functrax.Array: ...
>>> isinstance(1.5, ArrayLike), isinstance("text", ArrayLike)
(True, False)
"""

from __future__ import annotations

from functrax.core.arrays.operators import (
    ArrayLike as ArrayLike,
    Axes as Axes,
    ShapeLike as ShapeLike,
)
from functrax.core.types.dtypes import DTypeLike as DTypeLike, SupportsDType as SupportsDType
