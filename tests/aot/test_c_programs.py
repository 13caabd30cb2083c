"""Programs in C call what is compiled ahead of time: warnings, sanitizers, threads, memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aot.building import STRICT, Folder, need

#: What the default tests call; the slow ones call more.
SOME = ("wgan_step", "lstm")
MORE = (
    "loss",
    "slopes",
    "newton",
    "ode",
    "lstm_slopes",
    "chosen",
    "nested",
    "kinds",
    "tiny",
    "swapped",
    "products",
)
ADDRESSES = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@need("gcc")
@pytest.mark.parametrize("name", SOME)
def test_calls_from_c(name: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, name)
    folder.call(folder.build("gcc", *STRICT, "-O1", "-DCOUNTS"), threads=8, calls=6)


@need("gcc")
def test_addresses(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "slopes")
    folder.call(folder.build("gcc", *STRICT, *ADDRESSES), threads=8, calls=6)


@need("gcc")
def test_races(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "products")
    folder.call(folder.build("gcc", *STRICT, "-g", "-fsanitize=thread"), threads=8, calls=4)


@pytest.mark.slow
@need("gcc")
@pytest.mark.parametrize("name", (*SOME, *MORE))
def test_all_programs(name: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, name, kind="static")
    for options in (("-O2", "-DCOUNTS"), ADDRESSES, ("-g", "-fsanitize=thread")):
        folder.call(folder.build("gcc", *STRICT, *options), threads=8, calls=20)


@pytest.mark.slow
@need("clang")
@pytest.mark.parametrize("name", (*SOME, *MORE))
def test_clang(name: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, name)
    folder.call(folder.build("clang", *STRICT, "-O2"), threads=8, calls=20)
