"""Backward derivative rules of the user's own: ``custom_vjp``.

Start at :meth:`custom_vjp.__call__`; :class:`_FlatVJPRules` calls the user's two rules and checks
what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import PyTreeError, TangentError
from functrax.core.pytree.operations import (
    PyTreeDef,
    filled,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_unflatten,
)
from functrax.core.state.references import Ref
from functrax.core.tracing.inputs import as_value, concrete, shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import EVAL, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import name_of
from functrax.transforms.interpreters.custom_call import Backward, CustomVJP, SymbolicZero
from functrax.transforms.user_rules.custom_function import CustomFunction, P, R, as_given
from functrax.transforms.user_rules.rule_results import FWD_RULE, RuleFunction, brief, fitted


@with_boundaries
class custom_vjp(CustomFunction[P, R]):  # noqa: N801 - a decorator
    """Give a function a backward derivative rule of your own; it serves reverse mode only.

    Args:
      fun: a function of pytrees of arrays.
      nondiff_argnums: positions of arguments that are not differentiated; ``bwd`` gets them first.

    The rules, given to :meth:`defvjp`: ``fwd(*args) -> (value, residuals)`` and
    ``bwd(*nondiff, residuals, ct) -> cotangents``, a tuple with an entry for each differentiated
    argument (None for zero).

    >>> import functrax, functrax.numpy as jnp
    >>> @functrax.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))
    >>> functrax.grad(lambda x: 10.0 * clip_gradient(x))(3.0)
    Array(1., dtype=float32, weak_type=True)
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules.

        Args:
          fwd: takes the function's arguments (each leaf a ``CustomVJPPrimal`` with
            ``symbolic_zeros``), returns ``(value, residuals)``.
          bwd: takes the fixed arguments, the residuals and the cotangent of the value.
          symbolic_zeros: whether zero cotangents are given as ``SymbolicZero`` objects.
          optimize_remat: taken for JAX's sake; what nothing needs of ``fwd``, its residuals under
            ``checkpoint`` above all, is not computed in any case.
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic = symbolic_zeros

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.fwd is None or self.bwd is None:
            raise self._missing("VJP", "defvjp")
        positional = self._positional(args, kwargs)
        if state.trace is EVAL:
            return self.fun(*positional)  # type: ignore[no-any-return]  # no rule is asked for
        function, nondiff, merged, flat, diff_tree = self._function(positional)
        rules = _FlatVJPRules(self, function, nondiff, merged, diff_tree, flat)
        call = CustomVJP(function, rules.forward, function.__name__, self.symbolic)
        outs = state.trace.process_custom(call, flat)
        out_tree = function.out_tree if hasattr(function, "out_tree") else rules.out_tree
        return tree_unflatten(out_tree, map(concrete, outs))  # type: ignore[no-any-return]


