"""Whether the running thread flushes subnormal numbers to zero: the twin of ``subnormals.h``.

Threads that run kernels do, outside of strict mode, and Python code does not.  NumPy functions that
stand for a kernel are called by :func:`in_mode`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from functrax.backends.targets import target
from functrax.core import native
from functrax.core.types import dtypes

P = ParamSpec("P")
R = TypeVar("R")


def _flush_by_environment(flushes: bool) -> bool:
    """Whether this thread flushed so far; from now on it does or does not."""
    floats = target().dialect.floats
    if floats is None:
        return False
    environment = ctypes.create_string_buffer(floats.nbytes)
    library = ctypes.CDLL(None)
    library.fegetenv(environment)
    word = ctypes.c_uint32.from_buffer(environment, floats.place)
    before = word.value & floats.flushes == floats.flushes
    word.value = word.value | floats.flushes if flushes else word.value & ~floats.flushes
    library.fesetenv(environment)
    return before


#: Limits of dtypes, which NumPy works out from subnormal numbers when it is asked first, and keeps.
_limits: Final[list[Any]] = []
#: Whether this thread flushed so far; the argument says whether it does from now on.
flush: Final[Callable[[bool], bool]] = getattr(
    native.extension, "flush_subnormals", _flush_by_environment
)


def in_mode(flushes: bool, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function returns that is called while this thread flushes, or does not."""
    if not _limits:
        _limits.extend(dtypes.finfo(dtype) for dtype in dtypes.FLOATING)
    before = flush(flushes)
    try:
        return function(*args, **kwargs)
    finally:
        flush(before)
