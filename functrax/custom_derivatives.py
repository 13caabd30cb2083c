"""Derivative rules of the user's own, as ``jax.custom_derivatives`` has them."""

from __future__ import annotations

from typing import Any

from functrax.core.errors.typed import ArgumentError
from functrax.core.lazy import listing as _listing
from functrax.core.pytree.operations import tree_map
from functrax.transforms.arguments.inspect_types import type_of
from functrax.transforms.control.linear_call import linear_call as linear_call
from functrax.transforms.interpreters.custom_call import SymbolicZero as SymbolicZero
from functrax.transforms.interpreters.forward import zero_tangent
from functrax.transforms.user_rules.custom_gradient import (
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
)
from functrax.transforms.user_rules.custom_jvp import custom_jvp as custom_jvp
from functrax.transforms.user_rules.custom_vjp import (
    CustomVJPPrimal as CustomVJPPrimal,
    custom_vjp as custom_vjp,
)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """Zero tangents of a pytree of arrays, of dtype float0 for integers.

    Args:
      val: a pytree of arrays and numbers.
      symbolic_zeros: whether they are of ``SymbolicZero``, which a rule may return as well.

    Returns:
      A pytree of the same structure.

    Raises:
      DTypeError: if a leaf is no array or number.

    >>> zero_from_primal({"x": 1.5})
    {'x': Array(0., dtype=float32, weak_type=True)}
    >>> zero_from_primal({"x": 1.5, "n": 1}, symbolic_zeros=True)
    {'n': SymbolicZero(float0[]), 'x': SymbolicZero(~f32[])}
    """

    def zero(x: Any) -> Any:
        aval = type_of(x, "the argument of zero_from_primal").to_tangent_aval()
        return SymbolicZero(aval) if symbolic_zeros else zero_tangent(aval)

    return tree_map(zero, val)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The arguments of a forward rule with ``symbolic_zeros`` without what is known of each.

    Args:
      tree: a pytree whose leaves are ``CustomVJPPrimal``.

    Returns:
      Their values, in the same containers.

    Raises:
      ArgumentError: if a leaf is something else.

    >>> custom_vjp_primal_tree_values({"x": CustomVJPPrimal(1.5, True)})
    {'x': 1.5}
    """

    def value(x: Any) -> Any:
        if type(x) is CustomVJPPrimal:
            return x.value
        raise ArgumentError(
            "custom_vjp_primal_tree_values: a leaf is not an argument of a forward rule",
            got=f"{x!r} of type {type(x).__name__}",
            fix="what a rule is given that was set with defvjp(..., symbolic_zeros=True)",
        )

    return tree_map(value, tree)


__dir__ = _listing(globals())
