"""Elementwise powers and roots.

Derivatives at the edges are JAX's: ``sqrt`` has the derivative infinity at 0; ``pow`` has the
derivative 0 by its exponent where the base is 0, and a finite one by its base wherever
``y * x ** (y - 1)`` is finite, also for negative bases.

Start at :class:`Pow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import lowered_arithmetic as lowered, special_values as values
from functrax.core.prims.arithmetic import div, is_literal, mul, select_n, sub
from functrax.core.prims.comparisons import eq
from functrax.core.prims.rounded_once import rounded_once
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Elementwise,
    Ops,
    Sample,
    Value,
    check_dtype,
    like,
    registry,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_SHAPES = ((3, 4), (), (0, 2))


class _Root(Elementwise):
    exact = False
    accepts = dtypes.INEXACT

    def samples(self) -> Iterable[Sample]:
        for shape in _SHAPES:
            yield Sample((shape,), ranges=((0.3, 4.0),))


class Sqrt(_Root):
    """Square root; NaN below 0, and an infinite derivative at 0."""

    name = "sqrt"
    exact = True
    function = staticmethod(rounded_once(np.sqrt))

    def reference(self, x: Any) -> Any:
        return self.function(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.sqrt(x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return div(like(out, 0.5), out)


class Rsqrt(_Root):
    """``1 / sqrt(x)``."""

    name = "rsqrt"
    is_function = True

    def reference(self, x: Any) -> Any:
        return values.rsqrt(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.math("rsqrt", x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(like(out, -0.5), div(out, operands[0]))


class Cbrt(_Root):
    """Real cube root, an odd function."""

    name = "cbrt"
    is_function = True
    accepts = dtypes.FLOATING

    def reference(self, x: Any) -> Any:
        return values.cbrt(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.math("cbrt", x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(like(out, 1 / 3), integer_pow(out, y=-2))


class Square(Elementwise):
    """``x * x``."""

    name = "square"
    accepts = dtypes.NUMERIC

    def reference(self, x: Any) -> Any:
        return np.square(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.mul(x, x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(like(out, 2), operands[0])


class IntegerPow(Elementwise):
    """``x ** y`` for a Python integer ``y``; ``x ** 0`` is 1 for every ``x``."""

    exact = False
    name = "integer_pow"
    accepts = dtypes.NUMERIC

    def shape_rule(self, x: ShapedArray, *, y: int) -> Avals:
        check_dtype("integer_pow", x, self.accepts)
        if y < 0 and dtypes.is_integer(x.dtype):
            raise ArgumentError(
                "integer_pow: integers have no negative powers",
                got=f"{x.str_short()} to the power {y}",
                fix="convert to a float dtype with .astype(...) first",
            )
        return x

    def reference(self, x: Any, *, y: int) -> Any:
        return values.integer_pow(x, y)

    def lower(self, b: Builder, x: Scalar, *, y: int) -> Scalar:
        return lowered.integer_pow(b, x, y)

    def simplify(self, x: Value, *, y: int) -> Value | None:
        return x if y == 1 else None

    def partial(self, i: int, operands: Ops, out: Value, *, y: int) -> Value | None:
        (x,) = operands
        if y == 0:
            return None
        if y == 1:
            return like(out, 1)
        return mul(like(out, y), integer_pow(x, y=y - 1))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"y": 3})
        yield Sample(((),), {"y": 2})
        yield Sample(((0, 2),), {"y": 1})
        yield Sample(((3,),), {"y": 0})

    def bad_samples(self) -> Iterable[BadSample]:
        yield BadSample((ShapedArray((3,), dtypes.int32),), ArgumentError, "negative", {"y": -1})
        yield BadSample((ShapedArray((3,), dtypes.bool_),), DTypeError, "integer_pow", {"y": 2})


class Pow(Elementwise):
    """``x ** y``; the exponent has the dtype of the base, or an integer dtype."""

    is_function = True
    exact = False
    name = "pow"
    arity = 2
    accepts = dtypes.INEXACT
    same_dtype = False
    function = staticmethod(rounded_once(np.power))

    def check_dtypes(self, avals: tuple[ShapedArray, ...]) -> None:
        x, y = avals
        check_dtype("pow", x, self.accepts)
        if y.dtype != x.dtype and not dtypes.is_integer(y.dtype):
            raise DTypeError(
                "pow takes an exponent of the base's dtype, or of an integer dtype",
                got=f"{x.str_short()}, {y.str_short()}",
                fix="convert with .astype(...), or use functrax.numpy.power, which promotes",
            )

    def reference(self, x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        return self.function(x, y.astype(x.dtype))

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return b.math("pow", x, b.convert(y, x.dtype))

    def simplify(self, x: Value, y: Value) -> Value | None:
        same = x.aval.dtype == y.aval.dtype and (not x.aval.weak_type or y.aval.weak_type)
        return x if same and is_literal(y, 1) else None

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x, y = operands
        if i == 1:
            base = select_n(eq(x, like(x, 0)), x, like(x, 1))
            return mul(registry["log"](base), out)
        if type(y) is Literal:
            return None if y.val == 0 else mul(_as_dtype_of(y, x), pow_(x, _less_one(y)))
        power = pow_(x, sub(y, like(y, 1)))
        if y.aval.dtype == x.aval.dtype:
            return mul(y, power)
        # An integer exponent may well be 0, where x ** -1 must not be looked at.
        product = mul(_as_dtype_of(y, x), power)
        return select_n(eq(y, like(y, 0)), product, like(x, 0))

    def samples(self) -> Iterable[Sample]:
        for shape in _SHAPES:
            yield Sample((shape, shape), ranges=((0.4, 2.0), (-2.0, 2.0)))
        yield Sample(((3, 4),) * 2, ranges=((0.4, 2.0), (-3, 4)), dtypes=(None, dtypes.int32))

    def bad_samples(self) -> Iterable[BadSample]:
        f32, f64 = ShapedArray((3,), dtypes.float32), ShapedArray((3,), dtypes.float64)
        i32 = ShapedArray((3,), dtypes.int32)
        yield BadSample((f32, f64), DTypeError, "exponent")
        yield BadSample((i32, i32), DTypeError, "pow")


def _less_one(y: Literal) -> Literal:
    return Literal(np.subtract(y.val, np.ones_like(y.val)), y.aval)


def _as_dtype_of(y: Value, x: Value) -> Value:
    if y.aval.dtype == x.aval.dtype:
        return y
    return registry["convert_element_type"](y, dtype=x.aval.dtype, weak_type=False)


sqrt, rsqrt, cbrt, square = Sqrt(), Rsqrt(), Cbrt(), Square()
integer_pow, pow_ = IntegerPow(), Pow()
