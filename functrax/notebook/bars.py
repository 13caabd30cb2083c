"""A bar on standard error, drawn some times a second: tqdm's if it is installed, else a line.

Start at :class:`Bar`.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from importlib.util import find_spec
from typing import Any, Final

#: Seconds between two drawings: on a terminal, which draws over the last one, and elsewhere.
TERMINAL, ELSEWHERE = 0.1, 10.0
_WIDTH: Final = 30


class Bar:
    """How far a loop of a program has come; each run of the program begins it again.

    Args:
      title: what stands before it.
      total: how many steps there are; None if :meth:`at` says it.
    """

    def __init__(self, title: str, total: int | None) -> None:
        self._title = title
        self._total = total
        self._lock = threading.Lock()
        self._drawn: Any = None

    def at(self, done: int, total: int | None = None) -> None:
        """Some steps are done; 0 begins a run."""
        with self._lock:
            if done == 0 and self._drawn is not None and self._drawn.n:
                self._close()
            if self._drawn is None:
                self._drawn = _drawn(self._title, self._total if total is None else total)
            if done > self._drawn.n:
                self._drawn.update(done - self._drawn.n)

    def end(self) -> None:
        """All steps are done."""
        with self._lock:
            if self._drawn is not None:
                self._drawn.update((self._drawn.total or self._drawn.n) - self._drawn.n)
                self._close()

    def _close(self) -> None:
        self._drawn.close()
        self._drawn = None


def _drawn(title: str, total: int | None) -> Any:
    if find_spec("tqdm") is None:
        return Line(title, total)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without ipywidgets gets tqdm's text
        from tqdm.auto import tqdm

        return tqdm(desc=title, total=total)


class Line:
    """What stands in for tqdm: one line, with the members of tqdm that are used here."""

    def __init__(self, title: str, total: int | None) -> None:
        self.n = 0
        self.total = total
        self._title = title
        self._begin = time.monotonic()
        self._file = sys.stderr
        self._is_terminal = self._file.isatty()
        self._next = self._begin

    def update(self, more: int) -> None:
        """Some steps more are done; draws if the last time is long enough ago."""
        self.n += more
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (TERMINAL if self._is_terminal else ELSEWHERE)
            self._draw(now)

    def close(self) -> None:
        """Draw for the last time."""
        self._draw(time.monotonic())
        if self._is_terminal:
            self._file.write("\n")
        self._file.flush()

    def _draw(self, now: float) -> None:
        took = now - self._begin
        total = self.total or self.n or 1
        filled = _WIDTH * self.n // total
        rate = self.n / took if took else 0.0
        left = f", {(total - self.n) / rate:.0f} s left" if rate and self.n < total else ""
        text = (
            f"{self._title}: {100 * self.n // total:3}% |{'#' * filled:<{_WIDTH}}| "
            f"{self.n}/{total}, {took:.1f} s{left}"
        )
        self._file.write(f"\r{text}\x1b[K" if self._is_terminal else f"{text}\n")
        self._file.flush()
