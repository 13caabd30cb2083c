"""A plugin of pytest: the kernels that a run of tests emits are checked, each form once.

    FUNCTRAX_CACHE=0 FUNCTRAX_PLANS=0 EVERY_KERNEL=folder \\
        python -m pytest -p tests.backends.loops.every_kernel tests/programs

After each test the kernels that no test before it had go through ``Kernels``: their trees read
back, are verified after every rewrite, and agree with each other and with the machine code.  Each
process of the run has a file in the folder, which :func:`found_in` reads.  Whether the tests
themselves pass does not matter.
"""

from __future__ import annotations

import hashlib
import json
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functrax.core.records import record
from tests.backends.loops.kernel_trees import Kernels

#: The variable of the environment that names the folder.
FOLDER = "EVERY_KERNEL"


@record
class Found:
    """What the processes of a run found.

    Args:
      kernels: how many kernels were read back and verified.
      rewrites: how many rewrites their schedules have, after each of which they were.
      interpreted: how many kernels are small enough to be interpreted.
      wrong: for each kernel that is wrong the test that emitted it, and what was raised.
    """

    kernels: int
    rewrites: int
    interpreted: int
    wrong: dict[str, str]


class _Run:
    """The kernels of the tests of one process."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.kernels = Kernels(self.patch)
        #: Of each form that was checked how many rewrites it has, and whether it was interpreted.
        self.checked: dict[str, tuple[int, bool]] = {}
        self.wrong: dict[str, str] = {}

    def check(self, test: str) -> None:
        """Check the kernels of a test that are not known."""
        found = dict(self.kernels.found)
        self.kernels.found.clear()
        for form, (kernel, tree, emitted) in found.items():
            key = hashlib.sha256(repr(form).encode()).hexdigest()
            if key in self.checked:
                continue
            self.checked[key] = len(kernel.schedule), False
            try:
                done = self.kernels.check_one(kernel, tree, emitted)
            except Exception:  # of any kind: it is what the run is for
                self.wrong[f"{test}: {kernel.name}"] = traceback.format_exc()
            else:
                self.checked[key] = len(kernel.schedule), done
        self.kernels.found.clear()  # what was emitted meanwhile
        if found:
            path = Path(os.environ[FOLDER]) / f"{os.getpid()}.json"
            path.write_text(json.dumps([self.checked, self.wrong]))


_RUN = pytest.StashKey[_Run]()


def pytest_sessionstart(session: Any) -> None:
    session.config.stash[_RUN] = _Run()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: Any) -> Iterator[None]:
    yield
    item.config.stash[_RUN].check(item.nodeid)


def found_in(folder: Path) -> Found:
    """What the processes of a run wrote to a folder."""
    checked: dict[str, tuple[int, bool]] = {}
    wrong: dict[str, str] = {}
    for path in folder.glob("*.json"):
        forms, raised = json.loads(path.read_text())
        checked |= forms
        wrong |= raised
    rewrites, interpreted = (sum([x[k] for x in checked.values()]) for k in (0, 1))
    return Found(len(checked), rewrites, interpreted, wrong)
