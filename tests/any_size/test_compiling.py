"""Compiling costs the same time and memory, however large the arrays are; nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import functrax
from tests.any_size import tracing
from tests.any_size.test_tracing import called, cases_of, check

NAMES = (
    "lax.cumsum lax.dynamic_slice lax.gather lax.pad lax.reduce_window lax.rev lax.scan "
    "lax.scatter lax.sort nn.softmax numpy.arange numpy.argmax numpy.concatenate numpy.convolve "
    "numpy.delete numpy.diff numpy.dot numpy.eye numpy.fft.fftshift numpy.hanning numpy.indices "
    "numpy.insert numpy.linspace numpy.mean numpy.pad numpy.repeat numpy.roll numpy.sin numpy.sum "
    "numpy.take numpy.tile numpy.transpose numpy.tril numpy.tril_indices numpy.where "
    "ops.segment_sum random.normal"
)
SIZES = (10**3, 10**6, 3 * 10**8)


@pytest.mark.parametrize("name", NAMES.split())
def test_compiling_costs_the_same_at_any_size(name: str) -> None:
    for number, case in enumerate(cases_of(name)):

        def compiled(n: int, case: Any = case) -> Callable[[], Any]:
            args = tracing.arguments(case.letters, n)
            return lambda: functrax.jit(called(name, case, n)).lower(*args).compile()

        compiled(1001)()  # what is loaded with the first compilation is not counted
        check(compiled, f"case {number}", SIZES, 2_000_000)
