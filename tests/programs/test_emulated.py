"""The fifty small programs on emulated processors: ``pytest -m slow`` with QEMU's user mode.

Nothing is fetched here: the system for AArch64 is the one that ``scripts/emulate.sh aarch64`` made.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = Path(os.environ.get("FUNCTRAX_EMULATED", ROOT / "build" / "aarch64")) / "3.11"


@pytest.mark.slow
@pytest.mark.parametrize("believed", [True, False], ids=["calls far away", "as it is"])
@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_small_programs_on_an_emulated_processor(processor: str, believed: bool) -> None:
    """Also where kernels call the C library, and memory is laid out far apart."""
    if shutil.which(f"qemu-{processor}") is None:
        pytest.skip("QEMU's user mode is not installed")
    if processor == "x86_64" and platform.machine() != "x86_64":
        pytest.skip("this environment is for another processor")
    if processor == "aarch64" and (believed or not (MADE / "environment").exists()):
        pytest.skip("there is one way, and scripts/emulate.sh aarch64 makes the system for it")
    environment = {**os.environ, "FUNCTRAX_VENV": sys.prefix}
    environment.pop("FUNCTRAX_CACHE_DIR", None)
    if processor == "x86_64":
        environment["FUNCTRAX_CPU"] = "" if believed else "x86-64-v2"
    found = subprocess.run(
        [str(ROOT / "scripts" / "emulate.sh"), processor],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-4000:]
    assert " passed" in found.stdout
