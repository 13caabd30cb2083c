"""Neighbouring points of a thread, whose memory is read and written in one access.

What is computed is computed for one point after the other.

Start at :meth:`WideLoops.write`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrax.backends.kernels.ir import Store
from functrax.backends.llvm.addresses import memory_type
from functrax.backends.loops import tree
from functrax.backends.loops.rewrites.points import loads_along, stores_of
from functrax.core.index.expr import IndexExpr

if TYPE_CHECKING:
    from functrax.backends.ptx.group_loops import GroupStatements


class WideLoops:
    """Writes loops whose steps are taken at once."""

    def __init__(self, statements: GroupStatements) -> None:
        self.statements = statements
        self.writer = statements.writer
        self.memory = statements.memory

    def write(self, loop: tree.Loop) -> None:
        """The steps of a loop, written out."""
        w, nodes = self.writer, self.statements.nodes
        low = nodes.value(loop.begin).name
        count = loop.begin.args[1].attr[1]
        stores = stores_of(loop.body)
        w.open_level(w.levels[-1].block)
        w.define_dim(loop.dim, low)
        loads = loads_along(stores, loop.dim)
        read = [self._read(x.attr[0], x.attr[1], count) for x in loads]
        written = [self._pointer(s.buffer, s.address) for s in stores]
        w.join_level()
        rows = ["poison" for _ in stores]
        for point in range(count):
            w.open_level(w.levels[-1].block)
            level = len(w.levels) - 1
            w.define_dim(loop.dim, w.line(f"add nuw nsw i64 {low}, {point}"))
            for x, row in zip(loads, read, strict=True):
                type_ = memory_type(x.dtype, count)
                name = w.line(f"extractelement {type_} {row}, i64 {point}")
                w.know(id(x), self.memory.from_memory(name, x.dtype, False, level), False, level)
            rows = [self._with(s, row, point, count) for s, row in zip(stores, rows, strict=True)]
            w.join_level()
        for s, row, pointer in zip(stores, rows, written, strict=True):
            dtype = s.value.dtype
            value = f"{memory_type(dtype, count)} {row}"
            w.do(f"store {value}, ptr {pointer}, align {count * dtype.itemsize}")

    def _pointer(self, buffer: int, address: IndexExpr) -> str:
        return self.memory.pointer(buffer, address).name

    def _read(self, buffer: int, address: IndexExpr, count: int) -> str:
        w, dtype = self.writer, self.writer.kernel.operands[buffer].dtype
        type_, pointer = memory_type(dtype, count), self._pointer(buffer, address)
        return w.line(f"load {type_}, ptr {pointer}, align {count * dtype.itemsize}")

    def _with(self, store: Store, row: str, point: int, count: int) -> str:
        """A row with the value that a store writes at a point."""
        w, dtype, level = self.writer, store.value.dtype, len(self.writer.levels) - 1
        known = self.statements.nodes.value(store.value)
        name = self.memory.to_memory(known.name, dtype, 1, level)
        type_, element = memory_type(dtype, count), memory_type(dtype)
        return w.line(f"insertelement {type_} {row}, {element} {name}, i64 {point}")
