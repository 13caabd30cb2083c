"""docs/jax_compatibility.md says what functrax has now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import ml_dtypes
import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "jax_compatibility.py"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("jax_compatibility", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not hasattr(ml_dtypes, "int1"), reason="the page counts int1, of ml_dtypes 0.6")
def test_the_page_is_up_to_date() -> None:
    script = _script()
    written = script.PAGE.read_text(encoding="utf-8").splitlines()
    now = script.page().splitlines()
    differing = [line for line in now if line not in set(written) and line.strip()]
    stale = now != written
    assert not stale, f"the page is stale; refresh it with `{script.COMMAND}`: {differing[:3]}"


@pytest.mark.parametrize(
    ("module", "name", "present"),
    [
        ("jax", "grad", True),
        ("jax.numpy", "sin", True),
        ("jax.numpy", "no_such_name", False),
        ("jax.no_such_module", "x", False),
        ("jax.Array", "at", True),
    ],
)
def test_names_are_looked_up(module: str, name: str, present: bool) -> None:
    assert _script().exists(module, name) is present


def test_a_name_is_listed_once_per_module() -> None:
    seen: set[tuple[str, str]] = set()
    for entry in _script().entries():
        for name in entry.names:
            assert (entry.module, name) not in seen
            seen.add((entry.module, name))
