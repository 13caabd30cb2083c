"""The blocks of docs/aot.md in C, C++, Rust, and Python that needs a linker, run and compared."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.aot.building import STRICT, run
from tests.test_docs import _FENCE, ROOT, Block, assert_says, run_block, run_page

PAGE = ROOT / "docs" / "aot.md"
CPP = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic")


def objects() -> list[str]:
    """The object files that the page has written."""
    return sorted(map(str, Path("out").glob("*.o")))


def built_c(source: Path, made: Path) -> None:
    """A block in C."""
    run("gcc", *STRICT, "-Iout", "-o", made, source, *objects(), "-lpthread")


def built_cpp(source: Path, made: Path) -> None:
    """A block in C++."""
    run("g++", *CPP, "-Iout", "-o", made, source, "out/slopes.o")


def built_rust(source: Path, made: Path) -> None:
    """A block in Rust."""
    run("rustc", "--edition=2021", "-o", made, source, "-Clink-arg=out/slopes.o")


BUILDERS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "c": ("gcc", built_c),
    "cpp": ("g++", built_cpp),
    "rust": ("rustc", built_rust),
}


def pairs() -> list[tuple[Block, Block]]:
    """Blocks of the page with those behind them."""
    text = PAGE.read_text(encoding="utf-8")
    found = [
        Block(x["kind"], x["code"], text.count("\n", 0, x.start())) for x in _FENCE.finditer(text)
    ]
    return list(itertools.pairwise(found))


@pytest.mark.parametrize("kind", BUILDERS)
def test_blocks(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, build = BUILDERS[kind]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    monkeypatch.chdir(tmp_path)
    run_page(PAGE.read_text(encoding="utf-8").partition("## From Rust")[0], PAGE.name)
    blocks = [(block, said) for block, said in pairs() if block.kind == kind]
    chosen = [(block, said) for block, said in blocks if "cuda_runtime.h" not in block.code]
    assert chosen
    for number, (block, said) in enumerate(chosen):
        source, made = tmp_path / f"block.{kind}", tmp_path / f"block{number}"
        source.write_text(block.code)
        build(source, made)
        assert_says(said.code, run(made), f"{PAGE.name}:{block.line}")


@pytest.mark.skipif(shutil.which("ld") is None, reason="there is no linker")
def test_ctypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    python = [(block, said) for block, said in pairs() if block.kind == "python"]
    first, *rest = python
    chosen = [first, *(x for x in rest if "ctypes" in x[0].code or "symbolic" in x[0].code)]
    for block, said in chosen:
        printed, error = run_block(block, PAGE.name, namespace)
        assert error is None
        assert_says(said.code, printed, f"{PAGE.name}:{block.line}")
