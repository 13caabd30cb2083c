"""Sorts on the simulated GPU: values of every dtype, axis and length, and faults that are found."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulator.errors import KernelFault
from functrax.core.errors.typed import DeviceError
from tests.backends.cuda.compared import kernels
from tests.backends.cuda.ordering.same import DTYPES, check, kinds, numbers
from tests.backends.cuda.runtimes import RUNTIMES, altered, program_of


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with functrax.enable_x64():
        yield


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str) -> None:
    x = numbers(np.random.default_rng(0), (3, 75), dtype)
    check(lambda x: (lax.sort(x), jnp.argsort(x, axis=0), jnp.argsort(x)), x)


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 33, 256, 257, 2048, 2049, 4500])
def test_lengths(length: int) -> None:
    rows = 1 if length > 300 else 3
    x = numbers(np.random.default_rng(length), (rows, length), "float32")
    check(lambda x: lax.sort((x, lax.broadcasted_iota(np.int32, x.shape, 1)), num_keys=1), x)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), (4, 1, 3)])
def test_axes_of_no_and_of_one_element(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for axis in range(len(shape)):
        check(lambda x, axis=axis: (lax.sort(x, axis), jnp.argsort(x, axis)), x)


@pytest.mark.parametrize("seed", range(12))
def test_generated_sorts_of_several_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 5, 20, 33], int(rng.integers(1, 4))))
    count = int(rng.integers(2, 5))
    params = {"dimension": int(rng.integers(len(shape))), "num_keys": int(rng.integers(1, count))}
    arrays = [numbers(rng, shape, str(rng.choice(DTYPES))) for _ in range(count)]
    check(lambda *xs: lax.sort(xs, **params), *arrays)


def test_long_rows_of_several_arrays() -> None:
    rng = np.random.default_rng(0)
    keys = numbers(rng, (1100, 2), "int8"), numbers(rng, (1100, 2), "float64")
    values = numbers(rng, (1100, 2), "complex64"), numbers(rng, (1100, 2), "int16")
    check(lambda *xs: lax.sort(xs, dimension=0, num_keys=2), *keys, *values)


def test_derivatives_and_batches() -> None:
    x = np.random.default_rng(0).permutation(120).reshape(3, 4, 10).astype(np.float32)
    check(functrax.vmap(lambda x: lax.sort(x, 0), in_axes=1), x)
    check(functrax.grad(lambda x: (lax.sort(x) * jnp.arange(10)).sum()), x)


def test_what_is_made_of_a_sort() -> None:
    x = np.random.default_rng(0).integers(0, 9, (5, 40)).astype(np.int32)
    check(lambda x: (jnp.unique(x, size=12), jnp.lexsort((x[0], x[1]))), x)
    check(lambda x: (jnp.median(x, 1), jnp.sort(x, descending=True)), x)


# ---- kernels ------------------------------------------------------------------------------------


def test_short_rows_are_one_kernel_and_long_ones_are_merged() -> None:
    def of(*shape: int) -> Any:
        return functrax.ShapeDtypeStruct(shape, np.float32)

    assert kinds(lax.sort, of(100, 2048)) == ["sort"]
    assert kinds(lax.sort, of(2, 5000)) == ["sort", "grid", "grid"]
    assert kinds(lambda x: lax.sort(x, 0), of(4096, 8)) == ["sort", "grid"]
    wide = functrax.ShapeDtypeStruct((2, 1025), np.complex128)
    assert kinds(jnp.argsort, wide) == ["sort", "grid"]  # fewer fit in shared memory


@pytest.mark.parametrize(
    ("rows", "length", "schedule"),
    [
        (1, 10, "sort 256 16 16"),
        (1 << 14, 10, "sort 256 32 16"),
        (1 << 17, 10, "sort 256 128 16"),
        (2, 2000, "sort 1024 1 2048"),
        (400, 2000, "sort 512 1 2048"),
        (1000, 2000, "sort 256 1 2048"),
    ],
)
def test_how_many_rows_a_group_sorts(rows: int, length: int, schedule: str) -> None:
    (kernel,) = kernels(lax.sort, functrax.ShapeDtypeStruct((rows, length), np.float32))
    assert f"{schedule}\n" in kernel.loops


def test_sizes_are_no_part_of_the_code() -> None:
    def texts(rows: int, length: int, k: int) -> list[str]:
        x = functrax.ShapeDtypeStruct((rows, length), np.float32)
        found = [*kernels(jnp.argsort, x), *kernels(lambda x: lax.top_k(x, k), x)]
        return [kernel.assembly for kernel in found]

    assert texts(3, 9000, 7) == texts(5, 8500, 8)


def test_elements_that_threads_cannot_share_are_sorted_on_the_host() -> None:
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, 2, 30).astype(np.float64) for _ in range(13)]
    assert not kinds(lambda *xs: lax.sort(xs, num_keys=13), *keys)
    check(lambda *xs: lax.sort(xs, num_keys=13), *keys)


def test_the_simulator_finds_missing_barriers() -> None:
    x = np.random.default_rng(0).normal(size=(2, 300)).astype(np.float32)
    program, runtime = program_of(lambda x: lax.sort(x), x), RUNTIMES[-1]
    barriers, found, missing = 1, 0, 0
    while missing < barriers:

        def load(f: Any, module: Any, text: int, missing: int = missing) -> int:
            nonlocal barriers
            ptx = ctypes.string_at(text).decode()
            places = [m.span() for m in re.finditer(r"bar\.sync[^;]*;|barrier\.sync[^;]*;", ptx)]
            barriers = len(places)
            begin, end = places[missing]
            changed = ctypes.create_string_buffer((ptx[:begin] + ptx[end:]).encode())
            return int(f(module, ctypes.addressof(changed)))

        simulated = SimulatedDriver()
        gpu = runtime.gpu(altered(simulated, cuModuleLoadData=load), 0)
        with pytest.raises(DeviceError):
            (y,) = runtime.executable(program, gpu)([runtime.array.of(gpu, x)])
            np.asarray(y)
        found += isinstance(simulated.fault, KernelFault)
        missing += 1
    assert found == barriers == 2
