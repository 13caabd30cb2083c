"""Writes of arrays: an element, a row of elements, or a scatter.

A store may combine what it writes with what is there.  Rows of large arrays go past the caches
where they are whole cache lines, which asks for a fence at the end of the kernel.

Start at :meth:`Stores.store`.
"""

from __future__ import annotations

from functrax.backends.kernels.ir import Store
from functrax.backends.llvm import short_strides
from functrax.backends.llvm.addresses import Memory, alignment, memory_type
from functrax.backends.llvm.loads import Loads
from functrax.backends.llvm.nodes import Nodes
from functrax.backends.llvm.writer import Writer
from functrax.backends.targets import target
from functrax.core.errors.typed import VerificationError
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar


class Stores:
    """Writes the stores of a kernel."""

    def __init__(self, writer: Writer, memory: Memory, loads: Loads, nodes: Nodes) -> None:
        self.writer = writer
        self.memory = memory
        self.loads = loads
        self.nodes = nodes
        #: Whether anything is stored past the caches, which needs a fence in the end.
        self.streams = False

    def store(self, store: Store) -> None:
        """Compute what is stored, combine it with what is there if asked to, and write it."""
        w, guard = self.writer, store.guard
        if guard is not None and guard.op == "const" and not guard.attr:
            return  # no point is valid
        value = store.value
        for x in (store.value, store.offset, store.guard):
            if x is not None:
                self.nodes.value(x)
        holds = None
        if guard is not None and self._is_single(store):
            holds, store = w.operand(guard).name, replace(store, guard=None)
            label = w.open_branch()
        if store.combine is not None:
            old = w.builder.node("acc", value.dtype, (), ("store", store.buffer, w.count()))
            here = len(w.levels) - 1  # it changes from one point to the next
            self.loads.read(id(old), store.buffer, store.address, store.offset, store.guard, here)
            b = w.builder
            value = b.whole(store.combine.combine(b, b.parts(old), b.parts(value)))
            self.nodes.value(value)
        self._write(store, value)
        if holds is not None:
            w.close_branch(label, holds)

    def _is_single(self, store: Store) -> bool:
        """Whether one element is written: outside of vectors, or a value that all lanes share."""
        w = self.writer
        if w.vector_level <= 0 or w.lanes == 1:
            return True
        values = [w.operand(x) for x in (store.value, store.offset) if x is not None]
        return self.memory.stride(store.address) == 0 and not any(x.vector for x in values)

    def _write(self, store: Store, value: Scalar) -> None:
        w, memory, level = self.writer, self.memory, len(self.writer.levels) - 1
        a = memory.access(store.buffer, store.address, store.offset, store.guard, level)
        if self._is_single(store):
            name = memory.to_memory(w.operand(value).name, a.dtype, 1, level)
            element, place = memory_type(a.dtype), memory.first(a)
            w.do(f"store {element} {name}, ptr {place}{alignment(a.dtype)}", level)
            return
        if a.stride == 0 and not a.scattered:
            raise VerificationError(
                f"kernel {w.kernel.name}: all lanes write one element",
                got=str(store.address),
                fix="report this: the compiler vectorised a loop that it must not",
            )
        name = memory.to_memory(w.as_vector(value), a.dtype, w.lanes, level)
        mask = memory.mask(a)
        type_, size = memory_type(a.dtype, w.lanes), a.dtype.itemsize
        if a.is_row:
            pointer = memory.first(a)
            if mask is None and store.streams:
                self._stream(f"store {type_} {name}, ptr {pointer}", size, level)
                return
            if w.kernel.tile is not None:
                memory.prefetch_bytes(pointer, w.lanes * size, level, write=True)
            memory.store_lanes(name, a.dtype, pointer, mask, level)
        elif short_strides.is_short(a, w.lanes):
            short_strides.write(memory, a, name, mask)
        else:
            call, places, inside = memory.scattered(a, mask)
            operands = f"{type_} {name}, {places}, i32 {min(size, 8)}, {inside}"
            w.do(f"call void @llvm.masked.scatter.{call}({operands})", level)

    def _stream(self, text: str, size: int, level: int) -> None:
        """A store past the caches if the array begins at a cache line, else an ordinary one."""
        w = self.writer
        pointer, line = text.rsplit(maxsplit=1)[-1], target().cache_line
        self.streams = True
        label = f"if{w.count()}"
        low = w.line(f"ptrtoint ptr {pointer} to i64", level)
        low = w.line(f"and i64 {low}, {line - 1}", level)
        aligned = w.line(f"icmp eq i64 {low}, 0", level)
        w.levels[level].block = label
        w.levels[level].lines += [
            f"  br i1 {aligned}, label %{label}.then, label %{label}.else",
            f"{label}.then:",
            f"  {text}, align {line}, !nontemporal !0",
            f"  br label %{label}",
            f"{label}.else:",
            f"  {text}, align {size}",
            f"  br label %{label}",
            f"{label}:",
        ]
