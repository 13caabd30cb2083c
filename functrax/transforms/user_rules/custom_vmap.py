"""Batching rules of the user's own: ``custom_vmap`` and ``sequential_vmap``.

The decorators work on pytrees; :class:`CustomVmap` is the call as interpreters see it.  Under
``vmap`` the rule runs instead of the function.  What the rule does is ordinary operations, so the
``vmap`` around it batches those, unless the rule calls the function again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, MissingRuleError, PyTreeError, ShapeError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.reindex import iota, zeros
from functrax.core.pytree.operations import (
    PyTreeDef,
    broadcast_prefix,
    tree_flatten,
    tree_map,
    tree_unflatten,
)
from functrax.core.records import record
from functrax.core.tracing.inputs import as_value, concrete, shown_type
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import Trace, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import FlatFunction, flatten_args, name_of
from functrax.transforms.control.user_loops import map_
from functrax.transforms.interpreters.batching import BatchTrace, batch_flat, row_of
from functrax.transforms.interpreters.custom_call import CustomCallPrimitive, Flat, stage_call
from functrax.transforms.interpreters.forward import jvp_flat
from functrax.transforms.user_rules.custom_function import CustomFunction, P, R

#: ``(size, which arguments are batched, *arguments) -> results, which of them are batched``.
FlatRule = Callable[..., tuple[Sequence[Value], Sequence[bool]]]


@record(eq=False)
class CustomVmap:
    """A function with a batching rule.

    Args:
      function: flat.
      rule: flat; results that it says are batched have the axis in front.
      name: the function's name.
      jaxpr: the function's program, once it has been staged.
      num_consts: how many leading arguments are constants of the program, unknown to the rule.
    """

    function: Flat
    rule: FlatRule
    name: str
    jaxpr: Jaxpr | None = None
    num_consts: int = 0

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value | None]
    ) -> tuple[Sequence[Value], Sequence[Value | None]]:
        """Results and tangents; the batching rule of the derivative is the rule's derivative."""
        for t in tangents[: self.num_consts]:
            if t is not None:
                raise _closes_over(self.name, t.aval, "differentiated")
        number = len(primals) - self.num_consts
        moving = [i for i, t in enumerate(tangents[self.num_consts :]) if t is not None]

        def function(*args: Value) -> list[Value]:
            consts, rest = args[: self.num_consts], args[self.num_consts :]
            return _derivative(lambda *xs: self.function(*consts, *xs), rest, number, moving)

        def rule(
            size: int, batched: Sequence[bool], *args: Value
        ) -> tuple[list[Value], list[bool]]:
            return _derivative_of_rule(self.rule, size, batched, args, number, moving)

        call = CustomVmap(function, rule, self.name, num_consts=self.num_consts)
        given = [*primals, *(t for t in tangents if t is not None)]
        found = iter(state.trace.process_custom(call, given))
        pairs = [(x, next(found) if _has_tangent(x) else None) for x in found]
        return [x for x, _ in pairs], [t for _, t in pairs]

    def batch(
        self, trace: BatchTrace, args: Sequence[Value], batched: Sequence[bool]
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        """The rule, in place of the function."""
        for x, b in zip(args[: self.num_consts], batched, strict=False):
            if b:
                raise _closes_over(self.name, x.aval, "mapped")
        flags = list(batched[self.num_consts :])
        return self.rule(trace.size, flags, *args[self.num_consts :])

    def partial_eval(self, trace: Trace, args: Sequence[Value]) -> Sequence[Value]:
        """The function."""
        return self.function(*args)

    def stage(self, trace: Trace, args: Sequence[Value]) -> Sequence[Value]:
        """An equation ``custom_vmap_call``."""
        return stage_call(custom_vmap_call, self, trace, args)


def _has_tangent(x: Value) -> bool:
    return dtypes.is_inexact(x.aval.dtype)


def _derivative(
    function: Flat, args: Sequence[Value], number: int, moving: Sequence[int]
) -> list[Value]:
    """Each result and, if it can have one, its tangent; ``args[number:]`` are the tangents."""
    tangents = dict(zip(moving, args[number:], strict=True))
    outs, found = jvp_flat(function, args[:number], [tangents.get(i) for i in range(number)])
    filled = [zeros(x.aval) if t is None else t for x, t in zip(outs, found, strict=True)]
    return [y for x, t in zip(outs, filled, strict=True) for y in (x, t)[: 1 + _has_tangent(x)]]


def _derivative_of_rule(
    rule: FlatRule,
    size: int,
    batched: Sequence[bool],
    args: Sequence[Value],
    number: int,
    moving: Sequence[int],
) -> tuple[list[Value], list[bool]]:
    """The batching rule of a derivative: results and tangents, and which of them are batched.

    Where both an argument and its tangent are batched, the rule gets the batch.  Where one of them
    is, the rule's derivative is itself batched over it.
    """
    both = list(batched[:number])
    for i, b in zip(moving, batched[number:], strict=True):
        both[i] &= b
    mutual = [*both, *(both[i] for i in moving)]
    flags: list[bool] = []

    def by_rule(*xs: Value) -> Sequence[Value]:
        outs, out_batched = rule(size, both, *xs)
        pairs = zip(outs, out_batched, strict=True)
        flags.extend(b for x, b in pairs for _ in range(1 + _has_tangent(x)))
        return outs

    alone = [b and not m for b, m in zip(batched, mutual, strict=True)]
    if not any(alone):
        return _derivative(by_rule, args, number, moving), flags

    def element(own: Value, *xs: Value) -> list[Value]:
        outs = _derivative(by_rule, xs, number, moving)
        return [row_of(x, own) if b else x for x, b in zip(outs, flags, strict=True)]

    numbers = iota.bind(shape=(size,), dtype=dtypes.int32, axis=0)
    return batch_flat(element, size, [numbers, *args], [True, *alone])


def _closes_over(name: str, aval: ShapedArray, what: str) -> ArgumentError:
    return ArgumentError(
        f"{name}: a function with a batching rule closes over a value that is being {what}",
        got=aval.str_short(),
        fix="pass the value as an argument",
    )


custom_vmap_call = CustomCallPrimitive("custom_vmap_call")


@with_boundaries
class custom_vmap(CustomFunction[P, R]):  # noqa: N801 - a decorator
    """Give a function a batching rule of your own.

    Args:
      fun: a function of pytrees of arrays.

    The rule, given to :meth:`def_vmap`, takes ``(axis_size, in_batched, *args)``: the number of
    elements; for each argument a pytree of bools, whether the leaf has the mapped axis (which is
    in front); and the arguments.  It returns the results and a pytree of bools, or a prefix of one,
    that says which of them have the mapped axis in front.

    Without differentiation the rule alone says what ``vmap`` does.  Forward mode differentiates
    function and rule; reverse mode goes through the function, whose operations are batched one by
    one: wrap it in ``custom_vjp`` if that must be otherwise.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax.custom_batching import custom_vmap
    >>> @custom_vmap
    ... def total(x):
    ...     return x.sum()
    >>> @total.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return -x.sum(axis=1), True
    >>> functrax.vmap(total)(jnp.ones((3, 2)))
    Array([-2., -2., -2.], dtype=float32)
    """

    rule: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[..., Any]) -> None:
        super().__init__(fun)

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; usable as a decorator.

        Args:
          rule: ``(axis_size, in_batched, *args) -> (results, out_batched)``.
        """
        self.rule = rule
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.rule is None:
            name = name_of(self.fun)
            raise MissingRuleError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap.",
                got=f"{name} was decorated, but {name}.def_vmap was not called",
                fix=f"{name}.def_vmap(...) with the rule",
            )
        positional = self._positional(args, kwargs)
        flat, in_tree = flatten_args(self.fun, positional, {})
        function = FlatFunction(self.fun, in_tree)
        name = name_of(self.fun)
        function.__name__ = name
        rule = _FlatVmapRule(name, self.rule, tree_flatten(positional)[1], function)
        outs = state.trace.process_custom(CustomVmap(function, rule, name), flat)
        out_tree = function.out_tree if hasattr(function, "out_tree") else rule.out_tree
        return tree_unflatten(out_tree, map(concrete, outs))


class _FlatVmapRule:
    """A user's batching rule as a function of flat values."""

    def __init__(
        self, name: str, rule: Callable[..., Any], in_tree: PyTreeDef, function: FlatFunction
    ) -> None:
        self.name = name
        self.function = function
        self.rule = rule
        self.in_tree = in_tree
        self.out_tree: PyTreeDef

    def __call__(
        self, size: int, batched: Sequence[bool], *args: Value
    ) -> tuple[list[Value], list[bool]]:
        flags = tree_unflatten(self.in_tree, list(batched))
        values = tree_unflatten(self.in_tree, map(concrete, args))
        both = self.rule(size, list(flags), *values)
        if not (isinstance(both, (tuple, list)) and len(both) == 2):
            raise PyTreeError(
                f"the batching rule of {self.name} does not return a pair",
                got=shown_type(both),
                fix="return results, out_batched",
            )
        leaves, self.out_tree = tree_flatten(both[0])
        wanted = getattr(self.function, "out_tree", self.out_tree)
        if self.out_tree != wanted:
            raise PyTreeError(
                f"structure of output returned by custom vmap rule ({name_of(self.rule)}) does "
                f"not match that of original custom-vmapped function {self.name}",
                got=f"{self.out_tree}, where the function returns {wanted}",
                fix="results of the function's structure",
            )
        try:
            out_batched = broadcast_prefix(both[1], both[0])
        except PyTreeError as error:
            raise PyTreeError(
                "structure of output value and output batching specification returned by custom "
                f"vmap rule ({name_of(self.rule)}) do not match: the batching rule of {self.name} "
                "returns out_batched of another structure",
                got=f"{both[1]!r}; {error.got or error.what}",
                fix="a pytree of bools that is a prefix of the structure of the results",
            ) from None
        outs = [as_value(x, f"a result of the batching rule of {self.name}") for x in leaves]
        for x, b in zip(outs, out_batched, strict=True):
            if b and x.aval.shape[:1] != (size,):
                raise ShapeError(
                    f"the batching rule of {self.name} returns a result without the mapped axis",
                    got=f"{x.aval.str_short()} for {size} elements",
                    fix="the mapped axis in front, or False for this result in out_batched",
                )
        return outs, [bool(b) for b in out_batched]


def sequential_vmap(fun: Callable[..., Any]) -> custom_vmap[Any, Any]:
    """Have ``vmap`` of a function call it for one element after the other, by ``lax.map``.

    Args:
      fun: a function of pytrees of arrays.

    Returns:
      A function of the same arguments.

    Raises:
      ArgumentError: if ``fun`` is not callable.

    >>> import functrax, functrax.numpy as jnp
    >>> from functrax.custom_batching import sequential_vmap
    >>> functrax.vmap(sequential_vmap(jnp.cumsum))(jnp.ones((2, 3)))
    Array([[1., 2., 3.],
           [1., 2., 3.]], dtype=float32)
    """
    mapped: custom_vmap[Any, Any] = custom_vmap(fun)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
        leaves, tree = tree_flatten(args)
        flags = tree_flatten(tuple(in_batched))[0]

        def element(rows: Any) -> Any:
            own = iter(rows)
            both = [next(own) if b else x for x, b in zip(leaves, flags, strict=True)]
            return mapped(*tree_unflatten(tree, both))

        outs = map_(element, [x for x, b in zip(leaves, flags, strict=True) if b])
        return outs, tree_map(lambda _: True, outs)

    return mapped
