"""Rows for a GPU: functrax beside JAX and PyTorch on the same one, and the device's copy bandwidth.

    python -m benchmarks.gpu                  # all rows, about three minutes; prints Markdown
    python -m benchmarks.gpu softmax gather   # the rows whose names hold one of these
    FUNCTRAX_CUDA_DRIVER=simulated python -m benchmarks.gpu --quick   # everything once, tiny

Each framework has a process of its own, which does all rows one after the other: inputs lie on the
device, a round is as many calls as last 20 ms, and is waited for once; the figure is the median of
the rounds.  Calls of the row *scalar step* are waited for one by one.  Samples of the results are
compared between the frameworks; who differs has no figure.  Without a GPU no times are taken.

Start at :func:`main`.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.gpu_rows import ROWS, Row
from functrax.backends.cuda.choice import VARIABLE

FRAMEWORKS = ("functrax", "jax", "torch", "torch.compile")
#: Rounds of a row, the seconds of each, and the seconds that a framework may take for all rows.
ROUNDS, SECONDS, LIMIT = 9, 0.02, 240
#: Seconds after which a GPU that did nothing has its clocks up.
AWAKE = 0.5
#: How many elements of a result are compared, and how closely.
SAMPLED, RTOL, ATOL = 256, 2e-3, 1e-4


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a framework gives for a row.

    ``seconds`` is None where no times are taken; ``error`` says why there is nothing.
    """

    seconds: float | None = None
    sample: tuple[float, ...] = ()
    error: str = ""


def simulated() -> bool:
    return os.environ.get(VARIABLE) == "simulated"


def copy_bandwidth() -> float:
    """Bytes that the device's own copy reads and writes in a second."""
    cuda, size = ctypes.CDLL("libcuda.so.1"), 1 << 29

    def call(name: str, *arguments: Any) -> None:
        error = getattr(cuda, name)(*arguments)
        assert not error, f"{name}: error {error}"

    call("cuInit", 0)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    places = [ctypes.c_uint64(), ctypes.c_uint64()]
    for place in places:
        call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
    found: list[float] = []
    awake = time.perf_counter() + AWAKE
    while len(found) < ROUNDS:
        begin = time.perf_counter()
        for _ in range(10):
            call("cuMemcpyDtoD_v2", places[0], places[1], ctypes.c_size_t(size))
        call("cuCtxSynchronize")
        end = time.perf_counter()
        if end > awake:
            found.append(20 * size / (end - begin))
    for place in places:
        call("cuMemFree_v2", place)
    return statistics.median(found)


class Runner:
    """A framework in this process: makes functions, places inputs, waits."""

    def __init__(self, name: str, timed: bool) -> None:
        self.name = name
        if name in ("functrax", "jax"):
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
            self.lib: Any = __import__(name)
            __import__(f"{name}.numpy"), __import__(f"{name}.random"), __import__(f"{name}.nn")
            if name == "functrax":
                self.lib.config.update("backend", "cuda")
            wanted = timed or name == "functrax"  # JAX's values may be the CPU's
            if wanted and self.lib.default_backend() != "gpu":
                raise RuntimeError(f"{name} sees no GPU")
        else:
            self.lib = __import__("torch")
            if not self.lib.cuda.is_available():
                raise RuntimeError("this PyTorch sees no GPU")

    @property
    def is_torch(self) -> bool:
        return self.name.startswith("torch")

    def function(self, row: Row) -> Callable[..., Any]:
        if not self.is_torch:
            return self.lib.jit(row.text(self.lib))
        made = row.torch(self.lib)
        return self.lib.compile(made) if self.name == "torch.compile" else made

    def place(self, x: np.ndarray) -> Any:
        if self.is_torch:
            return self.lib.from_numpy(x).cuda().requires_grad_(False)
        return self.lib.jit(lambda x: x + x.dtype.type(0))(x)

    def leaves(self, y: Any) -> list[Any]:
        return list(y) if isinstance(y, (tuple, list)) else [y]

    def wait(self, y: Any) -> None:
        if self.is_torch:
            self.lib.cuda.synchronize()
            return
        for leaf in self.leaves(y):
            leaf.block_until_ready()

    def arrays(self, y: Any) -> list[np.ndarray]:
        return [np.asarray(x.detach().cpu() if self.is_torch else x) for x in self.leaves(y)]


