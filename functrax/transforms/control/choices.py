"""The choices that users call: ``cond`` and ``switch``.

Here pytrees are flattened, and what the branches return is brought to one type or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from functrax.core.errors.typed import ArgumentError, DTypeError, PyTreeError
from functrax.core.options.config import state as options
from functrax.core.prims.arithmetic import clamp
from functrax.core.prims.comparisons import ne
from functrax.core.prims.convert import convert_element_type
from functrax.core.pytree.operations import filled, keystr, tree_flatten_with_path, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value, literal
from functrax.core.tracing.stage import (
    Derived,
    Effects,
    close,
    eval_jaxpr,
    stage,
    stage_with_references,
)
from functrax.core.tracing.trace import EVAL, Tracer, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import FlatFunction, check_callable, flatten_fixing, name_of
from functrax.transforms.arguments.leaf_types import leaf_types
from functrax.transforms.control.cond import cond_p, with_all_consts
from functrax.typing import ArrayLike

T = TypeVar("T")


class _NoOperand:
    """Stands for a keyword ``operand`` that is not given; None is an operand."""

    def __repr__(self) -> str:
        return "<no operand>"


_NO_OPERAND = _NoOperand()


def _operands(name: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    """The operands of a choice, given by position or as the one keyword ``operand``."""
    if operand is _NO_OPERAND:
        return operands
    if operands:
        raise ArgumentError(
            f"{name}: operands are given by position and by keyword",
            got=f"{len(operands)} by position, and operand=",
            fix="give all of them by position",
        )
    return (operand,)


@overload
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., T],
    false_fun: Callable[..., T],
    *operands: Any,
    operand: Any = ...,
) -> T: ...
@overload
def cond(
    pred: ArrayLike,
    true_operand: Any,
    true_fun: Callable[[Any], T],
    false_operand: Any,
    false_fun: Callable[[Any], T],
    /,
) -> T: ...
def cond(
    pred: Any, true_fun: Any, false_fun: Any, *operands: Any, operand: Any = _NO_OPERAND
) -> Any:
    """Call one of two functions, chosen by a scalar when the program runs.

    Args:
      pred: a scalar; true unless it is 0.
      true_fun: called with the operands if ``pred`` is true.
      false_fun: called with the operands if it is not; must return the same shapes and dtypes.
      operands: pytrees of arrays.
      operand: older programs give the one operand by this name.

    Returns:
      What the chosen function returns, as arrays.

    Raises:
      DTypeError: if ``pred`` is no scalar, or the branches' shapes or dtypes differ.
      PyTreeError: if the branches return different structures.

    Older programs also call ``cond(pred, true_operand, true_fun, false_operand, false_fun)``.

    Results are of weak type where those of ``false_fun`` are.


    >>> from functrax import lax
    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3.0)
    Array(4., dtype=float32, weak_type=True)
    """
    if len(operands) == 2 and callable(false_fun) and callable(operands[1]):
        if not callable(true_fun):
            first, yes, (second, no) = true_fun, false_fun, operands
            return cond(pred, lambda a, _: yes(a), lambda _, b: no(b), first, second)
    operands = _operands("cond", operands, operand)
    check_callable("cond", true_fun)
    check_callable("cond", false_fun)
    if pred is None:
        raise DTypeError("cond predicate is None", got="None", fix="a scalar of bool")
    value = as_value(pred, "the predicate of cond")
    if value.aval.shape or dtypes.is_complex(value.aval.dtype):
        raise DTypeError(
            "cond: the predicate is not a real scalar",
            got=value.aval.str_short(),
            fix="pred.all() or pred.any(); functrax.numpy.where or vmap to choose by element",
        )
    if value.aval.dtype != dtypes.bool_:
        value = ne.bind(value, literal(0, value.aval.dtype))
    index = convert_element_type.bind(value, dtype=dtypes.int32)
    return _choose("cond", index, (false_fun, true_fun), operands)


def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., T]],
    *operands: Any,
    operand: Any = _NO_OPERAND,
) -> T:
    """Call one of several functions, chosen by an integer when the program runs.

    Args:
      index: a scalar integer; clamped to the number of branches.
      branches: functions of the operands; all must return the same shapes and dtypes.
      operands: pytrees of arrays.
      operand: older programs give the one operand by this name.

    Returns:
      What the chosen function returns, as arrays.

    Raises:
      ArgumentError: if there are no branches, or one is not a function.
      DTypeError: if the index is not a scalar integer, or the branches' shapes or dtypes differ.
      PyTreeError: if the branches return different structures.

    Results are of weak type where those of the first branch are.

    >>> from functrax import lax
    >>> lax.switch(1, [lambda x: x, lambda x: x * 10], 3)
    Array(30, dtype=int32, weak_type=True)
    """
    operands = _operands("switch", operands, operand)
    functions = tuple(branches)
    if not functions:
        raise ArgumentError("switch: there are no branches", got="()", fix="at least one function")
    for function in functions:
        check_callable("switch", function)
    value = as_value(index, "the index of switch")
    if value.aval.shape or not dtypes.is_integer(value.aval.dtype):
        raise DTypeError(
            "switch: the index is not a scalar integer",
            got=value.aval.str_short(),
            fix="index.astype('int32')",
        )
    value = convert_element_type.bind(value, dtype=dtypes.int32)
    last = literal(len(functions) - 1, dtypes.int32)
    value = clamp.bind(literal(0, dtypes.int32), value, last)
    if len(functions) == 1:
        return functions[0](*operands)
    return _choose("switch", value, functions, operands)  # type: ignore[no-any-return]


def _choose(
    name: str, index: Value, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    if options.disable_jit and state.trace is EVAL:
        return functions[int(concrete(index))](*operands)
    _, flat, in_tree = flatten_fixing(functions[0], operands)
    avals = [x.aval for x in flat]
    traced: list[tuple[FlatFunction, list[ShapedArray]]] = []
    derived: list[Derived] = []
    written: list[Effects | None] = []
    for n, function in enumerate(functions):
        same = next((k for k in range(n) if functions[k] is function), n)
        if same < n:  # its effects on Python happen once, too
            traced.append(traced[same])
            derived.append(derived[same])
            written.append(written[same])
            continue
        flat_fun = FlatFunction(function, in_tree)
        jaxpr, consts, effects = stage_with_references(flat_fun, avals, name_of(function))
        traced.append((flat_fun, jaxpr.out_avals[len(effects.targets) if effects else 0 :]))
        derived.append(Derived(close(jaxpr), tuple(consts), ()))
        written.append(effects)
    types = _common_types(name, functions, traced)
    if any(written):
        from functrax.transforms.arguments.discharge import write_back
        from functrax.transforms.control.written import writing_branches

        refs, derived = writing_branches(derived, written)
        avals = [*(ref._aval for ref in refs), *types]
        outs = choose(index, [converted(d, avals) for d in derived], flat)
        write_back(refs, outs[: len(refs)])
        return tree_unflatten(traced[0][0].out_tree, map(concrete, outs[len(refs) :]))
    derived = [converted(d, types) for d in derived]
    outs = choose(index, derived, flat)
    return tree_unflatten(traced[0][0].out_tree, map(concrete, outs))


def choose(index: Value, derived: Sequence[Derived], flat: Sequence[Value]) -> list[Value]:
    """The results of the program that an index chooses."""
    if state.trace is not EVAL and not isinstance(index, Tracer):
        taken = derived[int(concrete(index))]
        return eval_jaxpr(taken.jaxpr, (), *taken.consts, *flat)
    branches, consts = with_all_consts(derived)
    outs: list[Value] = cond_p.bind(index, *consts, *flat, branches=branches)
    return outs


def converted(branch: Derived, types: Sequence[ShapedArray]) -> Derived:
    """A branch whose results have the common types."""
    jaxpr = branch.jaxpr
    if jaxpr.out_avals == list(types):
        return branch

    def of_common_types(*args: Value) -> list[Value]:
        return [
            x if x.aval is a else convert_element_type.bind(x, dtype=a.dtype, weak_type=a.weak_type)
            for x, a in zip(eval_jaxpr(jaxpr, (), *args), types, strict=True)
        ]

    made, consts = stage(of_common_types, jaxpr.in_avals, jaxpr.name)
    assert not consts, "a program without constants gains none"
    return Derived(made, branch.consts, ())


def _common_types(
    name: str, functions: Sequence[Any], traced: Sequence[tuple[FlatFunction, list[ShapedArray]]]
) -> list[ShapedArray]:
    """The types of the results: the first branch's; others may differ in the weak type alone."""
    first, types = traced[0]
    for k, (flat_fun, avals) in enumerate(traced[1:], 1):
        names = f"{_branch(name, functions, k)} and {_branch(name, functions, 0)}"
        if flat_fun.out_tree != first.out_tree:
            raise PyTreeError(
                f"{name}: {name} branch outputs must have the same pytree structure",
                got=f"{names}: {flat_fun.out_tree} and {first.out_tree}",
                fix="return the same containers from every branch",
            )
        if [(a.shape, a.dtype) for a in avals] != [(a.shape, a.dtype) for a in types]:
            raise _differing(name, names, first, types, avals)
    return types


def _branch(name: str, functions: Sequence[Any], k: int) -> str:
    """What the user gave as a branch; that of ``cond`` for False is the first here."""
    argument = ("false_fun", "true_fun")[k] if name == "cond" else f"branches[{k}]"
    return f"{argument} {name_of(functions[k])}"


def _differing(
    name: str,
    names: str,
    first: FlatFunction,
    types: Sequence[ShapedArray],
    avals: Sequence[ShapedArray],
) -> DTypeError:
    """The error for the first result whose types differ."""
    tree = first.out_tree
    dummy, _ = filled(tree)
    shown = zip(leaf_types(tree, types), leaf_types(tree, avals), strict=True)
    path, a, b = next(
        (path, a, b)
        for (path, _), (a, b) in zip(tree_flatten_with_path(dummy)[0], shown, strict=True)
        if (a.shape, a.dtype) != (b.shape, b.dtype)
    )
    return DTypeError(
        f"{name}: the branches return different types",
        got=f"{names}: result{keystr(path)} is {b.str_short()} and {a.str_short()}",
        fix="return arrays of the same shapes and dtypes from every branch",
    )
