"""What index operands and operations of scatters may be.

Start at :func:`check_op`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_BITS = frozenset({"and", "or", "xor"})


def check_index_operands(name: str, avals: Sequence[ShapedArray]) -> None:
    """Check that index operands are integers.

    Raises:
      DTypeError: one is not.
    """
    for aval in avals:
        if not dtypes.is_integer(aval.dtype):
            raise DTypeError(
                f"{name}: an index operand is not of an integer type",
                got=aval.str_short(),
                fix="indices.astype('int32')",
            )


def check_op(name: str, op: str, allowed: Sequence[str], dtype: np.dtype[Any]) -> None:
    """Check that elements of a dtype can be put together by an operation.

    Raises:
      ArgumentError: there is no such operation.
      DTypeError: it is none of that dtype.
    """
    if op not in allowed:
        raise ArgumentError(f"{name}: unknown operation {op!r}", got=repr(op), fix=str(allowed))
    if op in _BITS and dtypes.is_inexact(dtype):
        raise DTypeError(
            f"{name}: {op!r} needs integers or truth values",
            got=str(dtype),
            fix="convert with .astype('int32') or .astype('bool')",
        )
    if op in ("max", "min") and dtypes.is_complex(dtype):
        raise DTypeError(
            f"{name}: complex numbers have no {op}",
            got=str(dtype),
            fix="the real part or the absolute value",
        )
