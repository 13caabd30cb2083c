"""``jax.core``: what is public of it, as far as it is not in ``functrax.core``."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from functrax.compat import missing
from functrax.compat.extension.array_types import pytype_aval_mappings as pytype_aval_mappings
from functrax.compat.extension.programs import Atom as Atom, eval_jaxpr as eval_jaxpr
from functrax.compat.extension.user_traces import UserTrace
from functrax.core.tracing.trace import EVAL, Tracer as Tracer, current
from functrax.core.types.aval import ShapedArray as ShapedArray
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct
from functrax.transforms.staging.scopes import ensure_compile_time_eval as ensure_compile_time_eval


class AbstractValue(ABC):  # noqa: B024 - classes of types are registered
    """What the types of values are: of arrays of numbers, and of typed keys."""


AbstractValue.register(ShapedArray)
AbstractValue.register(ShapeDtypeStruct)
Trace = UserTrace
Value: TypeAlias = Any
ParamDict: TypeAlias = dict[str, Any]


@contextmanager
def eval_context() -> Iterator[None]:
    """What is computed meanwhile is computed at once, outside of every transformation."""
    with current(EVAL):
        yield


def max_dim(x: Any, y: Any) -> Any:
    """The larger of two sizes."""
    return max(x, y)


def min_dim(x: Any, y: Any) -> Any:
    """The smaller of two sizes."""
    return min(x, y)


#: What JAX 0.10 still gives here, with a warning, and has in ``jax.extend.core``.
_DEPRECATED = frozenset({
    "CallPrimitive", "DebugInfo", "DropVar", "Effect", "Effects",
    "InconclusiveDimensionOperation", "JaxprPpContext", "JaxprPpSettings", "JaxprTypeError",
    "OutputType", "abstract_token", "aval_mapping_handlers", "call", "check_jaxpr",
    "concrete_or_error", "concretization_function_error", "custom_typechecks", "find_top_trace",
    "gensym", "get_opaque_trace_state", "is_concrete", "is_constant_dim", "is_constant_shape",
    "jaxprs_in_params", "literalable_types", "new_jaxpr_eqn", "no_axis_name", "no_effects",
    "nonempty_axis_env_DO_NOT_USE", "primal_dtype_to_tangent_dtype", "trace_ctx",
    "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _DEPRECATED:
        raise AttributeError(name)
    from functrax.compat.jax.extend import core as extension

    full = f"jax.core.{name}"
    if not hasattr(extension, name):
        return missing.Missing(full, missing.note(full))
    message = f"{full} is deprecated. Use jax.extend.core.{name}."
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return getattr(extension, name)
