"""Parts of the suite on the simulated GPU: the same tests, the same bounds.

python -m pytest -m slow tests/backends/cuda/test_suite.py
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


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["programs", "nn", "linalg"])
def test_a_part_of_the_suite(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", f"tests/{folder}"],
        cwd=ROOT,
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
