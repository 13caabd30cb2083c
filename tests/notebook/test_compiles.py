"""A line says what the compiler does, once that takes long; otherwise nothing is written."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable

import pytest

import functrax
from functrax.backends import compile_log
from functrax.backends.compile_log import step
from functrax.notebook import compiles, show_compiles


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_line_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(compiles, "_BETWEEN", 0.01)
    monkeypatch.setattr(compiles, "_PAUSE", 0.02)
    with show_compiles(after=0.05):
        with step("assemble", "loss"), step("emit", "contraction_" + "x" * 80):
            until(lambda: "compiling for 0 s: emit contraction_x" in file.getvalue())
        until(lambda: file.getvalue().endswith("\r\x1b[K"))
        assert max(map(len, file.getvalue().replace("\x1b[K", "").split("\r"))) == 60
    assert compile_log.watchers == []
    assert all(thread.name != "functrax-compiles" for thread in threading.enumerate())


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal()
    monkeypatch.setattr(sys, "stderr", file)
    with show_compiles(after=100.0):
        functrax.jit(lambda x: x * 17.25 + 1)(2.0)
    assert file.getvalue() == ""


def test_elsewhere_lines_are_written_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(compiles, "_BETWEEN", 0.01)
    with show_compiles(after=0.0) as shown:
        shown.start()  # it is on already
        with step("passes", "fuse"):
            until(lambda: file.getvalue() != "")
    assert file.getvalue() == "compiling for 0 s: passes fuse\n"
    assert compile_log.watchers == []


def test_errors_of_the_work_end_it() -> None:
    with show_compiles() as shown:
        with pytest.raises(ZeroDivisionError), step("emit", "kernel"):
            raise ZeroDivisionError
        assert shown._open == 0
