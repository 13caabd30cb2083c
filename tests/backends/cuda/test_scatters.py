"""Scatters that meet elements more than once: in order by owners, or atomically."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.types import dtypes
from tests.backends.cuda.compared import check, kernels, numbers, on_the_gpu

#: Numbers of updates and of elements, and the length of rows that are updated.
SIZES = [
    (5, 4, ()),
    (40, 1, ()),
    (700, 50, ()),
    (900, 1000, ()),
    (100, 10, (3,)),
    (70, 9, (40,)),
    (33, 6, (300,)),
    (50, 6, (3, 5)),
]
DTYPES = ("bool", "int8", "int32", "uint64", "float16", "bfloat16", "float32", "complex64")


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with functrax.enable_x64():
        yield


def operands(updates: int, elements: int, row: tuple[int, ...], dtype: str) -> tuple[Any, ...]:
    """An array, indices of which some are outside of it, and what is put there."""
    index = np.random.default_rng(1).integers(-2, elements + 2, updates).astype(np.int32)
    kind = dtypes.as_dtype(dtype)
    return numbers((elements, *row), kind), index, numbers((updates, *row), kind, seed=2)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("updates", "elements", "row"), SIZES)
def test_sizes(updates: int, elements: int, row: tuple[int, ...], dtype: str) -> None:
    def f(x: Any, i: Any, u: Any) -> Any:
        return x.at[i].set(u), x.at[i].add(u), x.at[i].max(u)

    check(f, *operands(updates, elements, row, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    args = operands(200, 30, (), dtype)
    check(lambda x, i, u: x.at[i].set(u), *args)
    if dtype != "bool":
        narrow = dtype in ("float16", "bfloat16")
        check(lambda x, i, u: x.at[i].add(u), *args, close=2e-2 if narrow else 1e-5)
    if dtype != "complex64":
        check(lambda x, i, u: x.at[i].min(u), *args)


def test_sums_have_the_bits_of_updates_in_order() -> None:
    x, i, u = operands(2000, 40, (), "float32")
    i = np.clip(i, 0, 39)
    want = x.copy()
    np.add.at(want, i, u)
    with on_the_gpu():
        found = np.asarray(functrax.jit(lambda x, i, u: x.at[i].add(u))(x, i, u))
    assert found.tobytes() == want.tobytes()


def test_gradients_of_gathers_and_sums_of_segments() -> None:
    x = numbers((50, 8), np.float32)
    i = np.random.default_rng(0).integers(0, 50, 100)
    check(functrax.grad(lambda x: jnp.sin(x[i]).sum()), x)
    check(lambda x: functrax.ops.segment_sum(x, i[:50], 9), x)
    check(lambda x: x.at[i, i % 8].multiply(1.5), x)
    check(lambda x: jnp.histogram(x, bins=7)[0], x)


def test_batches_of_scatters() -> None:
    x, i, u = operands(60, 7, (), "float32")
    batch = [np.stack([a, a[::-1], a]) for a in (x, i, u)]
    check(functrax.vmap(lambda x, i, u: x.at[i].add(u)), *batch)


@pytest.mark.parametrize(
    ("dtype", "how", "word"),
    [
        ("int32", "add", "atom.global.add.u32"),
        ("int32", "max", "atom.global.max.s32"),
        ("uint32", "min", "atom.global.min.u32"),
        ("int64", "add", "atom.global.add.u64"),
    ],
)
def test_what_is_exact_in_any_order_is_atomic(dtype: str, how: str, word: str) -> None:
    args = operands(200, 30, (), dtype)

    def f(x: Any, i: Any, u: Any) -> Any:
        return getattr(x.at[i], how)(u)

    assert word in kernels(f, *args)[-1].assembly
    check(f, *args)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nothing_else_is_atomic(dtype: str) -> None:
    (kernel,) = kernels(lambda x, i, u: x.at[i].add(u), *operands(200, 30, (), dtype))
    assert "atom." not in kernel.assembly and "vote.sync.ballot" in kernel.assembly
    assert "own 4 32 d0" in kernel.loops  # as many owners as there are warps of updates


def test_rows_are_shared_by_threads() -> None:
    (kernel,) = kernels(lambda x, i, u: x.at[i].add(u), *operands(70, 9, (40,), "float32"))
    assert "own 2 32 d0 0 d1" in kernel.loops


def test_scatters_beside_other_results() -> None:
    x, i, u = operands(70, 9, (), "int32")
    check(lambda x, i, u: (x.at[i].add(u * 2), u * 2, (u * 2).sum(), x.at[i].max(u)), x, i, u)


@pytest.mark.parametrize("last", [1, 3, 20])
def test_sums_over_several_loops_of_which_the_last_is_short(last: int) -> None:
    places = f"[2,9,7,{last}] -> [2,120]: (d0, 2*d1 + 3*d2 + 4*d3)"
    program = functrax.parse(
        f"{{ lambda ; a:f32[2,9,7,{last}]. let\n"
        f'  b:f32[2,120] = reindex_reduce[map={{{places}}}, op="add"] a\n in (b,) }}'
    )
    x = numbers((2, 9, 7, last), np.float32)
    want = np.zeros((2, 120), np.float32)
    for d0, d1, d2, d3 in np.ndindex(x.shape):
        want[d0, 2 * d1 + 3 * d2 + 4 * d3] += x[d0, d1, d2, d3]
    run = functrax.extend.jaxpr_as_fun(program)
    loops = "".join(kernel.loops for kernel in kernels(run, x))
    assert ("own 4 32 d3 1" in loops) == (last == 3)
    with on_the_gpu():
        (found,) = run(x)
    assert np.asarray(found).tobytes() == want.tobytes()
