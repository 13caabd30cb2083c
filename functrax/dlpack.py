"""Arrays of other libraries without a copy, as ``jax.dlpack`` has it."""

from __future__ import annotations

from typing import Any

from functrax.core.lazy import listing as _listing
from functrax.core.types import dtypes
from functrax.numpy import from_dlpack as from_dlpack


def to_dlpack(x: Any, stream: Any = None) -> Any:
    """A capsule of the DLPack protocol, for libraries that take no arrays.

    Args:
      x: an array.
      stream: accepted for compatibility.

    Returns:
      A capsule, which can be taken once.

    Raises:
      AttributeError: for what has no ``__dlpack__``.

    >>> import functrax.numpy as jnp
    >>> type(to_dlpack(jnp.ones(2))).__name__
    'PyCapsule'
    """
    return x.__dlpack__()


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be given to other libraries, and taken from them.

    Args:
      dtype: anything that names a dtype.

    Returns:
      A bool.

    Raises:
      DTypeError: if it names none.

    >>> is_supported_dtype("bfloat16")
    True
    """
    named = dtypes.as_dtype(dtype)
    return bool(named == dtypes.bfloat16 or named.kind in "biufc")


__dir__ = _listing(globals())
