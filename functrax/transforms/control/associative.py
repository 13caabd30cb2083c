"""``associative_scan``: all prefixes of an associative operation, in logarithmic depth.

Neighbours are combined in pairs, the prefixes of the half as long sequence of pairs are found by
the same means, and the prefixes that end inside a pair need one more combination each (the odd-even
recursion of Ladner and Fischer, "Parallel Prefix Computation", 1980).  It is made of slices and
paddings alone, so every transformation applies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from functrax.core.errors.typed import ArgumentError, AxisError, PyTreeError, ShapeError
from functrax.core.prims.identity import optimization_barrier
from functrax.core.prims.reindex import reshape, rev
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.arguments.leaf_types import axes_of_words, leaf_types

Combine = Callable[[Sequence[Value], Sequence[Value]], list[Value]]
#: The prefixes of so many pairs are stored: each element that follows from them reads two, each of
#: which would be computed from two of the next level, and so on.
STORED = 8

T = TypeVar("T")


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: T, reverse: bool = False, axis: int = 0
) -> T:
    """All prefixes ``e0, fn(e0, e1), fn(fn(e0, e1), e2), ...`` of a sequence along an axis.

    Args:
      fn: an associative function of two pytrees like ``elems``; it is called with many pairs at
        once, along ``axis``, and must work on each by itself.
      elems: a pytree of arrays with the same size along ``axis``.
      reverse: whether to go from the end; ``fn`` then gets the later elements first.
      axis: the axis of the sequence.

    Returns:
      A pytree of the same structure, shapes and dtypes.

    Raises:
      ArgumentError: if ``fn`` is no function, or ``elems`` has no arrays.
      ShapeError, AxisError: if the arrays differ in size along the axis, or lack it.
      PyTreeError: if ``fn`` returns another structure.

    >>> import functrax.numpy as jnp
    >>> from functrax import lax
    >>> lax.associative_scan(jnp.multiply, jnp.array([1, 2, 3, 4, 5]))
    Array([  1,   2,   6,  24, 120], dtype=int32)
    """
    check_callable("associative_scan", fn)
    leaves, tree = tree_flatten(elems)
    values = [as_value(x, "an input of associative_scan") for x in leaves]
    if not values:
        raise ArgumentError("associative_scan: elems has no arrays", got=str(tree), fix="an array")
    axes = _axes_of(tree, [x.aval for x in values], axis)
    sizes = {x.aval.shape[a] for x, a in zip(values, axes, strict=True)}
    if len(sizes) > 1:
        raise ShapeError(
            "associative_scan: arrays have different sizes along the axis",
            got=", ".join(t.str_short() for t in leaf_types(tree, [x.aval for x in values]))
            + f", axis={axis}",
            fix="arrays of one size along the axis",
        )

    def combine(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        out, out_tree = tree_flatten(
            fn(tree_unflatten(tree, map(concrete, a)), tree_unflatten(tree, map(concrete, b)))
        )
        if out_tree != tree:
            raise PyTreeError(
                f"associative_scan: {name_of(fn)} returns another structure than it was given",
                got=f"given {tree}, returned {out_tree}",
                fix="return the containers that came in",
            )
        return [as_value(x, f"a result of {name_of(fn)}") for x in out]

    if reverse:
        values = [rev.bind(x, axes=(a,)) for x, a in zip(values, axes, strict=True)]
    outs = _prefixes(combine, values, axes)
    if reverse:
        outs = [rev.bind(x, axes=(a,)) for x, a in zip(outs, axes, strict=True)]
    return tree_unflatten(tree, map(concrete, outs))  # type: ignore[no-any-return]


def _axes_of(tree: PyTreeDef, avals: Sequence[ShapedArray], axis: int) -> list[int]:
    """The axis of each leaf, from the front."""
    found = []
    for i, a in enumerate(axes_of_words(tree, avals, [axis] * len(avals))):
        ndim = avals[i].ndim
        if a is None or not -ndim <= a < ndim:
            raise AxisError(
                "associative_scan: the axis is out of range",
                got=f"axis={axis} for {leaf_types(tree, avals)[i].str_short()}",
                fix="an axis that every array has",
            )
        found.append(a % ndim)
    return found


def _prefixes(combine: Combine, elems: list[Value], axes: Sequence[int]) -> list[Value]:
    size: int = elems[0].aval.shape[axes[0]]
    if size < 2:
        return elems

    def every_other(values: Sequence[Value], start: int, stop: int) -> list[Value]:
        return [_slice(x, a, start, stop, 2) for x, a in zip(values, axes, strict=True)]

    pairs = combine(every_other(elems, 0, size - 1), every_other(elems, 1, size))
    odd = _prefixes(combine, pairs, axes)
    if size >= 2 * STORED:
        odd = [optimization_barrier.bind(x)[0] for x in odd]
    # Prefix 2 i is prefix 2 i - 1 with element 2 i, and prefix 0 is element 0.
    num_even = (size + 1) // 2 - 1
    first = [_slice(x, a, 0, 1, 1) for x, a in zip(elems, axes, strict=True)]
    if num_even == 0:
        even = first
    else:
        before = [_slice(x, a, 0, num_even, 1) for x, a in zip(odd, axes, strict=True)]
        later = combine(before, every_other(elems, 2, size))
        even = [concatenate.bind(x, y, axis=a) for x, y, a in zip(first, later, axes, strict=True)]
    return [_interleave(x, y, a) for x, y, a in zip(even, odd, axes, strict=True)]


def _slice(x: Value, axis: int, start: int, stop: int, step: int) -> Value:
    shape = x.aval.shape
    others = range(len(shape))
    return slice_.bind(
        x,
        start=tuple(start if i == axis else 0 for i in others),
        limit=tuple(stop if i == axis else shape[i] for i in others),
        strides=tuple(step if i == axis else 1 for i in others),
    )


def _interleave(even: Value, odd: Value, axis: int) -> Value:
    """Elements of both in turn; ``even`` may have one more."""
    shape = odd.aval.shape
    size = shape[axis]

    def beside(x: Value) -> Value:
        return reshape.bind(x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))

    both = concatenate.bind(beside(_slice(even, axis, 0, size, 1)), beside(odd), axis=axis + 1)
    joined = reshape.bind(both, shape=(*shape[:axis], 2 * size, *shape[axis + 1 :]))
    if even.aval.shape[axis] == size:
        return joined
    return concatenate.bind(joined, _slice(even, axis, size, size + 1, 1), axis=axis)
