"""Functions that launches call beside the compiler's own kernels, found by name.

A name enters; an address leaves, if this process has such a function: one of the extension's, one
of LAPACK, or an inner loop of a NumPy ufunc.  Those of ``numpy.linalg`` and ``numpy.fft`` are C
functions of arrays, sizes and strides that need no lock of Python's; the extension's function
``call_loop`` calls them as a kernel.  Addresses hold in one process, names in all: programs on disk
have names.

NumPy documents where a ufunc keeps its loops (``PyUFuncObject``), and has never moved it.  Nothing
is called that does not look as described: the counts, the name and the types of the loop must be
those that Python sees.

Start at :class:`LibraryFunction`.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np

from functrax.core import native
from functrax.core.prims import lapack
from functrax.core.records import record

LAPACK: Final = "LAPACK"
LINALG: Final = "numpy.linalg._umath_linalg"
FFT: Final = "numpy.fft._pocketfft_umath"


@record
class LibraryFunction:
    """A function by its name.

    Args:
      module: the module whose ufunc it is an inner loop of; :data:`LAPACK` for what that has, and
        empty for the extension's functions.
      name: of the ufunc, or of the function (LAPACK's without the dtype's letter).
      types: the characters of the loop's dtypes, as in ``ufunc.types``; LAPACK's has one.
      data: what the loop is called with, instead of the loop itself.
    """

    module: str
    name: str
    types: str = ""
    data: bool = False

    @property
    def address(self) -> int:
        """Where it is in this process.

        Raises:
          LookupError: this process has no such function.
        """
        found = _found(self.module, self.name, self.types)
        if found is None:
            raise LookupError(f"{self.module or 'functrax'}: no function {self.name} {self.types}")
        return found[self.data]


def numpy_loop(module: str, name: str, types: str) -> LibraryFunction | None:
    """The inner loop of a ufunc for some dtypes, if it is there and can be called."""
    return None if _found(module, name, types) is None else LibraryFunction(module, name, types)


def lapack_function(name: str, char: str) -> LibraryFunction | None:
    """A function of LAPACK or BLAS for a dtype's character, if NumPy brings it."""
    return numpy_loop(LAPACK, name, char)


def own_function(name: str) -> LibraryFunction | None:
    """A function of the extension, if that is there."""
    return numpy_loop("", name, "")


def signature(module: str, name: str) -> str:
    """The core dimensions of a ufunc, such as ``(m,n),(n)->(m)``."""
    found: str = getattr(import_module(module), name).signature
    return found


class _Ufunc(ctypes.Structure):
    """The beginning of ``PyUFuncObject`` in ``numpy/ufuncobject.h``, after the object's head."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    )


@cache
def _know_threads() -> None:
    """Tell the extension how to change LAPACK's number of threads."""
    control = lapack.thread_control()
    if control is not None and native.extension is not None:
        native.extension.configure_blas_threads(*map(_address, control))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _found(module: str, name: str, types: str) -> tuple[int, int] | None:
    """The address of a function, and that of the data of an inner loop."""
    if not module:
        own = {} if native.extension is None else native.extension.library_functions()
        return (own[name], 0) if name in own else None
    if module in (LAPACK, LINALG):
        _know_threads()
    if module == LAPACK:
        function = lapack.function(name, types)
        return None if function is None else (_address(function), 0)
    return _loop(module, name, types)


def _loop(module: str, name: str, types: str) -> tuple[int, int] | None:
    """The addresses of an inner loop and of its data."""
    if sys.implementation.name != "cpython":
        return None
    try:
        ufunc: Any = getattr(import_module(module), name, None)
    except ImportError:
        return None
    if not isinstance(ufunc, np.ufunc) or types not in ufunc.types:
        return None
    seen = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    counts = (seen.nin, seen.nout, seen.nargs, seen.ntypes)
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
        return None
    if seen.name != ufunc.__name__.encode():
        return None
    number = ufunc.types.index(types)
    wanted = [np.dtype(c).num for c in types.replace("->", "")]
    if seen.types[number * ufunc.nargs : (number + 1) * ufunc.nargs] != wanted:
        return None
    function = seen.functions[number]
    data = seen.data[number] if seen.data else None
    return None if not function else (function, data or 0)
