"""Every Python block of README.md and docs/ runs, and says what the page says.

The ``python`` blocks of one page share a namespace.  A block of ``>>>`` examples is a doctest.  A
``text`` block behind a ``python`` block is what that block prints, and then the error that it
raises, if it raises one; ``...`` in it stands for anything.  A block with ``<!-- not run -->``
on the line before it is left out.  One with ``<!-- needs NAME -->`` is a program of its own for a
library written for JAX, and runs under ``functrax.compat`` where the library is installed.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from functrax.core import native
from functrax.core.options.config import Override, config
from functrax.errors import FunctraxError

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages that print what is recorded, or say whose memory is used again.
OF_THE_EXTENSION = ("eager.md", "interop.md", "memory.md")
_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>not run|needs (?P<library>\w+)) -->\n+)?"
    r"```(?P<kind>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block of a page, the line before its first, and the library that it needs."""

    kind: str
    code: str
    line: int
    library: str | None = None


def blocks(page: str) -> Iterator[Block]:
    """The blocks to run, and the texts that they have to give."""
    for found in _FENCE.finditer(page):
        if found["mark"] != "not run":
            line = page.count("\n", 0, found.start("code"))
            yield Block(found["kind"], found["code"], line, found["library"])


def figures(page: str) -> list[str]:
    """The names of the files that a page's blocks draw."""
    code = "".join(block.code for block in blocks(page) if block.kind == "python")
    return re.findall(r"""savefig\("(\w+\.svg)"\)""", code)


def run_page(page: str, name: str) -> None:
    """Run a page; the dtypes that it asks for are its own."""
    x64 = config.enable_x64
    try:
        run_blocks(page, name)
    finally:
        config.update("enable_x64", x64)


def run_blocks(page: str, name: str) -> None:
    """Run the Python blocks of a page, and compare with the texts behind them."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    end = Block("", "", 0)
    for block, following in itertools.pairwise([*blocks(page), end]):
        if block.kind != "python" or block.library:
            continue
        if ">>>" in block.code:
            run_examples(block, name, namespace)
            continue
        printed, error = run_block(block, name, namespace)
        if following.kind == "text":
            said = printed if error is None else f"{printed}{type(error).__name__}: {error}\n"
            assert_says(following.code, said, f"{name}:{following.line}")
        elif error is not None:
            raise error


def run_block(
    block: Block, name: str, namespace: dict[str, Any]
) -> tuple[str, FunctraxError | None]:
    """What a block prints, and the error of functrax's that it raises."""
    code = compile("\n" * block.line + block.code, name, "exec", dont_inherit=True)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
    except FunctraxError as error:
        return printed.getvalue(), error
    return printed.getvalue(), None


def run_examples(block: Block, name: str, namespace: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(block.code, {}, name, name, block.line)
    test.globs = namespace
    report = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    with Override("traceback_filtering", "off"):  # doctests would compare the note as well
        results = runner.run(test, out=report.write, clear_globs=False)
    assert results.failed == 0, report.getvalue()


def assert_says(wanted: str, said: str, place: str) -> None:
    checker = doctest.OutputChecker()
    assert checker.check_output(wanted, said, doctest.ELLIPSIS), (
        f"{place} says\n{wanted}\nbut the block before it gives\n{said}"
    )


@pytest.mark.parametrize("path", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_page(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if native.extension is None and path.name in OF_THE_EXTENSION:
        pytest.skip("the page shows what the extension does")
    monkeypatch.chdir(tmp_path)  # a page may write files, ...
    with mock.patch.dict(os.environ):  # ... and set variables
        text = path.read_text(encoding="utf-8")
        run_page(text, path.name)
    for figure in figures(text):  # scripts/make_figures.py keeps them
        assert (tmp_path / figure).exists() and f"images/{figure})" in text
        assert (ROOT / "docs" / "images" / figure).exists()


def _programs() -> Iterator[Any]:
    """The blocks that need libraries, and the texts behind them."""
    for path in PAGES:
        page = blocks(path.read_text(encoding="utf-8"))
        for block, following in itertools.pairwise([*page, Block("", "", 0)]):
            if block.library:
                yield pytest.param(block, following, id=f"{path.name}:{block.library}")


@pytest.mark.parametrize(("block", "following"), list(_programs()))
def test_program_of_a_library(block: Block, following: Block, tmp_path: Path) -> None:
    assert block.library is not None
    if importlib.util.find_spec(block.library) is None:
        pytest.skip(f"{block.library} is not installed")
    command = [sys.executable, "-m", "functrax.compat", "-c", block.code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert_says(following.code, ran.stdout, f"{block.library}:{following.line}")


@pytest.mark.parametrize(
    "page",
    [
        "```python\nx\n```\n",
        "```python\n>>> 1 + 1\n3\n\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nimport functrax\nfunctrax.parse('')\n```\n",
        "```python\nimport functrax\nfunctrax.parse('')\n```\n```text\nDTypeError: ...\n```\n",
    ],
)
def test_wrong_page_fails(page: str) -> None:
    with pytest.raises((NameError, AssertionError, FunctraxError)):
        run_page(page, "wrong.md")


def test_marked_block_is_left_out() -> None:
    run_page("<!-- not run -->\n```python\nx\n```\n", "marked.md")