def sampled(arrays: Sequence[np.ndarray]) -> tuple[float, ...]:
    """Elements of results, evenly spaced."""
    found: list[float] = []
    for x in arrays:
        flat = x.reshape(-1)
        found += flat[:: max(flat.size // SAMPLED, 1)][:SAMPLED].astype(np.float64).tolist()
    return tuple(found)


def seconds_of(runner: Runner, row: Row, f: Callable[..., Any], inputs: Sequence[Any]) -> float:
    def once() -> None:
        runner.wait(f(*inputs))

    def many(count: int) -> None:
        for _ in range(count):
            y = f(*inputs)
        runner.wait(y)

    for _ in range(3):
        once()
    begin = time.perf_counter()
    once()
    count = max(int(SECONDS / (time.perf_counter() - begin)), 1)
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        if row.waits:
            for _ in range(count):
                once()
        else:
            many(count)
        found.append((time.perf_counter() - begin) / count)
    return statistics.median(found)


def work(name: str, rows: Sequence[Row], quick: bool, timed: bool) -> None:
    """What the process of a framework does: a line of JSON for each row."""
    runner = Runner(name, timed)
    for row in rows:
        try:
            inputs = [runner.place(x) for x in row.inputs(quick)]
            f = runner.function(row)
            y = f(*inputs)
            runner.wait(y)
            sample = sampled(runner.arrays(y)) if row.compared or not runner.is_torch else ()
            del y
            taken = seconds_of(runner, row, f, inputs) if timed else None
            answer = Measured(taken, sample)
        except Exception as error:  # of any kind: the next row may work
            answer = Measured(error=f"{type(error).__name__}: {error}".splitlines()[0])
        print("ROW " + json.dumps([row.name, dataclasses.asdict(answer)]), flush=True)


def ask(name: str, options: Sequence[str]) -> dict[str, Measured]:
    """What a framework gives, from a process of its own; empty if it cannot be used."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--worker", name, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        out, error = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        error = f"it took more than {LIMIT} s"
    found = {}
    for line in out.splitlines():
        if line.startswith("ROW "):
            row, answer = json.loads(line.removeprefix("ROW "))
            found[row] = Measured(**{**answer, "sample": tuple(answer["sample"])})
    if not found:
        print(f"- {name} is left out: {(error.strip().splitlines() or ['no answer'])[-1]}")
    return found


def agrees(ours: Measured, theirs: Measured) -> bool:
    a, b = np.asarray(ours.sample), np.asarray(theirs.sample)
    return a.shape == b.shape and bool(np.allclose(a, b, RTOL, ATOL, equal_nan=True))


def verdict(row: Row, ours: Measured, peers: dict[str, float], bandwidth: float | None) -> str:
    """The targets that a row misses; a tick if there are none."""
    assert ours.seconds is not None
    missed = []
    if row.moved and row.share and bandwidth:
        if row.moved / ours.seconds / bandwidth < row.share:
            missed.append(f"{row.share:.0%} of the copy")
    for peer, ratio in row.ratios:
        if peer in peers and peers[peer] / ours.seconds < ratio:
            missed.append(f"{ratio:g}× {peer}")
    if row.limit and ours.seconds > row.limit:
        missed.append(f"{row.limit * 1e6:g} µs")
    return "missed: " + ", ".join(missed) if missed else "✓"


def line_of(
    row: Row, answers: dict[str, dict[str, Measured]], bandwidth: float | None
) -> tuple[str, bool]:
    """A row of the table, and whether its values are right."""
    ours = answers["functrax"].get(row.name, Measured(error="no answer"))
    if ours.error:
        return f"| {row.name} | **{ours.error}** |", False
    cells, peers, right = [], dict[str, float](), True
    for name in FRAMEWORKS[1:]:
        theirs = answers[name].get(row.name)
        if theirs is None or theirs.error:
            cells.append("" if theirs is None else "failed")
        elif (row.compared or name == "jax") and not agrees(ours, theirs):
            cells.append("**differs**")
            right = False
        elif theirs.seconds is None or ours.seconds is None:
            cells.append("agrees")
        else:
            peers[name] = theirs.seconds
            cells.append(f"{theirs.seconds / ours.seconds:.2f}×")
    if ours.seconds is None:
        return f"| {row.name} | ran | | {' | '.join(cells)} | |", right
    share = ""
    if row.moved and bandwidth:
        share = f"{row.moved / ours.seconds / bandwidth:.0%}"
    took = f"{ours.seconds * 1e6:.1f}"
    said = verdict(row, ours, peers, bandwidth)
    return f"| {row.name} | {took} | {share} | {' | '.join(cells)} | {said} |", right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="everything once, at tiny sizes")
    parser.add_argument("--worker", choices=FRAMEWORKS, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help="parts of rows' names")
    options = parser.parse_args()
    rows = [r for r in ROWS if not options.names or any(n in r.name for n in options.names)]
    timed = not options.quick and not simulated()
    if options.worker:
        work(options.worker, rows, options.quick or simulated(), timed)
        return 0
    passed = ["--quick"] * options.quick + options.names
    bandwidth = copy_bandwidth() if timed else None
    if bandwidth is None:
        print("No times were taken: the rows ran once, at tiny sizes.\n")
    else:
        print(f"The device's copy reads and writes {bandwidth / 1e9:.0f} GB/s.\n")
    answers = {name: ask(name, passed) for name in FRAMEWORKS}
    print("\n| row | functrax, µs | of the copy | " + " | ".join(FRAMEWORKS[1:]) + " | targets |")
    print("|---" * (len(FRAMEWORKS) + 3) + "|")
    lines = [line_of(row, answers, bandwidth) for row in rows]
    print(*[line for line, _ in lines], sep="\n")
    print("\nRatios are peer's time / functrax's: above 1 functrax is faster.")
    return 0 if all(right for _, right in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
