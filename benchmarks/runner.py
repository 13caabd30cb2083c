"""Runs rows: every framework takes its turn, again and again, and medians are kept.

``run`` gives one ``Row`` for a workload: a ``Measurement`` per framework.  For a steady row each
framework is prepared in its own process, values are compared, and only those that agree are timed:
one turn each, round after round, so that a slow minute of the machine falls on all.  Rows about
first calls, memory and sizes take turns too, with a new process for each figure.

``Limits`` bounds every step, so that the suite ends whatever a framework does.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np

from benchmarks import fresh
from benchmarks.worker import OVER_LIMIT, MeasurementError
from benchmarks.workload import Workload


@dataclasses.dataclass(frozen=True)
class Limits:
    """Seconds and counts; the time limits are per framework and row."""

    prepare: float = 90.0  # placing inputs, compiling, the first call
    call: float = 20.0  # one that needs longer for a call is given up
    total: float = 30.0  # no more turns after so many seconds of sampling
    turn: float = 0.15
    rounds: int = 9
    samples: int = 200  # in a turn
    fresh_rounds: int = 5  # new processes
    once: float = float("inf")  # after a longer first call there is no second one
    together: int = 1  # frameworks that make their first calls at the same time
    suite: float = float("inf")  # rows that would begin later are not run


QUICK = Limits(
    prepare=8.0,
    call=1.0,
    total=1.0,
    turn=0.0,
    rounds=1,
    samples=1,
    fresh_rounds=1,
    once=0.2,
    together=4,
    suite=160.0,
)
BENEATH = 0.2  # of the floor: who is faster than that has not done the work
CACHED = 100.0  # microseconds: rows with a lower floor may run from the caches, faster than memory


@dataclasses.dataclass
class Measurement:
    """What one framework did on one row: samples (microseconds or bytes), or why there are none."""

    samples: list[float] = dataclasses.field(default_factory=list)
    first: float | None = None  # microseconds of the first call, compiling included
    problem: str = ""
    at_least: float | None = None  # microseconds, of one that was ended at its time limit
    values: list[np.ndarray] = dataclasses.field(default_factory=list)

    @property
    def median(self) -> float | None:
        """The figure of the row, or None."""
        return statistics.median(self.samples) if self.samples and not self.problem else None


@dataclasses.dataclass(frozen=True)
class Row:
    """A workload and what each framework did on it."""

    workload: Workload
    measurements: Mapping[str, Measurement]

    def median(self, framework: str) -> float | None:
        """A framework's figure, per step where the row is stated so, or None."""
        measurement = self.measurements.get(framework)
        figure = measurement.median if measurement is not None else None
        return None if figure is None else figure / self.workload.per


def run(workload: Workload, workers: Mapping[str, Any], limits: Limits, floor: float = 0.0) -> Row:
    """Measure one row on those of its frameworks that have a worker.

    ``floor`` is the time in microseconds that the row takes at least, on this machine.
    """
    wanted = {*workers}
    if "functrax" in workers:  # without NumPy nobody knows what is in excess of it
        wanted |= {target.peer for target in workload.targets if target.kind == "excess"}
    names = [name for name in workload.frameworks() if name in wanted]
    if workload.mode not in ("steady", "eager", "record"):
        return Row(workload, in_new_processes(workload, names, limits))
    found = steady(workload, {name: workers[name] for name in names}, limits)
    for measurement in found.values():
        median = measurement.median
        if median is not None and floor > CACHED and median < BENEATH * floor:
            measurement.problem = f"did not do the work: {median:.0f} µs, floor {floor:.0f}"
    return Row(workload, found)


def steady(
    workload: Workload, workers: Mapping[str, Any], limits: Limits
) -> dict[str, Measurement]:
    """Prepare all, compare their values, then time those that agree, in turns."""
    with ThreadPoolExecutor(limits.together) as pool:
        prepared = pool.map(lambda worker: prepare(workload, worker, limits), workers.values())
        found = dict(zip(workers, prepared))
    compare(workload, found)
    spent = dict.fromkeys(workers, 0.0)
    for _ in range(limits.rounds):
        for name, worker in workers.items():
            measurement = found[name]
            if measurement.problem or spent[name] > limits.total:
                continue
            if measurement.first is not None and measurement.first > limits.once * 1e6:
                continue
            begin = time.perf_counter()
            take_turn(measurement, worker, limits)
            spent[name] += time.perf_counter() - begin
    for name, worker in workers.items():
        if not found[name].problem:
            worker.ask(limits.prepare, "drop")
    return found


