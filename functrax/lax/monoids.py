"""Reductions by a function of two scalars, as users write it.

The named monoids (sum, product, max, min, and, or, xor) are recognised by the one equation that the
function consists of.  Any other associative function combines neighbours, then neighbours of the
results, and so on: a tree of depth log2 of the number of elements, in which every step is one
call of the function on whole arrays.

Start at :func:`reduce`; ``functrax.lax.windows`` uses the same two halves for windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError, PyTreeError, ShapeError
from functrax.core.prims import reduce as prims
from functrax.core.prims.extrema import reduced
from functrax.core.prims.reduce import op_identity
from functrax.core.prims.reindex import broadcast_in_dim, reshape, transpose_
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_unflatten
from functrax.core.tracing.primitive import Primitive, Value, literal, registry
from functrax.core.tracing.stage import stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.lax.operands import as_array, axes_of, repeat, value_of
from functrax.transforms.mapping.vmap import vmap

REDUCTIONS: dict[str, Primitive] = {
    "add": prims.reduce_sum,
    "mul": prims.reduce_prod,
    "max": prims.reduce_max,
    "min": prims.reduce_min,
    "and": prims.reduce_and,
    "or": prims.reduce_or,
    "xor": prims.reduce_xor,
}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """Combine the elements along axes by an associative function.

    Args:
      operands: an array, or a pytree of arrays of one shape that are reduced together.
      init_values: a scalar for each; combined once with the result, so normally the identity.
      computation: takes two elements (pytrees of scalars for several operands), returns one.  It
        must be associative; in which order neighbours are combined is not promised.
      dimensions: the axes to reduce, which disappear.

    Returns:
      An array, or a pytree of arrays, without the reduced axes.

    Raises:
      PyTreeError: if ``init_values`` or the results have another structure than ``operands``.
      ShapeError, DTypeError: if the arrays or the results do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.reduce(np.array([[1, 2], [3, 4]]), 0, lax.add, (0,))
    Array([4, 6], dtype=int32)
    >>> lax.reduce(np.array([3, 4, 6]), 0, lambda a, b: lax.add(lax.add(a, b), lax.mul(a, b)), (0,))
    Array(139, dtype=int32)
    """
    xs, inits, tree = reduction_operands("reduce", operands, init_values, computation)
    shape = xs[0].aval.shape
    axes = axes_of("reduce", len(shape), dimensions)
    op = monoid_of(computation, xs[0].aval.dtype) if len(xs) == 1 else None
    if op is not None:
        out = reduced(REDUCTIONS[op], xs[0], axes)
        return tree_unflatten(tree, [as_array(with_init(op, out, inits[0]))])
    outs = combine_all(xs, inits, axes, computation, tree)
    return tree_unflatten(tree, map(as_array, outs))


def reduction_operands(
    name: str, operands: Any, init_values: Any, computation: Callable[..., Any]
) -> tuple[list[Value], list[Value], PyTreeDef]:
    """The flat operands and initial values of a reduction, and their structure; checked."""
    leaves, tree = tree_flatten(operands)
    init_leaves, init_tree = tree_flatten(init_values)
    if tree != init_tree or not leaves:
        raise PyTreeError(
            f"{name}: Operands must have the same tree structure as init_values",
            got=f"{init_tree} for {tree}",
            fix="one initial value for each operand, and at least one operand",
        )
    xs = [value_of(name, x) for x in leaves]
    if any(x.aval.shape != xs[0].aval.shape for x in xs):
        shown = ", ".join(x.aval.str_short() for x in xs)
        raise ShapeError(
            f"{name}: the operands have different shapes",
            got=shown,
            fix="operands of one shape; broadcast_in_dim makes them so",
        )
    inits = [_init(name, i, x.aval, computation) for i, x in zip(init_leaves, xs, strict=True)]
    return xs, inits, tree


def _init(name: str, init: Any, aval: ShapedArray, computation: Callable[..., Any]) -> Value:
    number = isinstance(init, (bool, int, float, complex, np.generic))
    if number and dtypes.is_integer(aval.dtype) and not isinstance(init, (int, np.integer)):
        init = _as_integer(name, init, aval.dtype, computation)
    value = literal(init, aval.dtype) if number else value_of(name, init)
    if value.aval.shape != ():
        raise ShapeError(
            f"{name} found non-scalar initial value: each must be a scalar",
            got=value.aval.str_short(),
            fix="a scalar, the operation's neutral element",
        )
    if value.aval.dtype != aval.dtype:
        raise DTypeError(
            f"{name}: an initial value has another dtype than its operand",
            got=f"{value.aval.str_short()} for {aval.str_short()}",
            fix="lax.convert_element_type(init_value, operand.dtype)",
        )
    if type(value) is ConcreteArray:
        return literal(value.value, aval.dtype)
    return value


def _as_integer(name: str, init: Any, dtype: np.dtype[Any], computation: Callable[..., Any]) -> int:
    """An initial value of another kind; infinities are what ``min`` and ``max`` begin with."""
    if (
        not init.imag
        and math.isinf(init.real)
        and monoid_of(computation, dtype) == ("min" if init.real > 0 else "max")
    ):
        bounds = dtypes.iinfo(dtype)
        return int(bounds.max if init.real > 0 else bounds.min)
    if not init.imag and math.isfinite(init.real) and float(init.real).is_integer():
        return int(init.real)
    raise DTypeError(
        f"{name}: an initial value is no integer, and its operand is of integers",
        got=f"{init!r} for {dtype}",
        fix="an integer, or an operand of floats",
    )


def monoid_of(computation: Callable[..., Any], dtype: np.dtype[Any]) -> str | None:
    """The operation that a function of two scalars computes, if it is one of the named ones.

    The product of truth values is "and".
    """
    aval = ShapedArray((), dtype)
    jaxpr, constants = stage(lambda x, y: _leaves(computation(x, y)), [aval, aval])
    if len(jaxpr.eqns) != 1 or constants or len(jaxpr.outvars) != 1:
        return None
    (eqn,) = jaxpr.eqns
    both = len(eqn.invars) == 2 and set(eqn.invars) == set(jaxpr.invars)
    if not both or jaxpr.outvars[0] is not eqn.outvars[0]:
        return None
    name = eqn.primitive.name
    if dtype == dtypes.bool_ and name == "mul":
        return "and"
    return name if name in REDUCTIONS else None


def _leaves(out: Any) -> list[Value]:
    return [value_of("computation", x) for x in tree_flatten(out)[0]]


def with_init(op: str, reduced: Value, init: Value) -> Value:
    """A reduction's result, combined with an initial value that is not the identity."""
    identity = literal(op_identity(op, reduced.aval.dtype), reduced.aval.dtype)
    if init is identity:
        return reduced
    return registry[op].bind(repeat(init, reduced.aval.shape), reduced)


