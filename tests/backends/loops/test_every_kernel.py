"""Every kernel of the compiler's tests: it reads back, is verified after every rewrite, and agrees.

    python -m pytest -m slow tests/backends/loops/test_every_kernel.py

The tests of ``SUITE`` run in two processes with the plugin ``every_kernel.py``, which checks what
they emit: about 10,000 kernels with 25,000 rewrites, in nine minutes of two processors.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.loops.every_kernel import FOLDER, found_in

ROOT = Path(__file__).parents[3]
#: Tests that emit many kernels: of every kind of schedule, contraction and loop, and programs.
SUITE = [
    *["tests/programs", "tests/nn", "tests/random", "tests/lax", "tests/linalg", "tests/fft"],
    "tests/numpy",
    *[
        f"tests/backends/test_{name}.py"
        for name in (
            *("compiled_edges", "complex_contractions", "complex_kernels", "contraction"),
            *("contraction_kernels", "in_place", "loop_kernels", "random_contractions"),
            *("random_programs", "random_views", "repeated_steps", "schedules"),
            *("shared_operands", "word_contractions"),
        )
    ],
]
#: What the run must see at least, so that it is not about nothing.
KERNELS, REWRITES = 2_000, 10_000


@pytest.mark.slow
def test_every_kernel_of_the_suite(tmp_path: Path) -> None:
    settings = {"FUNCTRAX_CACHE": "0", "FUNCTRAX_PLANS": "0", FOLDER: str(tmp_path)}
    plugin = ("-p", "tests.backends.loops.every_kernel", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *plugin, *SUITE]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True
    )
    found = found_in(tmp_path)
    for name, raised in found.wrong.items():
        print(f"{name}\n{raised}")
    print(f"{found.kernels} kernels, {found.rewrites} rewrites, {found.interpreted} interpreted")
    assert not found.wrong, sorted(found.wrong)
    assert found.kernels >= KERNELS, done.stdout[-2000:]
    assert found.rewrites >= REWRITES, done.stdout[-2000:]
