"""Running results by groups of threads: parts of warps, warps, blocks, and three kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.core.options.config import Override
from functrax.core.types import dtypes
from tests.backends.cuda.compared import check, kernels, numbers, on_the_gpu

DTYPES = ("int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
#: Shapes and axes: one thread, parts of warps, a warp, a block, columns, and rows in blocks.
SHAPES = [
    ((2, 2), 1),
    ((5, 3), 1),
    ((40, 7), 1),
    ((4, 33), 1),
    ((3, 40, 2), 1),
    ((50, 6), 0),
    ((2, 1000), 1),
    ((2, 1100), 1),
    ((40_000,), 0),
]


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with functrax.enable_x64():
        yield


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_running_sums_and_extrema(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    def f(x: Any) -> Any:
        return [g(x, axis=axis, reverse=reverse) for g in (lax.cumsum, lax.cummax)]

    check(f, numbers(shape, np.float32), close=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    x = numbers((3, 75), dtypes.as_dtype(dtype))
    narrow = dtype in ("float16", "bfloat16")
    check(lambda x: (lax.cumsum(x, axis=1), lax.cumprod(x, axis=1, reverse=True)), x,
          close=2e-2 if narrow else 1e-5)  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 20), (2, 1100)])
def test_complex_numbers(shape: tuple[int, ...]) -> None:
    angle = numbers(shape, np.float64)
    check(lambda x: lax.cumprod(x, axis=1), np.exp(1j * angle))
    check(lambda x: lax.cumsum(x, axis=1), np.exp(1j * angle).astype(np.complex64))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 75), 1), ((60, 5), 0)])
def test_running_log_sum_exps(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    def f(x: Any) -> Any:
        return [lax.cumlogsumexp(x, axis=axis, reverse=reverse) for reverse in (False, True)]

    x = numbers(shape, np.float64) * 30
    x[0, 3:5], x[2, 0] = -np.inf, np.inf
    x = x.astype(dtypes.as_dtype(dtype))
    check(f, x, close=1e-6)
    assert [k.kind for k in kernels(f, x)] == ["kernel"] * 2


def test_log_sum_exps_are_added_up_on_the_host_in_strict_mode() -> None:
    with Override("strict", True):
        (call,) = kernels(lambda x: lax.cumlogsumexp(x), numbers((8,), np.float32))
    assert call.kind == "call"


def test_what_is_no_number_stays_from_there_on() -> None:
    x = numbers((2, 1100), np.float32)
    x[0, 500], x[1, 31] = np.nan, np.inf
    check(lambda x: [g(x, axis=1) for g in (lax.cummax, lax.cumsum, lax.cumlogsumexp)], x)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((40, 7), ["4"]), ((4, 40), ["32"]), ((4, 2000), ["256"]), ((2000, 4), ["2"])],
)
def test_how_many_threads_go_along_a_row(shape: tuple[int, ...], groups: list[str]) -> None:
    found = kernels(lambda x: lax.cumsum(x, axis=1), numbers(shape, np.float32))
    assert [k.loops.partition("grid ")[2].split()[0] for k in found] == groups


def test_many_columns_are_the_work_of_a_thread_each() -> None:
    (kernel,) = kernels(lambda x: lax.cumsum(x, axis=0), numbers((20, 1024), np.float32))
    assert "grid 1 " in kernel.loops


def test_long_rows_are_done_in_three_kernels_of_groups() -> None:
    found = kernels(lambda x: lax.cumsum(x), numbers((70_000,), np.float32))
    assert len(found) == 1
    assert [line.split()[1] for line in found[0].loops.splitlines() if "    grid" in line] == [
        "1024",
        "2",
        "1024",
    ]
    with on_the_gpu():
        x = np.ones(70_000, np.int32)
        np.testing.assert_array_equal(functrax.jit(lambda x: lax.cumsum(x))(x), np.cumsum(x))
