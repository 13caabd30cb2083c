"""Threads that do jobs: all of them, once, several at a time where many wait."""

from __future__ import annotations

import threading

import pytest

from functrax.backends.machine_code.compile_workers import Workers


def test_each_thread_takes_its_share():
    begun, go_on, done = threading.Event(), threading.Event(), []

    def do(jobs: list[int]) -> None:
        done.append(jobs)
        begun.set()
        assert go_on.wait(120)

    workers = Workers(2, do)
    for job in range(2):
        workers.add(job)
    assert begun.wait(120)  # the other thread has the first, and waits
    for job in range(2, 8):
        workers.add(job)
    go_on.set()
    workers.finish()
    assert sorted(job for jobs in done for job in jobs) == list(range(8))
    assert max(map(len, done)) > 1 and len(done[0]) == 1


def test_a_thread_alone_takes_all():
    done: list[list[int]] = []
    workers = Workers(1, done.append)
    for job in range(24):
        workers.add(job)
    workers.finish()
    assert done == [list(range(24))]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_all_jobs_are_done_once(threads):
    for count in (0, 1, 2, 3, 50):
        done: list[int] = []
        workers = Workers(threads, done.extend)
        for job in range(count):
            workers.add(job)
        workers.finish()
        assert sorted(done) == list(range(count))
        assert not [t for t in threading.enumerate() if t.name == "functrax-compile"]


def test_what_nobody_has_begun_is_left():
    done: list[int] = []
    workers = Workers(1, done.extend)
    workers.add(1)
    workers.cancel()
    workers.finish()
    assert not done
