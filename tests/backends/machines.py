"""Targets for tests: of processors that this machine may not be.

``ANY`` has whatever schedules can use.  :func:`write_for` lets everything be written for another
target until the test's patches are undone; what runs must then be of this machine.
"""

from __future__ import annotations

from typing import Any

import pytest

from functrax.backends import targets
from functrax.backends.targets import PORTABLE, Target, target
from functrax.backends.targets.detect import target_of
from functrax.backends.targets.facts import Facts
from functrax.core.records import replace

ANY = replace(PORTABLE, strict=False)


def processor(machine: str, *flags: str, identity: str = "") -> Target:
    """The target of a processor with these flags."""
    return target_of(Facts(machine, identity, frozenset(flags)))


def write_for(patch: pytest.MonkeyPatch, other: Target) -> None:
    """Make code for another target."""
    patch.setattr(targets, "host", lambda: other)


def with_facts(patch: pytest.MonkeyPatch, **facts: Any) -> None:
    """Make code for this machine with other facts."""
    write_for(patch, replace(target(), **facts))
