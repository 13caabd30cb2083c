"""Locks in the child of a fork.

``os.fork`` copies the thread that calls it and no other: a lock that another thread held stays
locked in the child for ever.  :func:`free_after_fork` makes a lock free again there.  It is for
locks whose sections leave what they guard usable wherever they end: dicts and counters.
"""

from __future__ import annotations

import os
from typing import Any, Final, TypeVar
from weakref import WeakSet

Lock = TypeVar("Lock")

_locks: Final[WeakSet[Any]] = WeakSet()


def free_after_fork(lock: Lock) -> Lock:
    """The lock, which no thread holds in the child of a fork but the one that forked.

    >>> import threading
    >>> from functrax.core.after_fork import free_after_fork
    >>> lock = free_after_fork(threading.Lock())
    """
    _locks.add(lock)
    return lock


def _free() -> None:
    for lock in _locks:
        is_owned = getattr(lock, "_is_owned", None)  # of locks that their thread may take again
        if is_owned is None or not is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free)
