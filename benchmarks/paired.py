"""Two commits of functrax beside each other: what became faster, and what slower.

    git worktree add ../before COMMIT       # and build its extension
    python -m benchmarks.paired ../before [--rounds 5] [--seconds 0.1] [row ...]

The rows of this checkout run on both, each in a process of its own, in turns; nothing is read from
the disk cache.  A line for each row has both medians in microseconds and their ratio, before /
now, for calls and for the first call, compiling included; above 1 is faster now.  The last lines
have the geometric means, and the rows whose calls are below 0.95.

Start at :func:`main`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import runner
from benchmarks.machine import cpu_name
from benchmarks.runner import Limits
from benchmarks.worker import Worker
from benchmarks.workload import Workload
from benchmarks.workloads import matching

#: Rows below this ratio are named at the end.
SLOWER = 0.95


class Pair(NamedTuple):
    """A row on both commits.

    Args:
      row: its name.
      before: microseconds of a call, and of the first one, on the other commit.
      now: the same on this one.
    """

    row: str
    before: tuple[float, float]
    now: tuple[float, float]

    @property
    def steady(self) -> float:
        """How many times faster a call is now."""
        return self.before[0] / self.now[0]

    @property
    def first(self) -> float:
        """How many times faster the first call is now."""
        return self.before[1] / self.now[1]

    def __str__(self) -> str:
        times = f"{self.before[0]:11.1f} {self.now[0]:11.1f} {self.steady:6.2f}"
        return f"{self.row[:64]:64} {times} {self.first:6.2f}"


def pairs(rows: Sequence[Workload], other: Path, limits: Limits) -> list[Pair]:
    """Each row on both commits, printed as it is done; those that fail on one are left out."""
    environment = {"FUNCTRAX_CACHE": "0"}
    workers = {
        "before": Worker("functrax", environment, other),
        "now": Worker("functrax", environment),
    }
    found: list[Pair] = []
    try:
        for n, row in enumerate(rows):
            if row.text is None or row.mode not in ("steady", "eager", "record"):
                continue
            # who begins changes from row to row, as the first one meets colder caches
            turns = dict(reversed(workers.items())) if n % 2 else workers
            measured = runner.steady(row, turns, limits)
            problems = [m.problem for m in measured.values() if m.problem]
            if problems:
                print(f"{row.name[:64]:64} {problems[0]}", flush=True)
                continue
            before, now = (
                (m.median or math.nan, m.first or math.nan)
                for m in (measured["before"], measured["now"])
            )
            found.append(Pair(row.name, before, now))
            print(found[-1], flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    return found


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each row, and the means; 1 if calls became slower in the mean."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paired")
    parser.add_argument(
        "other", type=Path, help="a checkout of the commit before, with its _native"
    )
    parser.add_argument("rows", nargs="*", metavar="row", help="parts of names of rows")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each commit on each row")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn")
    given = parser.parse_intermixed_args(arguments)
    limits = Limits(rounds=given.rounds, turn=given.seconds)
    print(f"{cpu_name()}: before / now, of calls and of first calls", flush=True)
    rows = [row for rows in matching(given.rows).values() for row in rows]
    found = pairs(rows, given.other.resolve(), limits)
    for pair in sorted(found, key=lambda pair: pair.steady):
        if pair.steady < SLOWER:
            print(f"slower: {pair}")
    steady = mean([pair.steady for pair in found])
    print(
        f"{len(found)} rows: calls {steady:.3f}, first calls {mean([p.first for p in found]):.3f}"
    )
    return 0 if steady >= 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
