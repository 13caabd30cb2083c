"""Arrays and types as HLO writes them: ``f32[2,3]{1,0}``, ``{ { 1, 2 }, { 3, 4 } }``.

Numbers are written with as many digits as tell them apart from their neighbours, so that reading
them gives the same bits.

Start at :func:`literal_text`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import UnavailableError
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_NAMES: Final = {"bool": "pred", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}
#: dtypes that XLA reads, and cannot compile.
_ABSENT: Final = frozenset(("int1", "uint1", "float6_e2m3fn", "float6_e3m2fn"))


def has_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether XLA has arrays of a dtype."""
    return dtype in dtypes.ALL and dtype.name not in _ABSENT


def dtype_text(dtype: np.dtype[Any]) -> str:
    """XLA's name of a dtype.

    >>> dtype_text(np.dtype("float32")), dtype_text(np.dtype("uint8"))
    ('f32', 'u8')
    """
    if not has_dtype(dtype):
        raise UnavailableError(
            "hlo: XLA has no arrays of this dtype",
            got=dtype.name,
            fix="convert with .astype(...) to a dtype of numbers",
        )
    name = dtype.name
    for kind, short in (("uint", "u"), ("int", "s"), ("float", "f")):
        if name.startswith(kind):
            return short + name.removeprefix(kind).replace("_", "")
    return _NAMES[name]


def type_text(type: ShapedArray | tuple[ShapedArray, ...]) -> str:
    """The type of an array, or of a tuple; layouts are row-major.

    >>> type_text((ShapedArray((2, 3), np.dtype("float32")), ShapedArray((), np.dtype("bool"))))
    '(f32[2,3]{1,0}, pred[])'
    """
    if isinstance(type, tuple):
        parts = [
            (f"/*index={n}*/" if n and n % 5 == 0 else "") + type_text(a)
            for n, a in enumerate(type)
        ]
        return f"({', '.join(parts)})"
    layout = ",".join(map(str, reversed(range(type.ndim))))
    sizes = ",".join(map(str, type.shape))
    return f"{dtype_text(type.dtype)}[{sizes}]" + (f"{{{layout}}}" if layout else "")


def literal_text(array: np.ndarray[Any, Any]) -> str:
    """An array of at least one element, row by row.

    >>> literal_text(np.float32(0.1)), literal_text(np.array([[1, 2], [3, 4]]))
    ('0.100000001', '{ { 1, 2 }, { 3, 4 } }')
    """
    if array.ndim and array.dtype == dtypes.bool_:
        array = array.astype(np.int8)  # as XLA writes them, but single ones
    number = _writer(array.dtype)
    if array.ndim == 0:
        return number(array[()])
    if array.ndim == 1:
        return f"{{{', '.join(map(number, array))}}}"
    return _rows(array, number)


def _rows(array: np.ndarray[Any, Any], number: Callable[[Any], str]) -> str:
    inside = map(number, array) if array.ndim == 1 else (_rows(row, number) for row in array)
    return f"{{ {', '.join(inside)} }}"


def _writer(dtype: np.dtype[Any]) -> Callable[[Any], str]:
    """What writes a number of a dtype."""
    if dtype == dtypes.bool_:
        return lambda x: "true" if x else "false"
    if dtypes.is_complex(dtype):
        part = _writer(dtypes.real_dtype(dtype))
        return lambda x: f"({part(x.real)}, {part(x.imag)})"
    if dtypes.is_integer(dtype):
        return lambda x: str(int(x))
    bits = dtypes.finfo(dtype).nmant
    # ml_dtypes rounds up what is hardly above the least power of 2 of a dtype without mantissa.
    digits = math.ceil(1 + (bits + 1) * math.log10(2)) if bits else 17
    return lambda x: _float_text(float(x), digits)


def _float_text(x: float, digits: int) -> str:
    if math.isnan(x):
        return "-nan" if math.copysign(1, x) < 0 else "nan"
    return f"{x:.{digits}g}"
