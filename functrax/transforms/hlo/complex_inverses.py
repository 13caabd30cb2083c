"""Inverses of trigonometric and hyperbolic functions, of complex numbers.

XLA has none of them, and the project's kernels have none either.  The formulas are Kahan's ("Branch
cuts for complex elementary functions", 1987): real functions of square roots, right on both sides
of every cut.

Start at :data:`INVERSES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from functrax.core.prims import analytic
from functrax.core.prims.analytic import asinh, atan2, log1p
from functrax.core.prims.arithmetic import add, mul, neg, sub
from functrax.core.prims.convert import complex_, conj, imag, real
from functrax.core.prims.powers import sqrt
from functrax.core.tracing.primitive import Primitive, Value, like


def _roots(z: Value) -> tuple[Value, Value]:
    """Of ``1 - z`` and of ``1 + z``."""
    one = like(z, 1)
    return sqrt(sub(one, z)), sqrt(add(one, z))


def _times_i(z: Value) -> Value:
    return complex_(neg(imag(z)), real(z))


def _over_i(z: Value) -> Value:
    return complex_(imag(z), neg(real(z)))


def _acos(z: Value) -> Value:
    below, above = _roots(z)
    half = atan2(real(below), real(above))
    return complex_(mul(like(half, 2), half), asinh(imag(mul(conj(above), below))))


def _asin(z: Value) -> Value:
    below, above = _roots(z)
    angle = atan2(real(z), real(mul(below, above)))
    return complex_(angle, asinh(imag(mul(conj(below), above))))


def _asinh(z: Value) -> Value:
    return _over_i(_asin(_times_i(z)))


def _acosh(z: Value) -> Value:
    one = like(z, 1)
    below, above = sqrt(sub(z, one)), sqrt(add(z, one))
    half = atan2(imag(below), real(above))
    return complex_(asinh(real(mul(conj(below), above))), mul(like(half, 2), half))


def _atanh(z: Value) -> Value:
    return mul(like(z, 0.5), sub(log1p(z), log1p(neg(z))))


def _atan(z: Value) -> Value:
    return _over_i(_atanh(_times_i(z)))


#: For a primitive's class the function of values.
INVERSES: Final[dict[type[Primitive], Callable[[Value], Value]]] = {
    analytic.Acos: _acos,
    analytic.Acosh: _acosh,
    analytic.Asin: _asin,
    analytic.Asinh: _asinh,
    analytic.Atan: _atan,
    analytic.Atanh: _atanh,
}
