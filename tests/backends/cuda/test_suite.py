"""The suite on the simulated GPU: the same tests, the same bounds.

A part of it runs by default, and all of it with

    python -m pytest -m slow tests/backends/cuda/test_suite.py

Left out are the tests of what the CPU alone has: how it records operations, plans for new sizes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from functrax.backends.cuda.choice import VARIABLE

ROOT = Path(__file__).parents[3]
SETTINGS = {"FUNCTRAX_BACKEND": "cuda", VARIABLE: "simulated", "FUNCTRAX_CACHE": "0"}
FOLDERS = ("lax", "linalg", "nn", "numpy", "primitives", "programs", "random", "transforms")
#: One in how many tests runs by default: those of primitives are small.
THINNED = {"primitives": 50, " ".join(x for x in FOLDERS if x != "primitives"): 100}


def run(folders: list[str], workers: int, every: int = 0) -> None:
    """Runs the tests of some folders, or one in ``every``, in a process of its own."""
    command = ["-m", "pytest", "-q", "-n", str(workers), *[f"tests/{name}" for name in folders]]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **SETTINGS, "FUNCTRAX_THINNED": str(every)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("folders", THINNED)
def test_a_part_of_the_suite(folders: str) -> None:
    run(folders.split(), 0, every=THINNED[folders])


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_suite(folder: str) -> None:
    run([folder], 2)