def combine_all(
    xs: Sequence[Value],
    inits: Sequence[Value],
    axes: tuple[int, ...],
    computation: Callable[[Any, Any], Any],
    tree: PyTreeDef,
) -> list[Value]:
    """Reduce arrays of one shape along axes by any associative function, from ``inits``."""
    shape = xs[0].aval.shape
    kept = tuple(a for a in range(len(shape)) if a not in axes)
    out_shape = tuple(shape[a] for a in kept)
    count = math.prod(shape[a] for a in axes)
    width = math.prod(out_shape)
    rows = [reshape.bind(transpose_(x, (*axes, *kept)), shape=(count, width)) for x in xs]
    combine = _combiner(computation, tree, [x.aval.dtype for x in xs])
    while count > 1:
        half = count // 2
        odd = [slice_rows(x, 2 * half, count, 1) for x in rows] if count % 2 else None
        firsts = [slice_rows(x, 0, 2 * half, 2) for x in rows]
        seconds = [slice_rows(x, 1, 2 * half, 2) for x in rows]
        rows = combine(firsts, seconds, (half, width))
        if odd is not None:
            rows = [concatenate.bind(x, y, axis=0) for x, y in zip(rows, odd, strict=True)]
        count = half + count % 2
    starts = [broadcast_in_dim.bind(i, shape=(1, width), dims=()) for i in inits]
    totals = combine(starts, rows, (1, width)) if count else starts
    return [reshape.bind(x, shape=out_shape) for x in totals]


def slice_rows(x: Value, begin: int, end: int, step: int) -> Value:
    """Rows of a matrix."""
    width = x.aval.shape[1]
    return slice_.bind(x, start=(begin, 0), limit=(end, width), strides=(step, 1))


Combiner = Callable[[Sequence[Value], Sequence[Value], tuple[int, int]], list[Value]]


def _combiner(
    computation: Callable[[Any, Any], Any], tree: PyTreeDef, types: Sequence[np.dtype[Any]]
) -> Combiner:
    """The function of two elements, as one of two lists of matrices of elements."""
    count = len(types)

    def of_scalars(*scalars: Array) -> list[Array]:
        left, right = tree_unflatten(tree, scalars[:count]), tree_unflatten(tree, scalars[count:])
        outs, out_tree = tree_flatten(computation(left, right))
        values = [value_of("computation", x) for x in outs]
        fits = out_tree == tree and all(
            v.aval.shape == () and v.aval.dtype == t for v, t in zip(values, types, strict=True)
        )
        if not fits:
            shown = ", ".join(v.aval.str_short() for v in values)
            raise ArgumentError(
                "reduce: the computation does not return what it takes",
                got=f"{shown} in {out_tree}, from {', '.join(map(str, types))} in {tree}",
                fix="scalars of the operands' dtypes, in the operands' structure",
            )
        return values

    over_all = vmap(of_scalars)

    def combine(
        lefts: Sequence[Value], rights: Sequence[Value], shape: tuple[int, int]
    ) -> list[Value]:
        flat = [reshape.bind(x, shape=(math.prod(shape),)) for x in (*lefts, *rights)]
        return [reshape.bind(x, shape=shape) for x in over_all(*flat)]

    return combine
