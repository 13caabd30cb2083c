"""The factors of a sum of products, by the axes of the space that they run through.

A sum of products has an iteration space; each of its axes has a number, its *label*.  A
:class:`AxisFactor` says of each axis of an array which labels it runs through: one as a rule, none
for an axis of size 1, two for groups and members of groups.  An axis of a convolution runs through
a :class:`AxisWindow`: places and taps.

Start at :func:`factor`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

from functrax.core.index.expr import Dim, FloorDiv, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.records import record
from functrax.transforms.hlo.computations.computation import Computation, Node, Shape
from functrax.transforms.hlo.computations.views import NodeView


@record(eq=False)
class AxisWindow:
    """``base * element = stride * place + dilation * tap + offset`` along an axis.

    Args:
      place: the label of the places, or None if there is one place.
      tap: the label of the taps, or None.
      stride, dilation, base, offset: the numbers; ``stride`` and ``base`` are positive.
    """

    place: int | None
    tap: int | None
    stride: int
    dilation: int
    base: int
    offset: int


#: What an axis runs through.
Labels: TypeAlias = "tuple[int | AxisWindow, ...]"


@record(eq=False)
class AxisFactor:
    """An array, and what each of its axes runs through."""

    node: Node
    axes: tuple[Labels, ...]

    @property
    def labels(self) -> set[int]:
        """The labels, without windows."""
        return {x for axis in self.axes for x in axis if isinstance(x, int)}

    @property
    def windows(self) -> list[AxisWindow]:
        """The windows, in the order of the axes."""
        return [x for axis in self.axes for x in axis if isinstance(x, AxisWindow)]


def factor(view: NodeView, taps: Collection[int], groups: Collection[int]) -> AxisFactor | None:
    """What the axes of a view's base run through; None if it is nothing of the kind.

    Args:
      view: of an array with the shape of the space; it is 0 where it reads nothing.
      taps: the labels that are taps where they share an axis with places.
      groups: the labels that are groups where they share an axis with their members.
    """
    if view.axes is not None:
        return AxisFactor(view.base, tuple(() if a is None else (a,) for a in view.axes))
    if view.map is None or view.fill not in (None, 0):
        return None
    axes = labels_of_map(view.map, taps, groups)
    return None if axes is None else AxisFactor(view.base, axes)


def labels_of_map(
    index_map: IndexMap, taps: Collection[int], groups: Collection[int]
) -> tuple[Labels, ...] | None:
    """What the axes of a map's codomain run through; its domain is the space."""
    if index_map.num_loads:
        return None
    axes: list[Labels] = []
    for expr, size in zip(index_map.exprs, index_map.codomain, strict=True):
        found = _plain(expr, size, index_map.domain, groups)
        found = _window(expr, taps) if found is None else found
        if found is None:
            return None
        axes.append(found)
    used = [x for axis in axes for label in axis for x in _numbers(label)]
    distinct = len(set(used)) == len(used)
    return tuple(axes) if distinct and _says_it_all(index_map, axes) else None


def _says_it_all(index_map: IndexMap, axes: Sequence[Labels]) -> bool:
    """Whether a map has no other conditions than those that dilation makes."""
    conditions = [
        (_numerator(expr) % label.base).eq(0)
        for expr, axis in zip(index_map.exprs, axes, strict=True)
        for label in axis
        if isinstance(label, AxisWindow) and label.base > 1
    ]
    return replace(index_map, conditions=tuple(conditions)) == index_map


def _numbers(label: int | AxisWindow) -> list[int]:
    parts = (label.place, label.tap) if isinstance(label, AxisWindow) else (label,)
    return [x for x in parts if x is not None]


def _plain(expr: IndexExpr, size: int, space: Shape, groups: Collection[int]) -> Labels | None:
    """A whole axis: of size 1, of one label, of groups and their members."""
    if expr.as_int() == 0 and size == 1:
        return ()
    terms = {a.number: c for a, c in expr.terms if isinstance(a, Dim)}
    if expr.const or len(terms) != len(expr.terms):
        return None
    if len(terms) == 1:
        ((label, coef),) = terms.items()
        return (label,) if coef == 1 and space[label] == size else None
    if len(terms) != 2:
        return None
    member, group = sorted(terms, key=terms.__getitem__)
    found = (terms[member], terms[group], size)
    whole = (1, space[member], space[member] * space[group])
    return (group, member) if group in groups and found == whole else None


def _numerator(expr: IndexExpr) -> IndexExpr:
    """``e`` of ``e // k + const``, the constant moved inside."""
    ((atom, _),) = expr.terms
    assert isinstance(atom, FloorDiv)
    return atom.expr + expr.const * atom.divisor


def _window(expr: IndexExpr, taps: Collection[int]) -> Labels | None:
    """Places and taps along an axis."""
    base = 1
    if len(expr.terms) == 1 and isinstance(expr.terms[0][0], FloorDiv) and expr.terms[0][1] == 1:
        base = expr.terms[0][0].divisor
        expr = _numerator(expr)
    terms = [(a.number, c) for a, c in expr.terms if isinstance(a, Dim)]
    places = [term for term in terms if term[0] not in taps]
    tapped = [term for term in terms if term[0] in taps]
    if len(terms) != len(expr.terms) or len(places) > 1 or len(tapped) > 1:
        return None
    place, stride = places[0] if places else (None, 1)
    tap, dilation = tapped[0] if tapped else (None, 1)
    return (AxisWindow(place, tap, stride, dilation, base, expr.const),) if stride > 0 else None


def places_of_roles(axes: Sequence[Labels], roles: Sequence[Labels]) -> list[int] | None:
    """For each role the axis that it is; None if one is not, or an axis is left."""
    free = list(range(len(axes)))
    places = []
    for role in roles:
        where = next((k for k in free if axes[k] == role), None)
        if where is None:
            return None
        free.remove(where)
        places.append(where)
    return None if free else places


def flat(w: Computation, x: AxisFactor, space: Shape) -> tuple[Node, list[int | AxisWindow]]:
    """An array with an axis for each label, and the labels."""
    labels = [label for axis in x.axes for label in axis]
    sizes = [
        space[label] if isinstance(label, int) else n
        for axis, n in zip(x.axes, x.node.shape, strict=True)
        for label in axis
    ]
    return w.reshape(x.node, tuple(sizes)), labels


def arranged(
    w: Computation, x: AxisFactor, roles: Sequence[Labels], space: Shape
) -> tuple[Node, list[int]]:
    """An array with an axis for each role, and where those axes are.

    It is the array itself where each role is one of its axes.
    """
    places = places_of_roles(x.axes, roles)
    if places is not None:
        return x.node, places
    split, labels = flat(w, x, space)
    sizes = dict(zip(labels, split.shape, strict=True))
    order = [labels.index(label) for role in roles for label in role if label in sizes]
    shape = tuple(math.prod(sizes.get(label, 1) for label in role) for role in roles)
    return w.reshape(w.transpose(split, order), shape), list(range(len(roles)))


def from_roles(
    w: Computation, x: AxisFactor, axes: Sequence[Labels], shape: Shape, space: Shape
) -> Node:
    """An array whose axes are roles, as one of a shape whose axes run through ``axes``."""
    wanted = [label for axis in axes for label in axis]
    kept = tuple(tuple(label for label in role if label in wanted) for role in x.axes)
    split, labels = flat(w, AxisFactor(x.node, kept), space)
    order = [labels.index(label) for label in wanted if label in labels]
    return w.reshape(w.transpose(split, order), shape)
