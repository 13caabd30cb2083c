"""Functions that run beside each other: ``functrax.fork`` and ``wait``.

A function and its arguments enter; a :class:`Fork` leaves, whose :meth:`Fork.wait` gives the result
or raises what the function raised.  Programs run without the GIL, so functions that spend their
time in them overlap.  Whoever waits for a function that no thread has begun runs it at once, so
forks may fork and wait, however few threads there are.

Start at :func:`fork`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, ParamSpec, TypeVar

from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.kept import KeptError
from functrax.core.errors.source import user_line
from functrax.core.options.config import as_in_thread, thread_options
from functrax.core.process.cgroups import processors
from functrax.core.tracing.trace import EVAL, current_trace

P = ParamSpec("P")
R = TypeVar("R")


@with_boundaries
class Fork(Generic[R]):
    """A call that runs beside the caller; see :func:`fork`."""

    def __init__(self, call: Callable[[], R]) -> None:
        self._call: Callable[[], R] | None = call
        self._claim = threading.Lock()
        self._done = threading.Event()
        self._line = user_line()
        self._error: KeptError | None = None
        self._result: R

    def done(self) -> bool:
        """Whether the function has returned, or raised."""
        return self._done.is_set()

    def wait(self) -> R:
        """The result; waits for it, or computes it here if no thread has begun to.

        Raises:
          Exception: what the function raised.
        """
        self.run()
        self._done.wait()
        if self._error is not None:
            raise self._error.again()
        return self._result

    def run(self) -> None:
        """Call the function, unless somebody else does or did."""
        if not self._claim.acquire(blocking=False):
            return
        call, self._call = self._call, None
        assert call is not None
        try:
            self._result = call()
        except BaseException as error:
            self._error = KeptError(error, f"raised by a fork, made at {self._line}")
        self._done.set()


class _Threads:
    """Threads that run forks, first come first served; they are made when they are needed."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Fork[Any]] = deque()
        self._idle = 0
        self._count = 0

    def add(self, fork: Fork[Any]) -> None:
        """Have a thread run it."""
        with self._changed:
            self._waiting.append(fork)
            if self._idle < len(self._waiting) and self._count < _most_threads():
                self._count += 1
                name = f"functrax fork {self._count}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting)
                self._idle -= 1
                fork = self._waiting.popleft()
            fork.run()
            del fork


def _most_threads() -> int:
    return max(2, processors())


_threads: Final = _Threads()
os.register_at_fork(after_in_child=_threads._reset)


def fork(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Fork[R]:
    """Call a function on another thread, while this one goes on.

    Args:
      function: any function; it sees the options of the calling thread.
      args: its arguments.
      kwargs: more of them.

    Returns:
      The call, whose ``wait()`` gives the result or raises what the function raised.

    While something is traced, as within ``jit`` or ``grad``, the function is called at once: what
    it records is a part of the traced program, in which independent parts are free to overlap.

    >>> def double(x): return 2 * x
    >>> call = fork(double, 4)
    >>> call.wait()
    8
    """
    if current_trace() is not EVAL:
        made = Fork(lambda: function(*args, **kwargs))
        made.run()
        return made
    chosen = thread_options()

    def call() -> R:
        with as_in_thread(chosen):
            return function(*args, **kwargs)

    made = Fork(call)
    _threads.add(made)
    return made
