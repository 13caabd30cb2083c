"""Elementwise arithmetic and choice.

All that is linear (``add``, ``neg``, ``mul`` by a known factor, ``select_n``) is here, with its
transpose; comparisons are in ``comparisons.py``, functions such as ``exp`` in ``analytic.py``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import lowered_arithmetic as lowered, special_values as values
from functrax.core.prims.comparisons import and_, eq, ge, gt, lt
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Elementwise,
    Linear,
    Ops,
    Sample,
    Tangents,
    Value,
    check_dtype,
    elementwise_shape,
    like,
    registry,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


def is_literal(x: Value, value: float) -> bool:
    """Whether an operand is the scalar constant ``value`` (of any dtype; ``-0.0`` is not 0)."""
    if type(x) is not Literal or not bool(x.val == value):
        return False
    return value != 0 or not _has_sign(complex(x.val))


def _has_sign(zero: complex) -> bool:
    return math.copysign(1, zero.real) < 0 or math.copysign(1, zero.imag) < 0


def _is_nothing(x: Value) -> bool:
    """Whether ``x + y`` is ``y`` for every y: 0 of an integer, but -0.0 of a float."""
    if type(x) is not Literal or x.val != 0:
        return False
    return x.aval.dtype.kind in "iu" or (x.aval.dtype.kind != "c" and _has_sign(complex(x.val)))


def _same_type(x: Value, y: Value) -> bool:
    """Whether ``x`` has the type that an operation on ``x`` and the scalar ``y`` would give."""
    return x.aval.dtype == y.aval.dtype and (not x.aval.weak_type or y.aval.weak_type)


class Neg(Elementwise):
    """``-x``; integers wrap around."""

    name = "neg"
    rounds_nothing = True
    distributes = True
    keeps_zero = True
    by_parts = True
    accepts = dtypes.NUMERIC

    def reference(self, x: Any) -> Any:
        return np.negative(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.neg(x)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        return neg(primals[0]), None if tangents[0] is None else neg(tangents[0])

    def transpose(self, ct: Value, x: Any) -> list[Value | None]:
        return [neg(ct)]


class _Sum(Elementwise):
    """``x + y`` and ``x - y``, linear in both."""

    distributes = True
    arity = 2
    accepts = dtypes.NUMERIC

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        out = self.bind(*primals)
        dx, dy = tangents
        if dx is None and dy is None:
            return out, None
        if dy is None:
            return out, dx
        if dx is None:
            return out, self._right(dy)
        return out, self.bind(dx, dy)

    def transpose(self, ct: Value, x: Any, y: Any) -> list[Value | None]:
        return [
            ct if isinstance(x, Linear) else None,
            self._right(ct) if isinstance(y, Linear) else None,
        ]

    @abstractmethod
    def _right(self, value: Value) -> Value:
        """What becomes of the second operand."""


class Add(_Sum):
    """``x + y``; integers wrap around."""

    name = "add"
    commutative = True

    def simplify(self, x: Value, y: Value) -> Value | None:
        if _is_nothing(y) and _same_type(x, y):
            return x
        return y if _is_nothing(x) and _same_type(y, x) else None

    def reference(self, x: Any, y: Any) -> Any:
        return np.add(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return b.add(x, y)

    def _right(self, value: Value) -> Value:
        return value


class Sub(_Sum):
    """``x - y``; integers wrap around."""

    name = "sub"

    def simplify(self, x: Value, y: Value) -> Value | None:
        return x if is_literal(y, 0) and _same_type(x, y) else None

    def reference(self, x: Any, y: Any) -> Any:
        return np.subtract(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return b.sub(x, y)

    def _right(self, value: Value) -> Value:
        return neg(value)


class Mul(Elementwise):
    """``x * y``; of truth values their conjunction."""

    name = "mul"
    distributes = True
    keeps_zero = True
    arity = 2
    commutative = True
    accepts = dtypes.ALL

    def reference(self, x: Any, y: Any) -> Any:
        return np.multiply(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return b.logic("and", x, y) if x.dtype == dtypes.bool_ else b.mul(x, y)

    def simplify(self, x: Value, y: Value) -> Value | None:
        if is_literal(y, 1) and _same_type(x, y):
            return x
        if is_literal(x, 1) and _same_type(y, x):
            return y
        return None

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        x, y = primals
        out = mul(x, y)
        dx, dy = tangents
        left = None if dx is None else mul(dx, y)
        right = None if dy is None else mul(x, dy)
        if left is None or right is None:
            return out, right if left is None else left
        return out, add(left, right)

    def transpose(self, ct: Value, x: Any, y: Any) -> list[Value | None]:
        if isinstance(x, Linear):
            return [mul(ct, y), None]
        return [None, mul(x, ct)]


class Div(Elementwise):
    """``x / y``; for integers truncated toward zero."""

    name = "div"
    arity = 2
    accepts = dtypes.NUMERIC

    def reference(self, x: Any, y: Any) -> Any:
        if np.asarray(x).dtype.kind in "iu":
            return values.div(np.asarray(x), np.asarray(y))
        return np.divide(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return lowered.div(b, x, y)

    def simplify(self, x: Value, y: Value) -> Value | None:
        return x if is_literal(y, 1) and _same_type(x, y) else None

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        x, y = primals
        out = div(x, y)
        dx, dy = tangents
        if (dx is None and dy is None) or not dtypes.is_inexact(out.aval.dtype):
            return out, None
        if dy is None:
            return out, div(dx, y)
        # (dx - out dy) / y: one quotient, whose own derivative is again of this form, so that
        # nested derivatives stay small.
        change = mul(out, dy)
        return out, div(neg(change) if dx is None else sub(dx, change), y)

    def transpose(self, ct: Value, x: Any, y: Any) -> list[Value | None]:
        return [div(ct, y), None]

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4), (3, 4)), ranges=((-2.0, 2.0), (0.5, 3.0)))
        yield Sample(((), ()), ranges=((1.0, 9.0), (1.0, 3.0)))


class Rem(Elementwise):
    """Remainder with the sign of the dividend, as in C."""

    name = "rem"
    arity = 2
    accepts = dtypes.INTEGER | dtypes.FLOATING

    def reference(self, x: Any, y: Any) -> Any:
        return values.rem(np.asarray(x), np.asarray(y))

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return lowered.rem(b, x, y)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x, y = operands
        if i == 0:
            return like(x, 1)
        quotient = div(x, y)
        return neg(mul(sign(quotient), floor(abs_(quotient))))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4), (3, 4)), ranges=((-9.0, 9.0), (1.0, 3.0)))


class _Extremum(Elementwise):
    """max and min: NaN wins; at ties each operand gets half of the cotangent."""

    rounds_nothing = True
    arity = 2

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        mine, other = operands[i], operands[1 - i]
        one, half, zero = (like(out, v) for v in (1, 0.5, 0))
        return select_n(eq(mine, out), zero, select_n(eq(other, out), one, half))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4), (3, 4)), distinct=True)
        yield Sample(((), ()), distinct=True)
        yield Sample(((0, 2), (0, 2)))


class Max(_Extremum):
    """The larger one; complex numbers are compared by real part first."""

    name = "max"

    def reference(self, x: Any, y: Any) -> Any:
        return np.maximum(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return lowered.larger(b, x, y)


class Min(_Extremum):
    """The smaller one; complex numbers are compared by real part first."""

    name = "min"

    def reference(self, x: Any, y: Any) -> Any:
        return np.minimum(x, y)

    def lower(self, b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return lowered.smaller(b, x, y)


class SelectN(Elementwise):
    """``cases[which]``; ``which`` is bool, or int32 from 0 to the number of cases less one."""

    name = "select_n"
    rounds_nothing = True
    computes_nothing = True
    takes_stored = True
    arity = 3

    def moved_operands(self, params: dict[str, Any]) -> slice:
        return slice(1, None)

    def shape_rule(self, *avals: ShapedArray) -> Avals:
        which, *cases = avals
        if not cases:
            raise ShapeError("select_n takes at least one case", got="none", fix="add a case")
        check_dtype("select_n", which, frozenset({dtypes.bool_, dtypes.int32}))
        if which.dtype == dtypes.bool_ and len(cases) > 2:
            raise DTypeError(
                "select_n with more than two cases chooses by int32",
                got=f"{which.str_short()} and {len(cases)} cases",
                fix="which.astype('int32')",
            )
        if any(c.dtype != cases[0].dtype for c in cases):
            raise DTypeError(
                "select_n takes cases of one dtype",
                got=", ".join(c.str_short() for c in cases),
                fix="convert with .astype(...), or use functrax.numpy.where, which promotes",
            )
        shape = elementwise_shape("select_n", avals)
        return ShapedArray(shape, cases[0].dtype, all(c.weak_type for c in cases))

    def reference(self, which: Any, *cases: Any) -> Any:
        if len(cases) == 2:
            return np.where(which, cases[1], cases[0])
        out = np.broadcast_arrays(which, *cases)[1].copy()
        for i, case in enumerate(cases[1:], 1):
            out = np.where(np.equal(which, i), case, out)
        return out

    def lower(self, b: Builder, which: Scalar, *cases: Scalar) -> Scalar:
        return lowered.select_n(b, which, *cases)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        which = primals[0]
        out = select_n(*primals)
        if all(t is None for t in tangents[1:]):
            return out, None
        zero = like(out, 0)
        return out, select_n(which, *(zero if t is None else t for t in tangents[1:]))

    def transpose(self, ct: Value, which: Any, *cases: Any) -> list[Value | None]:
        zero = like(ct, 0)

        def chosen(i: int) -> Value:
            return select_n(which, *(ct if j == i else zero for j in range(len(cases))))

        linear = [isinstance(c, Linear) for c in cases]
        return [None] + [chosen(i) if yes else None for i, yes in enumerate(linear)]

    def samples(self) -> Iterable[Sample]:
        under_test = (dtypes.bool_, None, None)
        yield Sample(((3, 4),) * 3, ranges=((0, 2), (-2, 2), (-2, 2)), dtypes=under_test)
        yield Sample(((),) * 3, ranges=((0, 2), (-2, 2), (-2, 2)), dtypes=under_test)
        four = (dtypes.int32, None, None, None)
        yield Sample(((3, 4),) * 4, ranges=((0, 3), (-2, 2), (-2, 2), (-2, 2)), dtypes=four)

    def bad_samples(self) -> Iterable[BadSample]:
        f32, which = ShapedArray((3,), dtypes.float32), ShapedArray((3,), dtypes.bool_)
        yield BadSample((f32, f32, f32), DTypeError, "select_n")
        yield BadSample((which, f32, ShapedArray((3,), dtypes.int32)), DTypeError, "one dtype")
        yield BadSample((which, f32, ShapedArray((4,), dtypes.float32)), ShapeError, "select_n")


class Clamp(Elementwise):
    """``min(max(x, low), high)``."""

    name = "clamp"
    rounds_nothing = True
    arity = 3
    accepts = dtypes.BOOL | dtypes.INTEGER | dtypes.FLOATING

    def reference(self, low: Any, x: Any, high: Any) -> Any:
        return np.minimum(np.maximum(x, low), high)

    def lower(self, b: Builder, low: Scalar, x: Scalar, high: Scalar) -> Scalar:
        return lowered.clamp(b, low, x, high)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        low, x, high = operands
        one, zero = like(out, 1), like(out, 0)
        if i == 0:
            inside = and_(gt(low, x), lt(low, high))
        elif i == 1:
            inside = and_(gt(x, low), lt(x, high))
        else:
            inside = lt(high, max_(x, low))
        return select_n(inside, zero, one)

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),) * 3, ranges=((-1.0, -0.3), (-2.0, 2.0), (0.4, 1.0)))
        yield Sample(((),) * 3, ranges=((-1.0, -0.3), (-2.0, 2.0), (0.4, 1.0)))


class Abs(Elementwise):
    """Absolute value; of a complex number its modulus, a real number.

    The derivative at 0 is 1 for floats, 0 for complex numbers.
    """

    name = "abs"
    rounds_nothing = True
    accepts = dtypes.NUMERIC

    def result_dtype(self, *args: Any) -> np.dtype[Any]:
        return dtypes.real_dtype(args[0]) if dtypes.is_complex(args[0]) else args[0]

    def reference(self, x: Any) -> Any:
        return np.abs(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.abs(x)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = abs_(x)
        if t is None or not dtypes.is_inexact(x.aval.dtype):
            return out, None
        if not dtypes.is_complex(x.aval.dtype):
            return out, mul(t, select_n(ge(x, like(x, 0)), like(x, -1), like(x, 1)))
        return out, registry["real"](mul(t, registry["conj"](sign(x))))


class Sign(Elementwise):
    """-1, 0 or 1; NaN for NaN; ``x / |x|`` for complex numbers."""

    name = "sign"
    rounds_nothing = True
    accepts = dtypes.NUMERIC

    def reference(self, x: Any) -> Any:
        return values.sign(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return lowered.sign(b, x)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = sign(x)
        if t is None or not dtypes.is_complex(x.aval.dtype):
            return out, None
        # Only the angle changes: the tangent is the result, turned by a right angle.
        size = abs_(x)
        safe = select_n(eq(size, like(size, 0)), size, like(size, 1))
        turn = div(registry["imag"](mul(t, registry["conj"](out))), safe)
        return out, mul(registry["complex"](like(turn, 0), turn), out)


class Floor(Elementwise):
    """The largest integral value that is not larger."""

    name = "floor"
    rounds_nothing = True
    accepts = dtypes.FLOATING

    def reference(self, x: Any) -> Any:
        return np.floor(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.floor(x)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return None


class StopGradient(Elementwise):
    """The operand itself, of which no derivative is taken."""

    name = "stop_gradient"
    rounds_nothing = True
    computes_nothing = True
    is_marker = True
    takes_stored = True

    def reference(self, x: Any) -> Any:
        return x

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return x

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return None


neg, add, sub, mul, div, rem = Neg(), Add(), Sub(), Mul(), Div(), Rem()
max_, min_, clamp, abs_, sign, floor = Max(), Min(), Clamp(), Abs(), Sign(), Floor()
select_n, stop_gradient = SelectN(), StopGradient()


def modulo(x: Value, size: int) -> Value:
    """The remainder with the sign of the divisor, which is positive."""
    remainder = rem.bind(x, like(x, size))
    negative = lt.bind(remainder, like(x, 0))
    out: Value = select_n.bind(negative, remainder, add.bind(remainder, like(x, size)))
    return out
