"""Comparisons, and logic of truth values and bits.

Start at :class:`Compare`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import (
    Elementwise,
)
from functrax.core.types import dtypes


class Compare(Elementwise):
    """A comparison; the result is bool.  With NaN all are false but ``ne``."""

    arity = 2

    def __init__(self, name: str, function: Any, accepts: frozenset[np.dtype[Any]]) -> None:
        self.name = name
        self.accepts = accepts
        self.function = function
        self.commutative = name in ("eq", "ne")
        super().__init__()

    def result_dtype(self, *args: Any) -> np.dtype[Any]:
        return dtypes.bool_

    def reference(self, x: Any, y: Any) -> Any:
        return self.function(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return b.compare(self.name, x, y)


class Logic(Elementwise):
    """``and``, ``or``, ``xor``, ``not``: of truth values, or of the bits of integers."""

    accepts = dtypes.BOOL | dtypes.INTEGER

    def __init__(self, name: str, function: Any, arity: int) -> None:
        self.name = name
        self.function = function
        self.arity = arity
        self.commutative = arity == 2
        super().__init__()

    def reference(self, *operands: Any) -> Any:
        return self.function(*operands)

    def lower(self, b: Builder, *operands: Scalar) -> Scalar:
        return b.logic(self.name, *operands)


eq, ne = Compare("eq", np.equal, dtypes.ALL), Compare("ne", np.not_equal, dtypes.ALL)
_ORDERED = dtypes.ALL - dtypes.COMPLEX
lt, le = Compare("lt", np.less, _ORDERED), Compare("le", np.less_equal, _ORDERED)
gt, ge = Compare("gt", np.greater, _ORDERED), Compare("ge", np.greater_equal, _ORDERED)
and_, or_ = Logic("and", np.bitwise_and, 2), Logic("or", np.bitwise_or, 2)
xor, not_ = Logic("xor", np.bitwise_xor, 2), Logic("not", np.bitwise_not, 1)
