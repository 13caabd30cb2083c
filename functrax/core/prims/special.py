"""Elementwise special functions: error functions, gamma and beta functions, Bessel functions.

Derivatives are made of elementwise functions and may be taken again, except where no function of
the language is the derivative: by the parameters of the incomplete beta function, by the order of
``polygamma`` and of ``zeta``, and of ``igamma_grad_a`` and ``random_gamma_grad``, which are
derivatives themselves.  There a ``DifferentiationError`` says so.

Formulas: NIST Digital Library of Mathematical Functions, chapters 5, 7, 8, 10 and 25.  The values
are computed in ``special_values.py``.

Start at :class:`Special`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, ClassVar

from functrax.core.errors.typed import DifferentiationError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims import special_values as values
from functrax.core.prims.analytic import exp, log, log1p
from functrax.core.prims.arithmetic import abs_, add, div, mul, neg, select_n, sign, sub
from functrax.core.prims.comparisons import gt
from functrax.core.prims.powers import square
from functrax.core.scalars.scalar import MATH, Builder, Scalar
from functrax.core.tracing.primitive import Elementwise, Ops, Sample, Value, like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


class Special(Elementwise):
    """A function of floats with values in double precision, rounded once."""

    is_function = True
    exact = False
    accepts = dtypes.FLOATING
    #: Computes the values; called with one array for each operand.
    function: ClassVar[Callable[..., Any]]
    #: For each operand where the generated tests draw it from.
    domain: ClassVar[tuple[tuple[float, float], ...]]

    def reference(self, *operands: Any) -> Any:
        return type(self).function(*operands)

    def lower(self, b: Builder, *operands: Scalar) -> Scalar:
        return b.math(self.name, *operands)

    def lowers(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        return self.name in MATH and super().lowers(avals, params)

    def samples(self) -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((shape,) * self.arity, ranges=self.domain)


class Written(Special):
    """A function that kernels compute by a program of loops."""

    is_function = False
    is_written = True

    def written(self, avals: tuple[ShapedArray, ...]) -> Jaxpr | None:
        program: Jaxpr = import_module("functrax.lax.programs").written(self.name, avals)
        return program


def _no_derivative(name: str, operand: str, fix: str = "") -> DifferentiationError:
    return DifferentiationError(
        f"{name} has no derivative by its operand {operand}",
        got=f"a derivative of {name} by {operand}",
        fix=fix or f"functrax.lax.stop_gradient({operand}) if it is to count as a constant",
    )


class Erf(Special):
    """Error function."""

    name = "erf"
    function = values.erf
    domain = ((-2.0, 2.0),)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(like(out, 2 / math.sqrt(math.pi)), exp(neg(square(operands[0]))))


class Erfc(Special):
    """``1 - erf(x)``, accurate for large x."""

    name = "erfc"
    function = values.erfc
    domain = ((-2.0, 2.0),)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(like(out, -2 / math.sqrt(math.pi)), exp(neg(square(operands[0]))))


class ErfInv(Special):
    """Inverse of the error function."""

    name = "erf_inv"
    function = values.erf_inv
    domain = ((-0.8, 0.8),)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return mul(like(out, math.sqrt(math.pi) / 2), exp(square(out)))


class Lgamma(Special):
    """``log |gamma(x)|``."""

    name = "lgamma"
    function = values.lgamma
    domain = ((0.4, 4.0),)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        return digamma(operands[0])


class Digamma(Special):
    """Derivative of ``lgamma``."""

    name = "digamma"
    function = values.digamma
    domain = ((0.5, 4.0),)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x = operands[0]
        return polygamma(like(x, 1), x)


class Polygamma(Written):
    """Derivative number ``m`` of digamma at ``x``."""

    name = "polygamma"
    arity = 2
    function = values.polygamma
    domain = ((2.0, 2.0), (0.8, 3.0))

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        m, x = operands
        if i == 0:
            raise _no_derivative("polygamma", "m")
        return polygamma(add(m, like(m, 1)), x)


class Zeta(Written):
    """Hurwitz zeta function: the sum of ``(q + k) ** -s`` over k from 0."""

    name = "zeta"
    arity = 2
    function = values.zeta
    domain = ((2.0, 4.0), (0.8, 3.0))

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        s, q = operands
        if i == 0:
            raise _no_derivative("zeta", "s")
        return mul(neg(s), zeta(add(s, like(s, 1)), q))


def _gamma_density(a: Value, x: Value) -> Value:
    """``exp(-x) x^(a - 1) / gamma(a)``, by logarithms."""
    power = mul(sub(a, like(a, 1)), log(x))
    return exp(sub(sub(power, x), lgamma(a)))


class Igamma(Written):
    """Regularized lower incomplete gamma function ``P(a, x)``."""

    name = "igamma"
    arity = 2
    function = values.igamma
    domain = ((0.6, 3.0), (0.4, 4.0))

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        a, x = operands
        return igamma_grad_a(a, x) if i == 0 else _gamma_density(a, x)


class Igammac(Written):
    """Regularized upper incomplete gamma function ``Q(a, x)``."""

    name = "igammac"
    arity = 2
    function = values.igammac
    domain = ((0.6, 3.0), (0.4, 4.0))

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        a, x = operands
        return neg(igamma_grad_a(a, x) if i == 0 else _gamma_density(a, x))


class IgammaGradA(Written):
    """Derivative of ``igamma`` by ``a``."""

    name = "igamma_grad_a"
    arity = 2
    function = values.igamma_grad_a
    domain = ((0.6, 3.0), (0.4, 4.0))

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        raise _no_derivative("igamma_grad_a", "ax"[i])


class RandomGammaGrad(Written):
    """Derivative of a sample of the gamma distribution by its shape ``a``."""

    name = "random_gamma_grad"
    arity = 2
    function = values.random_gamma_grad
    domain = ((0.6, 3.0), (0.4, 4.0))

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        raise _no_derivative("random_gamma_grad", ("a", "sample")[i])


class RegularizedIncompleteBeta(Written):
    """``I_x(a, b)``, given as ``(a, b, x)``."""

    name = "regularized_incomplete_beta"
    arity = 3
    function = values.betainc
    domain = ((0.6, 3.0), (0.6, 3.0), (0.1, 0.9))

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        a, b, x = operands
        if i < 2:
            raise _no_derivative("regularized_incomplete_beta", "ab"[i])
        one = like(x, 1)
        powers = add(mul(sub(b, one), log1p(neg(x))), mul(sub(a, one), log(x)))
        log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
        return exp(sub(powers, log_beta))


class BesselI0e(Written):
    """``exp(-|x|) I0(x)``."""

    name = "bessel_i0e"
    function = values.bessel_i0e
    domain = ((0.3, 3.0),)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x = operands[0]
        return sub(bessel_i1e(x), mul(sign(x), out))


class BesselI1e(Written):
    """``exp(-|x|) I1(x)``."""

    name = "bessel_i1e"
    function = values.bessel_i1e
    domain = ((0.3, 3.0),)

    def partial(self, i: int, operands: Ops, out: Value) -> Value | None:
        x = operands[0]
        tiny = like(x, float(dtypes.finfo(x.aval.dtype).eps))
        far = gt(abs_(x), tiny)
        safe = select_n(far, tiny, x)
        slope = sub(bessel_i0e(safe), mul(out, add(sign(safe), div(like(x, 1), safe))))
        return select_n(far, like(x, 0.5), slope)


erf, erfc, erf_inv = Erf(), Erfc(), ErfInv()
lgamma, digamma, polygamma, zeta = Lgamma(), Digamma(), Polygamma(), Zeta()
igamma, igammac, igamma_grad_a = Igamma(), Igammac(), IgammaGradA()
random_gamma_grad = RandomGammaGrad()
regularized_incomplete_beta = RegularizedIncompleteBeta()
bessel_i0e, bessel_i1e = BesselI0e(), BesselI1e()
