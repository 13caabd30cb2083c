"""What a user may ask of the precision of contractions, and what is refused.

Products are computed in the dtype of the operands and added up in no narrower one, so every
``precision`` gives the same numbers; what is none is refused, as a misspelt one would be elsewhere.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

from functrax.core import dtypes
from functrax.core.dtypes import DType
from functrax.core.errors import ArgumentError, DTypeError


class Precision(enum.Enum):
    """How exactly contractions of narrow floats are computed; all of them are exact here."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


PrecisionLike: TypeAlias = "str | Precision | tuple[Any, Any] | None"

_NAMES = frozenset(
    ["default", "high", "highest", "fastest", "bfloat16", "bfloat16_3x", "tensorfloat32", "float32"]
)


def check_precision(name: str, precision: PrecisionLike) -> None:
    """Refuse what is not a precision; the product is computed the same way for all of them."""
    for one in precision if isinstance(precision, tuple) else (precision,):
        known = one is None or isinstance(one, Precision)
        if not known and not (isinstance(one, str) and one.lower() in _NAMES):
            raise ArgumentError(
                f"{name}: unknown precision",
                got=repr(one),
                fix=f"None, a lax.Precision, or one of {', '.join(sorted(_NAMES))}",
            )


def check_preferred(name: str, preferred: DType, dtype: DType) -> None:
    """Refuse to add up integers or complex numbers in a type with fewer bits than they have.

    Args:
      name: of the operation.
      preferred: the dtype that is asked for.
      dtype: that of the products.
    """
    if dtypes.is_float(dtype) or _bits(preferred) >= _bits(dtype):
        return
    raise DTypeError(
        f"{name}: preferred_element_type is narrower than the operands",
        got=f"{preferred} for operands of {dtype}",
        fix="add up in a wider type, then .astype()",
    )


def _bits(dtype: DType) -> int:
    """Of a number, or of the real part of one."""
    if dtype == dtypes.bool_:
        return 1
    return dtype.itemsize * (4 if dtypes.is_complex(dtype) else 8)
