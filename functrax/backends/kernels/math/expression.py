"""Scalar expressions written as formulas: ``x * y + 1`` for nodes of a Builder.

What enters is a Builder and a Scalar; what leaves, after arithmetic on :class:`Expr`, is the
Scalar of a formula.  Numbers in a formula take the dtype of what they meet.

A product and a sum here are two operations, each of which rounds.  With :func:`muladd` they are one
wherever the processor has it.  Formulas that rest on an exact product say so with :func:`fma`,
which costs several operations where the processor has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.kernels.math import double, single
from functrax.backends.targets import target
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

Operand: TypeAlias = "Expr | float"

_COEFFICIENTS: Final = {"float32": single.COEFFICIENTS, "float64": double.COEFFICIENTS}
_CONSTANTS: Final = {"float32": single.CONSTANTS, "float64": double.CONSTANTS}
_INTEGERS: Final = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}


class Expr:
    """A Scalar with arithmetic.

    Attributes:
      b: the Builder that makes the nodes.
      s: the node.
    """

    __slots__ = ("b", "s")

    def __init__(self, b: Builder, s: Scalar) -> None:
        self.b = b
        self.s = s

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the value."""
        return self.s.dtype

    @property
    def is_single(self) -> bool:
        """Whether it is a float32, not a float64."""
        return self.s.dtype == dtypes.float32

    def node(self, value: Operand) -> Scalar:
        """The node of an operand."""
        return value.s if isinstance(value, Expr) else self.b.like(self.s, value)

    def like(self, value: float) -> Expr:
        """A number of this dtype."""
        return Expr(self.b, self.b.like(self.s, value))

    def __add__(self, y: Operand) -> Expr:
        return Expr(self.b, self.b.add(self.s, self.node(y)))

    def __radd__(self, y: float) -> Expr:
        return Expr(self.b, self.b.add(self.node(y), self.s))

    def __sub__(self, y: Operand) -> Expr:
        return Expr(self.b, self.b.sub(self.s, self.node(y)))

    def __rsub__(self, y: float) -> Expr:
        return Expr(self.b, self.b.sub(self.node(y), self.s))

    def __mul__(self, y: Operand) -> Expr:
        return Expr(self.b, self.b.mul(self.s, self.node(y)))

    def __rmul__(self, y: float) -> Expr:
        return Expr(self.b, self.b.mul(self.node(y), self.s))

    def __truediv__(self, y: Operand) -> Expr:
        return Expr(self.b, self.b.div(self.s, self.node(y)))

    def __rtruediv__(self, y: float) -> Expr:
        return Expr(self.b, self.b.div(self.node(y), self.s))

    def __neg__(self) -> Expr:
        return Expr(self.b, self.b.neg(self.s))

    def __abs__(self) -> Expr:
        return Expr(self.b, self.b.abs(self.s))

    def _compare(self, kind: str, y: Operand) -> Expr:
        return Expr(self.b, self.b.compare(kind, self.s, self.node(y)))

    def __lt__(self, y: Operand) -> Expr:
        return self._compare("lt", y)

    def __le__(self, y: Operand) -> Expr:
        return self._compare("le", y)

    def __gt__(self, y: Operand) -> Expr:
        return self._compare("gt", y)

    def __ge__(self, y: Operand) -> Expr:
        return self._compare("ge", y)

    def equals(self, y: Operand) -> Expr:
        """Whether it is equal to ``y``."""
        return self._compare("eq", y)

    def differs(self, y: Operand) -> Expr:
        """Whether it is not equal to ``y``; NaN is not."""
        return self._compare("ne", y)

    def _logic(self, op: str, y: Operand) -> Expr:
        return Expr(self.b, self.b.logic(op, self.s, self.node(y)))

    def __and__(self, y: Operand) -> Expr:
        return self._logic("and", y)

    def __or__(self, y: Operand) -> Expr:
        return self._logic("or", y)

    def __xor__(self, y: Operand) -> Expr:
        return self._logic("xor", y)

    def __lshift__(self, y: Operand) -> Expr:
        return self._logic("shl", y)

    def __rshift__(self, y: Operand) -> Expr:
        return self._logic("shr", y)

    def to(self, dtype: np.dtype[Any]) -> Expr:
        """Converted."""
        return Expr(self.b, self.b.convert(self.s, dtype))

    def seen_as(self, dtype: np.dtype[Any]) -> Expr:
        """The same bits."""
        return Expr(self.b, self.b.bitcast(self.s, dtype))

    @property
    def bits(self) -> Expr:
        """The bits of a float as a signed integer of its size."""
        return self.seen_as(_INTEGERS[self.dtype])


def muladd(x: Expr, y: Operand, z: Operand) -> Expr:
    """``x * y + z``: rounded once where the processor does so, else the product and the sum."""
    if target().has_fma:
        return Expr(x.b, x.b.fma(x.s, x.node(y), x.node(z)))
    return x * y + z


