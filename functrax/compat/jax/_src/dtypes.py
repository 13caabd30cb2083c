"""``jax._src.dtypes``: what libraries take from it besides what is public."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.types.promotion import TypePromotionError as TypePromotionError
from functrax.numpy import finfo as finfo, promote_types


class ExtendedDType:
    """The base of dtypes that libraries make; arrays of functrax cannot have them."""


def to_complex_dtype(dtype: Any) -> Any:
    """The complex dtype that holds numbers of a dtype."""
    return promote_types(np.dtype(dtype), np.dtype("complex64"))
