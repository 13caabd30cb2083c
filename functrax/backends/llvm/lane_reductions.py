"""Lanes that are combined: those of a vector as fewer, and running results along them.

Start at :meth:`Lanes.across` and :meth:`Lanes.running`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends.kernels.ir import Reduce
from functrax.backends.llvm.templates import constant, lane_order, llvm_type
from functrax.backends.llvm.writer import Names, Writer
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
        values = node.args
        found = [w.operand(x) for x in values]
        level = max(f.level for f in found)
        lanes = max(f.lanes for f in found)
        if lanes == 1:  # one value for all lanes
            lanes = w.lanes
        names = [w.in_lanes(x, lanes) for x in values]
        dtypes = [x.dtype for x in values]
        while lanes > left:
            half = lanes // 2
            parts = [
                [self._half(d, name, lanes, first, level) for d, name in zip(dtypes, names)]
                for first in (0, half)
            ]
            names = self._combined(how, dtypes, parts, half, level)
            lanes = half
        for n, (dtype, name) in enumerate(zip(dtypes, names, strict=True)):
            sibling = w.builder.node("across", dtype, values, (how, n, left))
            w.know(id(sibling), name, left > 1, level, left)

    def running(self, scan: Reduce, last: Sequence[Scalar]) -> None:
        """Know the running results of a vector of points, and that of its last lane in all lanes.

        Lane ``k`` is combined with lane ``k - 1``, then with ``k - 2``, ``k - 4``, ...
        """
        w = self.writer
        lanes, level = w.lanes, len(w.levels) - 1
        for value in scan.values:
            self.nodes.value(value)
        names = [w.as_vector(value) for value in scan.values]
        dtypes = [value.dtype for value in scan.values]
        types = [llvm_type(d, lanes) for d in dtypes]
        empty = [constant(x.attr, x.dtype, lanes) for x in scan.how.empty(w.builder)]
        distance = 1
        while distance < lanes:
            order = [k if k < distance else lanes + k - distance for k in range(lanes)]
            mask = lane_order(order)
            moved = [
                w.line(f"shufflevector {t} {e}, {t} {n}, {mask}", level)
                for t, e, n in zip(types, empty, names, strict=True)
            ]
            names = self._combined(scan.how, dtypes, [moved, names], lanes, level)
            distance *= 2
        before = [w.as_vector(acc) for acc in scan.accs]
        names = self._combined(scan.how, dtypes, [before, names], lanes, level)
        for node, name in zip(scan.results, names, strict=True):
            w.know(id(node), name, True, level)
        mask = lane_order([lanes - 1] * lanes)
        for leaf, t, n in zip(last, types, names, strict=True):
            name = w.line(f"shufflevector {t} {n}, {t} poison, {mask}", level)
            w.know(id(leaf), name, True, level)

    def _half(self, dtype: np.dtype[Any], name: str, lanes: int, first: int, level: int) -> str:
        """The lanes of a vector from ``first`` on, half of them."""
        w = self.writer
        type_, half = llvm_type(dtype, lanes), lanes // 2
        if half == 1:
            return w.line(f"extractelement {type_} {name}, i64 {first}", level)
        mask = lane_order(range(first, first + half))
        return w.line(f"shufflevector {type_} {name}, {type_} poison, {mask}", level)

    def _combined(
        self,
        how: Reduction,
        dtypes: Sequence[np.dtype[Any]],
        parts: Sequence[Names],
        lanes: int,
        level: int,
    ) -> Names:
        """Two sets of numbers, put together lane by lane."""
        w = self.writer
        sides = []
        for side, names in zip(("low", "high"), parts, strict=True):
            leaves = []
            for k, (dtype, name) in enumerate(zip(dtypes, names, strict=True)):
                leaf = w.builder.node("acc", dtype, (), (side, lanes, k, w.count()))
                w.know(id(leaf), name, lanes > 1, level, lanes)
                leaves.append(leaf)
            sides.append(tuple(leaves))
        out = []
        for node in how.combine(w.builder, *sides):
            self.nodes.value(node)
            out.append(w.in_lanes(node, lanes))
        return out
