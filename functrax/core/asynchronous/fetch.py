"""Handing values to callbacks while the program goes on: ``functrax.fetch``.

Arrays and a function enter; the function is called with NumPy arrays, on a thread of its own, in
the order in which the calls of :func:`fetch` were made.  What waits holds the arrays' memory, so it
sees the values that they had, whatever is donated or deleted afterwards.  Nothing is copied, but
what somebody outside may write to.

Start at :func:`fetch`, then :class:`_Deliveries`.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from functrax.core import native
from functrax.core.arrays.array import Borrowed, ConcreteArray, compute_together
from functrax.core.arrays.operators import Array, install
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.kept import KeptError
from functrax.core.errors.source import user_line
from functrax.core.errors.typed import ArgumentError, TracerArrayConversionError
from functrax.core.events.recorder import recorder
from functrax.core.pytree.operations import tree_flatten, tree_unflatten

#: So much may wait before :func:`fetch` waits as well, so that a loop does not fill the memory.
MOST_FETCHES: Final = 1024
MOST_BYTES: Final = 1 << 30


@with_boundaries
class Fetch:
    """One delivery: something to wait for.

    A callback that raises does not stop those after it.  Its exception is raised by :meth:`wait`,
    or else by the next ``functrax.effects_barrier()``, or is printed when the process ends.
    """

    def __init__(self, leaves: list[Any], build: Callable[[list[Any]], Any], to: Any) -> None:
        self._leaves = leaves  # raw values of arrays, and other things as they are
        self._build = build
        self._callback = to
        self._line = user_line()
        self._done = threading.Event()
        self._error: KeptError | None = None
        self.nbytes = sum([getattr(x.raw, "nbytes", 0) for x in leaves if type(x) is _Held])

    def done(self) -> bool:
        """Whether the callback has returned, or raised."""
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the callback has returned, at most ``timeout`` seconds.

        Returns:
          Whether it has.

        Raises:
          Exception: what the callback raised.
        """
        if threading.current_thread() is _deliveries.thread:
            return self.done()  # nothing else is delivered before this callback returns
        if not self._done.wait(timeout):
            return False
        _deliveries.forget_error(self)
        if self._error is not None:
            raise self._error.again()
        return True

    def _deliver(self) -> None:
        begin = time.perf_counter_ns()
        try:
            leaves = [x.elements() if type(x) is _Held else x for x in self._leaves]
            self._callback(self._build(leaves))
        except BaseException as error:
            told = f"raised by a callback of fetch, called at {self._line}"
            self._error = KeptError(error, told)
        if recorder.on:
            recorder.add("fetch", "callback", begin, time.perf_counter_ns(), line=str(self._line))
        self._leaves = []
        self._callback = self._build = None  # type: ignore[assignment]


class _Held:
    """An array's raw value, kept."""

    __slots__ = ("raw",)

    def __init__(self, array: ConcreteArray) -> None:
        raw = array.buffer
        self.raw = np.array(raw.materialize()) if type(raw) is Borrowed else raw

    def elements(self) -> np.ndarray[Any, Any]:
        """The elements, which must not be written to."""
        raw: Any = self.raw
        view: np.ndarray[Any, Any] = (raw if type(raw) is np.ndarray else raw.materialize()).view()
        view.flags.writeable = False
        return view