def prepare(workload: Workload, worker: Any, limits: Limits) -> Measurement:
    """The first call, its time and its values."""
    try:
        first, values = worker.ask(limits.prepare, "prepare", workload.name)
    except MeasurementError as error:
        return failed(error, limits.prepare, workload.mode)
    return Measurement(first=first, values=values)


def failed(error: MeasurementError, limit: float, mode: str) -> Measurement:
    """A measurement without samples; a first call ended at the limit took so long."""
    late = str(error) == OVER_LIMIT and mode in ("cold", "first", "warm disk")
    return Measurement(problem=str(error), at_least=limit * 1e6 if late else None)


def take_turn(measurement: Measurement, worker: Any, limits: Limits) -> None:
    """Some samples of one framework, or why there are none."""
    try:
        samples = worker.ask(limits.call + limits.turn, "sample", limits.turn, limits.samples)
    except MeasurementError as error:
        measurement.problem = str(error)
        return
    measurement.samples.extend(samples)


def in_new_processes(
    workload: Workload, names: Iterable[str], limits: Limits
) -> dict[str, Measurement]:
    """A figure from each framework in turn, each from a new process, round after round."""
    found = {name: Measurement() for name in names}
    rounds = 1 if workload.mode == "installed" else limits.fresh_rounds

    def add_figure(name: str, directory: str | None) -> None:
        measurement = found[name]
        if measurement.problem or (name == "inductor" and measurement.samples):
            return  # torch.compile's first calls take many seconds each: one must do
        try:
            figure, values = fresh.figure(workload, name, limits.prepare, directory)
        except MeasurementError as error:
            found[name] = failed(error, limits.prepare, workload.mode)
            return
        measurement.samples.append(figure)
        measurement.values = values

    with ExitStack() as stack:
        directories = {
            name: stack.enter_context(tempfile.TemporaryDirectory(prefix="functrax-bench-"))
            if workload.mode == "warm disk"
            else None
            for name in found
        }
        with ThreadPoolExecutor(limits.together) as pool:
            for _ in range(rounds):
                list(pool.map(lambda name: add_figure(name, directories[name]), found))
    compare(workload, found)
    return found


def compare(workload: Workload, found: Mapping[str, Measurement]) -> None:
    """Mark the frameworks whose values differ from the reference's, and forget the values.

    The reference is JAX, or the first other peer that has values.
    """
    valued = [n for n, m in found.items() if m.values and n not in workload.not_compared]
    others = [n for n in valued if n not in ("functrax", "jax")]
    reference = next((n for n in ("jax", *others) if n in valued), None)
    for name in valued:
        if reference is not None and name != reference:
            values = found[name].values, found[reference].values
            problem = difference(*values, workload.tolerance, workload.noise)
            found[name].problem = f"{problem} ({reference})" if problem else ""
    for measurement in found.values():
        measurement.values = []


def difference(
    mine: list[np.ndarray], theirs: list[np.ndarray], tolerance: float, noise: float = 0.0
) -> str:
    """In what two lists of outputs differ, or "": number, size, precision, values."""
    if len(mine) != len(theirs):
        return f"wrong values: {len(mine)} outputs, not {len(theirs)}"
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if a.size != b.size:
            return f"wrong values: output {i} has {a.size} elements, not {b.size}"
        if a.dtype.kind in "fc" and a.dtype != b.dtype:
            return f"wrong values: output {i} is {a.dtype}, not {b.dtype}"
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        scale = max(float(np.linalg.norm(b.astype(wide))), noise * b.size**0.5) or 1.0
        error = float(np.linalg.norm(a.astype(wide) - b.astype(wide))) / scale
        if not error <= tolerance:
            return f"wrong values: output {i} differs by {error:.1e}"
    return ""
