"""Arrays of other libraries without a copy, as ``jax.dlpack`` has it."""

from __future__ import annotations

from typing import Any

from functrax.numpy import from_dlpack as from_dlpack


def to_dlpack(x: Any, stream: Any = None) -> Any:
    """A capsule of the DLPack protocol, for libraries that take no arrays.

    Args:
      x: an array.
      stream: accepted for compatibility.
    """
    return x.__dlpack__()
