"""The largest and smallest elements along axes, of complex numbers too.

Complex numbers are compared by real part, then by imaginary part.  Theirs is not a primitive but a
function over those of real numbers, from which its derivatives follow.
"""

from __future__ import annotations

from functrax.core.prims.arithmetic import select_n
from functrax.core.prims.comparisons import and_, eq, ne, or_
from functrax.core.prims.convert import complex_, imag, real
from functrax.core.prims.reduce import highest, lowest, reduce_max, reduce_min, respread
from functrax.core.tracing.primitive import Primitive, Value, literal
from functrax.core.types import dtypes


def reduced(primitive: Primitive, x: Value, axes: tuple[int, ...]) -> Value:
    """A reduction along axes.

    Args:
      primitive: the reduction of real numbers, ``reduce_max`` say.
      x: an array of any dtype; of complex numbers also where the reduction compares.
      axes: the axes, which disappear.
    """
    if not (dtypes.is_complex(x.aval.dtype) and primitive in (reduce_max, reduce_min)):
        return primitive.bind(x, axes=axes)
    re, im = real.bind(x), imag.bind(x)
    chosen = _best(primitive, re, axes)
    second = select_n.bind(chosen, _worst(primitive, im), im)
    chosen = and_.bind(chosen, _best(primitive, second, axes))
    # Reduced once more among the chosen, so that only these have a share in the derivative.
    parts = [
        primitive.bind(select_n.bind(chosen, _worst(primitive, part), part), axes=axes)
        for part in (re, im)
    ]
    return complex_.bind(*parts)


def _worst(primitive: Primitive, x: Value) -> Value:
    worst = lowest if primitive is reduce_max else highest
    return literal(worst(x.aval.dtype), x.aval.dtype)


def _best(primitive: Primitive, x: Value, axes: tuple[int, ...]) -> Value:
    """Which elements are the extremum along axes; all that are NaN are."""
    best = respread(primitive.bind(x, axes=axes), x, axes)
    return or_.bind(eq.bind(x, best), ne.bind(x, x))