class CustomVJPPrimal:
    """An argument of a forward rule with ``symbolic_zeros``: a value, and whether it matters.

    Args:
      value: the argument.
      perturbed: whether it is being differentiated.
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed


#: Residuals of these types are given to the backward rule as they are: it may look at numbers, and
#: write to references.
_AS_THEY_ARE: Final = (bool, int, float, complex, Ref)


class _FlatVJPRules:
    """A user's forward and backward rules as functions of flat values."""

    def __init__(
        self,
        custom: custom_vjp[Any, Any],
        function: RuleFunction,
        nondiff: Sequence[Any],
        merged: Callable[..., list[Any]],
        in_tree: PyTreeDef,
        flat: Sequence[Value],
    ) -> None:
        self.custom = custom
        self.function = function
        self.name = name_of(custom.fun)
        self.nondiff = nondiff
        self.merged = merged
        self.in_tree = in_tree
        self.in_avals = [x.aval for x in flat]
        self.out_tree: PyTreeDef
        #: What tells them from other rules, though each call of the function makes new ones.
        self.origin = (custom.fwd, custom.bwd, custom.symbolic, in_tree, *nondiff)

    def forward(
        self, *args: Value, perturbed: tuple[bool, ...]
    ) -> tuple[Sequence[Value], Sequence[Value], Backward]:
        """Results, residuals, and the backward rule for them."""
        assert self.custom.fwd is not None
        leaves: list[Any] = [concrete(x) for x in args]
        if self.custom.symbolic:
            leaves = [CustomVJPPrimal(x, p) for x, p in zip(leaves, perturbed, strict=True)]
        both = self.custom.fwd(*self.merged(*tree_unflatten(self.in_tree, leaves)))
        title = f"Custom VJP fwd rule {name_of(self.custom.fwd)} for function {self.name}"
        if not (isinstance(both, (tuple, list)) and len(both) == 2):
            raise PyTreeError(
                f"{title} must produce a pair (list or tuple of length two), but got "
                f"{brief(both)}: the value, and residuals",
                got=shown_type(both),
                fix="return value, residuals",
            )
        outs, out_tree = tree_flatten(both[0])
        self.out_tree = out_tree
        kept, tree = tree_flatten(both[1])
        is_array = [type(x) not in _AS_THEY_ARE for x in kept]
        residuals = [
            as_value(x, f"a residual of the fwd rule of {self.name}")
            for x, a in zip(kept, is_array, strict=True)
            if a
        ]

        def backward(*args: Value) -> list[Value | None]:
            """Cotangents of the differentiated arguments."""
            assert self.custom.bwd is not None
            given = iter(map(concrete, args[: len(residuals)]))
            leaves = [next(given) if a else x for x, a in zip(kept, is_array, strict=True)]
            ct = as_given(args[len(residuals) :], self.custom.symbolic)
            found = self.custom.bwd(
                *self.nondiff, tree_unflatten(tree, leaves), tree_unflatten(out_tree, ct)
            )
            return self._flat_cotangents(tuple(found) if isinstance(found, list) else found)

        values = [as_value(x, f"a value of the fwd rule of {self.name}") for x in outs]
        self.function.check_same(title, FWD_RULE, out_tree, values)
        return values, residuals, backward

    def _flat_cotangents(self, found: Any) -> list[Value | None]:
        wanted, marks = filled(self.in_tree)
        if not isinstance(found, tuple) or len(found) != len(wanted):
            raise PyTreeError(
                f"Custom VJP bwd rule {name_of(self.custom.bwd)} for function {self.name} must "
                f"produce a tuple of {len(wanted)} cotangents",
                got=shown_type(found),
                fix=f"a tuple with {len(wanted)} entries, one for each differentiated argument",
            )
        flat: dict[int, Value] = {}
        numbers = {id(mark): i for i, mark in enumerate(marks)}
        for n, (entry, part) in enumerate(zip(found, wanted, strict=True)):
            if entry is not None:
                self._fill(flat, f"output[{n}]", entry, part, numbers)
        return [flat.get(i) for i in range(len(marks))]

    def _fill(
        self, flat: dict[int, Value], name: str, entry: Any, part: Any, numbers: dict[int, int]
    ) -> None:
        """Put the cotangents of an argument at the numbers of its leaves.

        Args:
          flat: what is filled.
          name: what the argument's cotangents are called in errors.
          entry: what the rule returned for the argument.
          part: the argument's structure, filled with objects.
          numbers: by the ids of these, the numbers of the leaves.
        """
        is_none = lambda x: x is None  # noqa: E731
        given, given_tree = tree_flatten_with_path(entry, is_leaf=is_none)
        try:
            places = given_tree.flatten_up_to(part)
        except PyTreeError:
            raise self._other_structure(given_tree, part) from None
        for (path, leaf), place in zip(given, places, strict=True):
            if leaf is None:
                continue
            for i in [numbers[id(mark)] for mark in tree_leaves(place)]:  # one for each below
                aval = self.in_avals[i]
                if not dtypes.is_inexact(aval.dtype):
                    continue
                if isinstance(leaf, SymbolicZero):
                    if leaf.aval.shape != aval.shape:
                        raise self._misfit(f"{name}{keystr(path)}", leaf.aval, aval, True)
                    continue
                value = as_value(leaf, f"{name}{keystr(path)} of the bwd rule of {self.name}")
                fitting = fitted(value, aval, mixed=True)
                if fitting is None:
                    raise self._misfit(f"{name}{keystr(path)}", value.aval, aval)
                flat[i] = fitting

    def _misfit(
        self, name: str, given: ShapedArray, aval: ShapedArray, symbolic: bool = False
    ) -> TangentError:
        of_zero = (
            ", a SymbolicZero. Consider just returning a None here instead" if symbolic else ""
        )
        return TangentError(
            f"the bwd rule of {self.name} returns a cotangent that does not fit: at {name} the bwd "
            f"rule produced an output of type {given.str_long()}, for an argument of type "
            f"{aval.str_long()}{of_zero}",
            got=f"cotangent {given.str_short()} for a value {aval.str_short()}",
            fix=f"a cotangent of shape {aval.shape} and dtype {aval.dtype}",
        )

    def _other_structure(self, given: PyTreeDef, part: Any) -> PyTreeError:
        return PyTreeError(
            f"Custom VJP bwd rule {name_of(self.custom.bwd)} for function {self.name} must "
            "produce cotangents of the structure of the arguments",
            got=f"{given}, where {tree_flatten(part)[1]} is needed",
            fix="cotangents of the structure of the arguments; None stands for zeros",
        )
