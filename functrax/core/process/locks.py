"""Locks that a forked process finds open.

A fork copies the memory of a process, but of its threads only the one that forks.  A lock that
another thread held would stay closed in the child for ever.  Those made here are open there, as
those of Python's own modules are: what they guard changes by single steps under the interpreter's
lock, and is at worst a count behind.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

_locks: Final[weakref.WeakSet[threading.Lock | threading.RLock]] = weakref.WeakSet()
_around: Final[list[tuple[Callable[[], object], ...]]] = []


def new_lock() -> threading.Lock:
    """A lock that one holds at a time."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> threading.RLock:
    """A lock that the thread which holds it may take again."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def around_fork(
    before: Callable[[], object], in_parent: Callable[[], object], in_child: Callable[[], object]
) -> None:
    """Have functions called around every fork; ``before`` when all others have prepared for it.

    It may wait for other threads, and keep them from what it guards until the fork is done: those
    that end before a fork have ended by then.
    """
    _around.append((before, in_parent, in_child))


def _prepare() -> None:
    for before, _, _ in _around:
        before()


def _go_on() -> None:
    for _, in_parent, _ in reversed(_around):
        in_parent()


def _open_all() -> None:
    for lock in _locks:
        is_owned = getattr(lock, "_is_owned", None)  # of those that may be taken again
        if is_owned is None or not is_owned():  # the thread that forked gives its own back
            lock._at_fork_reinit()  # type: ignore[union-attr]  # typeshed lacks it
    for _, _, in_child in reversed(_around):
        in_child()


# This module is imported before whatever else prepares for forks, so it prepares last.
os.register_at_fork(before=_prepare, after_in_parent=_go_on, after_in_child=_open_all)
