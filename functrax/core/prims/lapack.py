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


def _numbers(*values: int) -> list[Any]:
    """Pointers to integers."""
    return [ctypes.byref(ctypes.c_int64(v)) for v in values]


def function(name: str, char: str) -> Any:
    """A function of LAPACK or BLAS for a dtype's character, or None without the library."""
    found = library()
    return None if found is None else getattr(found, f"scipy_{_LETTERS[char]}{name}_64_")


def thread_control() -> tuple[Any, Any] | None:
    """The functions that get and set the library's number of threads; None without the library."""
    names = [f"scipy_openblas_{verb}_num_threads64_" for verb in ("get", "set")]
    if not all(hasattr(library(), name) for name in names):
        return None
    get, set_ = [getattr(library(), name) for name in names]
    return get, set_


def _with_work(call: Any, before: list[Any], dtype: Any, after: list[Any]) -> None:
    """Call a function that is asked for the size of its work space first."""
    work, length = np.zeros(1, dtype), -1
    for _ in range(2):
        call(*before, _pointer(work), *_numbers(length), *after)
        length = max(int(work[0].real), 1)
        work = np.zeros(length, dtype)


def schur(x: Any) -> tuple[Any, Any] | None:
    """``(t, z)`` with ``x = z t z^H`` of one finite matrix; None without the library, or failure.

    Args:
      x: a square matrix of float32, float64, complex64 or complex128.
    """
    call, n = function("gees", x.dtype.char), x.shape[0]
    if call is None or n == 0:
        return None
    t, z = np.array(x, order="F"), np.zeros_like(x, order="F")
    narrow = x.real.dtype
    if x.dtype.kind == "c":
        values, more = [np.zeros(n, x.dtype)], [np.zeros(n, narrow)]
    else:
        values, more = [np.zeros(n, narrow) for _ in range(2)], []
    size, info = _numbers(n), ctypes.c_int64(0)
    before = [
        *map(ctypes.c_char_p, (b"V", b"N")), None, *size, _pointer(t), *size, *_numbers(0),
        *map(_pointer, values), _pointer(z), *size,
    ]  # fmt: skip
    after = [*map(_pointer, more), None, ctypes.byref(info), *[ctypes.c_size_t(1)] * 2]
    _with_work(call, before, x.dtype, after)
    return None if info.value else (np.ascontiguousarray(t), np.ascontiguousarray(z))


def triangular_solve(
    a: Any, b: Any, left: bool, lower: bool, transposed: bool, conjugated: bool, unit: bool
) -> Any:
    """``x`` with ``op(a) x = b``, or ``x op(a) = b``, of one matrix; None without the library.

    Row-major matrices are their own transposes to a library that counts by columns, so what is
    solved is ``x^T op(a)^T = b^T``, from the other side.
    """
    call = function("trsm", a.dtype.char)
    if call is None or 0 in b.shape:
        return None
    if conjugated and not transposed:  # which the library does not have
        a, conjugated = a.conj(), False
    a, out = np.ascontiguousarray(a), np.array(b, order="C")
    rows, columns = out.shape
    how = b"C" if conjugated else b"T" if transposed else b"N"
    letters = (b"R" if left else b"L", b"U" if lower else b"L", how, b"U" if unit else b"N")
    one = np.ones(1, a.dtype)
    call(
        *map(ctypes.c_char_p, letters), *_numbers(columns, rows), _pointer(one), _pointer(a),
        *_numbers(a.shape[0]), _pointer(out), *_numbers(columns), *[ctypes.c_size_t(1)] * 4,
    )  # fmt: skip
    return out


def lu(x: Any) -> tuple[Any, Any] | None:
    """``(lu, pivots)`` of one matrix, the pivots counted from 0; None without the library."""
    call = function("getrf", x.dtype.char)
    if call is None or x.size == 0:
        return None
    m, n = x.shape
    out, pivots = np.array(x, order="F"), np.zeros(min(m, n), np.int64)
    info = ctypes.c_int64(0)
    call(
        *_numbers(m, n), _pointer(out), *_numbers(m), _pointer(pivots), ctypes.byref(info)
    )  # a pivot of zero is no failure: what is left is the factor
    return np.ascontiguousarray(out), (pivots - 1).astype(np.int32)


def qr(x: Any, columns: int, compute_q: bool) -> tuple[Any, ...] | None:
    """``(q, r)`` of one matrix, so many columns of ``q``; or ``(r,)``; None without the library."""
    factor = function("geqrf", x.dtype.char)
    if factor is None or x.size == 0:
        return None
    m, n = x.shape
    k = min(m, n)
    a, tau = np.array(x, order="F"), np.zeros(k, x.dtype)
    info = ctypes.c_int64(0)
    size = _numbers(m)
    _with_work(
        factor, [*_numbers(m, n), _pointer(a), *size, _pointer(tau)], x.dtype, [ctypes.byref(info)]
    )
    r = np.ascontiguousarray(np.triu(a[:columns]))
    if not compute_q:
        return (r,)
    q = np.zeros((m, columns), x.dtype, order="F")
    q[:, :k] = a[:, :k]
    make = function("ungqr" if x.dtype.kind == "c" else "orgqr", x.dtype.char)
    _with_work(
        make,
        [*_numbers(m, columns, k), _pointer(q), *size, _pointer(tau)],
        x.dtype,
        [ctypes.byref(info)],
    )
    return np.ascontiguousarray(q), r
