"""``jax._src.dtypes``: what libraries take from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.dtypes import *  # noqa: F403 - the public names
from functrax.numpy import finfo as finfo, promote_types


def to_complex_dtype(dtype: Any) -> Any:
    """The complex dtype that holds numbers of a dtype."""
    return promote_types(np.dtype(dtype), np.dtype("complex64"))


def supports_inf(dtype: Any) -> bool:
    """Whether a dtype has infinities."""
    return bool(np.isinf(np.asarray(np.inf, dtype))) if np.dtype(dtype).kind != "b" else False
