"""How near the model of cost is: predicted and measured time of each kernel of the suite.

    python -m benchmarks.predictions [--share 0.8] [row ...]

Each row that is jitted and called again and again is compiled, and run once on one thread; each of
its kernels is launched several times meanwhile, on the arrays that it gets
(``functrax/explanation/measuring.py``).  A line for each kernel has the time that
``functrax/backends/cost.py`` predicts, the median that was measured, both in microseconds, and
predicted / measured.  The last lines have the share of kernels whose ratio is between 1/2 and 2, by
how long they take.  Kernels that take less than 0.1 us are left out: to call one from Python takes
longer, and is taken off.

Start at :func:`main`.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import functrax
from benchmarks.frameworks import load
from benchmarks.machine import cpu_name
from benchmarks.workload import Workload
from benchmarks.workloads import matching
from functrax.backends.threads import thread_pool

#: Nanoseconds below which a measurement is mostly noise.
LEAST = 100.0
#: A prediction is near if it is within this factor.
NEAR = 2.0
#: The upper ends of classes of time, in nanoseconds.
CLASSES = (1e3, 2e4, 1e6, float("inf"))


class Prediction(NamedTuple):
    """A kernel of a row.

    Args:
      row: the workload.
      kernel: its name.
      predicted: nanoseconds.
      measured: nanoseconds.
    """

    row: str
    kernel: str
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        """Predicted / measured."""
        return self.predicted / self.measured

    @property
    def is_near(self) -> bool:
        """Whether the prediction is within the factor."""
        return 1 / NEAR <= self.ratio <= NEAR

    def __str__(self) -> str:
        times = f"{self.predicted / 1e3:11.2f} {self.measured / 1e3:11.2f} {self.ratio:7.2f}"
        return f"{self.row[:42]:42} {self.kernel[:28]:28} {times}{'' if self.is_near else '  *'}"


def predictions(row: Workload) -> Iterator[Prediction]:
    """The kernels of a row whose time can be measured."""
    assert row.text is not None
    arguments = load("functrax").place(row.inputs())
    explained = functrax.explain(row.text(functrax), measure=True)(*arguments)
    for kernel in explained.kernels:
        if kernel.predicted is None or kernel.measured is None:
            continue
        measured = kernel.measured.seconds * 1e9
        if measured >= LEAST:
            yield Prediction(row.name, kernel.name, kernel.predicted * 1e9, measured)


def summary(found: Sequence[Prediction]) -> list[str]:
    """Lines with the share of near predictions, by classes of time and of all."""
    lines, least = [], LEAST
    for most in CLASSES:
        inside = [x for x in found if least <= x.measured < most]
        if inside:
            limit = "longer" if most == CLASSES[-1] else f"up to {most / 1e3:g} us"
            lines.append(f"{limit:18} {_share(inside)}")
        least = most
    return [*lines, f"{'all':18} {_share(found)}"]


def _share(found: Sequence[Prediction]) -> str:
    near = sum(x.is_near for x in found)
    return f"{near} of {len(found)} kernels within {NEAR:g}x: {near / max(len(found), 1):.1%}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each kernel, and the shares; 1 if fewer are near than asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predictions")
    parser.add_argument("rows", nargs="*", metavar="row", help="parts of names of rows")
    parser.add_argument("--share", type=float, default=0.8, help="of kernels that must be near")
    given = parser.parse_args(arguments)
    threads = thread_pool.num_threads
    thread_pool.set_num_threads(1)
    try:
        found = measured([row for rows in matching(given.rows).values() for row in rows])
    finally:
        thread_pool.set_num_threads(threads)
    print("\n".join(summary(found)))
    return 0 if sum(x.is_near for x in found) >= given.share * len(found) else 1


def measured(rows: Sequence[Workload]) -> list[Prediction]:
    """The kernels of rows, of which each is printed."""
    print(f"{cpu_name()}, Python {platform.python_version()}, one thread")
    print(f"{'row':42} {'kernel':28} {'predicted':>11} {'measured':>11} {'ratio':>7}", flush=True)
    found: list[Prediction] = []
    for row in rows:
        if row.text is None or row.mode != "steady":
            continue
        try:
            for prediction in predictions(row):
                found.append(prediction)
                print(prediction, flush=True)
        except Exception as error:  # a row that does not run says so, and the others go on
            print(f"{row.name[:42]:42} {type(error).__name__}: {error}"[:110], flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
