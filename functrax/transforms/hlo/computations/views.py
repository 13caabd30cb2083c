"""What rules remember of nodes: which array they show, by which indices; which product they are.

A sum of products is written as broadcasts, a multiplication and a sum.  The rule of the sum looks
here for the arrays that were spread, to write a ``dot`` or a ``convolution`` of them instead.  What
was spread is then printed by nobody.

Start at :class:`NodeView`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from functrax.core.index.expr import Dim, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.records import record
from functrax.transforms.hlo.computations.computation import Computation, Node, Shape

#: For each axis of an array the axis that shows it; None for one of size 1 that is not shown.
Axes: TypeAlias = "tuple[int | None, ...]"


@record(eq=False)
class NodeView:
    """A node is another one, read at some indices.

    Args:
      base: the node that is read.
      axes: which axes show those of the base; None where ``map`` says what is read.
      map: the index map; None where ``axes`` says.
      fill: the number where the map is not valid; None if it is valid everywhere.
      precision: how exactly products of the node are asked for: ``"high"``, ``"highest"``, or "".
    """

    base: Node
    axes: Axes | None
    map: IndexMap | None = None
    fill: Any = None
    precision: str = ""


@record(eq=False)
class ProductView:
    """A node is the product of two, element by element."""

    left: Node
    right: Node


def view_of(w: Computation, x: Node) -> NodeView:
    """What is known of a node; that it shows itself, at least."""
    found = w.views.get(x)
    return found if isinstance(found, NodeView) else NodeView(x, tuple(range(len(x.shape))))


def product_of(w: Computation, x: Node) -> ProductView | None:
    """The factors of a node that is a product."""
    found = w.views.get(x)
    return found if isinstance(found, ProductView) else None


def remember(w: Computation, x: Node, view: NodeView) -> Node:
    """Note a view of a node; the same value with another precision is another node."""
    if not view.precision and view.base is x:
        return x
    if view.precision:
        x = w.alias(x)
    w.views[x] = view
    return x


def with_precision_of(w: Computation, out: Node, x: Node) -> Node:
    """Note that products of ``out`` are asked for as exactly as those of ``x``."""
    precision = view_of(w, x).precision
    return remember(w, out, replace(view_of(w, out), precision=precision)) if precision else out


def moved(w: Computation, out: Node, x: Node, axes: Axes) -> Node:
    """Note that ``out`` shows ``x``: axis ``i`` of ``x`` is axis ``axes[i]``."""
    view = _source(w, x)
    if view.axes is not None:
        seen = tuple(None if a is None else axes[a] for a in view.axes)
        return remember(w, out, replace(view, axes=seen))
    assert view.map is not None
    through = _axis_map(out.shape, x.shape, axes).compose(view.map)
    return remember(w, out, replace(view, map=through))


def mapped(w: Computation, out: Node, x: Node, index_map: IndexMap, fill: Any) -> Node:
    """Note that ``out`` reads ``x`` by a map, and has the number ``fill`` elsewhere."""
    fill = None if index_map.total() else fill
    view = _source(w, x)
    hidden = [k for k in range(len(x.shape)) if view.axes is not None and k not in view.axes]
    if view.axes is None or any(index_map.exprs[k].as_int() != 0 for k in hidden):
        return remember(w, out, NodeView(x, None, index_map, fill, view.precision))
    exprs = tuple(as_expr(0) if a is None else index_map.exprs[a] for a in view.axes)
    through = IndexMap(index_map.domain, view.base.shape, exprs, index_map.conditions)
    return remember(w, out, NodeView(view.base, None, through, fill, view.precision))


def _source(w: Computation, x: Node) -> NodeView:
    """What a node shows, if that has all its axes; else itself, for axes may be summed."""
    view = view_of(w, x)
    if view.axes is None or all(n == 1 or k in view.axes for k, n in enumerate(x.shape)):
        return view
    return NodeView(x, tuple(range(len(x.shape))), precision=view.precision)


def _axis_map(domain: Shape, codomain: Shape, axes: Axes) -> IndexMap:
    return IndexMap(domain, codomain, tuple(as_expr(0) if a is None else Dim(a) for a in axes))


def axes_of_reshape(before: Sequence[int], after: Sequence[int]) -> Axes | None:
    """Where axes are after a reshape that only adds or drops axes of size 1; None for others."""
    kept = [k for k, n in enumerate(after) if n != 1]
    if [n for n in before if n != 1] != [after[k] for k in kept]:
        return None
    places = iter(kept)
    return tuple(None if n == 1 else next(places) for n in before)
