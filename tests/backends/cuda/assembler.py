"""NVIDIA's assembler, and what it says of kernels.

It is looked for in the packages that PyPI has (the extra ``gpu-test``), then on the path.

Start at :func:`assembled`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from functrax.core.records import record

#: Where packages have it: of CUDA 13, and of CUDA 12.
_PLACES = ("cu13/bin/ptxas", "cuda_nvcc/bin/ptxas")
_PROPERTIES = re.compile(
    r"Function properties for (?P<name>[\w$]+)\n"
    r"\s*(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads\n"
    r"(?:.*Used (?P<registers>\d+) registers(?:.*?(?P<shared>\d+) bytes smem)?)?"
)


def find() -> str | None:
    """The path of ptxas; None if there is none."""
    packages = importlib.util.find_spec("nvidia")
    for folder in (packages.submodule_search_locations or ()) if packages else ():
        for place in _PLACES:
            if os.access(Path(folder) / place, os.X_OK):
                return str(Path(folder) / place)
    return shutil.which("ptxas")


@record
class Usage:
    """What a kernel takes, by the assembler.

    Args:
      registers: of a thread.
      shared: bytes that a block shares.
      stack: bytes of memory that a thread has of its own.
      spilled: bytes of registers that are written to memory and read again.
    """

    registers: int
    shared: int
    stack: int
    spilled: int


def assembled(path: Path, target: str) -> dict[str, Usage]:
    """The kernels and functions of a PTX file, assembled.

    Args:
      path: of the file.
      target: ``sm_80``.

    Raises:
      RuntimeError: it is not taken; says what the assembler says.
    """
    ptxas = find()
    assert ptxas is not None
    command = [ptxas, "-v", f"-arch={target}", "-o", os.devnull, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{path.name} for {target}:\n{done.stdout}{done.stderr}")
    found = {}
    for x in _PROPERTIES.finditer(done.stdout + done.stderr):
        spilled = int(x["stores"]) + int(x["loads"])
        found[x["name"]] = Usage(
            int(x["registers"] or 0), int(x["shared"] or 0), int(x["stack"]), spilled
        )
    return found


def table(usages: Iterable[tuple[str, Usage]]) -> str:
    """Kernels with what they take, those with the most registers first."""
    rows = sorted(usages, key=lambda x: -x[1].registers)
    return "\n".join(
        [
            f"{x.registers:9} registers {x.shared:6} B shared {x.stack:5} B stack "
            f"{x.spilled:5} B spilled  {name}"
            for name, x in rows
        ]
    )
