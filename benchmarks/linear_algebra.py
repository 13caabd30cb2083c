"""What linear algebra costs, and its gradients, against JAX: single matrices and 64 at once.

    python -m benchmarks.linear_algebra [--rounds 5] [--dtype float64] [--sizes 4,300]
                                        [--counts 1,64] [part of a name ...]

functrax and JAX have a process each, of one thread on one processor, and take turns.  A figure is
the processor time of a call, the least of its samples: what else runs on the machine makes the wall
longer, and this hardly.  At the end stand the rows that are slower than JAX's, and the geometric
mean.  A row whose values, without their signs, differ from JAX's has no figures.

Start at :func:`main`; the functions are :data:`FUNCTIONS`.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.runner import difference
from benchmarks.worker import MeasurementError, Session, Worker, compared

SIZES = (4, 16, 64, 300, 500)
COUNTS = (1, 64)
#: Seconds that a sample lasts at least, and those of all samples of a row in a process, about.
SAMPLE, SAMPLES = 0.01, 4.0
#: Seconds within which a process is to answer.
LIMIT = 300.0
ENVIRONMENT = {
    "FUNCTRAX_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
#: Between two libraries; gradients in float32 lose digits to the condition of the matrix.
TOLERANCE = 2e-2

#: Functions of a library, a positive definite matrix, a square one, and a vector.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda j, a, x, b: j.numpy.linalg.cholesky(a),
    "solve": lambda j, a, x, b: j.numpy.linalg.solve(x, b),
    "solve, 16 sides": lambda j, a, x, b: j.numpy.linalg.solve(x, a[:, :16]),
    "cho_solve": lambda j, a, x, b: j.scipy.linalg.cho_solve((x, True), b),
    "inv": lambda j, a, x, b: j.numpy.linalg.inv(x),
    "det": lambda j, a, x, b: j.numpy.linalg.det(x),
    "eigh": lambda j, a, x, b: j.numpy.linalg.eigh(a),
    "eigvalsh": lambda j, a, x, b: j.numpy.linalg.eigvalsh(a),
    "qr": lambda j, a, x, b: j.numpy.linalg.qr(x),
    "svd": lambda j, a, x, b: j.numpy.linalg.svd(x, full_matrices=False),
    "svdvals": lambda j, a, x, b: j.numpy.linalg.svd(x, compute_uv=False),
}


class Row(NamedTuple):
    """A function, or its gradient by the matrices, of so many matrices of a size."""

    function: str
    size: int
    matrices: int
    gradient: bool

    def __str__(self) -> str:
        what = "gradient" if self.gradient else ""
        return f"{self.function:16} {self.size:4} {self.matrices:3} {what:8}"


def operands(size: int, count: int, dtype: str) -> tuple[np.ndarray, ...]:
    """A positive definite matrix, a square one near a triangle's, and a vector, of each."""
    rng = np.random.default_rng(size)
    lead = (count,) if count > 1 else ()
    x = rng.standard_normal((*lead, size, size)) / math.sqrt(size)
    a = x @ x.swapaxes(-1, -2) + np.diag(np.linspace(0.5, 1.5, size))
    square = x / 2 + np.diag(np.linspace(2.0, 1.0, size))
    b = rng.standard_normal((*lead, size))
    return tuple(v.astype(dtype) for v in (a, square, b))


def program(library: Any, row: Row) -> Callable[..., Any]:
    """The row's program; the sum that is differentiated does not depend on signs of vectors."""
    function = functools.partial(FUNCTIONS[row.function], library)
    if row.matrices > 1:
        function = library.vmap(function)

    def loss(a: Any, x: Any, b: Any) -> Any:
        results = library.tree_util.tree_leaves(function(a, x, b))
        weights = [1 + library.numpy.arange(v.size).reshape(v.shape) / v.size for v in results]
        return sum((v * v * w).sum() for v, w in zip(results, weights))

    by_matrices: Callable[..., Any] = library.grad(loss, (0, 1))
    return library.jit(by_matrices if row.gradient else function)


