"""Types for annotations: what may be given where an array, a dtype, a shape or axes are asked for.

>>> import functrax
>>> def norm(x: ArrayLike) -> functrax.Array: ...
>>> isinstance(1.5, ArrayLike), isinstance("text", ArrayLike)
(True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex, TypeAlias

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.types.dtypes import DTypeLike as DTypeLike, SupportsDType as SupportsDType

#: Arrays, NumPy's arrays and scalars, and Python's numbers; no lists.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex

#: A shape, or the size of its one axis; a size is an integer of Python's, NumPy's, or an array.
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]

#: One axis or several, counted from the end if negative; None for all of them.
Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
