"""Targets: all that the compiler knows of the machines that it makes code for.

A :class:`Target` (``facts.py``) is what is asked of a machine: registers, caches, instructions,
what things cost.  A folder knows the machines of one architecture: it makes their targets of what
the system tells (``detect.py``), and its *dialect* (``dialect.py``) says how code for them is
written and loaded.  Nothing outside of this folder names a processor or asks which one there is.

A target is added by a folder of its own and one line in ``FOLDERS``; docs/architecture.md shows it.

Start at :func:`target`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from functrax.backends.targets.facts import PORTABLE as PORTABLE, Target as Target
from functrax.core.options.config import state as options

if TYPE_CHECKING:
    from functrax.backends.targets.dialect import Dialect

#: The folders of targets, and what systems call the machines that they know.
FOLDERS: Final[dict[str, tuple[str, ...]]] = {
    "functrax.backends.targets.x86_64": ("x86_64", "AMD64"),
    "functrax.backends.targets.aarch64": ("aarch64", "arm64"),
    "functrax.backends.targets.nvptx": (),
}


class _Wanted(threading.local):
    """What this thread makes code for, if it is not the machine that it runs on."""

    target: Target | None = None


_wanted: Final = _Wanted()


def target() -> Target:
    """The target that this thread makes code for: the machine that it runs on, or another.

    Raises:
      ArgumentError: ``FUNCTRAX_CPU`` is no kind of processor, or one that this is not.
    """
    return _wanted.target or host()


@cache
def host() -> Target:
    """The machine that this process runs on, or a lesser one; see :func:`target`."""
    from functrax.backends.targets.detect import detected

    return detected()


@contextmanager
def making_for(wanted: Target) -> Iterator[None]:
    """A block in which this thread makes code for another target."""
    before, _wanted.target = _wanted.target, wanted
    try:
        yield
    finally:
        _wanted.target = before


def schedule_target() -> Target:
    """The target that schedules are made for, in strict mode one that stands for all machines."""
    return PORTABLE if options.strict and not target().warp else target()


@cache
def dialects() -> dict[int, Dialect]:
    """The dialects that there are, by the numbers that object files have for their machines."""
    found = [import_module(f"{folder}.dialect").DIALECT for folder in FOLDERS]
    return {dialect.machine: dialect for dialect in found}
