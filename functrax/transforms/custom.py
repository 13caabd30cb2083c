"""Derivative rules of the user's own: ``custom_jvp``, ``custom_vjp``, ``custom_gradient``.

Both decorators work on pytrees here and hand flat functions to ``transforms/custom_call.py``.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from functrax.core import dtypes
from functrax.core.arguments import argument_error
from functrax.core.aval import ShapedArray
from functrax.core.errors import ArgumentError, PyTreeError, TangentError
from functrax.core.inputs import as_value, concrete, shown_type
from functrax.core.jaxpr import Jaxpr
from functrax.core.primitive import Value
from functrax.core.prims.convert import convert_element_type
from functrax.core.pytree import (
    PyTreeDef,
    filled,
    keystr,
    register_static,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_unflatten,
)
from functrax.core.references import Ref
from functrax.core.stage import eval_jaxpr, stage
from functrax.core.trace import Tracer, state
from functrax.core.tracebacks import with_boundaries
from functrax.transforms.custom_call import Backward, CustomJVP, CustomVJP, SymbolicZero
from functrax.transforms.discharge import handed_on
from functrax.transforms.flat import (
    FlatFunction,
    argnums_tuple,
    flatten_args,
    flatten_fixing,
    name_of,
    signature_of,
)
from functrax.transforms.forward import zero_tangent


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
            raise argument_error(self.fun, args, kwargs, error) from None
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentError(
                f"{name_of(self.fun)}: keyword-only arguments have no place in a custom rule",
                got=", ".join(bound.kwargs),
                fix="make them positional, or close over them",
            )
        return bound.args

    def _split(self, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], Callable[..., Any]]:
        """Fixed arguments, differentiated ones, and the function of the latter."""
        fixed = {i % len(args) for i in self.nondiff_argnums} if args else set()
        nondiff = [args[i] for i in sorted(fixed)]
        diff = [x for i, x in enumerate(args) if i not in fixed]

        def merged(*differentiated: Any) -> list[Any]:
            rest = iter(differentiated)
            return [x if i in fixed else next(rest) for i, x in enumerate(args)]

        return nondiff, diff, merged

    def _missing(self, decorator: str, method: str) -> ArgumentError:
        name = name_of(self.fun)
        return ArgumentError(
            f"{decorator}: {name} has no derivative rule yet",
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
            raise self._missing("custom_jvp", "defjvp")
        nondiff, diff, merged = self._split(self._positional(args, kwargs))
        given = diff
        diff, flat, in_tree = flatten_fixing(self.fun, given)
        if diff is not given:
            handed_on(diff)
        name = name_of(self.fun)
        function = FlatFunction(lambda *xs: self.fun(*merged(*xs)), in_tree)
        function.__name__ = name
        flat_rule = _FlatJVPRule(
            name, self.rule, self.symbolic, nondiff, tree_flatten(tuple(diff))[1]
        )
        call = CustomJVP(function, flat_rule, name, self.symbolic)
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
        name: str,
        rule: Callable[..., Any],
        symbolic: bool,
        nondiff: Sequence[Any],
        in_tree: PyTreeDef,
    ) -> None:
        self.name = name
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
                f"the jvp rule of {self.name} does not return a pair",
                got=shown_type(both),
                fix="return value, tangent",
            )
        outs, self.out_tree = tree_flatten(both[0])
        tangents_out, tangent_tree = tree_flatten(both[1])
        if tangent_tree != self.out_tree:
            raise PyTreeError(
                f"the jvp rule of {self.name} returns a tangent of another structure",
                got=f"value {self.out_tree}, tangent {tangent_tree}",
                fix="a tangent of the structure of the value",
            )
        results = [as_value(x, f"a value of the jvp rule of {self.name}") for x in outs]
        return [*results, *map(self._checked, tangents_out, results)]

    def _checked(self, tangent: Any, out: Value) -> Any:
        if isinstance(tangent, SymbolicZero) or not dtypes.is_inexact(out.aval.dtype):
            return SymbolicZero(out.aval)
        value = as_value(tangent, f"a tangent of the jvp rule of {self.name}")
        return fitted(f"the jvp rule of {self.name}", "tangent", value, out.aval)


def fitted(rule: str, what: str, value: Value, aval: ShapedArray) -> Value:
    """A tangent or cotangent from a user's rule, refused unless it has the right type."""
    if value.aval.shape != aval.shape or (
        value.aval.dtype != aval.dtype and not value.aval.weak_type
    ):
        raise TangentError(
            f"{rule} returns a {what} that does not fit",
            got=f"{what} {value.aval.str_short()} for a value {aval.str_short()}",
            fix=f"a {what} of shape {aval.shape} and dtype {aval.dtype}",
        )
    if value.aval.dtype != aval.dtype:
        return convert_element_type.bind(value, dtype=aval.dtype)
    return value


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
          optimize_remat: accepted for compatibility.
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic = symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise self._missing("custom_vjp", "defvjp")
        nondiff, diff, merged = self._split(self._positional(args, kwargs))
        given = diff
        diff, flat, in_tree = flatten_fixing(self.fun, given)
        if diff is not given:
            handed_on(diff)
        name = name_of(self.fun)
        function = FlatFunction(lambda *xs: self.fun(*merged(*xs)), in_tree)
        function.__name__ = name
        rules = _FlatVJPRules(self, nondiff, merged, tree_flatten(tuple(diff))[1], flat)
        call = CustomVJP(function, rules.forward, name, self.symbolic)
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
        nondiff: Sequence[Any],
        merged: Callable[..., list[Any]],
        in_tree: PyTreeDef,
        flat: Sequence[Value],
    ) -> None:
        self.custom = custom
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
        if not (isinstance(both, (tuple, list)) and len(both) == 2):
            raise PyTreeError(
                f"the fwd rule of {self.name} does not return a pair",
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
        return values, residuals, backward

    def _flat_cotangents(self, found: Any) -> list[Value | None]:
        wanted, marks = filled(self.in_tree)
        if not isinstance(found, tuple) or len(found) != len(wanted):
            raise PyTreeError(
                f"the bwd rule of {self.name} must return a tuple of cotangents",
                got=shown_type(found),
                fix=f"a tuple with {len(wanted)} entries, one for each differentiated argument",
            )
        flat: dict[int, Value] = {}
        numbers = {id(mark): i for i, mark in enumerate(marks)}
        for entry, part in zip(found, wanted, strict=True):
            if entry is not None:
                self._fill(flat, entry, part, numbers)
        return [flat.get(i) for i in range(len(marks))]

    def _fill(self, flat: dict[int, Value], entry: Any, part: Any, numbers: dict[int, int]) -> None:
        """Put the cotangents of an argument at the numbers of its leaves.

        Args:
          flat: what is filled.
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
            if leaf is None or isinstance(leaf, SymbolicZero):
                continue
            i = numbers.get(id(place))
            if i is None:
                raise self._other_structure(given_tree, part)
            aval = self.in_avals[i]
            if not dtypes.is_inexact(aval.dtype):
                continue
            what = f"cotangent{keystr(path)}"
            value = as_value(leaf, f"a {what} of the bwd rule of {self.name}")
            flat[i] = fitted(f"the bwd rule of {self.name}", what, value, aval)

    def _other_structure(self, given: PyTreeDef, part: Any) -> PyTreeError:
        return PyTreeError(
            f"the bwd rule of {self.name} returns a cotangent of another structure",
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
    num_args = len(example_args)
    out_tree = flat_fun.out_tree

    def converted(*args_and_consts: Any) -> Any:
        args, given = args_and_consts[:num_args], iter(args_and_consts[num_args:])
        leaves, tree = flatten_args(fun, args, {})
        if tree != in_tree:
            raise PyTreeError(
                f"closure_convert: {name_of(fun)} was converted for other arguments",
                got=f"{tree}, where {in_tree} is needed",
                fix="closure_convert again, with examples of these arguments",
            )
        merged = [next(given) if h else c for c, h in zip(consts, hoisted, strict=True)]
        outs = eval_jaxpr(jaxpr, [as_value(c) for c in merged], *leaves)
        return tree_unflatten(out_tree, map(concrete, outs))

    return converted, [c for c, h in zip(consts, hoisted, strict=True) if h]
