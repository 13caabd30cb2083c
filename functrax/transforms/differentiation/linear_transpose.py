"""``linear_transpose``: the transpose of a function that is linear by itself.

The function is staged, and its program is read backwards from a cotangent of its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import DifferentiationError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.reindex import zeros
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.pytree.registry import Partial
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.stage import eval_jaxpr, stage
from functrax.core.tracing.trace import current, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import FlatFunction, check_callable
from functrax.transforms.arguments.inspect_types import type_of
from functrax.transforms.differentiation.linear_functions import LinearSignature
from functrax.transforms.differentiation.tangents import check_tangents
from functrax.transforms.interpreters.linearize import PartialTrace, Tape
from functrax.transforms.interpreters.transpose import backward


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """The transpose of a function that is linear.

    Args:
      fun: a linear function of arrays.
      primals: example arguments, of which only shapes and dtypes matter.

    Returns:
      A function from a cotangent of ``fun``'s result to a tuple of cotangents of its arguments.

    Raises:
      ArgumentError: if ``fun`` is not a function.
      DifferentiationError: if it is not linear, or mixes integers with other numbers.
      TangentError: if the cotangent has another shape or dtype than the result.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.linear_transpose(jnp.sum, jnp.ones(3))(2.0)
    (Array([2., 2., 2.], dtype=float32, weak_type=True),)
    """
    check_callable("linear_transpose", fun)
    leaves, tree = tree_flatten((primals, {}))
    what = "an example argument of linear_transpose"
    avals = [type_of(x, what).update(weak_type=False) for x in leaves]
    flat_fun = FlatFunction(fun, tree)
    jaxpr, consts = stage(flat_fun, avals, flat_fun.__name__)
    out_avals = jaxpr.out_avals
    both = [*avals, *out_avals]
    if not all(a.dtype in dtypes.INEXACT for a in both):
        if not all(dtypes.is_integer(a.dtype) for a in both):
            raise DifferentiationError(
                "linear_transpose only supports functions from floating point or complex numbers "
                "to such, and from integers to integers",
                got=f"{_shown(avals)} -> {_shown(out_avals)}",
                fix="example arguments of the dtype that the function is linear in",
            )
    signature = LinearSignature(
        flat_fun.__name__, tree_flatten(primals)[1], avals, flat_fun.out_tree, out_avals
    )
    return Partial(functools.partial(_transposed, jaxpr, signature), consts)


def _shown(avals: Sequence[ShapedArray]) -> str:
    return ", ".join([a.str_short() for a in avals]) or "nothing"


@boundary
def _transposed(jaxpr: Jaxpr, signature: LinearSignature, consts: Sequence[Any], ct: Any) -> Any:
    """The transpose of a linear program of a cotangent."""
    given = check_tangents(
        "linear_transpose", "cotangent", ct, signature.out_tree, signature.out_avals
    )
    partial = PartialTrace(state.trace, signature.name)
    inputs = [partial.new_input(a) for a in signature.in_avals]
    try:
        with current(partial):
            outs = eval_jaxpr(jaxpr, [as_value(c) for c in consts], *inputs)
            tape = Tape(partial, inputs, outs)
    finally:
        partial.end()
    cts = backward(tape, given)
    filled = [zeros(a) if v is None else v for v, a in zip(cts, signature.in_avals, strict=True)]
    return tree_unflatten(signature.in_tree, map(concrete, filled))
