"""The numbers by which ``functrax/ffi.h`` knows types of elements.

Start at :func:`code_of`.
"""

from __future__ import annotations

from typing import Final

from functrax.core.errors.typed import DTypeError
from functrax.core.types.dtypes import DType

_CODES: Final = {
    "bool": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "uint8": 6,
    "uint16": 7,
    "uint32": 8,
    "uint64": 9,
    "float16": 10,
    "float32": 11,
    "float64": 12,
    "complex64": 15,
    "bfloat16": 16,
    "complex128": 18,
    "float8_e5m2": 19,
    "float8_e4m3fn": 20,
    "float8_e4m3b11fnuz": 23,
    "float8_e5m2fnuz": 24,
    "float8_e4m3fnuz": 25,
    "float8_e4m3": 28,
    "float8_e3m4": 29,
    "float8_e8m0fnu": 33,
}


def code_of(dtype: DType, what: str) -> int:
    """The number of a dtype.

    Args:
      dtype: the dtype.
      what: the function for which it is asked, for the error.

    Raises:
      DTypeError: it has none, as its elements are smaller than a byte, or have no bits.
    """
    code = _CODES.get(dtype.name)
    if code is None:
        raise DTypeError(
            f"{what}: functions of the user's own take elements of whole bytes alone",
            got=str(dtype.name),
            fix="convert with .astype(...) before and after the call",
        )
    return code
