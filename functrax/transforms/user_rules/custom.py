"""Derivative rules of the user's own: ``custom_jvp``, ``custom_vjp``, ``custom_gradient``.

Both decorators work on pytrees here and hand flat functions to
``transforms/interpreters/custom_call.py``.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from functrax.core.boundaries.arguments import argument_error
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, MissingRuleError, PyTreeError, TangentError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.pytree.operations import (
    PyTreeDef,
    filled,
    keystr,
    register_static,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_unflatten,
)
from functrax.core.state.references import Ref
from functrax.core.tracing.inputs import as_value, concrete, shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import eval_jaxpr, stage
from functrax.core.tracing.trace import EVAL, Tracer, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.discharge import handed_on
from functrax.transforms.arguments.flat import (
    FlatFunction,
    argnums_tuple,
    flatten_args,
    flatten_fixing,
    name_of,
    signature_of,
)
from functrax.transforms.interpreters.custom_call import (
    Backward,
    CustomJVP,
    CustomVJP,
    SymbolicZero,
)
from functrax.transforms.interpreters.forward import zero_tangent
from functrax.transforms.user_rules.rule_results import (
    FWD_RULE,
    JVP_RULE,
    RuleFunction,
    brief,
    fitted,
)


class _Call(NamedTuple):
    """A call of a function with a rule: see :meth:`CustomFunction._function`."""

    function: RuleFunction
    nondiff: list[Any]  # the fixed arguments
    merged: Callable[..., Any]  # all arguments, from the others
    flat: list[Value]
    diff_tree: PyTreeDef  # of the others


@with_boundaries
class CustomFunction(ABC):
    """What the two decorators share: resolving arguments, and putting the fixed ones aside."""

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, with its rules."""

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.signature = signature_of(fun)
        names = list(self.signature.parameters) if nondiff_argnames and self.signature else []
        for unknown in sorted(set(nondiff_argnames) - set(names)):
            raise ArgumentError(
                f"nondiff_argnames names an argument that {name_of(fun)} does not have",
                got=repr(unknown),
                fix=f"one of {', '.join(names) or 'its arguments, of which it tells none'}",
            )
        by_name = tuple(names.index(n) for n in nondiff_argnames)
        self.nondiff_argnums = (*argnums_tuple(nondiff_argnums), *by_name)
        self.symbolic = False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in."""
        if self.signature is None:
            return args
        if not kwargs and len(args) == len(self.signature.parameters):
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._unresolved(args, kwargs, error) from None
        bound.apply_defaults()
        named = [name for name in bound.kwargs if name in kwargs]  # others keep their defaults
        if named:
            raise ArgumentError(
                f"{self._unplaced()}\nThe following keyword arguments could not be resolved to "
                f"positions: {', '.join(named)}",
                got=", ".join(named),
                fix="make them positional, or close over them",
            )
        return bound.args

    def _unresolved(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError
    ) -> ArgumentError:
        found = argument_error(self.fun, args, kwargs, error)
        return ArgumentError(
            f"{found.what}. {self._unplaced()} Binding failed with the error:\n{error}",
            got=found.got,
            fix=found.fix,
        )

    def _unplaced(self) -> str:
        found_in = f"{type(self).__name__}-decorated function {name_of(self.fun)}{self.signature}"
        return (
            f"The input arguments to the {found_in} could not be resolved to positional-only "
            "arguments."
        )

    def __getattr__(self, name: str) -> Any:
        # Decorators on top of each other: a rule is given to the one that it is for.
        if name in ("def_vmap", "defjvp", "defjvps", "defvjp") and "fun" in vars(self):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _split(self, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], Callable[..., Any]]:
        """Fixed arguments, differentiated ones, and the function of the latter."""
        fixed = {i % len(args) for i in self.nondiff_argnums} if args else set()
        nondiff = [args[i] for i in sorted(fixed)]
        diff = [x for i, x in enumerate(args) if i not in fixed]
        # Rules outlive the call, in programs: they must not hold what may be traced.
        kept = [x if i in fixed else None for i, x in enumerate(args)]

        def merged(*differentiated: Any) -> list[Any]:
            rest = iter(differentiated)
            return [x if i in fixed else next(rest) for i, x in enumerate(kept)]

        return nondiff, diff, merged

    def _function(self, positional: tuple[Any, ...]) -> _Call:
        """What is needed to call the function with its rule: the arguments, and it as flat."""
        nondiff, given, merged = self._split(positional)
        diff, flat, in_tree = flatten_fixing(self.fun, given)
        if diff is not given:
            handed_on(diff)
        function = RuleFunction(lambda *xs: self.fun(*merged(*xs)), in_tree)
        function.__name__ = name_of(self.fun)
        return _Call(function, nondiff, merged, flat, tree_flatten(tuple(diff))[1])

    def _missing(self, kind: str, method: str) -> MissingRuleError:
        name = name_of(self.fun)
        return MissingRuleError(
            f"No {kind} defined for {type(self).__name__} function {name} using {method}.",
            got=f"{name} was decorated, but {name}.{method} was not called",
            fix=f"{name}.{method}(...) with the rule",
        )


@with_boundaries
class custom_jvp(CustomFunction):  # noqa: N801 - a decorator
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
            value = self(*primals)
            terms = [
                jvp(t, value, *primals)
                for jvp, t in zip(jvps, tangents, strict=True)
                if jvp is not None
            ]
            zero = tree_map(lambda x: x * 0, value)
            total = functools.reduce(lambda a, b: tree_map(lambda x, y: x + y, a, b), terms, zero)
            return value, total

        self.defjvp(rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.rule is None:
            raise self._missing("JVP", "defjvp")
        positional = self._positional(args, kwargs)
        if state.trace is EVAL:
            return self.fun(*positional)  # no rule is asked for
        function, nondiff, _, flat, diff_tree = self._function(positional)
        flat_rule = _FlatJVPRule(function, self.rule, self.symbolic, nondiff, diff_tree)
        call = CustomJVP(function, flat_rule, function.__name__, self.symbolic)
        outs = state.trace.process_custom(call, flat)
        out_tree = function.out_tree if hasattr(function, "out_tree") else flat_rule.out_tree
        return tree_unflatten(out_tree, map(concrete, outs))


def _as_given(tangents: Sequence[Any], symbolic: bool) -> list[Any]:
    """Tangents as a user's rule gets them: those of integers are arrays of float0, or symbolic."""
    return [
        zero_tangent(t.aval) if isinstance(t, SymbolicZero) and not symbolic else concrete(t)
        for t in tangents
    ]


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

    def __call__(self, *args: Value) -> list[Value]:
        half = len(args) // 2
        primals = tree_unflatten(self.in_tree, map(concrete, args[:half]))
        tangents = tree_unflatten(self.in_tree, _as_given(args[half:], self.symbolic))
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


@with_boundaries
class custom_vjp(CustomFunction):  # noqa: N801 - a decorator
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise self._missing("VJP", "defvjp")
        positional = self._positional(args, kwargs)
        if state.trace is EVAL:
            return self.fun(*positional)  # no rule is asked for
        function, nondiff, merged, flat, diff_tree = self._function(positional)
        rules = _FlatVJPRules(self, function, nondiff, merged, diff_tree, flat)
        call = CustomVJP(function, rules.forward, function.__name__, self.symbolic)
        outs = state.trace.process_custom(call, flat)
        out_tree = function.out_tree if hasattr(function, "out_tree") else rules.out_tree
        return tree_unflatten(out_tree, map(concrete, outs))


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
        custom: custom_vjp,
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
            ct = _as_given(args[len(residuals) :], self.custom.symbolic)
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
