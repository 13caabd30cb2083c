"""A plugin of pytest: the kernels for GPUs that a run of tests emits are kept, each text once.

    EVERY_PTX=folder FUNCTRAX_CACHE=0 FUNCTRAX_BACKEND=cuda FUNCTRAX_CUDA_DRIVER=simulated \\
        python -m pytest -p tests.backends.cuda.every_ptx tests/programs

Each process of the run has a file in the folder, which :func:`kernels_in` reads.  Whether the tests
themselves pass does not matter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functrax.backends.ptx import code
from functrax.backends.ptx.emit import DeviceKernel

#: The variable of the environment that names the folder.
FOLDER = "EVERY_PTX"

#: Kernels that no file has yet, by their names, which are of no other text.
_new: dict[str, DeviceKernel] = {}
_written: set[str] = set()


def pytest_sessionstart() -> None:
    made = code.device_kernel

    def noting(*args: Any, **options: Any) -> DeviceKernel:
        kernel = made(*args, **options)
        if kernel.name not in _written:
            _new[kernel.name] = kernel
        return kernel

    pytest.MonkeyPatch().setattr(code, "device_kernel", noting)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: Any) -> Iterator[None]:
    yield
    with (Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl").open("a") as file:
        for name, kernel in _new.items():
            file.write(json.dumps([name, kernel.text, kernel.others, item.nodeid]) + "\n")
    _written.update(_new)
    _new.clear()


def kernels_in(folder: Path) -> dict[str, tuple[DeviceKernel, str]]:
    """The kernels that a run kept, by their names, each with the test that emitted it first."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            name, text, others, test = json.loads(line)
            found[name] = DeviceKernel(name, text, others, (), 1), test
    return found
