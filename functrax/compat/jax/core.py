"""``jax.core``: what is public of it, as far as it is not in ``functrax.core``."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from functrax.compat.extension.array_types import pytype_aval_mappings as pytype_aval_mappings
from functrax.compat.extension.programs import Atom as Atom, eval_jaxpr as eval_jaxpr
from functrax.compat.extension.user_traces import UserTrace
from functrax.core.aval import ShapedArray as ShapedArray
from functrax.core.trace import EVAL, Tracer as Tracer, current
from functrax.transforms.inspect_types import ShapeDtypeStruct
from functrax.transforms.scopes import ensure_compile_time_eval as ensure_compile_time_eval


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
