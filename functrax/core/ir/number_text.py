"""Numbers as text, exactly: one element of any dtype to a word and back, bit for bit.

Finite floats are written with the fewest digits that give the same bits back; ``inf``, ``-inf``
and ``nan`` as these words; any other bit pattern (a NaN with a sign or a payload) as the hex
number of its bits.  A complex number is ``complex(re, im)``, put together by the callers from its
two parts.

Start at :func:`scalar_text`; :func:`scalar_from_text` is its inverse.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType


def scalar_text(value: Any, dtype: DType) -> str:
    """One element as text.

    >>> scalar_text(np.float32(0.1), dtypes.float32), scalar_text(1 - 2j, dtypes.complex64)
    ('0.1', 'complex(1.0, -2.0)')
    """
    if dtypes.is_complex(dtype):
        pair = np.asarray(value, dtype).reshape(1).view(dtypes.real_dtype(dtype))
        return f"complex({_real_text(pair[0])}, {_real_text(pair[1])})"
    return "0" if dtype == dtypes.float0 else _real_text(np.asarray(value, dtype)[()])


def _real_text(value: Any) -> str:
    dtype = value.dtype
    if dtype == dtypes.bool_:
        return str(bool(value))
    if dtypes.is_integer(dtype):
        return str(int(value))
    with np.errstate(invalid="ignore"):  # a signalling NaN
        text = _shortest(value)
    bits = value.tobytes()
    if scalar_from_text(text, dtype).tobytes() == bits:
        return text
    return f"{int.from_bytes(bits, sys.byteorder):#x}"


def _shortest(value: Any) -> str:
    if value.dtype != dtypes.bfloat16 or not np.isfinite(value):
        return repr(float(value)) if value.dtype == dtypes.float64 else str(value)
    exact = float(value)
    texts = (repr(float(f"{exact:.{digits}g}")) for digits in range(1, 9))
    return next((t for t in texts if value.dtype.type(float(t)) == value), repr(exact))


def scalar_from_text(text: str, dtype: DType) -> Any:
    """The element of a real dtype that ``text`` means.

    Args:
      text: a decimal number, ``inf``, ``nan``, ``True``, ``False``, any of the first three with a
        sign; or ``0x...``, the bits of a float, or the value of an integer.
      dtype: the element's dtype, not complex.

    Raises:
      ValueError: if the dtype has no such element.
    """
    if dtype == dtypes.bool_:
        if text not in ("True", "False"):
            raise ValueError("a bool is True or False")
        return np.bool_(text == "True")
    if dtypes.is_integer(dtype):
        return _integer(text, dtype)
    if dtype == dtypes.float0:
        return np.zeros((), dtype)[()]
    if text.startswith("0x"):
        return _from_bits(int(text, 16), dtype)
    exact = float(text)
    with np.errstate(all="ignore"):
        value = np.asarray(exact).astype(dtype)[()]
    if math.isfinite(exact) and not np.isfinite(value):
        raise ValueError(f"the number is too large for {dtype}")
    return value


def _integer(text: str, dtype: DType) -> Any:
    value = int(text, 0)
    limits = dtypes.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ValueError(f"the number does not fit {dtype}")
    return dtype.type(value)


def _from_bits(bits: int, dtype: DType) -> Any:
    if bits >> (8 * dtype.itemsize):
        raise ValueError(f"more bits than {dtype} has")
    return np.frombuffer(bits.to_bytes(dtype.itemsize, sys.byteorder), dtype)[0]
