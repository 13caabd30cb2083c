"""What an editor shows when one hovers over functions: the signature and the summary.

pyright's language server is asked, where it is installed (``pip install pyright``): of the public
functions of all namespaces, as they are called in a file.
"""

from __future__ import annotations

import html
import inspect
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_docstrings_complete import NAMESPACES, functions
from tests.typing.language_server import Session

ROOT = Path(__file__).parents[2]
#: What decorators add to signatures: types cannot say that a function has a keyword more (PEP 612).
ADDED = ("out_sharding",)


def expected(function: Any) -> tuple[list[str], str]:
    """The names of the parameters, and the first line of the documentation."""
    parameters = list(inspect.signature(function).parameters.values())
    parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    named = [p.name for p in parameters if p.name not in ADDED]
    documentation = inspect.getdoc(function)
    assert documentation is not None
    return named, re.sub(r":\w+:`", "`", documentation.splitlines()[0])


def plain(markdown: str) -> str:
    """The text of a hover without what protects it from being taken for Markdown."""
    text = html.unescape(markdown).replace("\xa0", " ")
    return re.sub(r"\\([^a-zA-Z0-9\s])", r"\1", text)


def is_right(shown: str, function: Any) -> bool:
    """Whether a hover has the names of the parameters, and the summary."""
    parameters, summary = expected(function)
    named = all(re.search(rf"\b{re.escape(p)}\b *[:=,)]", shown) for p in parameters)
    return named and summary.replace("`", "") in shown.replace("`", "")


@pytest.fixture(scope="module")
def server() -> str:
    beside = Path(sys.executable).with_name("pyright-langserver")
    command = str(beside) if beside.exists() else shutil.which("pyright-langserver")
    if command is None:
        pytest.skip("pyright is not installed")
    return command


@pytest.mark.slow
def test_editors_show_signatures_and_summaries(server: str) -> None:
    calls = [(f"{n}.{name}", f) for n in NAMESPACES for name, f in functions(n)]
    lines = [f"import {n}" for n in NAMESPACES] + [name for name, _ in calls]
    places = [(len(NAMESPACES) + i, len(name) - 1) for i, (name, _) in enumerate(calls)]
    with Session(server, ROOT, sys.executable) as session:
        shown = session.hovers(ROOT / "tests/typing/unsaved.py", "\n".join(lines), places)
    texts = [plain(x) for x in shown]
    wrong = [
        f"{name}: {text}"
        for (name, function), text in zip(calls, texts, strict=True)
        if not is_right(text, function)
    ]
    assert not wrong, f"{len(wrong)} of {len(calls)}:\n" + "\n".join(wrong)


def test_a_hover_without_names_or_summary_is_wrong() -> None:
    def scaled(x: float, by: float) -> float:
        """``x`` times a number."""
        return x * by

    assert is_right("def scaled(x: float, by: float) -> float\n`x` times a number.", scaled)
    assert not is_right("(float, float) -> float\n`x` times a number.", scaled)
    assert not is_right("def scaled(x: float, by: float) -> float", scaled)
