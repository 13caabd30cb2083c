"""Lanes that are combined: those of a vector as fewer, and running results along them.

Start at :meth:`Lanes.across` and :meth:`Lanes.running`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends.kernels.ir import Reduce
from functrax.backends.llvm.templates import constant, lane_order, llvm_type
from functrax.backends.llvm.writer import Writer
from functrax.core.prims.lowered_reductions import Reduction
from functrax.core.scalars.scalar import Scalar

if TYPE_CHECKING:
    from functrax.backends.llvm.nodes import Nodes


class Lanes:
    """Writes what goes across the lanes of vectors."""

    def __init__(self, writer: Writer, nodes: Nodes) -> None:
        self.writer = writer
        self.nodes = nodes

    def across(self, node: Scalar) -> None:
        """Know the values that a node and its siblings are: a reduction of lanes to fewer.

        It goes by halves: in an order that sizes alone decide.
        """
        w = self.writer
        how, _, left = node.attr
        found = [w.operand(x) for x in node.args]
        level = max(f.level for f in found)
        lanes = max(f.lanes for f in found)
        if lanes == 1:  # one value for all lanes
            lanes = w.lanes
        values = node.args
        while lanes > left:
            half = lanes // 2
            low, high = (
                tuple([self._half(x, lanes, first, level) for x in values]) for first in (0, half)
            )
            values = self._combined(how, low, high)
            lanes = half
        for n, x in enumerate(values):
            sibling = w.builder.node("across", x.dtype, node.args, (how, n, left))
            w.know(id(sibling), w.in_lanes(x, left), left > 1, level, left)

    def running(self, scan: Reduce, last: Sequence[Scalar]) -> None:
        """Know the running results of a vector of points, and that of its last lane in all lanes.

        Lane ``k`` is combined with lane ``k - 1``, then with ``k - 2``, ``k - 4``, ...
        """
        w = self.writer
        lanes, level = w.lanes, len(w.levels) - 1
        values = tuple(scan.values)
        for value in values:
            self.nodes.value(value)
        empty = [constant(x.attr, x.dtype, lanes) for x in scan.how.empty(w.builder)]
        distance = 1
        while distance < lanes:
            order = [k if k < distance else lanes + k - distance for k in range(lanes)]
            moved = []
            for x, e in zip(values, empty, strict=True):
                type_ = llvm_type(x.dtype, lanes)
                text = f"{type_} {e}, {type_} {w.as_vector(x)}, {lane_order(order)}"
                moved.append(self._leaf(x.dtype, f"shufflevector {text}", lanes, level))
            values = self._combined(scan.how, tuple(moved), values)
            distance *= 2
        values = self._combined(scan.how, tuple(scan.accs), values)
        order_of_last = lane_order([lanes - 1] * lanes)
        for node, leaf, x in zip(scan.results, last, values, strict=True):
            type_, name = llvm_type(x.dtype, lanes), w.as_vector(x)
            w.know(id(node), name, True, level)
            text = f"shufflevector {type_} {name}, {type_} poison, {order_of_last}"
            w.know(id(leaf), w.line(text, level), True, level)

    def _half(self, x: Scalar, lanes: int, first: int, level: int) -> Scalar:
        """The lanes of a vector from ``first`` on, half of them."""
        type_, half = llvm_type(x.dtype, lanes), lanes // 2
        name = self.writer.in_lanes(x, lanes)
        text = f"extractelement {type_} {name}, i64 {first}"
        if half > 1:
            order = lane_order(range(first, first + half))
            text = f"shufflevector {type_} {name}, {type_} poison, {order}"
        return self._leaf(x.dtype, text, half, level)

    def _leaf(self, dtype: np.dtype[Any], text: str, lanes: int, level: int) -> Scalar:
        """A leaf that stands for what an instruction gives."""
        w = self.writer
        leaf = w.builder.node("acc", dtype, (), ("lanes", w.count()))
        w.know(id(leaf), w.line(text, level), lanes > 1, level, lanes)
        return leaf

    def _combined(
        self, how: Reduction, low: tuple[Scalar, ...], high: tuple[Scalar, ...]
    ) -> tuple[Scalar, ...]:
        """Two sets of numbers, put together lane by lane."""
        found = tuple(how.combine(self.writer.builder, low, high))
        for x in found:
            self.nodes.value(x)
        return found
