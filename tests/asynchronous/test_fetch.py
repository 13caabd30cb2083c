"""``fetch``: callbacks on a thread of their own, in order, with the values of that moment."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.asynchronous import fetch
from functrax.errors import ArgumentError, DonatedBufferError, TracerArrayConversionError


def test_the_callback_gets_the_elements_on_another_thread() -> None:
    seen: list[Any] = []
    x = jnp.arange(6.0).reshape(2, 3)
    x.fetch(lambda v: seen.append((v, threading.current_thread().name))).wait()
    value, thread = seen[0]
    assert type(value) is np.ndarray and not value.flags.writeable
    np.testing.assert_array_equal(value, np.arange(6.0).reshape(2, 3))
    assert thread == "functrax fetch"


def test_a_tree_comes_back_as_it_was() -> None:
    seen: list[Any] = []
    tree = {"a": jnp.ones(2), "b": [3, jnp.zeros((), int), "name"], "c": None}
    assert functrax.fetch(tree, seen.append).wait()
    (got,) = seen
    assert got.keys() == tree.keys() and got["b"][0] == 3 and got["b"][2] == "name"
    assert got["c"] is None and type(got["b"][1]) is np.ndarray


def test_the_order_is_that_of_the_calls() -> None:
    step = functrax.jit(lambda x: x * 1.5 + 1)
    seen: list[float] = []
    x = jnp.zeros(())
    expected = []
    for k in range(300):
        x = step(x) if k % 50 else jnp.zeros(()) + k
        x.fetch(lambda v: seen.append(float(v)))
        expected.append(float(x))
    functrax.effects_barrier()
    assert seen == expected


def test_a_slow_callback_does_not_hold_the_loop() -> None:
    """J34: the callbacks begin when the loop has ended, so a loop that waits for one never ends."""
    step = functrax.jit(lambda x: x + 1)
    x = step(jnp.zeros(1000))
    seen: list[float] = []
    looped = threading.Event()

    def slow(value: np.ndarray[Any, Any]) -> None:
        assert looped.wait(60), "the loop waits for a callback"
        seen.append(float(value[0]))

    for _ in range(40):
        x = step(x)
        x.fetch(slow)
    assert not seen
    looped.set()
    functrax.effects_barrier()
    assert seen == [float(k) for k in range(2, 42)]


@pytest.mark.parametrize("size", [3, 100_000])
def test_the_value_is_that_of_the_call_though_the_buffer_is_donated(size: int) -> None:
    """J35."""
    step = functrax.jit(lambda x: x + 1, donate_argnums=0)
    x = step(jnp.zeros(size))
    gate = threading.Event()
    seen: list[np.ndarray[Any, Any]] = []

    def hold(value: np.ndarray[Any, Any]) -> None:
        gate.wait(60)
        seen.append(value.copy())

    for _ in range(20):
        before = x
        x.fetch(hold)
        x = step(x)
        assert before.is_deleted()
    gate.set()
    functrax.effects_barrier()
    assert [set(v.tolist()) for v in seen] == [{float(k)} for k in range(1, 21)]


def test_deletion_after_the_call_is_not_seen() -> None:
    gate = threading.Event()
    seen: list[Any] = []
    x = functrax.jit(lambda x: x * 2)(jnp.ones(1000))
    done = x.fetch(lambda v: (gate.wait(60), seen.append(v.sum())))
    x.delete()
    other = functrax.jit(lambda x: x * 3)(jnp.ones(1000))  # would take memory that is free
    gate.set()
    done.wait()
    assert seen == [2000.0] and float(other.sum()) == 3000.0
    with pytest.raises(DonatedBufferError):
        x.fetch(seen.append)


def test_memory_of_others_is_copied() -> None:
    theirs = np.zeros(4, np.float32)
    gate = threading.Event()
    seen: list[Any] = []
    x = jnp.asarray(theirs)
    functrax.fetch((x, theirs), lambda v: (gate.wait(60), seen.append([list(a) for a in v])))
    theirs[:] = 7
    gate.set()
    functrax.effects_barrier()
    assert seen == [[[0.0] * 4, [0.0] * 4]]


def test_recorded_operations_are_run() -> None:
    seen: list[Any] = []
    with functrax.eager("lazy"):
        x = jnp.arange(5) * 2 + 1
        x.fetch(lambda v: seen.append(v.tolist())).wait()
    assert seen == [[1, 3, 5, 7, 9]]


def test_an_exception_is_raised_by_wait_and_the_next_callbacks_run() -> None:
    seen: list[int] = []

    def fail(value: Any) -> None:
        raise RuntimeError("full disk")

    failed = jnp.ones(2).fetch(fail)
    after = jnp.ones(2).fetch(lambda v: seen.append(1))
    with pytest.raises(RuntimeError, match="full disk") as info:
        failed.wait()
    assert "test_fetch.py" in info.value.__notes__[0]
    after.wait()
    assert seen == [1] and failed.done()
    functrax.effects_barrier()  # it was seen


def test_an_exception_of_a_python_without_notes() -> None:
    """As Python 3.10 is: the callbacks go on, and the note is kept."""

    class OldError(Exception):
        add_note = None

    def fail(value: Any) -> None:
        raise OldError

    with pytest.raises(OldError) as info:
        jnp.ones(2).fetch(fail).wait(60)
    assert "test_fetch.py" in info.value.__notes__[0]
    with pytest.raises(OldError) as info:
        functrax.fork(fail, 1).wait()
    assert "test_fetch.py" in info.value.__notes__[0]
    assert jnp.ones(2).fetch(lambda v: None).wait(60)


def test_an_exception_that_nobody_saw_is_raised_by_the_barrier() -> None:
    def fail(value: Any) -> None:
        raise KeyError("lost")

    jnp.ones(2).fetch(fail)
    with pytest.raises(KeyError, match="lost"):
        functrax.effects_barrier()
    functrax.effects_barrier()


def test_a_callback_may_fetch() -> None:
    seen: list[str] = []

    def outer(value: Any) -> None:
        jnp.ones(1).fetch(lambda v: seen.append("inner"))
        seen.append("outer")

    jnp.ones(1).fetch(outer)
    jnp.ones(1).fetch(lambda v: seen.append("next"))
    functrax.effects_barrier()
    assert sorted(seen) == ["inner", "next", "outer"] and seen[0] == "outer"


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MOST_FETCHES", 4)
    gate = threading.Event()
    made = []

    def loop() -> None:
        for k in range(10):
            functrax.fetch(k, lambda v: gate.wait(60))
            made.append(k)

    thread = threading.Thread(target=loop)
    thread.start()
    time.sleep(0.05)
    assert len(made) <= 4
    gate.set()
    thread.join(60)
    functrax.effects_barrier()
    assert len(made) == 10


def test_wait_with_a_time_limit() -> None:
    gate = threading.Event()
    call = jnp.ones(1).fetch(lambda v: gate.wait(60))
    assert call.wait(0.01) is False and not call.done()
    gate.set()
    assert call.wait(60) is True


def test_errors_of_the_call() -> None:
    with pytest.raises(ArgumentError, match="callback"):
        functrax.fetch(jnp.ones(1), 3)
    with pytest.raises(TracerArrayConversionError, match=r"debug\.callback"):
        functrax.jit(lambda x: (x.fetch(print), x)[1])(jnp.ones(2))


def test_the_end_of_the_process_delivers_what_waits() -> None:
    code = (
        "import functrax, functrax.numpy as jnp, time\n"
        "def bad(v): raise ValueError('broken')\n"
        "jnp.ones(3).fetch(bad)\n"
        "for k in range(5): jnp.full(3, k).fetch(lambda v: (time.sleep(.01), print(v[0])))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.split() == list("01234")
    assert "ValueError: broken" in done.stderr


def test_a_forked_process_delivers_its_own() -> None:
    code = (
        "import functrax, os, functrax.numpy as jnp\n"
        "jnp.zeros(1).fetch(print).wait()\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    done = []\n"
        "    jnp.ones(1).fetch(done.append).wait(60)\n"
        "    os._exit(0 if len(done) == 1 else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["[0.]", "0"], done.stderr
