"""Whoever watches a training loop changes nothing about its numbers.

Tracing and profiling functions, ``sys.monitoring``, coverage, tracebacks that hold frames, lists of
what the garbage collector knows, and frames that a debugger keeps all hold references that nobody
counts on.  Here each of them watches the lazy run of random training programs, which is compared
with the steps jitted.  More programs, and the reported loop::

    pytest -m slow tests/eager/test_observers.py
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import sys
import trace
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from tests.eager.test_reported_loop import REPORTED, trained
from tests.eager.training_programs import Run, difference, program

STEPS = 20
FEW = 4  # steps, where each line of the compiler is watched, too
FIRST = 9000  # seed

Observer = Callable[[np.random.Generator], contextlib.AbstractContextManager[None]]


@contextmanager
def settrace(rng: np.random.Generator) -> Iterator[None]:
    """Looks at every line's locals, as debuggers do."""

    def local(frame: Any, event: str, argument: Any) -> Any:
        if event == "return":
            len(frame.f_locals)
        return local

    before = sys.gettrace()
    sys.settrace(local)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def setprofile(rng: np.random.Generator) -> Iterator[None]:
    """Keeps the last hundred results of C functions and frames."""
    kept: list[Any] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        kept.append((frame, argument))
        del kept[:-100]

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def monitoring(rng: np.random.Generator) -> Iterator[None]:
    """Keeps the last hundred values that functions return."""
    watch: Any = getattr(sys, "monitoring", None)
    if watch is None:
        pytest.skip("sys.monitoring came with Python 3.12")
    kept: list[Any] = []

    def returned(code: Any, offset: int, value: Any) -> None:
        kept.append(value)
        del kept[:-100]

    tool, events = 3, watch.events
    watch.use_tool_id(tool, "functrax-tests")
    watch.register_callback(tool, events.PY_RETURN, returned)
    watch.register_callback(tool, events.LINE, lambda code, line: None)
    watch.set_events(tool, events.PY_RETURN | events.LINE)
    try:
        yield
    finally:
        watch.set_events(tool, 0)
        watch.register_callback(tool, events.PY_RETURN, None)
        watch.register_callback(tool, events.LINE, None)
        watch.free_tool_id(tool)


@contextmanager
def coverage(rng: np.random.Generator) -> Iterator[None]:
    """The package ``coverage``, or the standard library's ``trace``, which counts lines, too."""
    before = sys.gettrace()
    if importlib.util.find_spec("coverage") is not None and before is None:
        package: Any = importlib.import_module("coverage")
        cover = package.Coverage(data_file=None)
        cover.start()
        try:
            yield
        finally:
            cover.stop()
        return
    tracer = trace.Trace(count=1, trace=0)
    sys.settrace(tracer.globaltrace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def kept_frames(rng: np.random.Generator) -> Iterator[None]:
    """A debugger that keeps frames of random lines, while the collector is off."""
    kept: list[Any] = []

    def local(frame: Any, event: str, argument: Any) -> Any:
        if rng.random() < 2e-4:
            kept.append((frame, argument, sys._getframe()))
        return local

    before, enabled = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(local)
    try:
        yield
    finally:
        sys.settrace(before)
        kept.clear()
        if enabled:
            gc.enable()


OBSERVERS: list[Observer] = [settrace, setprofile, monitoring, coverage, kept_frames]


def fails(x: Any) -> Any:
    y = jnp.tanh(x) * 2
    held = functrax.grad(lambda z: jnp.sum(z * y))(x)
    raise ValueError(held.ndim)


class Holder:
    """Between the steps of a loop it comes to hold what belongs to functrax and to the user."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.held: list[Any] = []

    def tracebacks(self, run: Run) -> None:
        """An error that user code caught and keeps; its frames hold arrays."""
        weights = next(iter(functrax.tree.leaves(run.trainings[0].now[1])))
        try:
            functrax.value_and_grad(fails)(jnp.asarray(weights))
        except ValueError as error:
            self.held.append(error)
            self.held.append(traceback.walk_tb(error.__traceback__))

    def referrers(self, run: Run) -> None:
        leaves = functrax.tree.leaves(run.trainings[0].now[1:3])
        self.held.append(gc.get_referrers(*leaves))
        self.held.append(gc.get_referents(*leaves))

    def objects(self, run: Run) -> None:
        """All that lives, of the youngest objects mostly."""
        self.held.append(gc.get_objects(generation=0))
        if self.rng.random() < 0.2:
            self.held.append(gc.get_objects())

    def frames(self, run: Run) -> None:
        self.held.append(sys._getframe())
        self.held.append(sys._current_frames())


HOLDERS = ("tracebacks", "referrers", "objects", "frames")


def check(seed: int, run: Run, got: list[Any], steps: int) -> None:
    wrong = difference(run.program, got, run.program.run("jit", steps))
    assert wrong is None, f"{wrong} ({run.program})"


def watched(observer: Observer, seed: int, steps: int) -> None:
    run = Run(program(seed), "lazy")
    with observer(np.random.default_rng(seed)):
        for _ in range(steps):
            run.step()
        got = run.results()
    check(seed, run, got, steps)


def held(kind: str, seed: int, steps: int) -> None:
    """Some of what is held is let go in the middle of the loop, the rest at its end."""
    run, holder = Run(program(seed), "lazy"), Holder(np.random.default_rng(seed))
    for step in range(steps):
        run.step()
        getattr(holder, kind)(run)
        if step == steps // 2:
            del holder.held[::2]
    got = run.results()
    holder.held.clear()
    check(seed, run, got, steps)


@pytest.mark.parametrize("observer", OBSERVERS, ids=lambda o: o.__name__)
def test_watched(observer: Observer) -> None:
    watched(observer, FIRST + 3, FEW)


@pytest.mark.parametrize("kind", HOLDERS)
def test_held(kind: str) -> None:
    held(kind, FIRST + HOLDERS.index(kind), STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("observer", OBSERVERS, ids=lambda o: o.__name__)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + 30))
def test_many_watched(observer: Observer, seed: int) -> None:
    watched(observer, seed, 3 * STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + 30))
def test_many_held(kind: str, seed: int) -> None:
    held(kind, seed, 3 * STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("observer", OBSERVERS, ids=lambda o: o.__name__)
def test_reported_loop_watched(observer: Observer) -> None:
    with observer(np.random.default_rng(0)):
        got = trained(REPORTED, jitted=False)
    for x, y in zip(got, trained(REPORTED, jitted=True)):
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3 * np.abs(y).max())
