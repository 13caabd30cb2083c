"""``%explain`` and ``%%explain``, in IPython."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functrax.errors import ShapeError
from functrax.explanation import Explanation

interactive = pytest.importorskip("IPython.core.interactiveshell")

SETUP = """\
import functrax
import functrax.numpy as jnp
%load_ext functrax
def loss(w, x, scale=1.0):
    return (jnp.tanh(x @ w) * scale).sum()
w, x = jnp.ones(3), jnp.ones((4, 3))
"""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of another Python: IPython warns of it
    kind = interactive.InteractiveShell
    kind.clear_instance()
    made = type("Shell", (kind,), {}).instance(history_manager=None)
    assert made.run_cell(SETUP, store_history=True).success
    yield made
    kind.clear_instance()
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)


def explained(shell: Any, cell: str) -> Explanation:
    done = shell.run_cell(cell, store_history=True)
    done.raise_error()
    assert isinstance(done.result, Explanation)
    return done.result


def failed(shell: Any, cell: str) -> BaseException:
    done = shell.run_cell(cell, store_history=True)
    error = done.error_in_exec or done.error_before_exec
    assert error is not None
    return error


def test_a_line(shell: Any) -> None:
    e = explained(shell, "%explain loss(w, x, scale=2.0)")
    assert e.name == "loss" and e.kernels and not e.timeline
    assert explained(shell, "%explain functrax.grad(loss)(w, x)").kernels
    assert "functrax explain" not in shell.user_ns


def test_a_cell_runs_what_stands_before_the_call(shell: Any) -> None:
    e = explained(shell, "%%explain\nv = w * 2\ndef f(x):\n    return jnp.sin(x) + v\n\nf(w)\n")
    assert e.name == "f" and "v" in shell.user_ns and "f" in shell.user_ns
    lines = {str(line) for k in e.kernels for line in k.lines}
    assert "cell 2, line 4 in f" in lines


def test_options(shell: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    e = explained(shell, f"%explain -m -o {page} loss(w, x)")
    assert all(k.measured for k in e.kernels) and page.read_text().startswith("<!doctype html>")
    e = explained(shell, f"%%explain --out {tmp_path / 'plan.txt'}\nloss(w, x)")
    assert (tmp_path / "plan.txt").read_text() == str(e)


def test_what_is_no_call_is_told_without_a_traceback(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from IPython.core.error import UsageError

    for cell, got in (
        ("%explain loss", "loss"),
        ("%explain", "nothing"),
        ("%%explain\ny = loss(w, x)", "y = loss(w, x)"),
        ("%%explain loss(w, x)\nw", "loss(w, x)"),
        ("%explain -k loss(w, x)", "-k"),
        ("%explain loss(w", "'(' was never closed\n        loss(w\n            ^"),
        ("%%explain\ny = 1\nloss(w x)", "line 3: invalid syntax"),
    ):
        capsys.readouterr()
        error = failed(shell, cell)
        assert type(error) is UsageError and got in str(error), cell
        shown = capsys.readouterr()
        assert f"UsageError: {error}" in shown.err + shown.out, cell
        assert ".py" not in shown.err + shown.out, cell


def test_errors_say_the_line_of_the_cell(shell: Any) -> None:
    error = failed(shell, "%%explain\ndef f(w):\n    return w @ jnp.ones(7)\nf(w)")
    assert isinstance(error, ShapeError) and "cell 2, line 3 in f" in str(error)
