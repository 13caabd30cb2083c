"""Kernels of each target, run and compared with the definitions of what they compute.

Those of this machine are what all other tests run.  Here are those of the others, of random
programs and contractions (``random_kernels.py``): with AVX2 on a machine that has more, and for
AArch64 under QEMU's user mode, where a small server in C runs what is compiled here.  Together they
take about two minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from functrax.backends.targets import target
from functrax.backends.targets.x86_64 import AVX2, KINDS

ROOT = Path(__file__).parents[3]
SERVER = Path(__file__).with_name("kernel_server.c")
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
#: Seeds of random programs and of contractions, and how many kernels there are at least.
PROGRAMS, CONTRACTIONS, KERNELS = 14, 24, 200


def checked(name: str, *command: str, **environment: str) -> None:
    """Check random kernels of a target in a process of its own, without the disk cache."""
    seeds = str(PROGRAMS), str(CONTRACTIONS)
    found = subprocess.run(
        [sys.executable, "-m", "tests.backends.targets.random_kernels", *seeds, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "FUNCTRAX_CACHE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-4000:]
    *_, of, kernels = found.stdout.splitlines()
    assert of == name
    assert int(kernels) >= KERNELS


@pytest.mark.slow
def test_kernels_with_avx2() -> None:
    kind = "x86-64-v3"
    if not KINDS[kind] <= target().flags:
        pytest.skip(f"this processor is no {kind}")
    checked(AVX2.name, FUNCTRAX_CPU=kind)


@pytest.mark.slow
def test_kernels_of_aarch64(tmp_path: Path) -> None:
    if os.uname().machine == "aarch64":
        pytest.skip("all tests run these kernels here")
    for tool, package in ((COMPILER, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian's package {package})")
    server = str(tmp_path / "kernel_server")
    options = ("-O1", "-static", "-Wall", "-Wextra", "-Werror")
    subprocess.run([COMPILER, *options, "-o", server, str(SERVER)], check=True, timeout=120)
    checked("AArch64 with NEON", EMULATOR, server, FUNCTRAX_NATIVE="0", FUNCTRAX_NUM_THREADS="1")
