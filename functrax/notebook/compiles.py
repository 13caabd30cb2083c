"""A line on standard error while the compiler works for long: :class:`show_compiles`."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Final

from functrax.backends.compile_log import watchers
from functrax.notebook.bars import ELSEWHERE

#: Seconds between two drawings on a terminal, and without work after which a compilation has ended.
_BETWEEN, _PAUSE = 0.2, 0.5
_WIDTH: Final = 60


class show_compiles:  # noqa: N801 - it is used as a function
    """Says what the compiler does, and since when, once that takes long.

    It is a context manager; :meth:`start` and :meth:`stop` are its two ends.  On a terminal the
    line is drawn over and goes when the work is done; elsewhere one is written each ten seconds.
    ``%load_ext functrax`` starts it in IPython on a terminal; nothing else does by itself.

    Args:
      after: seconds of work after which the line comes.

    >>> import functrax
    >>> from functrax.notebook import show_compiles
    >>> with show_compiles():
    ...     y = functrax.jit(lambda x: x + 1)(2)  # nothing to see: it does not take two seconds
    """

    def __init__(self, after: float = 2.0) -> None:
        self._after = after
        self._lock = threading.Lock()
        self._works = threading.Event()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._open = 0
        self._what = ""
        self._since = self._last = 0.0

    def start(self) -> None:
        """Begin to watch the compiler."""
        if self._thread is None:
            self._ends.clear()
            self._thread = threading.Thread(
                target=self._watch, args=(sys.stderr,), name="functrax-compiles", daemon=True
            )
            self._thread.start()
            watchers.append(self)

    def stop(self) -> None:
        """End; the line goes."""
        if self._thread is not None:
            watchers.remove(self)
            self._ends.set()
            self._works.set()
            self._thread.join()
            self._thread = None
            self._open = 0

    def __enter__(self) -> show_compiles:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def begin(self, stage: str, name: str) -> None:
        """A stage of the compiler begins its work on something."""
        now = time.monotonic()
        with self._lock:
            if not self._open and now - self._last > _PAUSE:
                self._since = now
            self._open += 1
            self._what = f"{stage} {name}".strip()
            self._works.set()

    def end(self) -> None:
        """It ends."""
        with self._lock:
            self._open = max(0, self._open - 1)  # it may end after `stop`
            self._last = time.monotonic()

    def _watch(self, file: Any) -> None:
        """Draw, in a thread of its own, which sleeps while nothing is compiled."""
        is_terminal = file.isatty()
        drawn = 0.0
        while True:
            self._works.wait()
            over = self._ends.wait(_BETWEEN)
            now = time.monotonic()
            with self._lock:
                idle = over or (not self._open and now - self._last > _PAUSE)
                took, what = now - self._since, self._what
                if idle and not over:
                    self._works.clear()
            if idle:
                if drawn and is_terminal:
                    _write(file, "\r\x1b[K")
                drawn = 0.0
                if over:
                    return
            elif took >= self._after and now - drawn >= (_BETWEEN if is_terminal else ELSEWHERE):
                drawn = now
                text = f"compiling for {took:.0f} s: {what}"
                text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
                _write(file, f"\r{text}\x1b[K" if is_terminal else f"{text}\n")


def _write(file: Any, text: str) -> None:
    file.write(text)
    file.flush()
