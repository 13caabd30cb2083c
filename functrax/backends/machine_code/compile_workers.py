"""Threads that compile kernels while the thread that asked for them writes the next ones.

A :class:`Workers` lives as long as one program is compiled.  Jobs come in one by one; the first
other thread begins with the second job, for a program of one kernel is done before a thread has
started.  :meth:`Workers.finish` lets the calling thread take part and returns when no job is left.
No thread outlives that, so there is none when the process forks or the interpreter ends.

A thread that comes back from LLVM needs Python's lock for a moment, and the one that lowers kernels
gives it up only when it has been asked for as long as ``sys.getswitchinterval()`` says: 5 ms, as
long as a kernel takes to compile.  While there are threads it is what it costs to wake one: 48
kernels that were lowered in 3 ms each took 1.33 s so, and 1.56 s with 0.3 ms.  It belongs to the
whole process: what it was comes back, unless somebody has set another one.

Where several jobs wait a thread takes its share of them, which together take less than one after
the other, and leaves the other threads theirs.

To do jobs must not raise: what went wrong is kept by whoever made one, and raised where it is asked
for.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from functrax.backends.targets import target

Job = TypeVar("Job")


class Workers(Generic[Job]):
    """Does jobs in several threads.

    Args:
      threads: how many, the calling one among them.
      do: does jobs together.
    """

    def __init__(self, threads: int, do: Callable[[list[Job]], object]) -> None:
        self._all, self._do = threads, do
        self._most = threads - 1
        self._jobs: list[Job] = []
        self._threads: list[threading.Thread] = []
        self._ended = False
        self._intervals = 0.0, 0.0  # before there were threads, and since
        self._changed = threading.Condition()  # of jobs, and of the end

    def add(self, job: Job) -> None:
        """A job, which is done before :meth:`finish` returns."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()
        if len(self._jobs) > 1 and len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name="functrax-compile")
            try:
                thread.start()
            except RuntimeError:  # the system allows no more
                self._most = len(self._threads)
                return
            self._threads.append(thread)
            if len(self._threads) == 1:
                before = sys.getswitchinterval()
                sys.setswitchinterval(min(target().wake_ns / 1e9, before))
                self._intervals = before, sys.getswitchinterval()

    def finish(self) -> None:
        """Do what is left, and end the threads."""
        while jobs := self._share():
            self._do(jobs)
        self._end()

    def cancel(self) -> None:
        """End the threads, and leave what nobody has begun."""
        with self._changed:
            self._jobs.clear()
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._threads:
            for thread in self._threads:
                thread.join()
            self._threads.clear()
            before, short = self._intervals
            if sys.getswitchinterval() == short:
                sys.setswitchinterval(before)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._ended)
                jobs = self._share()
            if not jobs:
                return
            self._do(jobs)

    def _share(self) -> list[Job]:
        """One thread's share of what waits, which it has to do."""
        with self._changed:
            count = max(1, len(self._jobs) // self._all)
            jobs, self._jobs = self._jobs[:count], self._jobs[count:]
        return jobs
