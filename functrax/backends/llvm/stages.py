"""Stages: reductions and carries, which take a value from one step of a loop to the next.

A stage is a nest over the inner dims, or a loop that goes on as long as a condition holds.  Each
reduction and each carry is a phi of the loop.  A reduction along the vector dim accumulates in
every lane, and the lanes become one value after the loop.

Start at :meth:`Stages.stage`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from functrax.backends.cpu_info import cpu_info
from functrax.backends.kernels.ir import Carry, Reduce, Stage
from functrax.backends.llvm.instructions import constant, llvm_type
from functrax.backends.llvm.loops import Loops
from functrax.backends.llvm.nodes import Nodes
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.writer import Carried, Names, Writer
from functrax.core import dtypes
from functrax.core.lowering import Scalar
from functrax.core.records import replace

#: Sums of fewer float32 are rounded once, in the end.
LONG_ROW: Final = 256

#: Operations from which on a loop of steps that depend on one another can be interrupted.
LONG: Final = 1 << 26


class Stages:
    """Writes the stages of a kernel."""

    def __init__(self, writer: Writer, loops: Loops, nodes: Nodes, stores: Stores) -> None:
        self.writer = writer
        self.loops = loops
        self.nodes = nodes
        self.stores = stores

    def stage(self, stage: Stage) -> None:
        """Write a stage; its results are known in the level that it is in."""
        carried = self._starts(stage)
        k = self.writer.kernel
        second = k.ahead is not None and stage is k.stages[min(1, len(k.stages) - 1)]

        def body(names: Names) -> Names:
            if self._is_long(stage):
                self.writer.look()
            running = names[len(names) - len(stage.carries) :]
            self._know_carries(stage, running)
            if second:
                self.stores.memory.prefetch_rows()
            if self._scans(stage):
                new = self._scanned(stage, running)
                for store in stage.stores:
                    self.stores.store(store)
                return new
            out = []
            position = 0
            for reduction in stage.reductions:
                width = len(reduction.values)
                out += self._accumulate(reduction, names[position : position + width])
                position += width
            if self.writer.updated:  # all is read before anything is written
                roots = [x for s in stage.stores for x in (s.value, s.offset, s.guard)]
                for root in (*roots, *(carry.new for carry in stage.carries)):
                    if root is not None:
                        self.nodes.value(root)
            for store in stage.stores:
                self.stores.store(store)
            return out + [self._new(carry) for carry in stage.carries]

        if stage.condition is None:
            final = self.loops.nest(self.writer.kernel.inner, carried, body)
        else:
            final = self._while(stage, carried, body)
        self._know_results(stage, final)

    def _is_long(self, stage: Stage) -> bool:
        """Whether a stage may take so long that somebody wants to interrupt it."""
        k = self.writer.kernel
        if stage.condition is not None:
            return True
        steps = k.extents[k.inner[-1]] if stage.carries and stage.scan is None else 0
        return steps * k.work >= LONG

    def _starts(self, stage: Stage) -> Carried:
        """The types and first values of what a stage carries."""
        w = self.writer
        in_lanes = w.kernel.vector is not None and w.lanes > 1
        lanes = w.lanes if in_lanes else 1
        carried = []
        for reduction in stage.reductions:
            count = self._lanes_of(reduction)
            for start in reduction.how.empty(w.builder):
                text = constant(start.attr, start.dtype, count)
                carried.append((llvm_type(start.dtype, count), text))
        for carry in stage.carries:
            self.nodes.value(carry.initial)
            if in_lanes and carry.acc.attr[2]:
                text = w.as_vector(carry.initial)
                carried.append((llvm_type(carry.initial.dtype, lanes), text))
            else:
                text = w.operand(carry.initial).name
                carried.append((llvm_type(carry.initial.dtype, 1), text))
        return carried

    def _lanes_of(self, reduction: Reduce) -> int:
        """The lanes that a reduction accumulates in.

        Of long rows, float32 that are carried in float64 are added up first until they fill one
        vector, which saves most of the conversions.
        """
        w = self.writer
        k = w.kernel
        if k.vector is None:
            return 1
        (value, *others) = reduction.values
        wide = value.op == "convert" and value.dtype == dtypes.float64
        if others or not wide or reduction.how.name != "add" or not self.nodes.contract:
            return w.lanes
        if k.vector not in k.inner or value.args[0].dtype != dtypes.float32:
            return w.lanes
        if math.prod(k.extents[d] for d in k.inner) < LONG_ROW:
            return w.lanes
        return min(w.lanes, cpu_info().vector_bytes // dtypes.float32.itemsize)

    def _know_carries(self, stage: Stage, names: Names) -> None:
        w = self.writer
        for carry, name in zip(stage.carries, names, strict=True):
            vector = carry.acc.attr[2] and w.lanes > 1
            w.know(id(carry.acc), name, vector, len(w.levels) - 1)

    def _new(self, carry: Carry) -> str:
        """What a step makes of a carried value."""
        w = self.writer
        found = self.nodes.value(carry.new)
        if carry.acc.attr[2] and w.lanes > 1:
            return w.as_vector(carry.new)
        return found.name

    def _while(self, stage: Stage, carried: Carried, body: Callable[[Names], Names]) -> Names:
        """Steps as long as a condition of what is carried holds; what is carried in the end."""
        w = self.writer
        assert stage.condition is not None
        names = w.open_loop("0", carried)
        label = w.open[-1]
        self._know_carries(stage, names)
        holds = self.nodes.value(stage.condition).name
        level = w.levels[-1]
        level.lines.append(f"  br i1 {holds}, label %{label}.body, label %{label}.exit")
        level.lines.append(f"{label}.body:")
        level.block = f"{label}.body"
        new = body(names)
        w.close_loop("1", None, new)
        return names

    def _know_results(self, stage: Stage, final: Names) -> None:
        w = self.writer
        in_lanes = w.kernel.vector is not None and w.lanes > 1
        horizontal = in_lanes and w.kernel.vector in w.kernel.inner
        level = len(w.levels) - 1
        position = 0
        for reduction in stage.reductions:
            width = len(reduction.values)
            names = final[position : position + width]
            position += width
            if horizontal:
                names = self._across_lanes(reduction, names, self._lanes_of(reduction), 1)
            for result, name in zip(reduction.results, names, strict=True):
                w.know(id(result), name, in_lanes and not horizontal, level)
        for carry, name in zip(stage.carries, final[position:], strict=True):
            w.know(id(carry.result), name, in_lanes and carry.acc.attr[2], level)

    def _scans(self, stage: Stage) -> bool:
        """Whether running results go along the lanes."""
        k = self.writer.kernel
        return stage.scan is not None and k.vector in k.inner and self.writer.lanes > 1

    def _scanned(self, stage: Stage, running: Names) -> Names:
        """The running results of a vector of points; what goes on is that of the last lane.

        Lane ``k`` is combined with lane ``k - 1``, then with ``k - 2``, ``k - 4``, ...
        """
        w = self.writer
        scan = stage.scan
        assert scan is not None
        lanes, level = w.lanes, len(w.levels) - 1
        for value in scan.values:
            self.nodes.value(value)
        names = [w.as_vector(value) for value in scan.values]
        types = [llvm_type(value.dtype, lanes) for value in scan.values]
        empty = [constant(x.attr, x.dtype, lanes) for x in scan.how.empty(w.builder)]
        distance = 1
        while distance < lanes:
            order = [k if k < distance else lanes + k - distance for k in range(lanes)]
            mask = ", ".join(f"i32 {k}" for k in order)
            moved = [
                w.line(f"shufflevector {t} {e}, {t} {n}, <{lanes} x i32> <{mask}>", level)
                for t, e, n in zip(types, empty, names, strict=True)
            ]
            names = self._combined_halves(scan, [moved, names], lanes, level)
            distance *= 2
        names = self._combined_halves(scan, [running, names], lanes, level)
        for node, name in zip(scan.results, names, strict=True):
            w.know(id(node), name, True, level)
        last = ", ".join([f"i32 {lanes - 1}"] * lanes)
        return [
            w.line(f"shufflevector {t} {n}, {t} poison, <{lanes} x i32> <{last}>", level)
            for t, n in zip(types, names, strict=True)
        ]

    def _accumulate(self, reduction: Reduce, names: Names) -> Names:
        """One point (or one vector of points) more."""
        w = self.writer
        level = len(w.levels) - 1
        in_lanes = w.kernel.vector is not None and w.lanes > 1
        values, lanes = reduction.values, self._lanes_of(reduction)
        if lanes < w.lanes:
            values = values[0].args
        if w.masked and w.tail is not None and w.kernel.vector in w.kernel.inner:
            starts = reduction.how.empty(w.builder)
            pairs = zip(values, starts, strict=True)
            values = tuple(
                w.builder.select(w.tail, v, w.builder.convert(start, v.dtype)) for v, start in pairs
            )
        for acc, name in zip(reduction.accs, names, strict=True):
            w.know(id(acc), name, in_lanes, level)
        if lanes < w.lanes:
            return [self._wide_sum(reduction, values[0], lanes)]
        out = []
        for total in reduction.how.combine(w.builder, reduction.accs, values):
            node = self.nodes.accumulated(total)
            self.nodes.value(node)
            out.append(w.as_vector(node) if in_lanes else w.operand(node).name)
        return out

    def _wide_sum(self, reduction: Reduce, value: Scalar, lanes: int) -> str:
        """A sum in float64 and fewer lanes, with one vector of float32 more."""
        w = self.writer
        level = len(w.levels) - 1
        self.nodes.value(value)
        narrow = replace(reduction, values=(value,))
        names = self._across_lanes(narrow, [w.as_vector(value)], w.lanes, lanes)
        part = w.builder.node("acc", value.dtype, (), ("part", lanes, w.count()))
        all_lanes, w.lanes = w.lanes, lanes
        w.know(id(part), names[0], True, level)
        wide = w.builder.convert(part, reduction.values[0].dtype)
        (node,) = reduction.how.combine(w.builder, reduction.accs, (wide,))
        self.nodes.value(node)
        name = w.as_vector(node)
        w.lanes = all_lanes
        return name

    def _across_lanes(self, reduction: Reduce, names: Names, lanes: int, left: int) -> Names:
        """So many lanes of a vector as fewer, by halves: in an order that sizes alone decide."""
        level = len(self.writer.levels) - 1
        values = reduction.values
        while lanes > left:
            half = lanes // 2
            parts = [
                [self._half(v.dtype, name, lanes, first, level) for v, name in zip(values, names)]
                for first in (0, half)
            ]
            names = self._combined_halves(reduction, parts, half, level)
            lanes = half
        return names

    def _half(self, dtype: np.dtype[Any], name: str, lanes: int, first: int, level: int) -> str:
        """The lanes of a vector from ``first`` on, half of them."""
        w = self.writer
        type_, half = llvm_type(dtype, lanes), lanes // 2
        if half == 1:
            return w.line(f"extractelement {type_} {name}, i64 {first}", level)
        mask = ", ".join(f"i32 {first + k}" for k in range(half))
        text = f"shufflevector {type_} {name}, {type_} poison, <{half} x i32> <{mask}>"
        return w.line(text, level)

    def _combined_halves(
        self, reduction: Reduce, parts: list[Names], lanes: int, level: int
    ) -> Names:
        w = self.writer
        all_lanes, w.lanes = w.lanes, lanes
        leaves = []
        for side, names in zip(("low", "high"), parts, strict=True):
            nodes = []
            for k, (value, name) in enumerate(zip(reduction.values, names, strict=True)):
                leaf = w.builder.node("acc", value.dtype, (), (side, lanes, k, w.count()))
                w.know(id(leaf), name, True, level)
                nodes.append(leaf)
            leaves.append(tuple(nodes))
        out = []
        for node in reduction.how.combine(w.builder, leaves[0], leaves[1]):
            self.nodes.value(node)
            out.append(w.as_vector(node))
        w.lanes = all_lanes
        return out
