"""The cost of tracing and differentiating, against JAX, in one process, alternating.

Run with nothing else running, where JAX is installed (``pip install '.[bench]'``):

    python benchmarks/trace.py            # prints a Markdown table
    python benchmarks/trace.py --write    # and puts it into benchmarks/RESULTS.md

What is timed is ``make_jaxpr(grad(loss))`` of a multi-layer perceptron, from the Python function
to the finished program, on both sides.  Figures are medians; the ratio is JAX's time over
functrax's.  The last table is functrax alone: nested derivatives of ``tanh(x) * sin(x)``.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jax_numpy
import numpy as np

import functrax
import functrax.numpy as functrax_numpy

WIDTH, BATCH, REPEATS = 64, 32, 21
RESULTS = Path(__file__).parent / "RESULTS.md"
MARK = "## Tracing"


def mlp_gradient(library: ModuleType, numpy: ModuleType) -> Callable[..., Any]:
    """The tracing of an MLP's gradient, written with either library's names.

    Made anew for each measurement, for JAX remembers what it traced by the function's identity.
    """

    def loss(params: list[tuple[Any, Any]], x: Any) -> Any:
        for w, b in params:
            x = numpy.tanh(numpy.dot(x, w) + b)
        return numpy.mean(x**2)

    return library.make_jaxpr(library.grad(loss))


def median_times(candidates: list[Callable[[], Any]], repeats: int = REPEATS) -> list[float]:
    """Median milliseconds of each candidate; they take turns."""
    times: list[list[float]] = [[] for _ in candidates]
    for run in candidates:
        run()
    for _ in range(repeats):
        for run, seen in zip(candidates, times):
            begin = time.perf_counter()
            run()
            seen.append((time.perf_counter() - begin) * 1e3)
    return [statistics.median(seen) for seen in times]


def mlp_table() -> str:
    """Tracing an MLP's gradient, by the number of layers."""
    rows = [
        "| layers | JAX ms (equations) | functrax ms (equations) | ratio | functrax µs a layer |",
        "|---|---|---|---|---|",
    ]

    def ours(*args: Any) -> Any:
        return mlp_gradient(functrax, functrax_numpy)(*args)

    def theirs(*args: Any) -> Any:
        return mlp_gradient(jax, jax_numpy)(*args)

    x = np.ones((BATCH, WIDTH), np.float32)
    for layers in (12, 25, 50, 100, 200):
        w, b = np.ones((WIDTH, WIDTH), np.float32), np.ones(WIDTH, np.float32)
        params = [(w, b) for _ in range(layers)]
        peer, mine = median_times([partial(theirs, params, x), partial(ours, params, x)])
        counts = len(theirs(params, x).eqns), len(ours(params, x).eqns)
        rows.append(
            f"| {layers} | {peer:.1f} ({counts[0]}) | {mine:.1f} ({counts[1]}) "
            f"| {peer / mine:.1f} | {mine / layers * 1e3:.0f} |"
        )
    return "\n".join(rows)


def nested_table() -> str:
    """Equations and tracing time of nested derivatives."""
    rows = [
        "| order | JAX ms (equations) | functrax ms (equations) | 12·k² |",
        "|---|---|---|---|",
    ]
    for order in range(1, 9):
        ours = partial(nested, functrax, functrax_numpy, order)
        theirs = partial(nested, jax, jax_numpy, order)
        peer, mine = median_times([theirs, ours], 5)
        counts = count_equations(theirs()), count_equations(ours())
        rows.append(
            f"| {order} | {peer:.1f} ({counts[0]}) | {mine:.1f} ({counts[1]}) | {12 * order**2} |"
        )
    return "\n".join(rows)


def nested(library: ModuleType, numpy: ModuleType, order: int) -> Any:
    """The program of a derivative of ``tanh(x) * sin(x)``, traced anew."""
    f: Callable[..., Any] = lambda x: numpy.tanh(x) * numpy.sin(x)  # noqa: E731
    for _ in range(order):
        f = library.grad(f)
    return library.make_jaxpr(f)(1.0)


def count_equations(program: Any) -> int:
    """Equations of a program, with those of the programs that its equations hold."""
    jaxpr = getattr(program, "jaxpr", program)
    inner = (v for e in jaxpr.eqns for v in e.params.values() if hasattr(v, "eqns"))
    return len(jaxpr.eqns) + sum(map(count_equations, inner))


def cpu_name() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"update {RESULTS.name}")
    write = parser.parse_args().write
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent
    ).stdout.strip()
    text = "\n".join(
        [
            MARK,
            "",
            f"{datetime.date.today()}, commit {commit}, {cpu_name()}, Python "
            f"{platform.python_version()}, JAX {jax.__version__}; `python benchmarks/trace.py`, "
            f"medians of {REPEATS}, alternating.",
            "",
            f"`make_jaxpr(grad(loss))` of an MLP of width {WIDTH}, batch {BATCH} "
            "(target: half of JAX's time at 50 layers, linear in the layers):",
            "",
            mlp_table(),
            "",
            "`make_jaxpr` of nested `grad`s of `tanh(x) * sin(x)` (target: at most 12·k² "
            "equations, order 7 in under 200 ms):",
            "",
            nested_table(),
            "",
        ]
    )
    sys.stdout.write(text)
    if write:
        before = RESULTS.read_text() if RESULTS.exists() else "# Results\n\n"
        head, _, rest = before.partition(MARK)
        after = rest.partition("\n## ")
        RESULTS.write_text(head + text + (f"\n## {after[2]}" if after[1] else ""))


if __name__ == "__main__":
    main()
