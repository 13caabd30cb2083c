"""Arguments as raw values of a program's inputs; types stand for random arrays.

Start at :func:`raw_inputs`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import ArgumentError
from functrax.core.pytree.operations import tree_leaves
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.inspect_types import type_of
from functrax.transforms.staging.jit import Jitted
from functrax.transforms.staging.lowered import Lowered


def raw_inputs(
    function: Jitted, lowered: Lowered, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """A NumPy array for each input of a program: its constants, then the arguments.

    Args:
      function: the jitted function.
      lowered: its program for the arguments.
      args: arrays, or types such as ``ShapeDtypeStruct``, for which arrays are drawn at random:
        floats from the normal distribution, integers from 0 to 9; always the same.
      kwargs: the same by name.

    Raises:
      ArgumentError: if an argument is being traced.
    """
    dynamic, named = function.dynamic(args, kwargs)
    random = np.random.default_rng(0)
    leaves = tree_leaves((tuple(dynamic), named))
    values = [*lowered.traced.consts, *leaves]
    return [_raw(x, random, lowered.name) for x in values]


def _raw(x: Any, random: np.random.Generator, name: str) -> Any:
    if isinstance(x, ShapedArray) or (hasattr(x, "dtype") and not hasattr(x, "__array__")):
        return drawn(type_of(x, f"an argument of {name}"), random)
    value = as_value(x, f"an argument of {name}")
    if isinstance(value, Tracer):
        raise ArgumentError(
            f"{name}: programs are measured and checked on arrays",
            got=f"{value.aval.str_short()}, which is being traced",
            fix="call it outside of jit, grad and vmap",
        )
    return np.asarray(value.buffer if type(value) is ConcreteArray else value.val)


def drawn(aval: ShapedArray, random: np.random.Generator) -> Any:
    """An array of a type, of random numbers: see :func:`raw_inputs`."""
    if dtypes.is_inexact(aval.dtype):
        found: Any = random.standard_normal(aval.shape)
    elif aval.dtype == np.bool_:
        found = random.random(aval.shape) < 0.5
    else:
        found = random.integers(0, 10, aval.shape)
    return np.asarray(found).astype(aval.dtype)
