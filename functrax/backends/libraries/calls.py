"""Equations that library functions compute: linear algebra, Fourier transforms, sorting.

An equation enters, with the slots of its operands and results; launches leave, or None where the
NumPy reference is to be called instead: for empty arrays, and in a process that lacks a function
(``executables/library_functions.py``).

Start at :func:`library_launches`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from functrax.backends.executables.library_functions import own_function
from functrax.backends.executables.program import Launch
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.libraries import linear_algebra_calls, ordering_calls
from functrax.backends.libraries.fourier_calls import fft
from functrax.backends.libraries.site import Site
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import fourier, ordering
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes

_RULES: Final[dict[Primitive, Callable[[Site], list[Launch | None]]]] = {
    **linear_algebra_calls.RULES,
    fourier.fft: fft,
    ordering.sort: ordering_calls.sort,
    ordering.top_k: ordering_calls.top_k,
}
#: The names of what library functions compute.
PRIMITIVES: Final = frozenset(primitive.name for primitive in _RULES)


def has_library_call(primitive: Primitive) -> bool:
    """Whether library functions compute a primitive, for some types at least."""
    return primitive in _RULES


def gives_other_bits(eqn: Eqn) -> bool:
    """Whether results of library functions have other last bits than the reference's results."""
    rounded = any(dtypes.is_inexact(v.aval.dtype) for v in eqn.outvars)
    return rounded and eqn.primitive in _RULES and not eqn.primitive.exact


def library_launches(
    builder: ProgramBuilder, eqn: Eqn, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> list[Launch] | None:
    """Launches that compute an equation; None where there are none.

    Args:
      builder: of the program that it is in.
      eqn: an equation that no kernel computes.
      inputs: the slots of its operands.
      outputs: the slots of its results.
    """
    rule = _RULES.get(eqn.primitive)
    if rule is None or own_function("call_loop") is None:
        return None
    if any(x.aval.size == 0 for x in (*eqn.invars, *eqn.outvars)):
        return None
    found = rule(Site(builder, eqn, inputs, outputs))
    return None if None in found else [x for x in found if x is not None]
