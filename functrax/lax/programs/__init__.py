"""Functions whose values are computed by a program, for targets to compile.

The incomplete gamma and beta functions, polygamma, zeta and the Bessel functions ``I0`` and ``I1``
need as many terms as an element asks for, or long polynomials.  A program here says how one element
is computed, in float64, with ``lax.while_loop``.  Over an array it is mapped, and becomes a kernel
in which each point runs through its own steps.  Values are rounded once, at the end, so those of
narrower dtypes are nearly always the nearest ones.

The formulas are those of ``core/prims/special_values.py``, which computes the same with NumPy and
says what they are from.  Sums end as soon as the rest of them is beyond what the dtype shows.

Start at :func:`written`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.lazy import sources
from functrax.core.prims.convert import convert_element_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import close, stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.mapping.vmap import vmap

_MODULES: Final = sources(
    {
        "bessel": "bessel_i0e bessel_i1e",
        "beta": "regularized_incomplete_beta",
        "gamma": "igamma igammac igamma_grad_a random_gamma_grad",
        "zeta": "zeta polygamma",
    }
)


@cache
def written(name: str, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The program that computes a primitive.

    Args:
      name: of the primitive.
      avals: the types of its operands, of one shape or scalars.
    """
    dtype = avals[0].dtype
    function = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    exact = dtype == dtypes.float64

    def of_doubles(*operands: Value) -> Value:
        wide = [convert_element_type.bind(x, dtype=dtypes.float64) for x in operands]
        return convert_element_type.bind(function(*wide, exact=exact), dtype=dtype)

    return _staged(of_doubles, avals, name)


def _staged(function: Callable[..., Any], avals: Sequence[ShapedArray], name: str) -> Jaxpr:
    """The program of a function of scalars, mapped over the axes of the operands."""
    rank = max(x.ndim for x in avals)
    axes = tuple(0 if x.ndim else None for x in avals)
    for _ in range(rank):
        function = vmap(function, in_axes=axes)
    program, constants = stage(lambda *xs: [function(*xs)], avals, name)
    assert not constants, f"{name}: a program of scalars has no constants"
    return close(program)
