"""Every error that functrax raises says what was given and what to do: no place leaves a part out.

The first part is the message, the third is found when the error is made; this looks at the source
for the two that are easily forgotten.
"""

from __future__ import annotations

import ast
import pathlib

import functrax
from functrax.core.errors import typed
from functrax.core.errors.typed import FunctraxError
from functrax.core.types.promotion import IntegerOverflowError

_SOURCES = pathlib.Path(functrax.__file__).parent
_NAMES = {IntegerOverflowError.__name__} | {
    name
    for name, value in vars(typed).items()
    if isinstance(value, type) and issubclass(value, FunctraxError)
}


def _incomplete(path: pathlib.Path) -> list[str]:
    calls = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
    made = (n for n in calls if isinstance(n.func, ast.Name) and n.func.id in _NAMES)
    return [
        f"{path.relative_to(_SOURCES)}:{n.lineno}"
        for n in made
        if not {k.arg for k in n.keywords} >= {"got", "fix"}
        and None not in {k.arg for k in n.keywords}
    ]


def test_errors_have_all_parts() -> None:
    assert not [place for path in sorted(_SOURCES.rglob("*.py")) for place in _incomplete(path)]


def test_errors_are_looked_for() -> None:
    assert {"ShapeError", "DTypeError", "ArgumentError", "IntegerOverflowError"} <= _NAMES
