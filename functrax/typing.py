"""Types for annotations: what may be given where an array, or a dtype, is asked for.

>>> import functrax
>>> def norm(x: ArrayLike) -> functrax.Array: ...
>>> isinstance(1.5, ArrayLike), isinstance("text", ArrayLike)
(True, False)
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from functrax.core.arrays.operators import Array


class SupportsDType(Protocol):
    """Something that has a dtype."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""


#: Arrays, NumPy's arrays and scalars, and Python's numbers; no lists.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex

#: What names a dtype: a string, a scalar type, a dtype, something with one.
DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType
