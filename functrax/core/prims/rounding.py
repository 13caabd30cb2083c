"""Elementwise rounding and the neighbours of floats.

Rounding is constant between jumps, so its derivative is zero; ``reduce_precision`` counts as the
identity, and rounds tangents as it rounds values.

Start at :class:`Round`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.prims import (
    bits,
    lowered_arithmetic,
    lowered_bits,
    special_values as values,
)
from functrax.core.prims.rounded_once import rounded_once
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Elementwise,
    Ops,
    Sample,
    Tangents,
    Value,
    check_dtype,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


class RoundingMethod(enum.IntEnum):
    """Where :data:`round_` takes values halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class Ceil(Elementwise):
    """The smallest integral value that is not smaller."""

    name = "ceil"
    rounds_nothing = True
    accepts = dtypes.FLOATING
    function = staticmethod(rounded_once(np.ceil))

    def reference(self, x: Any) -> Any:
        return self.function(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.ceil(x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return None


class Round(Elementwise):
    """The nearest integral value."""

    name = "round"
    rounds_nothing = True
    accepts = dtypes.FLOATING

    def shape_rule(self, x: ShapedArray, *, rounding_method: int) -> Avals:
        check_dtype("round", x, self.accepts)
        if rounding_method not in (0, 1):
            raise ArgumentError(
                "round: no such rounding method",
                got=repr(rounding_method),
                fix="functrax.lax.RoundingMethod.AWAY_FROM_ZERO or .TO_NEAREST_EVEN",
            )
        return x

    def reference(self, x: Any, *, rounding_method: int) -> Any:
        away = rounding_method == RoundingMethod.AWAY_FROM_ZERO
        return values.round_half_away(x) if away else values.round_half_even(x)

    def lower(self, b: Builder, x: Scalar, *, rounding_method: int) -> Scalar:
        away = rounding_method == RoundingMethod.AWAY_FROM_ZERO
        return lowered_arithmetic.round_half_away(b, x) if away else b.round_even(x)

    def partial(self, i: int, operands: Ops, out: Value, *, rounding_method: int) -> Value | None:
        return None

    def samples(self) -> Iterable[Sample]:
        for method in RoundingMethod:
            yield Sample(((3, 4),), {"rounding_method": method}, ranges=((-9.0, 9.0),))
            yield Sample(((0, 2),), {"rounding_method": method})

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3,), dtypes.float32)
        yield BadSample((x,), ArgumentError, "method", {"rounding_method": 2})
        ints = ShapedArray((3,), dtypes.int32)
        yield BadSample((ints,), DTypeError, "round", {"rounding_method": 0})


class IsFinite(Elementwise):
    """Neither infinite nor NaN."""

    name = "is_finite"
    accepts = dtypes.FLOATING

    def result_dtype(self, *args: Any) -> np.dtype[Any]:
        return dtypes.bool_

    def reference(self, x: Any) -> Any:
        return np.isfinite(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return lowered_arithmetic.is_finite(b, x)


class Nextafter(Elementwise):
    """The float next to the first operand, toward the second; it has no derivative."""

    name = "nextafter"
    reads_bits = True
    arity = 2
    accepts = dtypes.FLOATING

    def reference(self, x: Any, y: Any) -> Any:
        return bits.nextafter(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return lowered_bits.nextafter(b, x, y)


class ReducePrecision(Elementwise):
    """The nearest value with so many exponent and mantissa bits, in the same dtype."""

    name = "reduce_precision"
    accepts = dtypes.FLOATING

    def shape_rule(self, x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> Avals:
        check_dtype("reduce_precision", x, self.accepts)
        if exponent_bits < 1 or mantissa_bits < 0:
            raise ArgumentError(
                "reduce_precision: too few bits",
                got=f"exponent_bits={exponent_bits}, mantissa_bits={mantissa_bits}",
                fix="exponent_bits of at least 1, mantissa_bits of at least 0",
            )
        return x

    def reference(self, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
        return bits.reduce_precision(x, exponent_bits, mantissa_bits)

    def lower(self, b: Builder, x: Scalar, *, exponent_bits: int, mantissa_bits: int) -> Scalar:
        return lowered_bits.reduce_precision(b, x, exponent_bits, mantissa_bits)

    def simplify(self, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value | None:
        limits = dtypes.finfo(x.aval.dtype)
        return x if exponent_bits >= limits.nexp and mantissa_bits >= limits.nmant else None

    def jvp(
        self, primals: Ops, tangents: Tangents, *, exponent_bits: int, mantissa_bits: int
    ) -> tuple[Any, Any]:
        params = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
        t = tangents[0]
        return self.bind(primals[0], **params), None if t is None else self.bind(t, **params)

    def transpose(
        self, ct: Value, x: Any, *, exponent_bits: int, mantissa_bits: int
    ) -> list[Value | None]:
        return [self.bind(ct, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)]

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"exponent_bits": 5, "mantissa_bits": 3})
        yield Sample(((),), {"exponent_bits": 11, "mantissa_bits": 52})

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3,), dtypes.float32)
        few = {"exponent_bits": 0, "mantissa_bits": 3}
        yield BadSample((x,), ArgumentError, "bits", few)


ceil, round_, is_finite = Ceil(), Round(), IsFinite()
nextafter, reduce_precision = Nextafter(), ReducePrecision()
