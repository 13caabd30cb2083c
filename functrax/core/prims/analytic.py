"""Elementwise analytic functions: exponentials, logarithms, trigonometric and hyperbolic ones.

Each is one class: a NumPy reference, a derivative in terms of operand and result (so that every
order of derivative is made of elementwise operations), and the domain that the tests draw from.
They take floats and complex numbers.

Start at :class:`Unary`.  Powers and roots are in ``powers.py``, erf and the gamma functions in
``special.py``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from functrax.core.prims import special_values as values
from functrax.core.prims.arithmetic import add, div, mul, neg, sub
from functrax.core.prims.powers import rsqrt, square
from functrax.core.prims.rounded_once import rounded_once
from functrax.core.scalars.scalar import COMPLEX_MATH, Builder, Scalar
from functrax.core.tracing.primitive import Elementwise, Ops, Sample, Tangents, Value, like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


class Unary(Elementwise):
    """A function of one operand with a derivative in terms of operand and result."""

    is_function = True
    exact = False
    accepts = dtypes.INEXACT
    #: Computes the values; called with one array.
    function: ClassVar[Callable[..., Any]]
    #: Where the generated tests draw operands from.
    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)

    def reference(self, x: Any) -> Any:
        return type(self).function(x)

    def lower(self, b: Builder, x: Scalar) -> Scalar:
        return b.math(self.name, x)

    def lowers(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        real = not dtypes.is_complex(avals[0].dtype)
        return (real or self.name in COMPLEX_MATH) and super().lowers(avals, params)

    def samples(self) -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((shape,), ranges=(self.domain,))


class Quotient(Unary):
    """A function whose derivative is the reciprocal of something simple."""

    @abstractmethod
    def divisor(self, x: Value) -> Value:
        """The reciprocal of the derivative at ``x``."""

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        return self.bind(x), None if t is None else div(t, self.divisor(x))


class Exp(Unary):
    """e to the power of x."""

    name = "exp"
    function = rounded_once(np.exp)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return out


def _exp2(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.exp2(x)
    scaled = np.empty_like(x)
    scaled.real, scaled.imag = (part * part.dtype.type(math.log(2)) for part in (x.real, x.imag))
    return np.exp(scaled)


class Exp2(Unary):
    """2 to the power of x."""

    name = "exp2"
    function = rounded_once(_exp2)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(out, like(out, math.log(2)))


class Expm1(Unary):
    """``exp(x) - 1``, accurate near 0."""

    name = "expm1"
    function = values.expm1

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return add(out, like(out, 1))


class Log(Quotient):
    """Natural logarithm; -infinity at 0, and NaN below for floats."""

    name = "log"
    function = rounded_once(np.log)
    domain = (0.2, 4.0)

    def divisor(self, x: Value) -> Value:
        return x


class Log1p(Quotient):
    """``log(1 + x)``, accurate near 0."""

    name = "log1p"
    function = values.log1p
    domain = (-0.6, 3.0)

    def divisor(self, x: Value) -> Value:
        return add(x, like(x, 1))


class Logistic(Unary):
    """``1 / (1 + exp(-x))``."""

    name = "logistic"
    function = values.logistic

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(out, sub(like(out, 1), out))


class Sin(Unary):
    """Sine of radians."""

    name = "sin"
    function = rounded_once(np.sin)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return cos(operands[0])


class Cos(Unary):
    """Cosine of radians."""

    name = "cos"
    function = rounded_once(np.cos)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return neg(sin(operands[0]))


class Tan(Unary):
    """Tangent of radians."""

    name = "tan"
    function = rounded_once(np.tan)
    domain = (-1.1, 1.1)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return add(like(out, 1), square(out))


class Asin(Unary):
    """Inverse sine."""

    name = "asin"
    function = rounded_once(np.arcsin)
    domain = (-0.7, 0.7)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x = operands[0]
        return rsqrt(sub(like(x, 1), square(x)))


class Acos(Unary):
    """Inverse cosine."""

    name = "acos"
    function = rounded_once(np.arccos)
    domain = (-0.7, 0.7)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x = operands[0]
        return neg(rsqrt(sub(like(x, 1), square(x))))


class Atan(Quotient):
    """Inverse tangent."""

    name = "atan"
    function = rounded_once(np.arctan)

    def divisor(self, x: Value) -> Value:
        return add(like(x, 1), square(x))


class Sinh(Unary):
    """Hyperbolic sine."""

    name = "sinh"
    function = rounded_once(np.sinh)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return cosh(operands[0])


class Cosh(Unary):
    """Hyperbolic cosine."""

    name = "cosh"
    function = rounded_once(np.cosh)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return sinh(operands[0])


class Tanh(Unary):
    """Hyperbolic tangent."""

    name = "tanh"
    function = rounded_once(np.tanh)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return sub(like(out, 1), mul(out, out))


class Asinh(Unary):
    """Inverse hyperbolic sine."""

    name = "asinh"
    function = rounded_once(np.arcsinh)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x = operands[0]
        return rsqrt(add(square(x), like(x, 1)))


class Acosh(Unary):
    """Inverse hyperbolic cosine."""

    name = "acosh"
    function = rounded_once(np.arccosh)
    domain = (1.3, 4.0)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x = operands[0]
        return rsqrt(sub(square(x), like(x, 1)))


class Atanh(Quotient):
    """Inverse hyperbolic tangent."""

    name = "atanh"
    function = rounded_once(np.arctanh)
    domain = (-0.7, 0.7)

    def divisor(self, x: Value) -> Value:
        one = like(x, 1)
        return mul(add(one, x), sub(one, x))


def _atan2(y: Any, x: Any) -> Any:
    if y.dtype.kind != "c":
        return np.arctan2(y, x)
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


class Atan2(Elementwise):
    """The angle of the point ``(x, y)``, given as ``atan2(y, x)``."""

    is_function = True
    exact = False
    name = "atan2"
    arity = 2
    accepts = dtypes.INEXACT
    function = staticmethod(rounded_once(_atan2))

    def reference(self, y: Any, x: Any) -> Any:
        out = self.function(y, x)
        return out.astype(np.asarray(y).dtype)

    def lower(self, b: Builder, y: Scalar, x: Scalar) -> Scalar:
        return b.math("atan2", y, x)

    def lowers(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        return not dtypes.is_complex(avals[0].dtype) and super().lowers(avals, params)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        y, x = operands
        size = add(square(y), square(x))
        return div(x, size) if i == 0 else div(neg(y), size)

    def samples(self) -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((shape, shape), ranges=((0.3, 2.0), (-2.0, 2.0)))


exp, exp2, expm1, log, log1p = Exp(), Exp2(), Expm1(), Log(), Log1p()
logistic = Logistic()
sin, cos, tan, asin, acos, atan = Sin(), Cos(), Tan(), Asin(), Acos(), Atan()
sinh, cosh, tanh, asinh, acosh, atanh = Sinh(), Cosh(), Tanh(), Asinh(), Acosh(), Atanh()
atan2 = Atan2()
