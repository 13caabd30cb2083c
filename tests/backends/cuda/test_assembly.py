"""NVIDIA's assembler takes every text that the tests of the simulator run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.cuda.assembler import find

HERE = Path(__file__).parent
PTXAS = find()


@pytest.mark.slow
@pytest.mark.skipif(PTXAS is None, reason="no ptxas: pip install 'functrax[gpu-test]'")
def test_all_texts_assemble(tmp_path):
    command = [sys.executable, "-m", "pytest", "-q", str(HERE), "-p", "no:cacheprovider"]
    environment = {**os.environ, "FUNCTRAX_TEST_PTX": str(tmp_path)}
    subprocess.run(command, check=True, env=environment, cwd=HERE.parents[2], timeout=600)
    texts = sorted(tmp_path.glob("*.ptx"))
    assert len(texts) > 300
    wrong = []
    for path in texts:
        target = re.search(r"\.target (\w+)", path.read_text())[1]
        assembled = subprocess.run(
            [PTXAS, f"-arch={target}", "-o", os.devnull, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if assembled.returncode:
            wrong.append(assembled.stderr + path.read_text())
    assert not wrong, "\n\n".join(wrong[:5])
