"""Sums of products as ``dot`` and ``convolution``.

A product of two spread arrays and its sum are what ``lax.dot_general`` and
``lax.conv_general_dilated`` write, and what their derivatives and batched forms are.  Here the
arrays and the axes of the sum are found again (``transforms/hlo/products/factors.py``).  What is no
contraction is written as it is, as a multiplication and a sum.

Start at :func:`contraction`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from functrax.core.index.map import IndexMap
from functrax.core.records import record
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.computation import Computation, Node, Shape
from functrax.transforms.hlo.computations.views import NodeView, ProductView, view_of
from functrax.transforms.hlo.products.conv_windows import window_text
from functrax.transforms.hlo.products.factors import (
    AxisFactor,
    AxisWindow,
    Labels,
    arranged,
    factor,
    flat,
    from_roles,
    labels_of_map,
    places_of_roles,
)


@record(eq=False)
class _Problem:
    """A sum of products: two factors, and what the axes of the result run through."""

    space: Shape
    left: AxisFactor
    right: AxisFactor
    out: tuple[Labels, ...]
    shape: Shape
    precision: tuple[str, str]
    windows: tuple[AxisWindow, ...] = ()

    @property
    def out_labels(self) -> set[int]:
        return AxisFactor(self.left.node, self.out).labels


def contraction(w: Computation, product: ProductView, axes: Sequence[int]) -> Node | None:
    """The sum of a product along some axes, or None if it is no contraction."""
    space = product.left.shape
    kept = [d for d in range(len(space)) if d not in axes]
    for one, other in ((product.left, product.right), (product.right, product.left)):
        views = view_of(w, one), view_of(w, other)
        if 0 in space or not _is_spread(views, space):
            return None
        right = factor(views[1], (), ())
        if right is None or right.windows:
            continue
        left = factor(views[0], axes, [d for d in kept if d in right.labels])
        if left is None:
            continue
        precision = _precision(views)
        out: tuple[Labels, ...] = tuple((d,) for d in kept)
        shape = tuple(space[d] for d in kept)
        problem = _Problem(space, left, right, out, shape, precision)
        found = _written(w, _direct(problem))
        if found is not None:
            return found
    return None


def scattered_contraction(w: Computation, product: ProductView, index_map: IndexMap) -> Node | None:
    """The sum of a product over the points that mean an element, or None if it is none.

    That is the derivative of a convolution by its array: a convolution of a dilated array.
    """
    space = product.left.shape
    for one, other in ((product.left, product.right), (product.right, product.left)):
        views = view_of(w, one), view_of(w, other)
        left, right = (factor(v, (), ()) for v in views)
        if 0 in space or left is None or right is None or left.windows or right.windows:
            return None
        both = left.labels & right.labels
        out = labels_of_map(index_map, right.labels, both)
        if out is None:
            return None
        precision = _precision(views)
        problem = _Problem(space, left, right, out, index_map.codomain, precision)
        if all(_reached(x, left, right) for axis in out for x in axis if isinstance(x, AxisWindow)):
            return _written(w, _of_result(problem))
    return None


def _reached(window: AxisWindow, left: AxisFactor, right: AxisFactor) -> bool:
    """Whether a window of the result goes over the left array by taps of the right one."""
    return (window.place is None or window.place not in right.labels) and (
        window.tap is None or window.tap not in left.labels
    )


def _is_spread(views: tuple[NodeView, NodeView], space: Shape) -> bool:
    """Whether one array is smaller than the space, or a precision is asked for."""
    return any(v.precision or v.map is not None or v.base.shape != space for v in views)


def _precision(views: tuple[NodeView, NodeView]) -> tuple[str, str]:
    """Of the operands; one of which nothing is known, as in derivatives, has the other's."""
    left, right = views[0].precision, views[1].precision
    return left or right, right or left


def _replaced(axes: Sequence[Labels], by: Mapping[Any, AxisWindow]) -> tuple[Labels, ...]:
    return tuple(tuple(by.get(x, x) for x in axis) for axis in axes)


def _direct(problem: _Problem) -> _Problem:
    """Windows in place of the labels of their places, in the result, and taps, in the kernel."""
    windows = tuple(problem.left.windows)
    places = {x.place: x for x in windows if x.place is not None}
    taps = {x.tap: x for x in windows if x.tap is not None}
    kernel = AxisFactor(problem.right.node, _replaced(problem.right.axes, taps))
    return replace(problem, right=kernel, out=_replaced(problem.out, places), windows=windows)


def _of_result(problem: _Problem) -> _Problem:
    """The same where the windows are the result's: they say what the array's elements reach."""
    turned = {
        x: AxisWindow(x.place, x.tap, x.base, -x.dilation, x.stride, -x.offset)
        for axis in problem.out
        for x in axis
        if isinstance(x, AxisWindow)
    }
    places = {x.place: x for x in turned.values() if x.place is not None}
    taps = {x.tap: x for x in turned.values() if x.tap is not None}
    return replace(
        problem,
        left=AxisFactor(problem.left.node, _replaced(problem.left.axes, places)),
        right=AxisFactor(problem.right.node, _replaced(problem.right.axes, taps)),
        out=_replaced(problem.out, turned),
        windows=tuple(turned.values()),
    )


