"""The largest and smallest elements along axes, of complex numbers too.

Complex numbers are compared by real part, then by imaginary part.  Theirs is not a primitive but a
function over those of real numbers, from which its derivatives follow.
"""

from __future__ import annotations

from functrax.core import dtypes
from functrax.core.primitive import Primitive, Value, literal
from functrax.core.prims.arithmetic import eq, select_n
from functrax.core.prims.convert import complex_, imag, real
from functrax.core.prims.reduce import highest, lowest, reduce_max, reduce_min, respread


def reduced(primitive: Primitive, x: Value, axes: tuple[int, ...]) -> Value:
    """A reduction along axes.

    Args:
      primitive: the reduction of real numbers, ``reduce_max`` say.
      x: an array of any dtype; of complex numbers also where the reduction compares.
      axes: the axes, which disappear.
    """
    if not (dtypes.is_complex(x.aval.dtype) and primitive in (reduce_max, reduce_min)):
        return primitive.bind(x, axes=axes)  # type: ignore[no-any-return]
    re, im = real.bind(x), imag.bind(x)
    best = primitive.bind(re, axes=axes)
    worst = lowest if primitive is reduce_max else highest
    tied = eq.bind(re, respread(best, re, axes))
    candidates = select_n.bind(tied, literal(worst(im.aval.dtype), im.aval.dtype), im)
    return complex_.bind(best, primitive.bind(candidates, axes=axes))  # type: ignore[no-any-return]
