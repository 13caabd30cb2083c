"""The command line: ``python -m benchmarks [row patterns]``; see README.md."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Mapping

from benchmarks import machine, report, runner, workloads
from benchmarks.frameworks import version
from benchmarks.runner import Limits, Row
from benchmarks.worker import Worker
from benchmarks.workload import FRAMEWORKS, NAMES, UNITS, Workload


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="Run the rows of the suite and print them as Markdown."
    )
    parser.add_argument("patterns", nargs="*", help="parts of rows' names; none means all rows")
    parser.add_argument("--quick", action="store_true", help="call everything once, write nothing")
    parser.add_argument("--list", action="store_true", help="print the rows' names and stop")
    parser.add_argument("--only", default="", help="frameworks to run, separated by commas")
    parser.add_argument("--rounds", type=int, help="turns of each framework on each row")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md (all rows: always)")
    return parser.parse_args()


def main() -> None:
    """Run the rows that are asked for, printing each as it is done."""
    options = arguments()
    if sys.flags.dont_write_bytecode:  # no process would find compiled modules: begin anew
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]])
    chosen = workloads.matching(options.patterns)
    if options.list:
        for title, rows in chosen.items():
            print(f"{title}\n" + "\n".join(f"    {row.name}" for row in rows))
        return
    if not chosen:
        sys.exit(f"no row's name holds any of {options.patterns}; --list prints the names")
    limits = runner.QUICK if options.quick else Limits()
    if options.rounds:
        limits = Limits(rounds=options.rounds, fresh_rounds=options.rounds)
    here = machine.measure()
    workers = {name: Worker(name) for name in frameworks(options.only, options.quick)}
    try:
        tables = {
            title: [run(workload, workers, limits, here) for workload in rows]
            for title, rows in chosen.items()
        }
    finally:
        for worker in workers.values():
            worker.close()
    command = shlex.join(["bash", "scripts/benchmark.sh", *sys.argv[1:]])
    text = report.document(tables, here, command)
    print("\n" + text)
    if options.write or not (options.patterns or options.quick or options.only):
        report.write(text)


def frameworks(only: str, quick: bool) -> list[str]:
    """The installed frameworks; torch.compile takes its time, so not in a quick run."""
    wanted = only.split(",") if only else [f for f in FRAMEWORKS if not (quick and f == "inductor")]
    unknown = set(wanted) - set(FRAMEWORKS)
    if unknown:
        sys.exit(f"unknown frameworks {sorted(unknown)}; there are {', '.join(FRAMEWORKS)}")
    return [name for name in wanted if version(name) is not None]


BEGUN = time.perf_counter()


def run(
    workload: Workload, workers: Mapping[str, Worker], limits: Limits, here: machine.Machine
) -> Row:
    """Run a row and print it in one line, so that a long run can be watched."""
    if time.perf_counter() - BEGUN > limits.suite:
        workers = {}
    elif workload.mode in ("cold", "first", "warm disk") and limits is runner.QUICK:
        workers = {name: workers[name] for name in workers if name in ("functrax", "jax")}
    floor = here.floor(workload.bytes, workload.flops, workload.read_only)
    row = runner.run(workload, workers, limits, floor)
    if not row.measurements:
        print(f"{workload.name}: not run")
        return row
    figures = ", ".join(f"{NAMES[n]} {figure(row, n)}" for n in row.measurements)
    print(f"{row.workload.name}: {figures} [{report.judge(row, here)[1].strip('*')}]", flush=True)
    return row


def figure(row: Row, name: str) -> str:
    """A framework's figure or what is wrong with it."""
    measurement = row.measurements[name]
    if measurement.first is not None and not measurement.samples and not measurement.problem:
        return f"first call {report.amount(measurement.first)}"
    return measurement.problem or report.amount(
        row.median(name), UNITS.get(row.workload.mode, "µs")
    )


if __name__ == "__main__":
    main()
