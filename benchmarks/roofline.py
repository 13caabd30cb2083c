"""What is slow names itself: each row's longest kernels beside the target's roofline.

    python -m benchmarks.roofline [--kernels 4] [row ...]

Each jitted row is compiled, and its kernels are measured on one thread, as
``python -m benchmarks.predictions`` does it (``functrax/explanation/measuring.py``).  A line for
each row has the time of a whole call and how much of it is spent in kernels.  The rest is what it
costs to start them, to branch and to loop, and that a kernel measured several times in turn finds
its arrays in a cache; of a kernel in a loop the first launches are measured, so later ones that
compute with subnormal numbers are in the rest too.  Then come the kernels that take the most time
in a call, all their launches together, with

* how often a call launches it, microseconds of one launch, and its share of all kernels' time;
* bytes that it reads and writes, operations, and values of functions such as ``exp``;
* the roofline's microseconds: the longer one of moving the bytes, from the cache that has room for
  them, and of computing, at the target's rates (``functrax/backends/targets``);
* measured / roofline, and the user's line.

A row of a ratio far above 1 with a large share is where time can be won.  The roofline knows no
dependence of one step on another, no gathers and no comparisons, so a ratio of 1 cannot always be
had.  A loop that is one kernel (a whole ``scan``) is one line.

Start at :func:`main`.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Sequence
from typing import NamedTuple

import functrax
from benchmarks.frameworks import load
from benchmarks.machine import cpu_name
from benchmarks.workload import Workload
from benchmarks.workloads import matching
from functrax.backends.cost import cycles_ns, moving_ns
from functrax.backends.targets import target
from functrax.backends.targets.facts import Target
from functrax.backends.threads import thread_pool
from functrax.explanation.record import KernelFacts

CALLS, SECONDS = 20, 0.5  # to time a whole call: so many, or so long
FLOAT_BYTES = 4


class Roof(NamedTuple):
    """A kernel beside the roofline.

    Args:
      kernel: its name.
      launches: of a call of the row.
      measured: nanoseconds of one launch.
      nbytes: that one launch reads and writes, and hands on to the next.
      flops: operations of one launch.
      functions: values of functions such as ``exp`` in one launch.
      roofline: nanoseconds that a launch takes at least, by the target's rates.
      line: where the user wrote it.
    """

    kernel: str
    launches: int
    measured: float
    nbytes: int
    flops: int
    functions: int
    roofline: float
    line: str

    @property
    def total(self) -> float:
        """Nanoseconds of all launches of a call."""
        return self.launches * self.measured

    @property
    def ratio(self) -> float:
        """Measured / roofline."""
        return self.measured / self.roofline

    def text(self, all_kernels: float) -> str:
        """A line of the table; ``all_kernels``: nanoseconds of all kernels of a call."""
        share = self.total / all_kernels
        work = f"{self.nbytes:12,} {self.flops:12,} {self.functions:10,}"
        times = f"{self.launches:8} {self.measured / 1e3:11.2f} {share:6.1%}"
        roof = f"{self.roofline / 1e3:11.2f} {self.ratio:7.1f}"
        return f"  {self.kernel[:26]:26} {times} {work} {roof}  {self.line}"


HEAD = (
    f"  {'kernel':26} {'launches':>8} {'us':>11} {'share':>6} {'bytes':>12} {'flop':>12}"
    f" {'functions':>10} {'roofline us':>11} {'ratio':>7}  line"
)


def roofline_ns(nbytes: float, flops: float, functions: float, machine: Target) -> float:
    """Nanoseconds of a launch at least: by its bytes, or by its operations on float32.

    A multiply-add is two operations of one instruction, so that is the rate of all of them.
    """
    instructions = flops / 2 / (machine.vector_bytes / FLOAT_BYTES)
    computing = cycles_ns(instructions * machine.operation_cycles, machine)
    computing += functions * machine.function_ns
    return max(moving_ns(nbytes, machine), computing, machine.launch_ns)


def roof(kernel: KernelFacts, machine: Target) -> Roof | None:
    """A measured kernel beside the roofline; None if it was not run."""
    if kernel.measured is None:
        return None
    nbytes = kernel.bytes_read + kernel.bytes_written + kernel.bytes_staged
    lines = kernel.lines
    return Roof(
        kernel.name if kernel.kind == "kernel" else f"{kernel.name} (call)",
        kernel.measured.launches,
        kernel.measured.seconds * 1e9,
        nbytes,
        kernel.flops,
        kernel.transcendentals,
        roofline_ns(nbytes, kernel.flops, kernel.transcendentals, machine),
        str(lines[-1]).rpartition("/")[2] if lines else "",
    )


def roofs(row: Workload) -> tuple[float, list[Roof]]:
    """Processor nanoseconds of a whole call, the least of several; kernels, longest first."""
    assert row.text is not None
    framework = load("functrax")
    arguments = framework.place(row.inputs())
    explained = functrax.explain(row.text(functrax), measure=True)(*arguments)
    found = [roof(kernel, target()) for kernel in explained.kernels]
    call = framework.build(row)
    framework.block(call(*arguments))
    times: list[float] = []
    begin = time.perf_counter()
    while not times or (len(times) < CALLS and time.perf_counter() - begin < SECONDS):
        start = time.process_time()  # which does not run while other programs have the processor
        framework.block(call(*arguments))
        times.append(time.process_time() - start)
    kernels = [x for x in found if x is not None]
    return min(times) * 1e9, sorted(kernels, key=lambda x: -x.total)


def table(row: str, whole: float, kernels: Sequence[Roof], most: int) -> list[str]:
    """The lines of a row: the whole call, then so many of the longest kernels."""
    inside = sum(x.total for x in kernels)
    between = max(0.0, whole - inside) / whole
    head = f"{row}: {whole / 1e3:,.1f} us a call, {inside / 1e3:,.1f} in {len(kernels)} kernels"
    lines = [f"{head}, {between:.0%} outside of them"]
    return [*lines, *(x.text(inside) for x in kernels[:most])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a row does not run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline")
    parser.add_argument("rows", nargs="*", metavar="row", help="parts of names of rows")
    parser.add_argument("--kernels", type=int, default=4, help="of a row, the longest; 4 if absent")
    given = parser.parse_args(arguments)
    threads = thread_pool.num_threads
    thread_pool.set_num_threads(1)
    try:
        rows = [row for rows in matching(given.rows).values() for row in rows]
        return int(not printed(rows, given.kernels))
    finally:
        thread_pool.set_num_threads(threads)


def printed(rows: Sequence[Workload], most: int) -> bool:
    """Print the lines of each jitted row; whether all have run."""
    print(f"{cpu_name()}, {target().name}, Python {platform.python_version()}, one thread")
    print(HEAD, flush=True)
    good = True
    for row in rows:
        if row.text is None or row.mode != "steady":
            continue
        try:
            whole, kernels = roofs(row)
        except Exception as error:  # a row that does not run says so, and the others go on
            print(f"{row.name}: {type(error).__name__}: {error}"[:110], flush=True)
            good = False
            continue
        print("\n".join(table(row.name, whole, kernels, most)), flush=True)
    return good


if __name__ == "__main__":
    raise SystemExit(main())
