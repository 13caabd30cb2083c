"""Functions of floats, in scalar operations.

``EXPANSIONS`` maps the name of a function of ``core.lowering.MATH`` to what writes it with basic
operations, for float32 and float64: the same expression serves every target.  Only what is
``unlikely`` may be branched around.
Errors are at most two units in the last place; ``docs/math.md`` has the table of bounds, which
the tests read.

The module that a function is in is imported when it is written the first time: few programs have
more than a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from functrax.backends.targets import target
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

#: The functions of each module, and how many operations of float32 they are: counted in what is
#: written, with eight for a quotient and a square root, and without what is unlikely.  A test
#: counts them again.
_FUNCTIONS: Final[Mapping[str, Mapping[str, int]]] = {
    "exponential": dict(exp=20, exp2=18, expm1=32, logistic=46, tanh=42, sinh=38, cosh=28),
    "logarithm": dict(log=32, log2=39, log1p=39, asinh=70, acosh=77, atanh=67),
    "trigonometric": dict(sin=31, cos=27, tan=47),
    "inverse_trigonometric": dict(asin=43, acos=53, atan=28, atan2=40),
    "error_function": dict(erf=36, erfc=92, erf_inv=80),
    "power": dict(pow=130, cbrt=43, rsqrt=16),
    "gamma": dict(lgamma=233, digamma=198),
}


def _expansion(module: str, name: str) -> Callable[..., Scalar]:
    def expand(b: Builder, *operands: Scalar) -> Scalar:
        from functrax.backends.kernels.math.expression import Expr

        function = getattr(import_module(f"{__name__}.{module}"), name)
        if operands[0].dtype == dtypes.float32 and target().has_near:
            function = getattr(import_module(f"{__name__}.near"), name, function)
        written: Expr = function(*(Expr(b, x) for x in operands))
        return written.s

    return expand


#: ``(builder, *operands)`` -> the value, by the name of the function.
EXPANSIONS: Final[dict[str, Callable[..., Scalar]]] = {
    name: _expansion(module, name) for module, names in _FUNCTIONS.items() for name in names
}
FUNCTION_OPERATIONS: Final = {k: n for names in _FUNCTIONS.values() for k, n in names.items()}