class Calls:
    """A row in one process."""

    def __init__(self, library: Any, row: Row, dtype: str) -> None:
        if dtype == "float64":
            library.config.update("jax_enable_x64", True)
        self._block = library.block_until_ready
        self._args = library.device_put(operands(row.size, row.matrices, dtype))
        self._call = program(library, row)
        results = library.tree_util.tree_leaves(self._block(self._call(*self._args)))
        self.values = compared([np.abs(np.asarray(v)) for v in results])
        self.sample()
        self._number = max(1, round(SAMPLE / max(self.sample() / 1e6, 1e-7)))

    _number = 1

    def sample(self) -> float:
        """Microseconds of the processor for a call."""
        call, args, block = self._call, self._args, self._block
        begin = time.process_time()
        for _ in range(self._number):
            block(call(*args))
        return (time.process_time() - begin) / self._number * 1e6


@functools.lru_cache(maxsize=1)
def calls(session: Session, row: Row, dtype: str) -> Calls:
    """The row at hand in a process; the one before is forgotten."""
    library = importlib.import_module(session.framework.name)
    importlib.import_module(f"{session.framework.name}.scipy.linalg")
    return Calls(library, row, dtype)


def prepare(session: Session, row: Sequence[Any], dtype: str) -> list[np.ndarray]:
    """Make a row's program and call it, in the process of a library; the sizes of its values."""
    return calls(session, Row(*row), dtype).values


def sample(session: Session, row: Sequence[Any], dtype: str) -> float:
    """A sample of a row, in the process of a library."""
    return calls(session, Row(*row), dtype).sample()


def measured(row: Row, workers: dict[str, Worker], dtype: str, rounds: int) -> dict[str, float]:
    """Microseconds by library.

    Raises:
        MeasurementError: the values differ, or a library could not compute them.
    """

    def ask(name: str, request: str) -> Any:
        details = "benchmarks.linear_algebra", request, tuple(row), dtype
        return workers[name].ask(LIMIT, "call", *details)

    values = {name: ask(name, "prepare") for name in workers}
    problem = difference(values["functrax"], values["jax"], TOLERANCE)
    if problem:
        raise MeasurementError(problem)
    least = dict.fromkeys(workers, math.inf)
    begin = time.perf_counter()
    for n in range(rounds):
        if n and time.perf_counter() - begin > SAMPLES * len(workers):
            break
        for name in workers:
            least[name] = min(least[name], ask(name, "sample"))
    return least


def table(rows: Sequence[Row], dtype: str, rounds: int) -> dict[Row, float]:
    """Print each row as it is measured; how many times JAX's time is functrax's."""
    workers = {name: Worker(name, ENVIRONMENT) for name in ("functrax", "jax")}
    ratios: dict[Row, float] = {}
    try:
        for row in rows:
            try:
                found = measured(row, workers, dtype, rounds)
            except MeasurementError as error:
                print(row, error, flush=True)
                continue
            ratios[row] = found["jax"] / found["functrax"]
            times = f"{found['functrax']:11.1f} {found['jax']:11.1f}"
            print(row, times, f"{ratios[row]:6.2f}", flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    return ratios


def on_one_processor() -> None:
    """Keep this process, and those that it starts, on one processor, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def integers(text: str) -> tuple[int, ...]:
    """Numbers with commas between."""
    return tuple(int(n) for n in text.split(","))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linear_algebra")
    parser.add_argument("parts", nargs="*", help="parts of functions' names; none means all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--sizes", type=integers, default=SIZES)
    parser.add_argument("--counts", type=integers, default=COUNTS)
    given = parser.parse_intermixed_args()
    names = [f for f in FUNCTIONS if not given.parts or any(p in f for p in given.parts)]
    rows = [
        Row(name, size, count, gradient)
        for name in names
        for size in given.sizes
        for count in given.counts
        for gradient in (False, True)
    ]
    on_one_processor()
    print(f"{given.dtype}: function, rows, matrices; µs of functrax and of JAX, JAX / functrax")
    ratios = table(rows, given.dtype, given.rounds)
    print("\nslower than JAX:")
    for row in sorted(ratios, key=lambda row: ratios[row]):
        if ratios[row] < 1:
            print(row, f"{ratios[row]:6.2f}")
    mean = math.exp(sum(map(math.log, ratios.values())) / max(len(ratios), 1))
    print(f"{len(ratios)} rows: geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
