"""``pjit``, the older name of :func:`functrax.jit` with shardings."""

from functrax.transforms.staging.jit import jit as pjit

__all__ = ["pjit"]
