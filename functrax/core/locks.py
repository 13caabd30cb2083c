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
from typing import Final

_locks: Final[weakref.WeakSet[threading.Lock | threading.RLock]] = weakref.WeakSet()


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


def _open_all() -> None:
    for lock in _locks:
        lock._at_fork_reinit()  # type: ignore[union-attr]  # typeshed lacks it


os.register_at_fork(after_in_child=_open_all)
