"""Arrays in files of NumPy's formats, ``.npy`` and ``.npz``."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.creation import array

__all__ = ["fromfile", "load", "save", "savez"]


def save(file: str | os.PathLike[str] | IO[bytes], arr: Any, **options: Any) -> None:
    """Write an array into a file; arguments as ``numpy.save``."""
    np.save(file, np.asarray(arr), **options)


def savez(file: str | os.PathLike[str] | IO[bytes], *args: Any, **kwds: Any) -> None:
    """Write several arrays into one file; arguments as ``numpy.savez``."""
    named: dict[str, Any] = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *map(np.asarray, args), **named)


def load(file: str | os.PathLike[str] | IO[bytes], *args: Any, **options: Any) -> Any:
    """What :func:`save` wrote, as an array; arguments as ``numpy.load``.

    Of a file of several arrays it is what ``numpy.load`` returns.

    >>> import io, functrax.numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(3))
    >>> _ = file.seek(0)
    >>> jnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    found = np.load(file, *args, **options)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):  # how NumPy writes what it does not know
        found = found.view(dtypes.bfloat16)
    return array(found)


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "") -> Value:
    """An array of the bytes, or of the text, of a file; arguments as ``numpy.fromfile``."""
    return array(np.fromfile(file, dtypes.as_dtype(dtype), count, sep))
