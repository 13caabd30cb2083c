"""How a reference value is computed: in double precision, piece by piece, rounded once.

Arrays of any float dtype enter; :func:`in_double` turns them into ``float64``, calls the formula
with NumPy's floating point warnings silenced (a pole is a value here, not an accident), and rounds
the result once to the dtype of the operands.  Formulas that differ by region are put together by
:func:`piecewise`, which evaluates each one only where it is valid.

Start reading at :func:`in_double`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from functrax.core.errors.typed import DTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Double: TypeAlias = "NDArray[np.float64]"
Mask: TypeAlias = "NDArray[np.bool_]"
Piece = tuple[Mask, Callable[..., Double]]

BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
_FLOATS: tuple[np.dtype[Any], ...] = (
    np.dtype(np.float16),
    BFLOAT16,
    np.dtype(np.float32),
    np.dtype(np.float64),
)


def is_float(dtype: np.dtype[Any]) -> bool:
    """True for the four real float dtypes: f16, bf16, f32, f64."""
    return dtype in _FLOATS


def is_complex(dtype: np.dtype[Any]) -> bool:
    """True for complex64 and complex128."""
    return dtype.kind == "c"


def round_to(x: Double, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rounds doubles to ``dtype`` once, to nearest even.

    ``astype`` goes from double to bfloat16 by way of single precision, which rounds twice; here
    the middle step rounds to odd, so that the last one sees on which side of a tie the double was
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57, 2008).

    >>> round_to(np.float64([1 + 2**-8 + 2**-40]), BFLOAT16).astype(np.float64).tolist()
    [1.0078125]
    """
    with np.errstate(all="ignore"):
        if dtype != BFLOAT16:
            return np.asarray(x.astype(dtype))
        single = np.asarray(x, np.float32)
    inexact = (single != x) & ~np.isnan(x)
    too_far = np.abs(single) > np.abs(x)
    bits = single.view(np.uint32)
    odd = (bits - too_far.astype(np.uint32)) | np.uint32(1)
    return np.asarray(np.where(inexact, odd, bits).view(np.float32).astype(dtype))


def in_double(formula: Callable[..., Double]) -> Callable[..., NDArray[Any]]:
    """Makes a formula over doubles a reference over f16, bf16, f32 and f64 arrays of any shape.

    The operands must share one float dtype, which is the result's; their shapes broadcast.
    Raises :class:`~functrax.core.errors.typed.DTypeError` otherwise.
    """
    name = formula.__name__.strip("_")

    @wraps(formula)
    def reference(*operands: NDArray[Any]) -> NDArray[Any]:
        arrays = [np.asarray(operand) for operand in operands]
        dtype = arrays[0].dtype
        if not is_float(dtype) or any(array.dtype != dtype for array in arrays):
            raise DTypeError(
                f"{name}: operands must share one real float dtype",
                got=", ".join(str(array.dtype) for array in arrays),
                fix="convert the operands with astype first",
            )
        with np.errstate(all="ignore"):
            doubles = np.broadcast_arrays(*(array.astype(np.float64) for array in arrays))
            return round_to(np.asarray(formula(*doubles)), dtype)

    return reference


def piecewise(operands: Sequence[Double], pieces: Sequence[Piece], otherwise: float) -> Double:
    """Evaluates formulas by region.

    Args:
      operands: arrays of one shape.
      pieces: pairs of a mask and a formula; where several masks hold, the first one counts.
      otherwise: the value where none holds.

    Returns:
      An array of the operands' shape.  Each formula is called at most once, with the operands'
      elements of its region as vectors, and not at all for an empty region.
    """
    out = np.full(operands[0].shape, otherwise, np.float64)
    free = np.ones(operands[0].shape, np.bool_)
    for mask, formula in pieces:
        here = mask & free
        free &= ~here
        if here.any():
            out[here] = formula(*(operand[here] for operand in operands))
    return out


def polynomial(x: Double, coefficients: Sequence[float]) -> Double:
    """Horner's scheme; the coefficient of the lowest power comes first."""
    total = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total
