"""Threads that meet in memory that they share: who may, and who must not."""

from __future__ import annotations

import numpy as np

from functrax.backends.loops.shared_memory import SharedMemory


def test_atomic_updates_meet_one_another_alone() -> None:
    memory = SharedMemory(np.zeros(4, np.uint32))
    threads, same = np.arange(3), np.zeros(3, int)
    assert "nobody wrote" in memory.access(same, threads, writes=True, atomic=True)
    assert not memory.access(threads, threads, writes=True)
    memory.order()
    for _ in range(2):
        assert not memory.access(same, threads, writes=True, atomic=True)
    for writes in (False, True):
        assert "without a barrier" in memory.access(same[:1], threads[:1], writes)
    memory.order()
    assert not memory.access(same[:1], threads[:1], writes=False)
    assert "without a barrier" in memory.access(same[:1], threads[1:2], writes=True, atomic=True)
