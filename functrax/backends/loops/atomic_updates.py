"""Which updates of elements are one operation of memory.

Start at :func:`atomic_operation`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.prims.lowered_reductions import Reduction


def atomic_operation(how: Reduction, dtype: np.dtype[Any]) -> str | None:
    """The atomic operation, in LLVM's words, that updates an integer by another one; None if the
    order of updates matters, or no instruction does it.
    """
    if how.carries != (dtype,) or dtype.kind not in "iu" or dtype.itemsize < 4:
        return None
    if how.name in ("max", "min"):
        return f"u{how.name}" if dtype.kind == "u" else how.name
    return how.name if how.name in ("add", "and", "or", "xor") else None
