"""Neighbouring points of a thread, whose memory is read and written in one access.

What is computed is computed for one point after the other.  Arrays that do not begin at a multiple
of an access, and places that are not contiguous along the points, are accessed one by one.

Start at :meth:`WideLoops.points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Store
from functrax.backends.llvm.addresses import memory_type
from functrax.backends.llvm.writer import Known
from functrax.backends.loops import tree
from functrax.backends.loops.rewrites.points import is_wide_load, is_wide_store, parts_of
from functrax.backends.targets import target
from functrax.core.scalars.scalar import Scalar

if TYPE_CHECKING:
    from functrax.backends.ptx.group_loops import GroupStatements

#: What is known of a point, by its key.
KnownPoint: TypeAlias = "list[tuple[Any, Known]]"

_BOOL = np.dtype(np.bool_)


class WideLoops:
    """Writes points whose memory is accessed at once."""

    def __init__(self, statements: GroupStatements) -> None:
        self.statements = statements
        self.writer = statements.writer
        self.memory = statements.memory
        #: The buffers that begin at a multiple of an access here.
        self.aligned: frozenset[int] = frozenset()
        #: What is written of the stores that are done at once, as vectors, by the store's ``id``.
        self.rows: dict[int, str] = {}
        self._point = self._count = 0

    def write(self, loop: tree.Loop) -> None:
        """The steps of a loop, written out."""
        low = self.statements.nodes.value(loop.begin).name
        self.points(loop, low, loop.begin.args[1].attr[1], [], [])

    def points(
        self,
        loop: tree.Loop,
        low: str,
        count: int,
        names: list[str],
        kept: Sequence[KnownPoint],
        inside: str = "",
    ) -> tuple[list[str], list[KnownPoint]]:
        """Do some neighbouring points of a loop.

        Args:
          loop: the loop.
          low: the index of the first point.
          count: how many they are.
          names: of what is carried.
          kept: what is known of each point already.
          inside: the name of a bool without which nothing is written.

        Returns:
          The names of what is carried, and what is known of each point then.
        """
        w, d = self.writer, loop.dim
        there = {key for key, _ in kept[0]} if kept else set()
        loads, stores = parts_of(loop.body)
        buffers = self.aligned if count > 1 else frozenset()
        loads = [x for x in loads if x.attr[0] in buffers and is_wide_load(x, d, count)]
        loads = [x for x in loads if id(x) not in there]
        stores = [s for s in stores if s.buffer in buffers and is_wide_store(s, d, count)]
        w.open_level(w.levels[-1].block)
        w.define_dim(d, low)
        read = [self._read(x, count) for x in loads]
        places = [self.memory.pointer(s.buffer, s.address).name for s in stores]
        w.join_level()
        outer = self.rows, self._point, self._count
        self.rows, self._count = {id(s): "poison" for s in stores}, count
        found = []
        for self._point in range(count):
            w.open_level(w.levels[-1].block)
            level = len(w.levels) - 1
            if kept:
                w.level_of_dim[d] = level
                for key, known in kept[self._point]:
                    w.know(key, known.name, known.vector, level, known.lanes)
            else:
                w.define_dim(d, w.line(f"add nuw nsw i64 {low}, {self._point}"))
            if inside:
                w.know(id(w.builder.node("tail", _BOOL)), inside, False, level)
            for x, row in zip(loads, read, strict=True):
                type_ = memory_type(x.dtype, count)
                name = w.line(f"extractelement {type_} {row}, i64 {self._point}")
                w.know(id(x), self.memory.from_memory(name, x.dtype, False, level), False, level)
            names = self.statements.step(loop, names)
            found.append([(key, w.known[key]) for key in w.levels[-1].known])
            w.join_level()
        label = w.open_branch() if inside and stores else ""
        for s, pointer in zip(stores, places, strict=True):
            dtype = s.value.dtype
            value = f"{memory_type(dtype, count)} {self.rows[id(s)]}"
            w.do(f"store {value}, ptr {pointer}, align {_alignment(dtype, count)}")
        if label:
            w.close_branch(label, inside)
        self.rows, self._point, self._count = outer
        return names, found

    def put(self, store: Store) -> None:
        """The value that a store of ``rows`` writes at the point that is done."""
        w, dtype, level = self.writer, store.value.dtype, len(self.writer.levels) - 1
        known = self.statements.nodes.value(store.value)
        name = self.memory.to_memory(known.name, dtype, 1, level)
        type_, element = memory_type(dtype, self._count), memory_type(dtype)
        row = f"{type_} {self.rows[id(store)]}, {element} {name}"
        self.rows[id(store)] = w.line(f"insertelement {row}, i64 {self._point}")

    def _read(self, x: Scalar, count: int) -> str:
        """The points of a load as a vector; of no importance where its guard is false."""
        w, memory = self.writer, self.memory
        buffer, address, has_offset, has_guard = x.attr
        for arg in x.args:
            self.statements.nodes.value(arg)
        offset = x.args[0] if has_offset else None
        a = memory.access(buffer, address, offset, None, len(w.levels) - 1)
        pointer = memory.first(a)
        if has_guard:
            inside = w.operand(x.args[-1]).name
            pointer = w.line(f"select i1 {inside}, ptr {pointer}, ptr %b{buffer}")
        type_ = memory_type(a.dtype, count)
        return w.line(f"load {type_}, ptr {pointer}, align {_alignment(a.dtype, count)}")


def _alignment(dtype: np.dtype[Any], count: int) -> int:
    """Of so many elements: that of one access, which may be one of several."""
    return min(count * dtype.itemsize, target().access_bytes)


def aligned_in(condition: Scalar) -> frozenset[int]:
    """The buffers that a condition says begin at a multiple of an access."""
    if condition.op == "aligned":
        return frozenset(condition.attr)
    if condition.op == "and":
        return frozenset().union(*(aligned_in(x) for x in condition.args))
    return frozenset()
