"""Functions of floats, in scalar operations.

``EXPANSIONS`` maps the name of a function of ``core.lowering.MATH`` to what writes it with basic
operations, for float32 and float64: the same expression serves every target.  Only what is
``unlikely`` may be branched around.
Errors are at most two units in the last place; ``docs/math.md`` has the table of bounds, which
the tests read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from functrax.backends.kernels.math import (
    error_function,
    exponential,
    gamma,
    inverse_trigonometric,
    logarithm,
    power,
    trigonometric,
)
from functrax.backends.kernels.math.expression import Expr
from functrax.core.lowering import Builder, Scalar

_FUNCTIONS: Final[tuple[Callable[..., Expr], ...]] = (
    *(exponential.exp, exponential.exp2, exponential.expm1, exponential.logistic),
    *(exponential.tanh, exponential.sinh, exponential.cosh),
    *(logarithm.log, logarithm.log2, logarithm.log1p),
    *(logarithm.asinh, logarithm.acosh, logarithm.atanh),
    *(trigonometric.sin, trigonometric.cos, trigonometric.tan),
    *(inverse_trigonometric.asin, inverse_trigonometric.acos),
    *(inverse_trigonometric.atan, inverse_trigonometric.atan2),
    *(error_function.erf, error_function.erfc, error_function.erf_inv),
    *(power.pow, power.cbrt, power.rsqrt),
    *(gamma.lgamma, gamma.digamma),
)


def _expansion(function: Callable[..., Expr]) -> Callable[..., Scalar]:
    def expand(b: Builder, *operands: Scalar) -> Scalar:
        return function(*(Expr(b, x) for x in operands)).s

    return expand


#: ``(builder, *operands)`` -> the value, by the name of the function.
EXPANSIONS: Final[dict[str, Callable[..., Scalar]]] = {
    function.__name__: _expansion(function) for function in _FUNCTIONS
}
