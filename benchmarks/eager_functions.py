"""What single functions cost outside of ``jit``, against JAX: 146 functions of 1,000 elements.

    python -m benchmarks.eager_functions [--rounds 5] [--only functrax] [part of an expression ...]

Each row is one call, blocking on its result.  functrax and JAX have a process each, and take turns:
first both warm up the whole table, then each takes a short sample of each row, round after round; a
row's figure is the least of its samples.  The table has microseconds and the ratio
JAX / functrax, the slowest first; then come the geometric mean, and how many rows are below 1.

Start at :func:`main`; the rows are :data:`EXPRESSIONS`.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.worker import Session, Worker

#: Seconds that a sample lasts, at least.
SAMPLE = 0.002
#: Calls before the first sample: after so many what is run again and again is compiled.
WARM_UP = 600
#: Seconds within which a process is to answer.
LIMIT = 300.0

#: ``j`` is ``jax`` or ``functrax``, ``jnp`` its ``numpy``; the other names are of :func:`inputs`.
EXPRESSIONS = """
jnp.sin(x)
jnp.exp(x)
jnp.add(x, y)
jnp.multiply(x, 2.0)
jnp.where(b, x, y)
jnp.clip(x, -1.0, 1.0)
jnp.round(x, 2)
jnp.nan_to_num(x)
jnp.hypot(x, y)
jnp.logaddexp(x, y)
jnp.divmod(x, p)
jnp.isclose(x, y)
jnp.allclose(x, y)
jnp.interp(x, s, y)
jnp.sinc(x)
jnp.angle(z)
jnp.unwrap(x)
jnp.deg2rad(x)
jnp.sum(x)
jnp.mean(x)
jnp.var(x)
jnp.std(m, axis=1)
jnp.prod(p)
jnp.max(m, axis=0)
jnp.argmax(x)
jnp.ptp(x)
jnp.any(b)
jnp.count_nonzero(b)
jnp.median(x)
jnp.nanmedian(x)
jnp.nanmean(x)
jnp.nansum(x)
jnp.nanstd(x)
jnp.nanmax(x)
jnp.quantile(x, 0.3)
jnp.percentile(x, 30.0)
jnp.average(x, weights=p)
jnp.cov(m)
jnp.corrcoef(m)
jnp.cumsum(x)
jnp.cumprod(p)
jnp.diff(x)
jnp.ediff1d(x)
jnp.gradient(x)
jnp.trapezoid(x)
jnp.convolve(x, k)
jnp.correlate(x, k)
jnp.polyval(k, x)
jnp.histogram(x, bins=10)
jnp.bincount(n, length=1000)
jnp.digitize(x, s)
jnp.searchsorted(s, x)
jnp.sort(x)
jnp.argsort(x)
jnp.lexsort((x, y))
jnp.partition(x, 10)
jnp.unique(n, size=100)
jnp.nonzero(b, size=100)
jnp.argwhere(b, size=100)
jnp.reshape(x, (10, 100))
jnp.ravel(m)
jnp.transpose(m)
jnp.swapaxes(m, 0, 1)
jnp.moveaxis(m, 0, 1)
jnp.expand_dims(x, 0)
jnp.broadcast_to(x, (3, 1000))
jnp.flip(x)
jnp.rot90(m)
jnp.roll(x, 3)
jnp.concatenate([x, y])
jnp.stack([x, y])
jnp.vstack([x, y])
jnp.hstack([x, y])
jnp.split(x, 4)
jnp.array_split(x, 3)
jnp.tile(x, 2)
jnp.repeat(x, 2)
jnp.pad(x, 2)
jnp.pad(x, 2, mode="reflect")
jnp.pad(x, 2, mode="edge")
jnp.pad(x, 2, mode="wrap")
jnp.resize(x, (2000,))
jnp.insert(x, 3, 1.0)
jnp.delete(x, 3)
jnp.append(x, y)
jnp.take(x, i)
jnp.take_along_axis(x, i, axis=0)
jnp.select([b], [x], 0.0)
jnp.tril(m)
jnp.triu(m)
jnp.diag(k)
jnp.diagonal(m)
jnp.trace(m)
jnp.outer(k, k)
jnp.kron(k, k)
jnp.meshgrid(k, k)
jnp.linspace(0.0, 1.0, 1000)
jnp.arange(1000)
jnp.zeros((1000,))
jnp.ones_like(x)
jnp.full((1000,), 2.0)
jnp.eye(30)
jnp.dot(x, y)
jnp.matmul(m, m.T)
jnp.einsum("ij,kj->ik", m, m)
jnp.tensordot(m, m, 2)
jnp.cross(c, c)
jnp.linalg.norm(x)
jnp.linalg.det(a)
jnp.linalg.inv(a)
jnp.linalg.solve(a, k)
jnp.linalg.cholesky(a)
jnp.linalg.matrix_power(a, 3)
jnp.fft.fft(x)
jnp.fft.rfft(x)
jnp.fft.fftshift(x)
jnp.fft.fftfreq(1000)
x[3:500]
x[i]
x.at[i].set(1.0)
x.at[3].add(1.0)
j.nn.relu(x)
j.nn.gelu(x)
j.nn.softmax(x)
j.nn.log_softmax(x)
j.nn.logsumexp(x)
j.nn.one_hot(n, 10)
j.nn.standardize(x)
j.nn.silu(x)
j.lax.top_k(x, 10)
j.lax.dynamic_slice(x, (3,), (500,))
j.lax.rsqrt(p)
j.random.normal(key, (1000,))
j.random.uniform(key, (1000,))
j.random.choice(key, x, (1000,))
j.random.permutation(key, x)
j.random.randint(key, (1000,), 0, 10)
j.random.bernoulli(key, 0.5, (1000,))
j.random.split(key)
j.image.resize(m, (20, 200), "bilinear")
j.scipy.special.erf(x)
j.scipy.special.logsumexp(x)
j.scipy.special.gammaln(p)
j.scipy.stats.norm.logpdf(x)
j.scipy.linalg.solve_triangular(a, k, lower=True)
j.scipy.signal.convolve(x, k)
""".strip().splitlines()


def inputs() -> dict[str, np.ndarray]:
    """What the names in the expressions are."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000, np.float32)
    square = rng.standard_normal((30, 30), np.float32)
    return {
        "x": x,
        "y": rng.standard_normal(1000, np.float32),
        "p": rng.uniform(0.5, 1.5, 1000).astype(np.float32),
        "s": np.sort(x),
        "z": (x + 1j * x[::-1]).astype(np.complex64),
        "m": x.reshape(10, 100),
        "c": rng.standard_normal((300, 3), np.float32),
        "a": square @ square.T + 30 * np.eye(30, dtype=np.float32),
        "k": rng.standard_normal(30, np.float32),
        "b": x > 0,
        "i": rng.integers(0, 1000, 1000).astype(np.int32),
        "n": rng.integers(0, 100, 1000).astype(np.int32),
        "key": np.array([0, 42], np.uint32),
    }


