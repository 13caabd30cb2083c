"""``jax.interpreters.partial_eval``: what a function computes of the inputs that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.compat.extension.linear_util import WrappedFun
from functrax.compat.extension.programs import Jaxpr
from functrax.core.pytree.operations import (
    broadcast_prefix,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.stage import stage
from functrax.core.tracing.trace import current, state
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.inspect_types import (
    ShapeDtypeStruct,
    flatten_types,
    type_of,
    typeof,
)
from functrax.transforms.interpreters.linearize import PartialTrace, Tape


class PartialVal(tuple[Any, Any]):
    """``(None, value)`` for a known value, ``(type, None)`` for an unknown one."""

    def __new__(cls, xs: tuple[Any, Any]) -> PartialVal:
        return tuple.__new__(cls, xs)

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A known value."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """A value of which the type is known."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value, or None if it is unknown."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> Any:
        """The type."""
        return typeof(self[1]) if self[0] is None else self[0]


def _is_type(x: Any) -> bool:
    return isinstance(x, (ShapedArray, ShapeDtypeStruct))


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Compute what depends on known inputs alone, and write down the rest.

    Args:
      fun: a function of flat values, with what is around it.
      pvals: the inputs, known and unknown.
      instantiate: whether known results are results of the program too, for all or for each.

    Returns:
      The program of the unknown inputs, the results, and the constants of the program.
    """
    trace = PartialTrace(state.trace, fun.__name__)
    # Typed keys are taken apart into their words, and types of keys into those of words.
    given, tree = flatten_types([const if aval is None else aval for aval, const in pvals])
    inputs = [trace.new_input(type_of(x, "")) if _is_type(x) else as_value(x) for x in given]
    try:
        with current(trace):
            returned = list(fun.call_wrapped(*tree_unflatten(tree, inputs)))
            found, out_tree = tree_flatten(returned)
            outs = [as_value(out) for out in found]
        unknown = [x for x, typed in zip(inputs, given) if _is_type(typed)]
        asked = [instantiate] * len(returned) if isinstance(instantiate, bool) else instantiate
        forced = broadcast_prefix(list(asked), returned)
        wanted = [f or trace.is_unknown(out) for f, out in zip(forced, outs, strict=True)]
        tape = Tape(trace, unknown, outs)

        def rest(*values: Any) -> list[Any]:
            made = tape.apply(values)
            results = [out if m is None else m for m, out in zip(made, outs)]
            return [r for r, w in zip(results, wanted) if w]

        program, consts = stage(rest, [x.aval for x in unknown], fun.__name__)
        values = tree_unflatten(out_tree, [concrete(out) for out in outs])
        unknown_places = tree_unflatten(out_tree, wanted)
        results = [
            PartialVal.unknown(typeof(x)) if any(tree_leaves(w)) else PartialVal.known(x)
            for x, w in zip(values, unknown_places, strict=True)
        ]
    finally:
        trace.end()
    return Jaxpr._of(program), results, [concrete(c) for c in consts]


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[ShapedArray]
) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """Write down a function of flat values.

    Args:
      fun: the function, with what is around it.
      in_avals: the types of its inputs.

    Returns:
      The program, the types of its results, and the values of its constants.
    """

    def flat(*values: Any) -> list[Any]:
        return [as_value(out) for out in fun.call_wrapped(*map(concrete, values))]

    program, consts = stage(flat, list(in_avals), fun.__name__)
    shown = Jaxpr._of(program)
    return shown, [x.aval for x in shown.outvars], [concrete(c) for c in consts]
