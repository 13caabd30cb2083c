"""One name for one class, so that a reader who meets it knows which is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import functrax

PACKAGE = Path(functrax.__file__).parent
#: What is there for JAX's names has JAX's names.
FOR_JAX = PACKAGE / "compat"
#: Two reports that users meet in two modules.
ALLOWED = {"Report"}


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if FOR_JAX in path.parents and path.name != "missing.py":
            continue
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places[statement.name].append(path.relative_to(PACKAGE).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert set(twice) == ALLOWED, twice
