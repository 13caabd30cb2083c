"""How compile time and run time grow with a program's length: programs that repeat one step.

    FUNCTRAX_CACHE=0 python -m benchmarks.chains [--lengths 100,400,1600] [step ...]

For each step, forward and as a gradient, and for each length: milliseconds of compiling for each
equation of the program as it was traced, and microseconds of a call for each step.  Both should
stay as they are, or fall, as programs get longer, and compiling stay below half a millisecond.

Start at :func:`main`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax, nn

Step = Callable[[Any], Any]
RNG = np.random.default_rng(0)
SIZE = 256
ORDER = RNG.permutation(SIZE)
SQUARE = RNG.standard_normal((16, 16), np.float32) / 4
CALLS = 20


def attention(x: Any) -> Any:
    """One head over 16 places, with a residual and a norm."""
    h = x.reshape(16, 16)
    q, k, v = (h @ SQUARE for _ in range(3))
    return norm(h + nn.softmax(q @ k.T / 4) @ v).reshape(-1)


def norm(x: Any) -> Any:
    """Values of mean 0 and variance 1."""
    return (x - x.mean()) / jnp.sqrt(x.var() + 1e-5)


STEPS: dict[str, Step] = {
    "elementwise": lambda x: jnp.sin(x) * 1.6 + 0.1,
    "sum": lambda x: x - x.sum() * 0.001,
    "norm": norm,
    "softmax": lambda x: nn.softmax(x) * 100,
    "roll": lambda x: jnp.sin(x) - 0.1 * jnp.roll(x, 1),
    "concatenate": lambda x: jnp.concatenate([x[SIZE // 2 :] * 1.1, x[: SIZE // 2]]),
    "transpose": lambda x: jnp.sin(x.reshape(16, 16).T.reshape(-1)),
    "shuffle": lambda x: jnp.sin(x[:255].reshape(15, 17).T.reshape(-1)).sum() + x,
    "gather": lambda x: jnp.sin(x)[ORDER],
    "scatter": lambda x: x.at[ORDER[:64]].add(jnp.sin(x[:64])),
    "cumsum": lambda x: jnp.cumsum(x) * 0.01,
    "sort": lambda x: jnp.sort(x) * 1.01,
    "where": lambda x: jnp.where(x > 0.5, x * 0.9, x + 0.1),
    "matmul": lambda x: jnp.tanh(SQUARE @ x.reshape(16, 16)).reshape(-1),
    "attention": attention,
    "cond": lambda x: lax.cond(x[0] > 0.5, lambda y: y * 0.9, lambda y: y + 0.1, x),
    "scan": lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=3)[0],
}


def repeated(step: Step, length: int, gradient: bool) -> Step:
    """The sum of what so many steps give, or its gradient."""

    def program(x: Any) -> Any:
        for _ in range(length):
            x = step(x)
        return x.sum()

    return functrax.grad(program) if gradient else program


def figures(program: Step, x: np.ndarray, length: int) -> str:
    """Milliseconds to compile an equation, and microseconds to run a step."""
    call = functrax.jit(program)
    equations = len(call.trace(x).jaxpr.eqns)
    begin = time.process_time()
    call(x).block_until_ready()  # which traces no more
    compiling = (time.process_time() - begin) / equations
    taken = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call(x).block_until_ready()
        taken.append(time.perf_counter() - begin)
    return f"{compiling * 1e3:8.3f} {min(taken) / length * 1e6:8.3f}"


def main() -> None:
    """Print a line for each step, forward and backward."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="*", choices=[[], *STEPS], metavar="step")
    parser.add_argument("--lengths", default="100,400,1600")
    given = parser.parse_args()
    lengths = [int(n) for n in given.lengths.split(",")]
    x = np.linspace(0.1, 0.9, SIZE, dtype=np.float32)
    print(f"{'ms to compile an equation, µs to run a step':44}", *(f"{n:>17}" for n in lengths))
    for name in given.steps or STEPS:
        for gradient in (False, True):
            label = f"{name}, gradient" if gradient else name
            found = [figures(repeated(STEPS[name], n, gradient), x, n) for n in lengths]
            print(f"{label:44}", *found, flush=True)


if __name__ == "__main__":
    main()
