"""What each decision of the schedules brings: times with and without it, and whether results agree.

    python -m benchmarks.decisions [--seconds 0.3] [decision ...]

For each decision that the option ``schedule_off`` can leave out (docs/kernels.md lists them), some
functions of sizes at which it is made are run in turns with and without it, in one process, on the
same arrays.  A time is the median of calls over that many seconds, in milliseconds.  Results agree
if they are equal bit by bit, or differ by so much, relative to the largest element.

Start at :func:`main`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax, nn, random
from functrax.backends.loops.strategies.schedule import can_be_left_out
from functrax.core.options.config import Override

#: What can be left out.
DECISIONS = can_be_left_out()
#: How often with and without take turns.
TURNS = 3
#: Results of a sum in another order may differ by so much, relative to the largest one.
TOLERANCE = 1e-5

Function = Callable[..., Any]
#: A function, and the shapes of its arguments.
Case = tuple[str, Function, tuple[tuple[int, ...], ...]]


def layer_norm(x: Any, scale: Any) -> Any:
    """Three stages: a mean, a variance, and what uses both."""
    centred = x - x.mean(1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * scale


LONG = ((1 << 24) + 13,)
SUM: Case = ("sum of 16M", lambda v: jnp.sum(v), (LONG,))
SCALE: Case = ("v * 2 + 1 of 16M", lambda v: v * 2 + 1, (LONG,))
ROWS: Case = ("row sums, 4097 x 4093", lambda v: jnp.sum(v, 1), ((4097, 4093),))
COLUMNS: Case = ("column sums, 4097 x 4093", lambda v: jnp.sum(v, 0), ((4097, 4093),))
TURNED: Case = ("transpose 1000 x 1000", lambda v: v.T * 2, ((1000, 1000),))
LARGE_TURNED: Case = ("transpose 4097 x 4093", lambda v: v.T * 2, ((4097, 4093),))
BACK: Case = ("256 x 256 x 256 to 210", lambda v: jnp.transpose(v, (2, 1, 0)), ((256, 256, 256),))
PAD: Case = ("pad 4096 x 4096 by 1", lambda v: jnp.pad(v, 1), ((4096, 4096),))
JOIN: Case = (
    "join two of 1000 x 999",
    lambda v, w: jnp.concatenate([v, w * 2], 1),
    ((1000, 999),) * 2,
)
SOFTMAX: Case = ("softmax 1000 x 1003", lambda v: nn.softmax(v, 1), ((1000, 1003),))
LARGE_SOFTMAX: Case = ("softmax 4096 x 1000", lambda v: nn.softmax(v, 1), ((4096, 1000),))
NORM: Case = ("layer norm 2048 x 768", layer_norm, ((2048, 768), (768,)))
RUNNING: Case = ("cumsum of 1M", lambda v: lax.cumsum(v), ((1_000_003,),))
NORMAL: Case = (
    "random.normal 1000 x 1000",
    lambda v: random.normal(random.key(0), (1000, 1000)) + v,
    ((),),
)
UPDATE: Case = (
    "momentum after 512 x 192 x 768",
    lambda x, y, m, w: (0.9 * m + x @ y, w - 0.1 * (0.9 * m + x @ y)),
    ((512, 192), (192, 768), (512, 768), (512, 768)),
)
SMALL: Case = ("x * y + z, 64 x 9 x 5", lambda x, y, z: x * y + z, ((64, 9, 5),) * 3)

CASES: dict[str, tuple[Case, ...]] = {
    "merge": (SMALL,),
    "vectorize": (SCALE, SUM, SOFTMAX, TURNED),
    "peel": (SOFTMAX, ROWS),
    "narrow": (SUM, ROWS, NORM),
    "turn": (TURNED, LARGE_TURNED, BACK),
    "split": (LARGE_TURNED,),
    "reorder": (LARGE_TURNED,),
    "stage": (SOFTMAX, NORM),
    "block": (SUM, COLUMNS, RUNNING),
    "interleave": (SCALE, SUM, ROWS),
    "align": (PAD, JOIN),
    "prefetch": (UPDATE, LARGE_SOFTMAX, NORM),
    "stream": (SCALE, LARGE_TURNED, PAD),
    "parts": (PAD, JOIN),
    "parallelize": (SCALE, SOFTMAX, NORMAL),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each decision and function; 1 if results do not agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions")
    parser.add_argument("decisions", nargs="*", metavar="decision", help=", ".join(DECISIONS))
    parser.add_argument("--seconds", type=float, default=0.3, help="for each of the two times")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.decisions) - set(DECISIONS))
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(DECISIONS)}")
    print(
        f"{'decision':11} {'function':27} {'with':>9} {'without':>9} {'ratio':>7}  results",
        flush=True,
    )
    agree = True
    for decision in given.decisions or DECISIONS:
        for case in CASES[decision]:
            line, same = compared(decision, case, given.seconds)
            print(line, flush=True)
            agree = agree and same
    return 0 if agree else 1


def compared(decision: str, case: Case, seconds: float) -> tuple[str, bool]:
    """The line about a decision and a function, and whether results agree."""
    name, function, shapes = case
    rng = np.random.default_rng(0)
    arguments = [jnp.asarray(rng.standard_normal(s).astype(np.float32)) for s in shapes]
    compiled = functrax.jit(function)
    results, times = [], []
    for off in ("", decision):
        with Override("schedule_off", off):
            results.append(np.asarray(compiled(*arguments)))
    found: dict[str, list[float]] = {"": [], decision: []}
    for _ in range(TURNS):
        for off, taken in found.items():
            with Override("schedule_off", off):
                taken += calls(compiled, arguments, seconds / TURNS)
    times = [float(np.median(taken)) * 1e3 for taken in found.values()]
    text, same = agreement(*results)
    ratio = times[1] / times[0]
    return f"{decision:9} {name:27} {times[0]:9.3f} {times[1]:9.3f} {ratio:7.2f}  {text}", same


def calls(function: Function, arguments: Sequence[Any], seconds: float) -> list[float]:
    """How long calls take, for so many seconds, and at least two of them."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        functrax.block_until_ready(function(*arguments))
        taken.append(time.perf_counter() - start)
    return taken


def agreement(x: Any, y: Any) -> tuple[str, bool]:
    """How far two results are apart, and whether they agree."""
    if x.tobytes() == y.tobytes():
        return "equal", True
    apart = float(np.abs(x - y).max() / np.abs(x).max())
    return f"{apart:.1e} apart", apart <= TOLERANCE


if __name__ == "__main__":
    raise SystemExit(main())
