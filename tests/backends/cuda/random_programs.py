"""Random programs on the simulated GPU, on the CPU and on the reference device.

    python -m tests.backends.cuda.random_programs --start 0 --count 500 --kinds exact bits smooth

For each seed there is a program of each kind (``tests/backends/random_functions.py``).  It
says how many agree and which do not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

import functrax
from functrax.backends.cuda import choice
from functrax.backends.device import device_of
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import Override
from tests.backends.random_checks import (
    Arrays,
    Judge,
    as_array,
    check_seed,
    on_compiled,
    same_bits,
)

KINDS = ("exact", "bits", "smooth")


def on_gpu(jaxpr: Jaxpr, values: Sequence[Any], strict: bool) -> list[Arrays]:
    """The results of two runs on the GPU, of which the second has its blocks in another order."""
    driver = choice.table().owner
    with functrax.backend("cuda"), Override("strict", strict):
        run = device_of("cuda").compile(jaxpr)
        runs = []
        for seed in (0, 1):
            driver.block_seed = seed
            try:
                runs.append([as_array(x) for x in run(values)])
            finally:
                driver.block_seed = 0
    return runs


def compare_devices(jaxpr: Jaxpr, values: Sequence[Any], judge: Judge) -> None:
    """Run a program on the CPU and on the GPU, and compare each with the reference."""
    strict = judge.kind == "bits"
    cpu, *_ = on_compiled(jaxpr, values, True, strict)
    judge(cpu, "CPU")
    first, second = on_gpu(jaxpr, values, strict)
    for n, (a, b) in enumerate(zip(first, second, strict=True)):
        assert same_bits(a, b), f"result {n}: the order of blocks matters"
    judge(first, "GPU")


def wrong_seeds(kind: str, seeds: Sequence[int]) -> tuple[int, dict[int, str]]:
    """How many programs of a kind were compared, and what is wrong with which."""
    count, wrong = 0, {}
    for seed in seeds:
        try:
            count += check_seed(seed, kind, compare_devices)
        except Exception as error:  # the next one is compared all the same
            wrong[seed] = f"{type(error).__name__}: {error}"
    return count, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    os.environ[choice.VARIABLE] = "simulated"
    total = wrong = 0
    for seed in range(options.start, options.start + options.count):
        for kind in options.kinds:
            count, errors = wrong_seeds(kind, [seed])
            total, wrong = total + count, wrong + len(errors)
            for message in errors.values():
                print(f"{kind} {seed}: {message}", flush=True)
        if seed % 50 == 49 or seed == options.start + options.count - 1:
            print(f"up to seed {seed}: {total} agree, {wrong} do not", flush=True)


if __name__ == "__main__":
    main()
