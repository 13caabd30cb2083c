"""``jax.interpreters.ad``: rules of differentiation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from functrax.compat.extension.rules import (
    Rule,
    UndefinedPrimal as UndefinedPrimal,
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
    primitive_jvps as primitive_jvps,
    primitive_transposes as primitive_transposes,
    zeros_like_aval as zeros_like_aval,
)
from functrax.compat.extension.user_primitives import Primitive
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import registry
from functrax.transforms.interpreters.forward import JVPTrace as JVPTrace, JVPTracer as JVPTracer


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two arrays of one type."""
    return registry["add"].bind(as_value(x), as_value(y))


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a ``Zero``."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else add_jaxvals(x, y)


def get_primitive_transpose(primitive: Primitive) -> Rule:
    """The transpose rule of a primitive.

    Raises:
      NotImplementedError: if it has none.
    """
    if primitive not in primitive_transposes:
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for '{primitive}' not implemented"
        )
    return primitive_transposes[primitive]


def _zeros_of(primitive: Primitive, out: Any) -> Any:
    if primitive.multiple_results:
        return [Zero.from_primal_value(as_value(x)) for x in out]
    return Zero.from_primal_value(as_value(out))


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Say that a primitive is linear, and how it is transposed.

    Args:
      primitive: linear in all operands together.
      transpose_rule: ``(cotangent, *operands, **params) -> cotangents``.
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, _zeros_of(primitive, out)
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    def transpose(cotangent: Any, *operands: Any, **params: Any) -> Any:
        if type(cotangent) is Zero:
            return [None] * len(operands)
        return transpose_rule(cotangent, *operands, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """As :func:`deflinear2`, of ``(cotangent, **params) -> cotangents``."""
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def _defjvp(primitive: Primitive, rules: Sequence[Rule | None], with_result: bool) -> None:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        first = (out,) if with_result else ()
        found = [
            rule(t, *first, *primals, **params)
            for rule, t in zip(rules, tangents)
            if rule is not None and type(t) is not Zero
        ]
        return out, reduce(add_tangents, found, _zeros_of(primitive, out))

    primitive_jvps[primitive] = jvp


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Give a primitive with one result its derivative by each operand.

    Args:
      primitive: with one result.
      jvprules: ``(tangent, *primals, **params) -> tangent`` for each operand; None for zero.
    """
    _defjvp(primitive, jvprules, with_result=False)


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """As :func:`defjvp`, of ``(tangent, result, *primals, **params) -> tangent``."""
    _defjvp(primitive, jvprules, with_result=True)


def defbilinear(prim: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Say that a primitive of two operands is linear in each, and how it is transposed.

    Args:
      prim: the primitive.
      lhs_rule: ``(cotangent, lhs, rhs, **params)`` -> the cotangent of the left operand.
      rhs_rule: the same for the right operand.
    """
    defjvp(
        prim,
        lambda g, x, y, **params: prim.bind(g, y, **params),
        lambda g, x, y, **params: prim.bind(x, g, **params),
    )

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> tuple[Any, Any]:
        if type(cotangent) is Zero:
            return None, None
        if is_undefined_primal(x):
            return lhs_rule(cotangent, x, y, **params), None
        return None, rhs_rule(cotangent, x, y, **params)

    primitive_transposes[prim] = transpose


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """As ``jax.jvp``."""
    from functrax.transforms.differentiation.derivatives import jvp as public

    return public(fun, primals, tangents)
