"""Locks after a fork."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

import pytest

from functrax.core.process.locks import new_lock, new_rlock


@pytest.mark.parametrize("make", [new_lock, new_rlock])
def test_a_child_finds_what_another_thread_held_open(make: Any) -> None:
    lock, held, done = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads: that is the test
        pid = os.fork()
    if pid == 0:
        os._exit(0 if lock.acquire(timeout=120) else 1)
    assert not lock.acquire(blocking=False)
    done.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0
