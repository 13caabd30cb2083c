"""Derivative rules that are closures: ``custom_gradient`` and ``closure_convert``.

Both stage a closure to a program, whose constants are the values that it closes over.

Start at :func:`custom_gradient`, which is a ``custom_vjp`` whose residuals are those values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrax.core.errors.typed import PyTreeError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.pytree.operations import PyTreeDef, register_static, tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.stage import eval_jaxpr, stage
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.transforms.arguments.flat import FlatFunction, flatten_args, name_of
from functrax.transforms.user_rules.custom_vjp import custom_vjp


@register_static
class _Program:
    """A staged backward rule: static data beside its constants, which are the residuals."""

    def __init__(self, jaxpr: Jaxpr, out_tree: PyTreeDef) -> None:
        self.jaxpr = jaxpr
        self.out_tree = out_tree

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and (self.jaxpr, self.out_tree) == (
            other.jaxpr, other.out_tree,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash(self.jaxpr)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function its gradient by returning a closure with its value.

    Args:
      fun: returns ``(value, vjp)``, where ``vjp(ct)`` returns the cotangent of the argument, or a
        tuple of them when there are several arguments.

    Returns:
      A function of the same arguments, which returns ``value`` and has this gradient.

    >>> import functrax
    >>> @functrax.custom_gradient
    ... def double_slope(x):
    ...     return x * x, lambda ct: (4.0 * ct * x,)
    >>> functrax.grad(double_slope)(3.0)
    Array(12., dtype=float32, weak_type=True)
    """

    @custom_vjp
    @functools.wraps(fun)
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        value, rule = fun(*args)
        leaves, tree = tree_flatten(((value,), {}))
        flat_rule = FlatFunction(rule, tree)
        jaxpr, consts = stage(flat_rule, [as_value(x).aval for x in leaves], name_of(fun))
        return value, (_Program(jaxpr, flat_rule.out_tree), consts, [None] * len(args))

    def bwd(residuals: Any, ct: Any) -> Any:
        program, consts, args = residuals
        flat_ct = [as_value(x) for x in tree_flatten(ct)[0]]
        outs = eval_jaxpr(program.jaxpr, consts, *flat_ct)
        found = tree_unflatten(program.out_tree, map(concrete, outs))
        if isinstance(found, (tuple, list)) and len(args) == len(found):
            return tuple(found)
        return (found,)

    wrapped.defvjp(fwd, bwd)
    return wrapped


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Any, list[Any]]:
    """Turn a closure over traced values into a function that takes them as arguments.

    Args:
      fun: a function of pytrees of arrays.
      example_args: arguments of the right types.

    Returns:
      ``(converted, consts)`` with ``converted(*args, *consts) == fun(*args)``; ``consts`` are the
      values that ``fun`` closes over and that may be differentiated.

    Raises:
      DTypeError: for arguments and results that are no arrays.
      PyTreeError: when ``converted`` is called, if its arguments have another structure.

    >>> import functrax
    >>> def slope(x):
    ...     converted, consts = functrax.closure_convert(lambda y: x * y, 1.0)
    ...     return converted(3.0, *consts)
    >>> functrax.grad(slope)(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    flat, in_tree = flatten_args(fun, example_args, {})
    flat_fun = FlatFunction(fun, in_tree)
    jaxpr, consts = stage(flat_fun, [x.aval for x in flat], name_of(fun))
    hoisted = [isinstance(c, Tracer) and dtypes.is_inexact(c.aval.dtype) for c in consts]
    out_tree = flat_fun.out_tree

    def converted(*args_and_consts: Any) -> Any:
        num_args = max(len(args_and_consts) - sum(hoisted), 0)
        args, given = args_and_consts[:num_args], iter(args_and_consts[num_args:])
        leaves, tree = flatten_args(fun, args, {})
        if tree != in_tree:
            raise PyTreeError(
                "The inputs to the closure produced by closure_convert have another structure "
                f"than those that {name_of(fun)} was converted for",
                got=f"{tree}, where {in_tree} is needed",
                fix="closure_convert again, with examples of these arguments",
            )
        merged = [next(given) if h else c for c, h in zip(consts, hoisted, strict=True)]
        outs = eval_jaxpr(jaxpr, [as_value(c) for c in merged], *leaves)
        return tree_unflatten(out_tree, map(concrete, outs))

    return converted, [c for c, h in zip(consts, hoisted, strict=True) if h]
