"""What small things cost on several Pythons: ``python -m benchmarks.python_versions [PYTHON...]``.

Each Python has functrax and its dependencies installed; without arguments it is the one that runs
this.  A Python in a root of ``scripts/run_tests_on.sh`` is named ``ROOT:PYTHON``, and is run by
``chroot``, with these sources in the root's folder ``functrax``.  The Pythons take turns, a fresh
process each, and of every row the least time of all turns counts: what disturbs a measurement only
makes it longer.  The ratio is to the first Python.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import pickle
import subprocess
import sys
import timeit
from collections.abc import Callable
from typing import Any

_SECONDS = 0.02  # of one timing
_TIMINGS = 15  # in a process


def rows() -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    import numpy as np

    import functrax
    import functrax.numpy as jnp

    x = jnp.arange(1000, dtype=jnp.float32)
    scalar = jnp.float32(2.5)
    call = functrax.jit(lambda a, b: (a + b, a - b))

    def eager() -> Any:
        y = x
        for _ in range(10):
            y = jnp.sin(y) * 2 + 1
        return y.block_until_ready()

    for value in (x, scalar):
        value.block_until_ready()
    return {
        "`np.asarray(x)`": lambda: np.asarray(x),
        "`memoryview(x)`": lambda: memoryview(x),
        "`x.__dlpack__()`": lambda: x.__dlpack__(),
        "`float(x)`": lambda: float(scalar),
        "`x[0]`": lambda: x[0].block_until_ready(),
        "`pickle.dumps(x)`": lambda: pickle.dumps(x),
        "`jit` call, 2 arrays in and out": lambda: call(x, x),
        "30 eager operations": eager,
    }


def measured() -> dict[str, float]:
    """Microseconds of each row, in this process."""
    found = {}
    for name, function in rows().items():
        timer = timeit.Timer(function)
        timer.timeit(20)
        once = timer.timeit(20) / 20
        count = max(1, int(_SECONDS / once))
        found[name] = min(timer.repeat(_TIMINGS, count)) / count * 1e6
    return found


def _command(python: str) -> list[str]:
    root, _, inside = python.rpartition(":")
    run = "-m benchmarks.python_versions --measure"
    if not root:
        return [python, *run.split()]
    return ["chroot", root, "bash", "-c", f"cd /functrax && exec {inside} {run}"]


def _version(python: str) -> str:
    root, _, inside = python.rpartition(":")
    prefix = ["chroot", root] if root else []
    code = "import platform; print(platform.python_version())"
    return subprocess.check_output([*prefix, inside, "-c", code], text=True).strip()


def _turn(python: str) -> dict[str, float]:
    here = pathlib.Path(__file__).parent.parent
    done = subprocess.run(_command(python), cwd=here, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{python}: {done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def table(pythons: list[str], rounds: int) -> str:
    """The costs in Markdown."""
    best: list[dict[str, float]] = [{} for _ in pythons]
    for _ in range(rounds):
        for least, python in zip(best, pythons):
            for name, took in _turn(python).items():
                least[name] = min(took, least.get(name, took))
    heads = [f"{_version(python)}" for python in pythons]
    lines = ["| µs | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    for name, first in best[0].items():
        cells = [f"{first:.3g}"]
        cells += [f"{least[name]:.3g} ({least[name] / first:.2f}×)" for least in best[1:]]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, or the measurements of this process."""
    parser = argparse.ArgumentParser(prog="benchmarks.python_versions", description=__doc__)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="PYTHON, or ROOT:PYTHON")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each Python")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured()))
    else:
        print(table(options.pythons or [sys.executable], options.rounds))


if __name__ == "__main__":
    main()
