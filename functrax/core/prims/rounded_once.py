"""NumPy functions as references: half precision is computed in single and rounded once.

NumPy computes ``float16`` that way for most functions, and knows ``bfloat16`` for few.  What
enters are NumPy functions; what leaves are functions over arrays of every float and complex dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.core.types import dtypes


def rounded_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` over arrays of one dtype, which is the result's.

    >>> rounded_once(np.sqrt)(np.float16(2.0)).dtype
    dtype('float16')
    """

    def reference(*operands: Any) -> Any:
        arrays = [np.asarray(x) for x in operands]
        dtype = arrays[0].dtype
        if dtype not in dtypes.HALF:
            return function(*arrays)
        return np.asarray(function(*(a.astype(np.float32) for a in arrays))).astype(dtype)

    return reference
