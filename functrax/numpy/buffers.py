"""Arrays of iterables, of the bytes of buffers, and of the numbers in texts.

Start at :func:`frombuffer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.types import dtypes
from functrax.numpy.creation import array
from functrax.typing import DTypeLike


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """An array of the items of an iterable; arguments as ``numpy.fromiter``.

    Args:
      *args: the iterable and its dtype, as for ``numpy.fromiter``.
      **kwargs: ``count``, the number of items to take, as for ``numpy.fromiter``.

    Returns:
      A vector; 64-bit types become 32-bit ones unless x64 is on.

    Raises:
      ValueError: if there are fewer items than ``count``, from NumPy.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fromiter((x * x for x in range(4)), "int32")
      Array([0, 1, 4, 9], dtype=int32)
    """
    return array(np.fromiter(*args, **kwargs))


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    r"""An array of the bytes of a buffer; arguments as ``numpy.frombuffer``.

    Args:
      buffer: an object with the buffer protocol, such as bytes.
      dtype: what the bytes hold.
      count: how many elements; -1 for all.
      offset: the first byte that is read.

    Returns:
      A vector with memory of its own; 64-bit types become 32-bit ones unless x64 is on.

    Raises:
      ValueError: if the buffer is too small, from NumPy.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.frombuffer(b"\x01\x02", dtype="uint8")
      Array([1, 2], dtype=uint8)
    """
    return array(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """An array of the numbers in a text; arguments as ``numpy.fromstring``.

    Args:
      string: the text.
      dtype: of the numbers.
      count: how many numbers; -1 for all.
      sep: what stands between them.

    Returns:
      A vector; 64-bit types become 32-bit ones unless x64 is on.

    Raises:
      ValueError: for text that holds fewer numbers than ``count``, from NumPy.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fromstring("1 2 3", dtype="int32", sep=" ")
      Array([1, 2, 3], dtype=int32)
    """
    return array(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))
