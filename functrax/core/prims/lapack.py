"""Functions of LAPACK that NumPy has beside it, and offers no name for.

NumPy's wheels bring a library of OpenBLAS, which has all of LAPACK.  Where it is not found (NumPy
built with another one), callers do the work in Python.

Start at :func:`schur`.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np

#: Of dtypes the letter with which names begin.
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


@functools.cache
def library() -> Any:
    """The library with 64-bit integers that NumPy uses, or None."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("libscipy_openblas64_*")):
            try:
                found = ctypes.CDLL(str(path))
            except OSError:
                continue
            if hasattr(found, "scipy_dgees_64_"):
                return found
    return None


def _pointer(x: Any) -> Any:
    return x.ctypes.data_as(ctypes.c_void_p)


def schur(x: Any) -> tuple[Any, Any] | None:
    """``(t, z)`` with ``x = z t z^H`` of one finite matrix; None without the library, or failure.

    Args:
      x: a square matrix of float32, float64, complex64 or complex128.
    """
    found, n = library(), x.shape[0]
    if found is None or n == 0:
        return None
    call = getattr(found, f"scipy_{_LETTERS[x.dtype.char]}gees_64_")
    real = x.dtype.kind != "c"
    t, z = np.array(x, order="F"), np.zeros_like(x, order="F")
    narrow = x.real.dtype
    values = [np.zeros(n, narrow) for _ in range(2)] if real else [np.zeros(n, x.dtype)]
    size, none, info = (np.array(v, np.int64) for v in (n, 0, 0))
    more = [] if real else [np.zeros(n, narrow)]
    length, work = np.array(-1, np.int64), np.zeros(1, x.dtype)
    for _ in range(2):  # the first call says how much memory the second one takes
        call(
            ctypes.c_char_p(b"V"), ctypes.c_char_p(b"N"), None, _pointer(size), _pointer(t),
            _pointer(size), _pointer(none), *map(_pointer, values), _pointer(z), _pointer(size),
            _pointer(work), _pointer(length), *map(_pointer, more), None, _pointer(info),
            ctypes.c_size_t(1), ctypes.c_size_t(1),
        )  # fmt: skip
        work = np.zeros(int(work[0].real), x.dtype)
        length = np.array(work.size, np.int64)
    return None if info else (np.ascontiguousarray(t), np.ascontiguousarray(z))
