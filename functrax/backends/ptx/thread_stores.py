"""Writes of a thread of a GPU, some of which are atomic.

Start at :meth:`ThreadStores.store`.
"""

from __future__ import annotations

from functrax.backends.kernels.ir import Store
from functrax.backends.llvm.addresses import memory_type
from functrax.backends.llvm.stores import Stores
from functrax.backends.loops.atomic_updates import atomic_operation


class ThreadStores(Stores):
    """Writes the stores of a thread."""

    def store(self, store: Store) -> None:
        """Compute what is stored, and write it or update what is there."""
        if not store.atomic:
            super().store(store)
            return
        w, dtype = self.writer, store.value.dtype
        assert store.combine is not None
        for x in store.values:
            self.nodes.value(x)
        label = None if store.guard is None else w.open_branch()
        level = len(w.levels) - 1
        access = self.memory.access(store.buffer, store.address, store.offset, None, level)
        place, how = self.memory.first(access), atomic_operation(store.combine, dtype)
        value = f"{memory_type(dtype)} {w.operand(store.value).name}"
        w.line(f"atomicrmw {how} ptr {place}, {value} monotonic")
        if label is not None and store.guard is not None:
            w.close_branch(label, w.operand(store.guard).name)
