"""The example of code of one's own runs, and learns."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import functrax

EXAMPLE = Path(__file__).parents[2] / "examples" / "foreign_code.py"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_example():
    package = str(Path(functrax.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package, "FUNCTRAX_CUDA_DRIVER": "simulated"}
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    before, after = map(float, re.findall(r"[\d.]+(?= -> )|(?<=-> )[\d.]+", said.stdout))
    assert after < before / 1000
    assert "x³: [ 0.  1.  8. 27.]" in said.stdout
    assert "lax.cummax: True" in said.stdout or "numba: not installed" in said.stdout
