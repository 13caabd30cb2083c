"""Forward derivative rules of the user's own: ``custom_jvp``.

Start at :meth:`custom_jvp.__call__`; :class:`_FlatJVPRule` calls the user's rule and checks what
it returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, PyTreeError, TangentError
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_map, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete, shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import EVAL, state
from functrax.core.types import dtypes
from functrax.transforms.arguments.flat import name_of
from functrax.transforms.interpreters.custom_call import CustomJVP, SymbolicZero
from functrax.transforms.user_rules.custom_function import CustomFunction, P, R, as_given
from functrax.transforms.user_rules.rule_results import JVP_RULE, RuleFunction, brief, fitted


@with_boundaries
class custom_jvp(CustomFunction[P, R]):  # noqa: N801 - a decorator
    """Give a function a forward derivative rule of your own; it serves both modes.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are not differentiated (functions, options);
        the rule gets them first.

    The rule, given to :meth:`defjvp`, takes ``(primals, tangents)``, two tuples with an entry for
    each differentiated argument, and returns ``(value, tangent)``.  The rule is differentiated
    again for higher orders.

    >>> import functrax, functrax.numpy as jnp
    >>> @functrax.custom_jvp
    ... def softplus(x):
    ...     return jnp.logaddexp(x, 0.0)
    >>> @softplus.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return softplus(x), t / (1.0 + jnp.exp(-x))
    >>> functrax.grad(softplus)(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    rule: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule; usable as a decorator.

        Args:
          jvp: ``(*nondiff, primals, tangents) -> (value, tangent)``.
          symbolic_zeros: whether zero tangents are given as ``SymbolicZero`` objects.
        """
        self.rule = jvp
        self.symbolic = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule for each argument: ``(tangent, value, *primals) -> tangent of the value``.

        None stands for an argument without influence.
        """
        if self.nondiff_argnums:
            raise ArgumentError(
                "defjvps: not with nondiff_argnums",
                got=f"nondiff_argnums={self.nondiff_argnums}",
                fix="use defjvp",
            )

        def rule(primals: Any, tangents: Any) -> Any:
            again: Any = self
            value = again(*primals)
            terms = [
                jvp(t, value, *primals)
                for jvp, t in zip(jvps, tangents, strict=True)
                if jvp is not None
            ]
            zero = tree_map(lambda x: x * 0, value)
            total = functools.reduce(lambda a, b: tree_map(lambda x, y: x + y, a, b), terms, zero)
            return value, total

        self.defjvp(rule)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.rule is None:
            raise self._missing("JVP", "defjvp")
        positional = self._positional(args, kwargs)
        if state.trace is EVAL:
            return self.fun(*positional)  # type: ignore[no-any-return]  # no rule is asked for
        function, nondiff, _, flat, diff_tree = self._function(positional)
        flat_rule = _FlatJVPRule(function, self.rule, self.symbolic, nondiff, diff_tree)
        call = CustomJVP(function, flat_rule, function.__name__, self.symbolic)
        outs = state.trace.process_custom(call, flat)
        out_tree = function.out_tree if hasattr(function, "out_tree") else flat_rule.out_tree
        return tree_unflatten(out_tree, map(concrete, outs))  # type: ignore[no-any-return]


class _FlatJVPRule:
    """A user's forward rule as a function of flat values."""

    def __init__(
        self,
        function: RuleFunction,
        rule: Callable[..., Any],
        symbolic: bool,
        nondiff: Sequence[Any],
        in_tree: PyTreeDef,
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.title = f"Custom JVP rule {name_of(rule)} for function {self.name}"
        self.rule = rule
        self.symbolic = symbolic
        self.nondiff = nondiff
        self.in_tree = in_tree
        self.out_tree: PyTreeDef
        #: What tells it from other rules, though each call of the function makes a new one.
        self.origin = (rule, symbolic, in_tree, *nondiff)

    def __call__(self, *args: Value) -> list[Value]:
        half = len(args) // 2
        primals = tree_unflatten(self.in_tree, map(concrete, args[:half]))
        tangents = tree_unflatten(self.in_tree, as_given(args[half:], self.symbolic))
        both = self.rule(*self.nondiff, primals, tangents)
        if not (isinstance(both, (tuple, list)) and len(both) == 2):
            raise PyTreeError(
                f"{self.title} must produce a pair (list or tuple of length two) representing "
                f"primal and tangent outputs, but got {brief(both)}",
                got=shown_type(both),
                fix="return value, tangent",
            )
        outs, self.out_tree = tree_flatten(both[0])
        tangents_out, tangent_tree = tree_flatten(both[1])
        if tangent_tree != self.out_tree:
            raise PyTreeError(
                f"{self.title} must produce primal and tangent outputs with equal container "
                f"(pytree) structures, but got {self.out_tree} and {tangent_tree} respectively.",
                got=f"value {self.out_tree}, tangent {tangent_tree}",
                fix="a tangent of the structure of the value",
            )
        results = [as_value(x, f"a value of the jvp rule of {self.name}") for x in outs]
        self.function.check_same(self.title, JVP_RULE, self.out_tree, results)
        return [*results, *map(self._checked, tangents_out, results)]

    def _checked(self, tangent: Any, out: Value) -> Any:
        if isinstance(tangent, SymbolicZero) or not dtypes.is_inexact(out.aval.dtype):
            return SymbolicZero(out.aval)
        value = as_value(tangent, f"a tangent of the jvp rule of {self.name}")
        fitting = fitted(value, out.aval)
        if fitting is not None:
            return fitting
        wanted = out.aval.str_long()
        raise TangentError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and "
            f"dtypes. Expected {wanted} (tangent type of {wanted}) but got "
            f"{value.aval.str_long()}.",
            got=f"a tangent {value.aval.str_short()} of the jvp rule of {self.name}",
            fix=f"a tangent of shape {out.aval.shape} and dtype {out.aval.dtype}",
        )
