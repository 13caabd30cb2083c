"""What a target is: a folder and a line; and that nothing outside of it names a processor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import functrax
from functrax.backends import targets
from functrax.backends.targets import PORTABLE, Target, target
from functrax.backends.targets.detect import limited, target_of
from functrax.backends.targets.dialect import Dialect
from functrax.backends.targets.facts import Facts
from functrax.core.errors.typed import ArgumentError
from functrax.core.records import replace
from tests.backends.machines import processor
from tests.backends.targets.toy import TOY

ROOT = Path(__file__).parents[3]
TOYS = "tests.backends.targets.toy"

#: Names of vendors, families and instruction sets, and ways to ask which machine this is.
NAMES = re.compile(
    r"""
    authenticamd | genuineintel | \bintel | \bamd(64)?\b | \bapple\b | \barm(64|v\d+)?\b
    | \bzen\b | ryzen | epyc | xeon | sapphire | skylake | haswell | graviton | neoverse
    | x86 | aarch64 | avx | \bamx | neon\b | \bsse[0-9_]*\b | f16c | \bsve\b
    | os\.uname | platform\.(machine|processor) | cpuinfo | machdep
    """,
    re.IGNORECASE | re.VERBOSE,
)


def sources() -> Iterator[Path]:
    """The files of functrax in Python and C++ outside of the folder of targets."""
    package = Path(functrax.__file__).parent
    for path in sorted(package.rglob("*")):
        inside = "targets" in path.relative_to(package).parts
        if path.suffix in (".py", ".cpp", ".h") and not inside:
            yield path


def test_no_processor_is_named_outside_of_targets() -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NAMES.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        'if "AuthenticAMD" in identity:',
        "#: On Zen 5 it takes 2 ns.",
        "call void @llvm.x86.tilezero",
        "os.uname().machine",
        "needs AVX-512",
    ],
)
def test_the_names_are_found(line: str) -> None:
    assert NAMES.search(line)


@pytest.mark.parametrize("folder", targets.FOLDERS)
def test_folders(folder: str) -> None:
    """Each folder knows its machines, has a dialect, and none has the number of another."""
    for machine in targets.FOLDERS[folder]:
        found = processor(machine)
        assert found.folder == folder
        assert targets.dialects()[found.dialect.machine] is found.dialect
    assert len(targets.dialects()) == len(targets.FOLDERS)


def test_every_kind_of_product_has_instructions() -> None:
    every = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16", "avx2")
    amd = processor("x86_64", *every, identity="AuthenticAMD")
    assert amd.dots == {"i16", "bf16"}
    for kind in amd.dots:
        for lanes in (4, 8, 16):
            assert amd.dialect.product(kind, lanes).intrinsic
    assert amd.dialect.matrix_unit().configured()


def test_an_unknown_machine_is_what_all_have() -> None:
    found = processor("riscv64", "v", identity="a board")
    assert found == Target("riscv64", identity="a board", flags=frozenset({"v"}))
    assert (found.dialect.machine, found.dots) == (0, frozenset())


def test_both_halves_wake_a_thread_for_the_same_work() -> None:
    text = (Path(targets.__file__).parent / "native.h").read_text(encoding="utf-8")
    found = re.search(r"kWakeNs = ([\d']+);", text)
    assert found is not None
    assert int(found[1].replace("'", "")) == target().wake_ns


def test_strict_mode_is_for_no_machine() -> None:
    assert PORTABLE.strict
    assert not target().strict
    assert not (PORTABLE.identity or PORTABLE.folder or PORTABLE.dots)


def test_a_target_is_a_folder_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(targets.FOLDERS, TOYS, ("toy9000",))
    facts = Facts("toy9000", "a toy", frozenset({"tiny"}))
    found = target_of(facts)
    assert (found.name, found.vector_bytes, found.has_fma) == ("toy", 16, False)
    assert isinstance(found.dialect, Dialect)
    assert target_of(limited(facts, "toy-0")).flags == frozenset()
    with pytest.raises(ArgumentError, match="one of toy-0"):
        limited(facts, "toy-1")


TOY_PROGRAMS = f"""
import os
import functrax
from functrax.backends.cache import preload
from functrax.backends import targets
from functrax.backends.machine_code import kernel_jit as jit

preload._preload.stop()
names = tuple(os.uname())[:4]
os.uname = lambda: os.uname_result((*names, "toy9000"))
targets.FOLDERS[{TOYS!r}] = ("toy9000",)
targets.host.cache_clear()
jit.circumstances.cache_clear()

from tests.backends.targets.random_kernels import main
main(2, 3)
"""


def test_kernels_of_an_added_target() -> None:
    """All of the compiler follows: schedules, instructions, the loader."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FUNCTRAX_CACHE": "0"}
    environment.pop("FUNCTRAX_CPU", None)
    found = subprocess.run(
        [sys.executable, "-c", TOY_PROGRAMS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-4000:]
    name, kernels = found.stdout.splitlines()
    assert name == TOY.name
    assert int(kernels) > 10


def test_a_thread_makes_code_for_a_target_of_its_own() -> None:
    machine, other = targets.target(), replace(targets.target(), name="another")
    seen: list[Target] = []
    with targets.making_for(other):
        thread = threading.Thread(target=lambda: seen.append(targets.target()))
        thread.start()
        thread.join()
        assert targets.target() is other
    assert targets.target() is machine is seen[0]
