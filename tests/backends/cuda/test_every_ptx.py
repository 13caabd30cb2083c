"""Every kernel that tests emit for GPUs is taken by NVIDIA's assembler, for each family of chips.

    python -m pytest -m slow tests/backends/cuda/test_every_ptx.py

The tests of ``SUITE`` run in two processes on the simulated GPU with the plugin ``every_ptx.py``.
What they emit is compiled and assembled for each of ``TARGETS``, many kernels in one text.  No
kernel may spill registers or have a stack; the output has a table of what those with the most
registers take, and ``EVERY_PTX_TABLE`` names a file for all of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from functrax.backends.cuda.choice import VARIABLE
from functrax.backends.ptx.assemble import ptx
from functrax.backends.ptx.emit import module
from functrax.backends.targets.nvptx import target_of
from tests.backends.cuda.assembler import Usage, assembled, find, table
from tests.backends.cuda.every_ptx import FOLDER, kernels_in

ROOT = Path(__file__).parents[3]
TARGETS = (75, 80, 90, 100, 120)
SUITE = [f"tests/{name}" for name in ("programs", "nn", "linalg", "lax")]
#: How many kernels the run must see at least, so that it is not about nothing.
KERNELS = 1_000
#: How many kernels one text has.
TOGETHER = 100
#: How many kernels the table shows.
SHOWN = 30


def usages(folder: Path, capability: int) -> tuple[dict[str, Usage], list[str]]:
    """What the kernels of a run take on a chip, by their names; and what was not taken."""
    target = target_of(capability)
    kernels = [kernel for kernel, _ in kernels_in(folder).values()]
    paths = []
    for first in range(0, len(kernels), TOGETHER):
        paths.append(folder / f"{target.name}_{first}.ptx")
        paths[-1].write_text(ptx(module(kernels[first : first + TOGETHER]), target))

    def tried(path: Path) -> dict[str, Usage] | RuntimeError:
        try:
            return assembled(path, target.name)
        except RuntimeError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(tried, paths))
    found = {
        name: x for answer in answers if isinstance(answer, dict) for name, x in answer.items()
    }
    return found, [str(answer) for answer in answers if not isinstance(answer, dict)]


@pytest.mark.slow
@pytest.mark.skipif(find() is None, reason="no ptxas: pip install 'functrax[gpu-test]'")
def test_every_kernel_of_the_suite(tmp_path: Path) -> None:
    settings = {FOLDER: str(tmp_path), "FUNCTRAX_CACHE": "0"}
    settings |= {"FUNCTRAX_BACKEND": "cuda", VARIABLE: "simulated"}
    plugin = ("-p", "tests.backends.cuda.every_ptx", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *plugin, *SUITE]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True
    )
    kernels = kernels_in(tmp_path)
    assert len(kernels) >= KERNELS, done.stdout[-2000:]
    wrong: list[str] = []
    lines: list[str] = []
    for capability in TARGETS:
        found, refused = usages(tmp_path, capability)
        wrong += refused
        missing = kernels.keys() - found.keys()
        if not refused:
            assert not missing, f"sm_{capability}: the assembler says nothing of {sorted(missing)}"
        spilling = {name: x for name, x in found.items() if x.spilled or x.stack}
        for name, x in spilling.items():
            test = kernels[name][1] if name in kernels else "a function"
            wrong.append(f"sm_{capability}: {name} of {test}: {x}")
        rows = table(found.items()).splitlines()
        print(f"sm_{capability}: {len(found)} kernels", *rows[:SHOWN], sep="\n")
        lines += [f"sm_{capability}", *rows]
    if "EVERY_PTX_TABLE" in os.environ:
        Path(os.environ["EVERY_PTX_TABLE"]).write_text("\n".join([*lines, ""]))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:50])
