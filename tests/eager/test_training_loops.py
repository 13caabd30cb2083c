"""Random training loops give the same numbers lazily, immediately and with their steps jitted.

What the programs do stands in ``training_programs``.  By default a dozen of them run; these are
the slow ones: 28 more, 2,000 programs in this process, 40 in processes of their own with nothing
compiled before, and more of the variants (threads, ``fork``, Ctrl-C, garbage collection)::

    pytest -m slow tests/eager/test_training_loops.py
    pytest -m slow tests/eager/test_training_loops.py -k "test_many and 1200"  # seeds 1200 to 1249

Nothing here depends on when the recorded operations are run, so that options that change it can be
set by environment variables.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from functrax import tree_util
from tests.eager.training_programs import Run, compare, difference, program

ROOT = Path(__file__).parents[2]
STEPS = 60
BLOCK = 50
QUICK = (2, 3, 5, 8, 11, 12, 18, 19, 20, 22, 25, 26)  # they compile little
VARIED = 5000  # the first seed of the variants


@pytest.fixture
def collector() -> Iterator[None]:
    """Puts the garbage collector back as it was."""
    enabled, threshold = gc.isenabled(), gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    if enabled:
        gc.enable()


@pytest.mark.parametrize(
    "seed", [pytest.param(i, marks=() if i in QUICK else pytest.mark.slow) for i in range(40)]
)
def test_same_numbers(seed: int) -> None:
    compare(seed, STEPS, ("jit",) if seed % 4 else ("immediate", "jit"))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2000, BLOCK))
def test_many(start: int) -> None:
    """20 to 199 steps, against both other modes."""
    wrong = []
    for seed in range(start, start + BLOCK):
        try:
            compare(seed, 20 + seed * 7 % 180)
        except Exception as error:
            wrong.append(f"seed {seed}: {error!r}")
    assert not wrong, "\n".join(wrong)


def in_new_process(code: str, folder: Path, *arguments: int) -> None:
    """Runs ``code`` in a process that finds nothing compiled."""
    environment = {**os.environ, "FUNCTRAX_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


ALONE = """
import sys
from tests.eager.training_programs import compare
compare(int(sys.argv[1]), int(sys.argv[2]))
"""

FORKED = """
import os, sys
from tests.eager.training_programs import Run, difference, program
seed, half = int(sys.argv[1]), int(sys.argv[2])
run = Run(program(seed), "lazy")
for _ in range(half):
    run.step()
child = os.fork()
for _ in range(half):
    run.step()
wrong = difference(run.program, run.results(), run.program.run("immediate", 2 * half))
if wrong:
    print("parent" if child else "child", wrong, run.program, flush=True)
if not child:
    os._exit(wrong is not None)
_, status = os.waitpid(child, 0)
sys.exit(wrong is not None or status != 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 2000, 50))
def test_in_processes_of_their_own(seed: int, tmp_path: Path) -> None:
    in_new_process(ALONE, tmp_path, seed, 20 + seed * 7 % 180)


def slow_after(count: int, total: int) -> list[Any]:
    """Seeds of a variant, of which all but the first ``count`` are slow."""
    marks = [() if i < count else pytest.mark.slow for i in range(total)]
    return [pytest.param(VARIED + i, marks=mark) for i, mark in enumerate(marks)]


@pytest.mark.parametrize("seed", slow_after(1, 40))
def test_fork_in_the_middle(seed: int, tmp_path: Path) -> None:
    """Parent and child both go on with what was recorded before."""
    in_new_process(FORKED, tmp_path, seed, 20)


@pytest.mark.parametrize("seed", slow_after(1, 100))
def test_two_threads(seed: int) -> None:
    """Two programs at once; every other time the same one twice."""
    programs = [program(seed), program(seed + seed % 2)]
    results: list[Any] = [None, None]
    together = threading.Barrier(2)

    def work(i: int) -> None:
        try:
            together.wait()
            results[i] = programs[i].run("lazy", STEPS)
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for made, result in zip(programs, results):
        if isinstance(result, BaseException):
            raise result
        wrong = difference(made, result, made.run("immediate", STEPS))
        assert wrong is None, f"{wrong} ({made})"


class Interrupts:
    """Ctrl-C at random moments: within ``with``, a timer raises ``KeyboardInterrupt``."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.armed = False

    def _raise(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def arm(self) -> None:
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, self.rng.uniform(1e-4, 0.1))

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGALRM, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


def by_step(seed: int, steps: int) -> list[list[Any]]:
    """The parameters and moments of each training after 0, 1, … steps."""
    run = Run(program(seed), "immediate")
    states = [[training.now[:3] for training in run.trainings]]
    for _ in range(steps):
        run.step()
        states.append([training.now[:3] for training in run.trainings])
    return states


def arrays(state: Any) -> list[np.ndarray[Any, Any]]:
    return [np.array(x) for x in tree_util.tree_leaves(state)]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", slow_after(1, 200))
def test_interrupted(seed: int) -> None:
    """What was recorded before an interrupt is right, and so is what comes after it."""
    run, kept = Run(program(seed), "lazy"), []
    with run.context(), Interrupts(seed) as interrupts:
        for _ in range(12):
            try:
                interrupts.arm()
                run.advance(STEPS)
            except KeyboardInterrupt:
                kept += [(i, training.now[:3]) for i, training in enumerate(run.trainings)]
        interrupts.armed = False
        run.advance(STEPS)
    reference = by_step(seed, STEPS)
    for i, state in [*kept, *((i, t.now[:3]) for i, t in enumerate(run.trainings))]:
        wrong = difference(run.program, arrays(state), arrays(reference[state[0]][i]))
        assert wrong is None, f"training {i}, step {state[0]}: {wrong} ({run.program})"
    wrong = difference(run.program, run.results(), run.program.run("immediate", STEPS))
    assert wrong is None, f"{wrong} ({run.program})"


@pytest.mark.parametrize("seed", slow_after(1, 60))
@pytest.mark.parametrize("way", ["off", "random", "always"])
def test_collector(seed: int, way: str, collector: None) -> None:
    """With the garbage collector off, at random moments, and at every allocation."""
    rng = np.random.default_rng(seed)
    if way == "off":
        gc.disable()
    elif way == "always":
        gc.set_threshold(1)
    run = Run(program(seed), "lazy")
    for _ in range(STEPS):
        if way == "random":
            gc.set_threshold(int(rng.integers(50, 5000)))
            if rng.random() < 0.2:
                gc.collect()
        run.step()
    got = run.results()
    wrong = difference(run.program, got, run.program.run("jit", STEPS))
    assert wrong is None, f"{wrong} ({run.program})"