def fma(x: Expr, y: Operand, z: Operand) -> Expr:
    """``x * y + z`` with the product exact, for formulas that ask what rounding took away.

    Rounded once where the processor does so.  Elsewhere it is exact if it is a number of the
    dtype, as remainders and rounding errors are; if not, its error is hardly above half a unit.
    """
    if target().has_fma:
        return Expr(x.b, x.b.fma(x.s, x.node(y), x.node(z)))
    y, z = (Expr(x.b, x.node(operand)) for operand in (y, z))
    if x.is_single:  # whose products are exact in float64
        wide = [operand.to(dtypes.float64) for operand in (x, y, z)]
        return (wide[0] * wide[1] + wide[2]).to(x.dtype)
    product = x * y
    total = z + product
    part = total - z
    lost = (z - (total - part)) + (product - part) + lost_of_product(x, y, product)
    return total + where(abs(lost) < math.inf, lost, 0.0)


def lost_of_product(x: Expr, y: Expr, product: Expr) -> Expr:
    """What a product of float64 lost in rounding (Dekker, Numerische Mathematik 18, 1971).

    Where that overflows it is infinite or NaN.
    """
    (x0, x1), (y0, y1) = _halves(x), _halves(y)
    return x0 * y0 - product + x0 * y1 + x1 * y0 + x1 * y1


def _halves(x: Expr) -> tuple[Expr, Expr]:
    """A float64 as the sum of two numbers of 26 bits."""
    high = ((x.bits + 2**26) & -(2**27)).seen_as(x.dtype)
    return high, x - high


def where(which: Expr, x: Expr, y: Operand) -> Expr:
    """``x`` where the bool is true, else ``y``."""
    return Expr(x.b, x.b.select(which.s, x.s, x.node(y)))


def unlikely(which: Expr, x: Expr, y: Expr) -> Expr:
    """The same, where ``which`` is hardly ever true: ``x`` may then be left out."""
    return Expr(x.b, x.b.node("unlikely", x.dtype, (which.s, x.s, y.s)))


def at_most(x: Expr, limit: float) -> Expr:
    """The smaller of ``x`` and a number; NaN stays (one instruction, unlike ``Builder.min``)."""
    bound = x.like(limit)
    return where(bound < x, bound, x)


def at_least(x: Expr, limit: float) -> Expr:
    """The larger of ``x`` and a number; NaN stays."""
    bound = x.like(limit)
    return where(bound > x, bound, x)


def times_power_of_two(x: Expr, n: Expr) -> Expr:
    """``x 2^n``, rounded once, also if it is subnormal; ``x`` is near 1, ``n`` of its size."""
    return Expr(x.b, x.b.node("ldexp", x.dtype, (x.s, n.s)))


def with_sign(x: Expr, sign: Expr) -> Expr:
    """``|x|`` with the sign of another."""
    return Expr(x.b, x.b.copysign(x.s, sign.s))


def root(x: Expr) -> Expr:
    """The square root."""
    return Expr(x.b, x.b.sqrt(x.s))


def constant(name: str, x: Expr) -> tuple[float, float]:
    """One of ``CONSTANTS``: a number of the dtype of ``x``, and the rest."""
    return _CONSTANTS[x.dtype.name][name]


def parts_of_counts(number: float, x: Expr) -> tuple[float, ...]:
    """A number of the dtype of ``x`` as a sum of parts that integers below 2^12 multiply exactly.

    It is one part where the processor rounds a product and a sum once.
    """
    if target().has_fma:
        return (number,)
    bits = 12 if x.is_single else 41
    fraction, exponent = math.frexp(number)
    high = math.ldexp(round(math.ldexp(fraction, bits)), exponent - bits)
    return high, number - high


def constant_of_counts(name: str, x: Expr) -> tuple[float, float]:
    """The same as :func:`constant`, for products with integers below 2^12.

    Where the processor rounds products, those with the first number are exact.
    """
    high, low = constant(name, x)
    first, *rest = parts_of_counts(high, x)
    return first, sum(rest) + low


def polynomial(x: Expr, numbers: Sequence[float]) -> Expr:
    """``numbers[0] + numbers[1] x + ...``; in two halves, so that half as much has to wait.

    Even and odd powers are summed by Horner's rule in ``x^2``: one product more than in ``x``.
    """
    if len(numbers) < 4:
        return _horner(x, numbers)
    square = x * x
    return muladd(_horner(square, numbers[1::2]), x, _horner(square, numbers[::2]))


def _horner(x: Expr, numbers: Sequence[float]) -> Expr:
    total = x.like(numbers[-1])
    for number in reversed(numbers[:-1]):
        total = muladd(total, x, number)
    return total


def expr_of(name: str, x: Expr) -> Expr:
    """A polynomial of ``COEFFICIENTS`` at ``x``."""
    return polynomial(x, _COEFFICIENTS[x.dtype.name][name])


def careful(name: str, x: Expr) -> Expr:
    """The same by Horner's rule: slower, but better where odd and even powers cancel."""
    return _horner(x, _COEFFICIENTS[x.dtype.name][name])


def without_first(name: str, x: Expr) -> Expr:
    """The same without its first coefficient, divided by ``x``."""
    return _horner(x, _COEFFICIENTS[x.dtype.name][name][1:])
