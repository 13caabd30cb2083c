"""Threads that record, run, look at and drop the same eager operations at the same time.

Integers are exact, so each array goes with a NumPy array that holds its value, whichever thread
computes it and whatever it is computed together with.
"""

from __future__ import annotations

import gc
import hashlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends import eager
from functrax.backends.runtime import choice
from functrax.core import native

THREADS = 8
Pair = tuple[Any, np.ndarray[Any, Any]]

OPERATIONS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda x, y: x + y, lambda x, y: x + y),
    (lambda x, y: x - 3 * y, lambda x, y: x - 3 * y),
    (lambda x, y: x * y + 1, lambda x, y: x * y + 1),
    (lambda x, y: jnp.maximum(x, y.T), lambda x, y: np.maximum(x, y.T)),
    (lambda x, y: x + y.sum(0), lambda x, y: x + y.sum(0, dtype=np.int32)),
    (lambda x, y: jnp.where(x > y, x, y[::-1]), lambda x, y: np.where(x > y, x, y[::-1])),
    (lambda x, y: jnp.split(x, 2)[0].sum() + y, lambda x, y: np.sum(x[:4], dtype=np.int32) + y),
    (functrax.jit(lambda x, y: x ^ (y >> 1)), lambda x, y: x ^ (y >> 1)),
    (functrax.jit(lambda x, y: (x + y) * 2), lambda x, y: (x + y) * 2),
]
_donating = functrax.jit(lambda x: x * 2 + 1, donate_argnums=0)


class _Yields:
    """Garbage in a cycle: to collect it lets other threads run."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        time.sleep(0)


@contextmanager
def disorder() -> Iterator[None]:
    """Threads take turns all the time, also wherever a Python object is made."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(7, 1000, 1000)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Do the work in threads; what one raises is raised here, and so is a deadlock."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(count)]
    for t in threads:
        t.start()
    deadline = time.monotonic() + 300
    for t in threads:
        t.join(max(0.0, deadline - time.monotonic()))
    assert not any(t.is_alive() for t in threads), "the threads wait for each other"
    if errors:
        raise errors[0]


def start(rng: np.random.Generator) -> Pair:
    value = rng.integers(-100, 100, (8, 8), np.int32)
    return jnp.asarray(value), value


def work_on(shared: list[Pair], seed: int, steps: int) -> None:
    """Random steps on arrays that all threads use; those donated are a thread's own."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        (x, known), (y, other) = (shared[k] for k in rng.integers(len(shared), size=2))
        kind = rng.random()
        if kind < 0.6:
            ours, theirs = OPERATIONS[rng.integers(len(OPERATIONS))]
            pair = ours(x, y), theirs(known, other)
        elif kind < 0.8:
            assert np.array(x).tobytes() == known.tobytes(), f"seed {seed}, step {step}"
            pair = start(rng)
        elif kind < 0.9:
            assert int(x.sum()) == int(known.sum(dtype=np.int32)), f"seed {seed}, step {step}"
            pair = x + 1, known + 1
        else:
            own = x + y  # nobody else has it
            later = own * 3
            pair = _donating(own) - later, (known + other) * 2 + 1 - (known + other) * 3
        _Yields()
        shared[rng.integers(len(shared))] = pair


def check(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    shared = [start(rng) for _ in range(6)]
    with disorder():
        in_threads(lambda k: work_on(shared, 100 * seed + k, steps))
    for x, known in shared:
        np.testing.assert_array_equal(np.asarray(x), known)


def test_threads_share_a_graph() -> None:
    check(0, 30)


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize("where", ["every=7", "every=60", "seed=37"])
def test_threads_share_a_graph_that_is_cut_anywhere(where: str) -> None:
    """Another thread cuts and computes the same operations while a cut becomes a program."""
    with eager.stress(where):
        for seed in range(20):
            check(seed, 30)


@contextmanager
def at_the_next_search_for_garbage(act: Callable[[], None]) -> Iterator[list[bool]]:
    """Act in another thread, at the next object that the collector follows; says whether it did."""
    acted: list[bool] = []

    def begin(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and not acted:
            acted.append(True)
            in_threads(lambda _: act(), 1)

    threshold = gc.get_threshold()
    gc.disable()
    gc.set_threshold(2)
    followed = [[] for _ in range(20)]  # type: ignore[var-annotated]  # more than the threshold
    gc.callbacks.append(begin)
    gc.enable()
    try:
        yield acted
    finally:
        gc.callbacks.remove(begin)
        gc.set_threshold(*threshold)
        followed.clear()


OF_AN_OPERAND: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x + 3, lambda x: x + 3),
    (lambda x: x + x, lambda x: x + x),
    (jnp.negative, np.negative),
    (jnp.sin, np.sin),
    (lambda x: x[2:], lambda x: x[2:]),
    (functrax.jit(lambda x: x * 7), lambda x: x * 7),
    (functrax.grad(lambda x: (x * x).sum()), lambda x: 2 * x),
]


@pytest.mark.parametrize("case", range(len(OF_AN_OPERAND)))
def test_another_thread_ends_an_operand_while_it_is_recorded(case: int) -> None:
    """What was recorded for an array ends as soon as another thread has looked at the array."""
    ours, theirs = OF_AN_OPERAND[case]
    value = np.arange(8, dtype=np.float32)

    def apply(x: Any) -> Any:  # in a frame of its own, which has to be made
        return ours(x)

    apply(jnp.asarray(value) + 1)
    acted = []
    for _ in range(5):
        x = jnp.asarray(value) + 1

        def look(x: Any = x) -> None:
            assert np.asarray(x)[0] == 1
            x * 2  # which reads the value, where the operation was
            [jnp.asarray(value) * n for n in range(4)]  # where its memory is used again

        with at_the_next_search_for_garbage(look) as found:
            y = apply(x)
        acted += found
        np.testing.assert_allclose(y, theirs(value + 1), rtol=1e-6)
    if native.available and sys.version_info < (3, 12):  # later ones search between operations
        assert len(acted) == 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 51))
def test_threads_share_many_graphs(seed: int) -> None:
    check(seed, 200)


def _cores(work: Callable[[int], None]) -> float:
    """How many cores eight threads use that do the work."""
    wall, cpu = time.perf_counter(), time.process_time()
    in_threads(work)
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def test_threads_use_all_cores() -> None:
    """Eight threads call one function and record: as many cores work as the machine gives."""
    before = choice.CURRENT.num_threads()
    if before < 2:
        pytest.skip("one core")
    f = functrax.jit(lambda x: lax.fori_loop(0, 300, lambda _, y: jnp.sin(y) * 1.01 + 0.1, x))
    inputs = [np.linspace(0, 1 + k, 8192, dtype=np.float32) for k in range(THREADS)]
    want = [np.asarray(f(x) + f(x * 2)) for x in inputs]
    text = bytes(1 << 20)

    def calls(k: int) -> None:
        for _ in range(3):
            x = jnp.asarray(inputs[k])
            assert np.asarray(f(x) + f(x * 2)).tobytes() == want[k].tobytes()

    def hashes(_: int) -> None:
        for _ in range(10):
            hashlib.sha256(text)  # without the GIL

    try:
        choice.CURRENT.set_num_threads(1)  # of each program
        ratios = []
        for _ in range(8):  # a busy machine may give one core only, now and then
            ratios.append((_cores(calls), _cores(hashes)))
            if ratios[-1][0] > 0.75 * ratios[-1][1]:
                return
    finally:
        choice.CURRENT.set_num_threads(before)
    raise AssertionError(f"cores used by programs, and by hashes: {ratios}")
