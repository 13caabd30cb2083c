"""Arrays of iterables, of the bytes of buffers, and of the numbers in texts.

Start at :func:`frombuffer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.creation import array


def fromiter(*args: Any, **kwargs: Any) -> Value:
    """An array of the items of an iterable; arguments as ``numpy.fromiter``."""
    return array(np.fromiter(*args, **kwargs))


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Value:
    """An array of the bytes of a buffer; arguments as ``numpy.frombuffer``."""
    return array(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Value:
    """An array of the numbers in a text; arguments as ``numpy.fromstring``."""
    return array(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))
