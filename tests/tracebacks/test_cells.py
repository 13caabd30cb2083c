"""In notebooks a line is said as IPython says it."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from typing import Any

import pytest

from functrax.core.errors.source import cell_number

interactive = pytest.importorskip("IPython.core.interactiveshell")


class KernelCompiler(interactive.CachingCompiler):  # type: ignore[misc,name-defined]
    """Names the files of cells as ipykernel does."""

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return f"/tmp/ipykernel_17/{abs(hash(raw_code))}.py"


@pytest.fixture(params=["terminal", "kernel"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of another Python: IPython warns of it
    kind = interactive.InteractiveShell
    kind.clear_instance()
    compiler = KernelCompiler if request.param == "kernel" else kind.compiler_class.default_value
    made = type("Shell", (kind,), {}).instance(history_manager=None, compiler_class=compiler)
    made.run_cell("import functrax\nimport functrax.numpy as jnp", store_history=True)
    yield made
    kind.clear_instance()
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)


def error_of(shell: Any, cell: str) -> str:
    result = shell.run_cell(cell, store_history=True)
    assert result.error_in_exec is not None
    return str(result.error_in_exec)


def test_lines_of_cells(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n  at    cell 2, line 2\n" in error_of(shell, "x = jnp.ones(3)\njnp.dot(x, x[:2])")
    shell.run_cell("def loss(w):\n    return w @ w[:2]\n", store_history=True)
    said = error_of(shell, "functrax.jit(functrax.grad(loss))(x)")
    assert "\n  at    cell 3, line 2 in loss\n" in said
    text = capsys.readouterr().out
    assert "functrax/numpy" not in text and "frames of functrax are left out" in text


def test_lines_of_programs(shell: Any) -> None:
    shell.run_cell("p = functrax.make_jaxpr(lambda x: x * 2)(1.0)", store_history=True)
    assert "# cell 2, line 1 in <lambda>" in str(shell.user_ns["p"])


def test_other_files_are_no_cells(shell: Any) -> None:
    assert cell_number(__file__) is None and cell_number("<string>") is None


def test_without_ipython() -> None:
    interactive.InteractiveShell.clear_instance()
    assert cell_number("/tmp/ipykernel_17/3735454125.py") is None