class Table:
    """The rows in one process: for each its function, and how many calls make a sample."""

    def __init__(self, library: Any) -> None:
        names = {"j": library, "jnp": library.numpy, "block": library.block_until_ready}
        names |= {name: library.device_put(value) for name, value in inputs().items()}
        self._names = names
        self._timers: dict[str, tuple[timeit.Timer, int]] = {}

    def prepare(self, expression: str) -> None:
        """Call a row until nothing of it is new, and find out how long it takes."""
        call = f"({expression})"
        plain = hasattr(eval(call, self._names), "block_until_ready")  # rows are of this file
        timer = timeit.Timer(
            f"{call}.block_until_ready()" if plain else f"block{call}",
            "",
            time.perf_counter,
            self._names,
        )
        timer.timeit(WARM_UP)
        once = min(timer.timeit(1) for _ in range(3))
        self._timers[expression] = (timer, max(1, round(SAMPLE / max(once, 1e-7))))

    def sample(self, expression: str) -> float:
        """Microseconds a call."""
        timer, calls = self._timers[expression]
        return timer.timeit(calls) / calls * 1e6


@functools.cache
def table(session: Session) -> Table:
    """The table of a process."""
    import importlib

    return Table(importlib.import_module(session.framework.name))


def prepare(session: Session, expressions: list[str]) -> None:
    """Warm up rows, in the process of a library."""
    for expression in expressions:
        table(session).prepare(expression)


def sample(session: Session, expression: str) -> list[float]:
    """A row's samples of one turn, in the process of a library."""
    return [table(session).sample(expression) for _ in range(2)]


def measured(
    expressions: list[str], libraries: list[str], rounds: int
) -> dict[str, dict[str, float]]:
    """Microseconds by expression and library."""
    workers = {name: Worker(name) for name in libraries}
    ask = lambda name, request, what: workers[name].ask(  # noqa: E731
        LIMIT, "call", "benchmarks.eager_functions", request, what
    )
    try:
        for name in libraries:
            ask(name, "prepare", expressions)
        least = {e: dict.fromkeys(libraries, math.inf) for e in expressions}
        for _ in range(rounds):
            for expression in expressions:
                for name in libraries:
                    best = min(ask(name, "sample", expression))
                    least[expression][name] = min(least[expression][name], best)
    finally:
        for worker in workers.values():
            worker.close()
    return least


def printed(least: dict[str, dict[str, float]]) -> None:
    """Print the table, the rows that are slowest beside JAX first."""
    if any(len(row) < 2 for row in least.values()):
        for expression, row in least.items():
            print(f"{expression:50} " + " ".join(f"{t:9.1f}" for t in row.values()))
        return
    ratio: Callable[[str], float] = lambda e: least[e]["jax"] / least[e]["functrax"]  # noqa: E731
    print(f"{'':50} {'functrax':>9} {'jax':>9} {'ratio':>7}")
    for expression in sorted(least, key=ratio):
        row = least[expression]
        print(f"{expression:50} {row['functrax']:9.1f} {row['jax']:9.1f} {ratio(expression):7.2f}")
    mean = math.exp(sum(math.log(ratio(e)) for e in least) / len(least))
    slower = sum(ratio(e) < 1 for e in least)
    print(f"{len(least)} functions: geometric mean {mean:.2f}, slower than JAX: {slower}")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="benchmarks.eager_functions", description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts of expressions; none means all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("functrax", "jax"), help="one of the two libraries")
    options = parser.parse_args()
    chosen = [e for e in EXPRESSIONS if not options.parts or any(p in e for p in options.parts)]
    libraries = [options.only] if options.only else ["functrax", "jax"]
    printed(measured(chosen, libraries, options.rounds))


if __name__ == "__main__":
    main()