class _Deliveries:
    """What waits, first come first served, and the thread that serves it."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Fetch] = deque()
        self._nbytes = 0
        self._failed: list[Fetch] = []
        self.thread: threading.Thread | None = None

    def add(self, fetch: Fetch) -> None:
        """Deliver it after those that wait already."""
        with self._changed:
            if threading.current_thread() is not self.thread:
                self._changed.wait_for(lambda: self._has_room(fetch.nbytes))
            self._waiting.append(fetch)
            self._nbytes += fetch.nbytes
            if self.thread is None:
                self.thread = threading.Thread(target=self._serve, name="functrax fetch")
                self.thread.daemon = True
                self.thread.start()
            self._changed.notify_all()

    def _has_room(self, nbytes: int) -> bool:
        count = len(self._waiting)
        return count == 0 or (count < MOST_FETCHES and self._nbytes + nbytes <= MOST_BYTES)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                fetch = self._waiting[0]
            fetch._deliver()
            with self._changed:
                self._waiting.popleft()
                self._nbytes -= fetch.nbytes
                if fetch._error is not None:
                    self._failed.append(fetch)
                fetch._done.set()
                self._changed.notify_all()
            del fetch

    def flush(self) -> None:
        """Wait until nothing waits any more."""
        if threading.current_thread() is self.thread:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)

    def forget_error(self, fetch: Fetch) -> None:
        """Somebody has seen its error."""
        with self._changed:
            if fetch in self._failed:
                self._failed.remove(fetch)

    def take_error(self) -> KeptError | None:
        """The first error that nobody has seen."""
        with self._changed:
            return self._failed.pop(0)._error if self._failed else None

    def end(self) -> None:
        """Deliver what waits, and print the errors that nobody has seen."""
        self.flush()
        while (kept := self.take_error()) is not None:
            error = kept.again()
            sys.excepthook(type(error), error, None)


_deliveries: Final = _Deliveries()
atexit.register(_deliveries.end)


def fetch(tree: Any, callback: Callable[[Any], Any]) -> Fetch:
    """Hand the values of arrays to a function, without waiting for it.

    Args:
      tree: a pytree of arrays; leaves that are no arrays are handed over as they are.
      callback: called with the same pytree of NumPy arrays, which must not be written to, on a
        thread that makes all such calls, in the order of the calls of ``fetch``.  It sees the
        values as they are now, also if the arrays are donated or deleted later.

    Returns:
      Something to wait for, with ``wait()`` and ``done()``.

    Raises:
      DonatedBufferError: if an array was deleted or donated.
      ArgumentError: if the callback cannot be called.
      TracerArrayConversionError: for a traced value, which has no elements yet.

    If very much waits (1024 calls, or 1 GiB) it waits until there is room.

    >>> seen = []
    >>> fetch({"loss": 0.5}, seen.append).wait()
    True
    >>> seen
    [{'loss': 0.5}]
    """
    if not callable(callback):
        raise ArgumentError(
            "fetch: the callback is called with the values",
            got=type(callback).__name__,
            fix="a function of one argument",
        )
    leaves, structure = tree_flatten(tree)
    compute_together(leaves)
    handed = [_handed(x) for x in leaves]
    fetched = Fetch(handed, lambda values: tree_unflatten(structure, values), callback)
    _deliveries.add(fetched)
    return fetched


def _handed(leaf: Any) -> Any:
    if type(leaf) is ConcreteArray:
        return _Held(leaf)
    if isinstance(leaf, Array):
        raise TracerArrayConversionError(
            "fetch: a traced value has no elements yet",
            got=str(leaf.aval),
            fix="functrax.debug.callback inside of jit, or fetch the function's result",
        )
    return np.array(leaf) if type(leaf) is np.ndarray else leaf


def drain_programs() -> None:
    """Wait until the programs that run while Python goes on have ended."""
    if native.extension is not None:
        native.extension.tasks_drain()


def barrier() -> None:
    """Wait until everything is delivered.

    Raises:
      Exception: what the first of the callbacks that failed raised, if nobody has seen it.
    """
    _deliveries.flush()
    error = _deliveries.take_error()
    if error is not None:
        raise error.again()


def _fetch_array(self: Array, callback: Callable[[np.ndarray[Any, Any]], Any]) -> Fetch:
    """Hand the elements to a function, without waiting for it; see ``functrax.fetch``."""
    return fetch(self, callback)


install({"fetch": _fetch_array}, {})
os.register_at_fork(before=drain_programs, after_in_child=_deliveries._reset)
