"""A loop over units by several threads: the Python twin of ``backends/native/thread_pool.cpp``.

A function of a range enters, with the number of units; the range is cut into contiguous parts,
which the threads, the calling one among them, take one after the other.  A loop inside a loop, and
a loop that begins while another thread's loop runs, stays on the thread that began it.

The number of threads is ``FUNCTRAX_NUM_THREADS``, or else that of the cores that the process may
keep busy (:mod:`functrax.core.process.cgroups`).  After a fork the child makes threads of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from functrax.backends.targets import target
from functrax.core.errors.typed import ArgumentError
from functrax.core.process.cgroups import processors

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


def default_num_threads() -> int:
    """The number of threads that the environment asks for, or of cores that there are to use."""
    text = os.environ.get("FUNCTRAX_NUM_THREADS", "").strip()
    if not text:
        return processors()
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(
            "FUNCTRAX_NUM_THREADS is the number of threads", got=repr(text), fix="1, or more"
        )
    return int(text)


def ranges_for(units: int, grain: int, cost: int, threads: int) -> int:
    """Into how many ranges a loop is cut: one where it is not worth more."""
    least = target().wake_ns
    if threads <= 1 or cost < least:
        return 1
    return min(threads, -(-units // grain), max(2, cost // least))


class ThreadPool:
    """Threads that wait for loops."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._local = threading.local()
        self._executor: ThreadPoolExecutor | None = None

    @property
    def num_threads(self) -> int:
        """How many threads take part, the calling one among them."""
        return self._threads

    def set_num_threads(self, threads: int) -> None:
        """Choose how many threads take part, the calling one among them.

        Raises:
          ArgumentError: if it is less than one.
        """
        if threads < 1:
            raise ArgumentError(
                "set_num_threads: at least one thread runs", got=str(threads), fix="1"
            )
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown()
            self._executor = None
            self._threads = threads

    def parallel_for(
        self, function: Callable[[int, int], None], units: int, grain: int, cost: int
    ) -> None:
        """Call ``function(begin, end)`` for ranges that make up ``[0, units)``."""
        if units == 0:
            return
        count = ranges_for(units, grain, cost, self._threads)
        nested = getattr(self._local, "busy", False)
        if count == 1 or nested or not self._lock.acquire(blocking=False):
            function(0, units)
            return
        try:
            self._run(function, units, grain, count)
        finally:
            self._lock.release()

    def _run(
        self, function: Callable[[int, int], None], units: int, grain: int, count: int
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor, wait

        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, "functrax")
        size = -(-units // (count * grain)) * grain
        ranges = [(k, min(k + size, units)) for k in range(0, units, size)]

        def marked(begin: int, end: int) -> None:
            self._local.busy = True
            try:
                function(begin, end)
            finally:
                self._local.busy = False

        try:
            others = [self._executor.submit(marked, *r) for r in ranges[1:]]
        except RuntimeError:  # the interpreter is ending
            function(0, units)
            return
        try:
            marked(*ranges[0])
        finally:
            wait(others)


thread_pool: Final = ThreadPool(default_num_threads())