def _written(w: Computation, problem: _Problem) -> Node | None:
    """The instruction, if every label is in two of the three arrays."""
    found = [problem.left.labels, problem.right.labels, problem.out_labels]
    lone = {x for x in set().union(*found) if sum(x in labels for labels in found) == 1}
    if any(problem.space[x] != 1 for x in lone):
        return None
    if lone:
        problem = _without(problem, lone)
    if not problem.windows:
        return _dot(w, problem)
    whole = all(_goes_round(x, problem) for x in problem.windows)
    real = not dtypes.is_complex(problem.left.node.dtype)
    return _convolution(w, problem) if whole and real else None


def _goes_round(window: AxisWindow, problem: _Problem) -> bool:
    """Whether places are in the array and the result, and taps in the kernel, unless it is one."""

    def single(label: int | None) -> bool:
        return label is None or problem.space[label] == 1

    in_left, in_right, in_out = (
        any(window in axis for axis in axes)
        for axes in (problem.left.axes, problem.right.axes, problem.out)
    )
    return (in_right or single(window.tap)) and ((in_left and in_out) or single(window.place))


def _without(problem: _Problem, lone: set[int]) -> _Problem:
    """The problem without labels of size 1."""

    def rest(axes: Sequence[Labels]) -> tuple[Labels, ...]:
        return tuple(tuple(x for x in axis if x not in lone) for axis in axes)

    return replace(
        problem,
        left=AxisFactor(problem.left.node, rest(problem.left.axes)),
        right=AxisFactor(problem.right.node, rest(problem.right.axes)),
        out=rest(problem.out),
    )


def _attributes(problem: _Problem) -> dict[str, Any]:
    precision = problem.precision
    asked = any(word not in ("", "default") for word in precision)
    return {"operand_precision": precision} if asked else {}


def _dot(w: Computation, problem: _Problem) -> Node:
    """Batch axes, the other axes of the left factor, those of the right one; then as wanted."""
    space = problem.space
    (x, left), (y, right) = (flat(w, f, space) for f in (problem.left, problem.right))
    wanted = [label for axis in problem.out for label in axis]
    batch = [a for a in wanted if a in left and a in right]
    summed = [a for a in left if a in right and a not in batch]
    free = [a for a in (*left, *right) if a not in batch and a not in summed]
    labels: list[int | AxisWindow] = [*batch, *free]
    numbers: dict[str, Any] = {
        "lhs_batch_dims": tuple(left.index(a) for a in batch),
        "lhs_contracting_dims": tuple(left.index(a) for a in summed),
        "rhs_batch_dims": tuple(right.index(a) for a in batch),
        "rhs_contracting_dims": tuple(right.index(a) for a in summed),
    }
    shape = tuple(space[a] for a in labels if isinstance(a, int))
    out = w.op(
        "dot",
        ShapedArray(shape, x.dtype),
        x,
        y,
        **{key: value for key, value in numbers.items() if value},
        **_attributes(problem),
    )
    return w.reshape(w.transpose(out, [labels.index(a) for a in wanted]), problem.shape)


def _convolution(w: Computation, problem: _Problem) -> Node:
    """A convolution; groups are in front of the features."""
    left, right, space = problem.left, problem.right, problem.space
    in_out = [x for axis in problem.out for x in axis if isinstance(x, int)]
    in_right = [x for axis in right.axes for x in axis if isinstance(x, int)]
    shared = left.labels & right.labels
    groups = tuple(x for x in in_out if x in shared)
    batch = tuple(x for x in in_out if x not in right.labels)
    made = tuple(x for x in in_out if x not in left.labels)
    taken = tuple(x for x in in_right if x in shared and x not in groups)
    windows = problem.windows
    over: list[Labels] = [(x,) for x in windows]
    array, lhs = arranged(w, left, [batch, (*groups, *taken), *over], space)
    kernel, rhs = arranged(w, right, [taken, (*groups, *made), *over], space)
    roles: list[Labels] = [batch, (*groups, *made), *over]
    places = places_of_roles(problem.out, roles)
    sizes = _result_sizes(problem, roles)
    order = list(range(len(roles))) if places is None else places
    shape = [0] * len(roles)
    for place, size in zip(order, sizes, strict=True):
        shape[place] = size
    window = window_text(
        windows,
        [array.shape[k] for k in lhs[2:]],
        [kernel.shape[k] for k in rhs[2:]],
        sizes[2:],
    )
    counts = {"feature_group_count": math.prod(space[x] for x in groups)} if groups else {}
    out = w.op(
        "convolution",
        ShapedArray(tuple(shape), array.dtype),
        array,
        kernel,
        window=window,
        dim_labels=f"{_dims(lhs, 'bf')}_{_dims(rhs, 'io')}->{_dims(order, 'bf')}",
        **counts,
        **_attributes(problem),
    )
    if places is not None:
        return out
    return from_roles(w, AxisFactor(out, tuple(roles)), problem.out, problem.shape, space)


def _result_sizes(problem: _Problem, roles: Sequence[Labels]) -> list[int]:
    """The sizes of the result's roles."""
    sizes: dict[Any, int] = {
        axis[0]: n for axis, n in zip(problem.out, problem.shape, strict=True) if len(axis) == 1
    }
    return [
        math.prod(sizes.get(x, 1) if isinstance(x, AxisWindow) else problem.space[x] for x in role)
        for role in roles
    ]


def _dims(places: Sequence[int], letters: str) -> str:
    """Which letter or number each axis has."""
    names = dict(zip(places, [*letters, *map(str, range(len(places)))]))
    return "".join(names[k] for k in range(len(places)))
