"""Every program that the tests and the examples trace is written to a file and read again.

    python -m pytest -m slow tests/export/test_every_program.py

The tests of ``SUITE`` run in two processes with the plugin ``every_program.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.export.every_program import FOLDER, found_in

ROOT = Path(__file__).parents[2]
#: The examples' training steps, and tests of all kinds of programs and derivatives.
SUITE = [
    *("tests/examples", "tests/programs", "tests/nn", "tests/transforms", "tests/lax"),
    *("tests/linalg", "tests/fft", "tests/random"),
]
#: What the run must see at least, so that it is not about nothing.
WRITTEN, RULES = 3_000, 100


@pytest.mark.slow
def test_every_program_of_the_suite(tmp_path: Path) -> None:
    plugin = ("-p", "tests.export.every_program", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *plugin, *SUITE]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, FOLDER: str(tmp_path)}, capture_output=True, text=True
    )
    found = found_in(tmp_path)
    for name, raised in found.wrong.items():
        print(f"{name}\n{raised}")
    print(f"{found.written} written, {found.rules} with rules, {found.refused} refused")
    assert not found.wrong, sorted(found.wrong)
    assert found.written >= WRITTEN, done.stdout[-2000:]
    assert found.rules >= RULES, done.stdout[-2000:]
