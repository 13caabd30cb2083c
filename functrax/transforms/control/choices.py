"""The choices that users call: ``cond`` and ``switch``.

Here pytrees are flattened, and what the branches return is brought to one type or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.core import dtypes
from functrax.core.aval import ShapedArray
from functrax.core.config import state as options
from functrax.core.errors import ArgumentError, DTypeError, PyTreeError
from functrax.core.inputs import as_value, concrete
from functrax.core.primitive import Value, literal
from functrax.core.prims.arithmetic import clamp, ne
from functrax.core.prims.convert import convert_element_type
from functrax.core.pytree import keystr, tree_flatten_with_path, tree_unflatten
from functrax.core.stage import Derived, close, eval_jaxpr, stage
from functrax.core.trace import EVAL, Tracer, state
from functrax.transforms.control.cond import cond_p, with_all_consts
from functrax.transforms.flat import FlatFunction, check_callable, flatten_args, name_of


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """Call one of two functions, chosen by a scalar when the program runs.

    Args:
      pred: a scalar; true unless it is 0.
      true_fun: called with the operands if ``pred`` is true.
      false_fun: called with the operands if it is not; must return the same types.
      operands: pytrees of arrays.

    Raises:
      ShapeError, DTypeError, PyTreeError: if ``pred`` is no scalar, or the branches differ.

    >>> from functrax import lax
    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3.0)
    Array(4., dtype=float32, weak_type=True)
    """
    check_callable("cond", true_fun)
    check_callable("cond", false_fun)
    value = as_value(pred, "the predicate of cond")
    if value.aval.shape:
        raise DTypeError(
            "cond: the predicate is not a scalar",
            got=value.aval.str_short(),
            fix="pred.all() or pred.any(); functrax.numpy.where or vmap to choose by element",
        )
    if value.aval.dtype != dtypes.bool_:
        value = ne.bind(value, literal(0, value.aval.dtype))
    index = convert_element_type.bind(value, dtype=dtypes.int32)
    return _choose("cond", index, (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call one of several functions, chosen by an integer when the program runs.

    Args:
      index: a scalar integer; clamped to the number of branches.
      branches: functions of the operands; all must return the same types.
      operands: pytrees of arrays.

    >>> from functrax import lax
    >>> lax.switch(1, [lambda x: x, lambda x: x * 10], 3)
    Array(30, dtype=int32, weak_type=True)
    """
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
    return _choose("switch", value, functions, operands)


def _choose(
    name: str, index: Value, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    if options.disable_jit and state.trace is EVAL:
        return functions[int(concrete(index))](*operands)
    flat, in_tree = flatten_args(functions[0], operands, {})
    avals = [x.aval for x in flat]
    traced, derived = [], []
    for function in functions:
        flat_fun = FlatFunction(function, in_tree)
        jaxpr, consts = stage(flat_fun, avals, name_of(function))
        traced.append((flat_fun, jaxpr.out_avals))
        derived.append(Derived(close(jaxpr), tuple(consts), ()))
    types = _common_types(name, functions, traced)
    derived = [_converted(d, types) for d in derived]
    if state.trace is not EVAL and not isinstance(index, Tracer):
        taken = derived[int(concrete(index))]
        outs = eval_jaxpr(taken.jaxpr, (), *taken.consts, *flat)
        return tree_unflatten(traced[0][0].out_tree, map(concrete, outs))
    branches, consts = with_all_consts(derived)
    outs = cond_p.bind(index, *consts, *flat, branches=branches)
    return tree_unflatten(traced[0][0].out_tree, map(concrete, outs))


def _converted(branch: Derived, types: Sequence[ShapedArray]) -> Derived:
    """A branch whose results have the common types."""
    jaxpr = branch.jaxpr
    if jaxpr.out_avals == list(types):
        return branch

    def converted(*args: Value) -> list[Value]:
        return [
            x if x.aval is a else convert_element_type.bind(x, dtype=a.dtype, weak_type=a.weak_type)
            for x, a in zip(eval_jaxpr(jaxpr, (), *args), types, strict=True)
        ]

    made, consts = stage(converted, jaxpr.in_avals, jaxpr.name)
    assert not consts, "a program without constants gains none"
    return Derived(made, branch.consts, ())


def _common_types(
    name: str, functions: Sequence[Any], traced: Sequence[tuple[FlatFunction, list[ShapedArray]]]
) -> list[ShapedArray]:
    """The types of the results: weak ones give way, other differences are refused."""
    first, types = traced[0]
    types = list(types)
    for function, (flat_fun, avals) in zip(functions[1:], traced[1:], strict=True):
        names = f"{name_of(functions[0])} and {name_of(function)}"
        if flat_fun.out_tree != first.out_tree:
            raise PyTreeError(
                f"{name}: the branches return different structures",
                got=f"{names}: {first.out_tree} and {flat_fun.out_tree}",
                fix="return the same containers from every branch",
            )
        dummy = tree_unflatten(first.out_tree, list(range(len(types))))
        for (path, i), aval in zip(tree_flatten_with_path(dummy)[0], avals, strict=True):
            types[i] = _common_type(name, names, keystr(path), types[i], aval)
    return types


def _common_type(name: str, names: str, path: str, a: ShapedArray, b: ShapedArray) -> ShapedArray:
    if a.shape == b.shape:
        if a.dtype == b.dtype:
            return a if not a.weak_type else b
        if a.weak_type != b.weak_type and a.dtype.kind == b.dtype.kind:
            return b if a.weak_type else a
    raise DTypeError(
        f"{name}: the branches return different types",
        got=f"{names}: result{path} is {a.str_short()} and {b.str_short()}",
        fix="return arrays of the same shapes and dtypes from every branch",
    )
