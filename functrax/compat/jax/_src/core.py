"""``jax._src.core``: what libraries take from it."""

from __future__ import annotations

from functrax.compat.jax.core import (
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    Trace as Trace,
    Tracer as Tracer,
    eval_jaxpr as eval_jaxpr,
)
from functrax.compat.jax.extend.core import (
    ClosedJaxpr as ClosedJaxpr,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    Primitive as Primitive,
    Var as Var,
    find_top_trace as find_top_trace,
    get_opaque_trace_state as get_opaque_trace_state,
)
from functrax.core.tracing.trace import EVAL, state


def trace_state_clean() -> bool:
    """Whether no transformation is under way."""
    return state.trace is EVAL


def physical_aval(aval: ShapedArray) -> ShapedArray:
    """The type of the memory of an array."""
    return aval
