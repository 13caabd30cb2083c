"""A plugin of pytest: the programs that a run of tests traces are written and read, each form once.

    EVERY_PROGRAM=folder python -m pytest -p tests.export.every_program tests/programs

After each test the programs that no test before it had become files, with zeros for their
constants, and are read again: what is read gives the same file.  Each process of the run has a file
in the folder, which :func:`found_in` reads.  Whether the tests themselves pass does not matter.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from functrax.core.arrays.array import from_numpy
from functrax.core.ir.jaxpr import ClosedJaxpr, Jaxpr
from functrax.core.pytree.operations import tree_structure
from functrax.core.records import record
from functrax.core.tracing.stage import program_observers
from functrax.core.types import dtypes
from functrax.errors import UnavailableError
from functrax.export.content import Content, content_of, read_content, write_content
from tests.conftest import recordings_of

#: The variable of the environment that names the folder.
FOLDER = "EVERY_PROGRAM"


@record
class WrittenPrograms:
    """What the processes of a run found.

    Args:
      written: how many programs were written and read.
      rules: how many of them have derivative rules of the user's own.
      refused: how many a file cannot hold.
      wrong: for each program that is wrong the test that traced it, and what was raised.
    """

    written: int
    rules: int
    refused: int
    wrong: dict[str, str]


class _Run:
    """The programs of the tests of one process."""

    def __init__(self) -> None:
        self.traced: list[Jaxpr] = []
        self.checked: dict[str, str] = {}
        self.wrong: dict[str, str] = {}
        program_observers.append(self.traced.append)

    def check(self, test: str) -> None:
        """Check the programs of a test that are not known."""
        traced, self.traced[:] = list(self.traced), []
        for jaxpr in traced:
            key = str(hash(jaxpr))
            if key in self.checked or recordings_of(jaxpr):
                continue
            if any(v.aval.dtype == dtypes.float0 for v in (*jaxpr.constvars, *jaxpr.invars)):
                continue
            try:
                self.checked[key] = _round_trip(jaxpr)
            except UnavailableError:
                self.checked[key] = "refused"
            except Exception:  # of any kind: it is what the run is for
                self.wrong[f"{test}: {jaxpr.name}"] = f"{traceback.format_exc()}\n{jaxpr}"
        self.traced.clear()  # what was traced meanwhile
        if traced:
            path = Path(os.environ[FOLDER]) / f"{os.getpid()}.json"
            path.write_text(json.dumps([self.checked, self.wrong]))


def _round_trip(jaxpr: Jaxpr) -> str:
    consts = [
        from_numpy(np.zeros(v.aval.shape, v.aval.dtype), weak_type=v.aval.weak_type)
        for v in jaxpr.constvars
    ]
    first = _content(ClosedJaxpr(jaxpr, consts))
    again = read_content(write_content(first, None))
    second = _content(again.program({}))
    assert second.text == first.text
    assert dict(second.rule_texts) == dict(first.rule_texts)
    return "rules" if first.rule_texts else "written"


def _content(closed: ClosedJaxpr) -> Content:
    return content_of(
        closed,
        in_tree=tree_structure((tuple(closed.jaxpr.in_avals), {})),
        out_tree=tree_structure(tuple(closed.jaxpr.out_avals)),
        platforms=("cpu",),
        constants=[str(n) for n in range(len(closed.consts))],
    )


_RUN = pytest.StashKey[_Run]()


def pytest_sessionstart(session: Any) -> None:
    session.config.stash[_RUN] = _Run()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: Any) -> Iterator[None]:
    yield
    item.config.stash[_RUN].check(item.nodeid)


def found_in(folder: Path) -> WrittenPrograms:
    """What the processes of a run wrote to a folder."""
    checked: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for path in folder.glob("*.json"):
        forms, raised = json.loads(path.read_text())
        checked |= {f"{path.name} {key}": kind for key, kind in forms.items()}
        wrong |= raised
    kinds = list(checked.values())
    return WrittenPrograms(
        len(kinds) - kinds.count("refused"), kinds.count("rules"), kinds.count("refused"), wrong
    )
