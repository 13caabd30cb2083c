"""Elements that are a few places apart are read and written in rows, and nothing beyond them."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.targets import target

STRIDES = (-1, 2, 3, 4)
SIZES = (1, 3, 16, 17, 40, 75)


def texts(f: Any, *args: Any) -> str:
    """The LLVM IR of a function's kernels."""
    return functrax.explain(f)(*args).llvm


def with_values(n: int, dtype: Any) -> Any:
    return (np.arange(n) * 7 % 31).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "bool"])
@pytest.mark.parametrize("stride", STRIDES)
def test_reads_and_writes(stride: int, dtype: str) -> None:
    read = functrax.jit(
        lambda x: jnp.bitwise_xor(x[::stride], True) if dtype == "bool" else x[::stride] + 1
    )
    write = functrax.jit(lambda x, y: x.at[::stride].set(y))
    for n in SIZES:
        x = with_values(n, dtype)
        y = with_values(x[::stride].size, dtype)
        wanted = x[::stride] ^ True if dtype == "bool" else x[::stride] + np.ones((), dtype)
        np.testing.assert_array_equal(read(x), wanted)
        wanted = x.copy()
        wanted[::stride] = y
        np.testing.assert_array_equal(write(x, y), wanted)


def test_rows_of_a_matrix_and_guards() -> None:
    """Reads with conditions: padding before, between and after what is read in steps."""
    x = with_values(9 * 37, "float32").reshape(9, 37)

    def f(x: Any) -> Any:
        padded = functrax.lax.pad(x, np.float32(5), ((1, 2, 0), (2, 3, 1)))
        return padded[:, ::2] * 2 + padded[:, 1::2] - padded[:, ::-2]

    wide = np.full((12, 78), 5, np.float32)
    wide[1:10, 2:75:2] = x
    wanted = wide[:, ::2] * 2 + wide[:, 1::2] - wide[:, ::-2]
    np.testing.assert_array_equal(functrax.jit(f)(x), wanted)


@pytest.mark.skipif(target().vector_bytes < 32, reason="vectors of at least 32 bytes")
def test_there_is_no_gather_and_no_scatter() -> None:
    x = with_values(4000, "float32")
    for stride in STRIDES:
        text = texts(lambda x, k=stride: x[::k] + 1, x)
        assert "gather" not in text and "shufflevector" in text
    assert "gather" in texts(lambda x: x[::5] + 1, x)
    image, weights = np.ones((2, 8, 32, 32), np.float32), np.ones((8, 8, 3, 3), np.float32)

    def transposed(x: Any, w: Any) -> Any:
        return functrax.lax.conv_general_dilated(
            x, w, (1, 1), ((1, 2), (1, 2)), lhs_dilation=(2, 2)
        )

    assert "scatter" not in texts(transposed, image, weights)


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")
@pytest.mark.parametrize("stride", STRIDES)
def test_nothing_is_read_beyond_the_last_element(stride: int) -> None:
    """The array ends, or begins, at a page that nobody may touch."""
    page, count = mmap.PAGESIZE, 193 - max(stride, 1)  # whole vectors of results
    memory = mmap.mmap(-1, 3 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for place in (0, 2 * page):
        assert libc.mprotect(ctypes.c_void_p(address + place), page, 0) == 0
    f = functrax.jit(lambda x: x[::stride] * 2)
    for offset in (page, 2 * page - 4 * count):
        x = np.frombuffer(memory, np.float32, count, offset)
        x[:] = np.arange(count)
        np.testing.assert_array_equal(f(x), 2 * np.arange(count, dtype=np.float32)[::stride])
    for place in (0, 2 * page):
        assert libc.mprotect(ctypes.c_void_p(address + place), page, 3) == 0
