"""What a user may ask of the precision of contractions, and what is refused.

Products are computed in the dtype of the operands and added up in no narrower one, so every
``precision`` gives the same numbers; what is none is refused, as a misspelt one would be elsewhere.
Programs keep what was asked for, for other compilers (:func:`with_precision`).
The same holds for algorithms of products: one that is to add up in a wider dtype than the operands
have is refused, and any other one is no more exact than what is done.

Elementwise functions have one accuracy, a published one (``docs/math.md``): what asks for a better
one is refused.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.options.config import state as options
from functrax.core.prims.identity import operand_precision
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import is_staged
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType


class Precision(enum.Enum):
    """How exactly contractions of narrow floats are computed; all of them are exact here."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __str__(self) -> str:
        return self.name


class DotAlgorithm(NamedTuple):
    """How products are to be computed: rounded to which dtypes, and added up in which.

    Args:
      lhs_precision_type: the dtype that the left operand may be rounded to.
      rhs_precision_type: that of the right one.
      accumulation_type: the dtype to add up in.
      lhs_component_count: of how many parts the left operand may be the sum.
      rhs_component_count: likewise.
      num_primitive_operations: how many products of parts there are.
      allow_imprecise_accumulation: whether some steps may add up less exactly.
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms by name: the dtypes of both operands, that of the sum, the number of products."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __str__(self) -> str:
        return self.name

    @property
    def accumulation_type(self) -> DType | None:
        """The dtype to add up in; None where the operands and the result decide."""
        parts = self.name.removesuffix("_FAST_ACCUM").split("_")
        sums = parts[-2] if parts[-1].startswith("X") else parts[-1]
        return _DTYPES.get(sums)


class AccuracyMode(enum.Enum):
    """How accurate an elementwise function is to be; there is one accuracy for both."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """How far the value of an elementwise function may be from the exact one.

    Args:
      atol: absolute.
      rtol: relative.
      ulps: in units in the last place.

    Raises:
      ArgumentError: if one is negative, or none is given.
    """

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        given = f"atol={atol}, rtol={rtol}, ulps={ulps}"
        if atol < 0 or rtol < 0 or ulps < 0:
            raise ArgumentError(
                "Tolerances must be non-negative", got=given, fix="lax.Tolerance(ulps=4)"
            )
        if not (atol or rtol or ulps):
            raise ArgumentError(
                "At least one of atol, rtol, or ulps must be set",
                got=given,
                fix="lax.Tolerance(ulps=4)",
            )
        self.atol, self.rtol, self.ulps = atol, rtol, ulps

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


PrecisionLike: TypeAlias = (
    "str | Precision | tuple[Any, Any] | DotAlgorithm | DotAlgorithmPreset | None"
)

_DTYPES = {
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
}

#: The largest error of an elementwise function, in units in the last place.
_ULPS = 2

_NAMES = frozenset(
    ["default", "high", "highest", "fastest", "bfloat16", "bfloat16_3x", "tensorfloat32", "float32"]
)
#: What names mean that are not XLA's words.
_WORDS = {
    "high": "high", "bfloat16_3x": "high", "tensorfloat32": "high",
    "highest": "highest", "float32": "highest",
}  # fmt: skip


def check_precision(name: str, precision: PrecisionLike, *operands: DType) -> None:
    """Refuse what is not a precision; the product is computed the same way for all of them.

    Args:
      name: of the operation.
      precision: a precision or an algorithm, or a pair of precisions.
      operands: the dtypes of the operands, which tell whether an algorithm is more exact than what
        is done.
    """
    if precision is None:
        return
    pair = isinstance(precision, tuple) and not isinstance(precision, DotAlgorithm)
    for one in precision if pair else (precision,):  # type: ignore[union-attr]
        if one is None or isinstance(one, Precision):
            continue
        if isinstance(one, str) and one.lower() in _NAMES:
            continue
        algorithm = DotAlgorithmPreset.__members__.get(one) if isinstance(one, str) else one
        if not isinstance(algorithm, (DotAlgorithm, DotAlgorithmPreset)):
            raise ArgumentError(
                f"{name}: unknown precision",
                got=repr(one),
                fix="None, a lax.Precision, a lax.DotAlgorithmPreset, or one of "
                f"{', '.join(sorted(_NAMES))}",
            )
        _check_accumulation(name, algorithm, operands)


def asks_for_precision(precision: PrecisionLike) -> bool:
    """Whether a call, or the option ``default_matmul_precision``, names a precision."""
    return precision is not None or options.default_matmul_precision is not None


def with_precision(precision: PrecisionLike, *operands: Value) -> list[Value]:
    """Operands of a contraction that say how exactly they are multiplied.

    They do so in programs that are being traced, for other compilers; and where it is not the
    default.

    Args:
      precision: what :func:`check_precision` allows; None is ``default_matmul_precision``.
      operands: two, or more of which the first one is on the left.
    """
    asked = options.default_matmul_precision if precision is None else precision
    left, right = map(_word, asked if type(asked) is tuple else (asked, asked))
    if left == right == "default" or not is_staged():
        return list(operands)
    first, *others = operands
    marked = [operand_precision.bind(first, precision=left)]
    return [*marked, *(operand_precision.bind(x, precision=right) for x in others)]


def _word(precision: Any) -> str:
    """XLA's word for a precision; an algorithm has none."""
    name = precision.name if isinstance(precision, Precision) else precision
    return _WORDS.get(name.lower(), "default") if isinstance(name, str) else "default"


def _check_accumulation(
    name: str, algorithm: DotAlgorithm | DotAlgorithmPreset, operands: tuple[DType, ...]
) -> None:
    given = algorithm.accumulation_type
    wanted = None if given is None else np.dtype(given)
    widest = max((_bits(d) for d in operands), default=64)
    if wanted is not None and _bits(wanted) > max(widest, 32):
        raise ArgumentError(
            f"{name}: the algorithm adds up in a wider dtype than the operands have",
            got=f"{algorithm} for {', '.join(map(str, operands))}",
            fix=f"operands.astype('{wanted}'), or preferred_element_type='{wanted}' without it",
        )


def check_accuracy(name: str, accuracy: object, dtype: DType) -> None:
    """Refuse what is no accuracy, and a better one than a function has.

    Args:
      name: of the function.
      accuracy: an :class:`AccuracyMode` or a :class:`Tolerance`.
      dtype: of the operand.
    """
    if isinstance(accuracy, AccuracyMode):
        return
    if not isinstance(accuracy, Tolerance):
        raise ArgumentError(
            f"{name}: accuracy is neither a mode nor a tolerance",
            got=repr(accuracy),
            fix="None, a lax.AccuracyMode, or a lax.Tolerance",
        )
    relative = _ULPS * float(dtypes.finfo(dtype).eps) if dtypes.is_inexact(dtype) else 0.0
    if accuracy.ulps < _ULPS and accuracy.rtol < relative:
        raise ArgumentError(
            f"{name}: results are within {_ULPS} units in the last place, not closer",
            got=repr(accuracy),
            fix=f"lax.Tolerance(ulps={_ULPS}), or accuracy=None",
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
