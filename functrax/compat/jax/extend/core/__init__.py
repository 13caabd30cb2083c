"""``jax.extend.core``: programs, their parts, primitives of one's own, and the interpreters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrax.compat.extension.programs import (
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    jaxpr_as_fun as jaxpr_as_fun,
    jaxprs_in_params as jaxprs_in_params,
    new_jaxpr_eqn as new_jaxpr_eqn,
    program_of,
    subjaxprs as subjaxprs,
)
from functrax.compat.extension.user_primitives import Primitive as Primitive
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import VerificationError
from functrax.core.ir.jaxpr import Literal as Literal, Var as Var
from functrax.core.syntax.verify import verify
from functrax.core.tracing.inputs import as_value, is_valid_argument
from functrax.core.tracing.stage import StagingTrace
from functrax.core.tracing.trace import EVAL, Trace, Tracer, current, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

JaxprTypeError = VerificationError
no_effects: frozenset[Any] = frozenset()
Effects = frozenset
array_types = frozenset({Array, ConcreteArray, np.ndarray, *np.sctypeDict.values()})


class DropVar(Var):
    """A result that nobody uses; functrax gives such results variables, so there are none."""


class Effect:
    """A kind of side effect: the base of a library's own."""


class TraceTag:
    """Says that interpreters belong together."""


class AbstractToken:
    """The type of a token; there are none, for effects are ordered by the program."""


class Token:
    """A value that orders effects; there are none."""


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Check that a program keeps the rules of the language.

    Raises:
      JaxprTypeError: if it does not.
    """
    verify(program_of(jaxpr))


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of a tangent of an array of a dtype; float0 for integers."""
    return primal_dtype if dtypes.is_inexact(np.dtype(primal_dtype)) else dtypes.float0


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one element along an axis of an array."""
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis + 1 :]))


def unmapped_aval(
    size: int, axis: int | None, aval: ShapedArray, explicit_mesh_axis: Any = None
) -> ShapedArray:
    """The type of an array that has elements of a type along an axis."""
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def valid_jaxtype(x: Any) -> bool:
    """Whether ``x`` is an array, or a number that becomes one."""
    return is_valid_argument(x)


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """``force(val)``, of a value that is known; ``val`` itself if ``force`` is None."""
    if isinstance(val, Tracer) and force is None:
        bool(val)
    return val if force is None else force(val)


class OpaqueTraceState:
    """Which interpreter is current; equal while that does not change."""

    def __init__(self) -> None:
        self._trace = state.trace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return id(self._trace)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """Something that equals what this returned before if the interpreter is the same."""
    return OpaqueTraceState()


def find_top_trace(xs: Iterable[Any]) -> Trace:
    """The current interpreter."""
    return state.trace


#: JAX's interpreters say by ``main`` which of them belong together; here each is by itself.
setattr(Trace, "main", property(lambda trace: trace))  # noqa: B010 - core knows nothing of it


@contextmanager
def take_current_trace() -> Iterator[Trace]:
    """The current interpreter; meanwhile the bottom one is current."""
    trace = state.trace
    with current(EVAL):
        yield trace


@contextmanager
def set_current_trace(trace: Trace, check_leaks: bool = False) -> Iterator[None]:
    """Make an interpreter current."""
    with current(trace):
        yield


def _traces() -> Iterator[Trace]:
    trace: Trace | None = state.trace
    while trace is not None:
        yield trace
        trace = trace.parent


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a program is being traced."""
    return any(isinstance(t, StagingTrace) for t in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether there is an enclosing ``vmap``."""
    from functrax.transforms.interpreters.batching import BatchTrace

    return any(isinstance(t, BatchTrace) for t in _traces())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The named axes that are bound."""
    return [name for name, _ in state.axis_env]


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether a named axis is bound."""
    return bool(state.axis_env)


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    """Call a wrapped function."""
    return f.call_wrapped(*map(as_value, args))
