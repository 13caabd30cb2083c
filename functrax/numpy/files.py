"""Arrays in files of NumPy's formats, ``.npy`` and ``.npz``."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.types import dtypes
from functrax.numpy.creation import array
from functrax.typing import ArrayLike, DTypeLike

__all__ = ["fromfile", "load", "save", "savez"]


def save(file: str | os.PathLike[str] | IO[bytes], arr: ArrayLike, **options: Any) -> None:
    """Write an array into a file of NumPy's format ``.npy``.

    Args:
      file: a path, to which ``.npy`` is added if missing, or a file open for writing bytes.
      arr: an array, whose values are known.
      **options: as for ``numpy.save``.

    Raises:
      TracerArrayConversionError: for a traced array.
      OSError: if the file cannot be written.

    Example:
      >>> import functrax.numpy as jnp
      >>> import io
      >>> file = io.BytesIO()
      >>> jnp.save(file, jnp.arange(3))
      >>> len(file.getvalue())
      140
    """
    np.save(file, np.asarray(arr), **options)


def savez(file: str | os.PathLike[str] | IO[bytes], *args: ArrayLike, **kwds: ArrayLike) -> None:
    """Write several arrays into one file of NumPy's format ``.npz``.

    Args:
      file: a path, to which ``.npz`` is added if missing, or a file open for writing bytes.
      *args: arrays, which are named ``arr_0``, ``arr_1``, ...
      **kwds: arrays by name.

    Raises:
      TracerArrayConversionError: for a traced array.
      OSError: if the file cannot be written.

    Example:
      >>> import functrax.numpy as jnp
      >>> import io
      >>> file = io.BytesIO()
      >>> jnp.savez(file, x=jnp.arange(3))
      >>> _ = file.seek(0)
      >>> jnp.load(file)["x"]
      array([0, 1, 2], dtype=int32)
    """
    named: dict[str, Any] = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *map(np.asarray, args), **named)


def load(file: str | os.PathLike[str] | IO[bytes], *args: Any, **options: Any) -> Any:
    """What :func:`save` wrote, as an array.

    Args:
      file: a path, or a file open for reading bytes.
      *args: as for ``numpy.load``.
      **options: as for ``numpy.load``.

    Returns:
      An array; of a file of several arrays what ``numpy.load`` returns.

    Raises:
      OSError: if there is no such file.
      ValueError: if it holds objects, from NumPy.

    Example:
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


def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "") -> Array:
    """An array of the bytes, or of the text, of a file.

    Args:
      file: a path, or an open file.
      dtype: what the file holds.
      count: how many elements; -1 for all.
      sep: what stands between numbers in a text; empty for a file of bytes.

    Returns:
      A vector; 64-bit types become 32-bit ones unless x64 is on.

    Raises:
      OSError: if there is no such file.

    Example:
      >>> import functrax.numpy as jnp
      >>> import tempfile
      >>> with tempfile.TemporaryFile() as file:
      ...     _ = file.write(bytes([1, 2])), file.seek(0)
      ...     jnp.fromfile(file, "uint8")
      Array([1, 2], dtype=uint8)
    """
    return array(np.fromfile(file, dtypes.as_dtype(dtype), count, sep))
