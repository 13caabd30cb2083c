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

from collections.abc import Callable
from importlib import import_module
from typing import Final

from functrax.core.lazy import sources
from functrax.core.scalars.scalar import Builder, Scalar

_MODULES: Final = sources(
    {
        "exponential": "exp exp2 expm1 logistic tanh sinh cosh",
        "logarithm": "log log2 log1p asinh acosh atanh",
        "trigonometric": "sin cos tan",
        "inverse_trigonometric": "asin acos atan atan2",
        "error_function": "erf erfc erf_inv",
        "power": "pow cbrt rsqrt",
        "gamma": "lgamma digamma",
    }
)


def _expansion(module: str, name: str) -> Callable[..., Scalar]:
    def expand(b: Builder, *operands: Scalar) -> Scalar:
        from functrax.backends.kernels.math.expression import Expr

        function = getattr(import_module(f"{__name__}.{module}"), name)
        written: Expr = function(*(Expr(b, x) for x in operands))
        return written.s

    return expand


#: ``(builder, *operands)`` -> the value, by the name of the function.
EXPANSIONS: Final[dict[str, Callable[..., Scalar]]] = {
    name: _expansion(module, name) for name, module in _MODULES.items()
}
