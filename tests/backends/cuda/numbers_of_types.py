"""Numbers of each type at the ends of their ranges, and comparisons of bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.backends.cuda.simulated import each

RNG = np.random.default_rng(0)
BF16 = ml_dtypes.bfloat16


def integers(dtype, count=300):
    """Numbers at the ends of the range, and others."""
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, info.max // 2]
    edges += [-1, -2] if info.min else []
    some = RNG.integers(info.min, info.max, count - 2 * len(edges), dtype=dtype, endpoint=True)
    small = RNG.integers(0, 40, len(edges)).astype(dtype)
    x = np.concatenate([np.array(edges, dtype), small, some])
    return RNG.permutation(x)


def floats(dtype, count=400):
    """Numbers of all sizes, subnormal ones, infinities, zeros and NaN."""
    info = ml_dtypes.finfo(dtype)
    tiny, top = float(info.smallest_normal), float(info.max)
    edges = [0.0, -0.0, 1.0, -1.0, tiny, -tiny, tiny / 2, -tiny / 4, top, -top, np.inf, -np.inf]
    edges += [np.nan, 0.5, 1.5, 2.5, -2.5, 3.0]
    scales = np.exp2(RNG.uniform(-20, 20, count - len(edges)))
    with np.errstate(over="ignore"):
        some = (RNG.normal(size=len(scales)) * scales).astype(dtype)
    return RNG.permutation(np.concatenate([np.array(edges).astype(dtype), some]))


def equal(got, expected):
    """The same bits, but for NaN, which GPUs give one way."""
    if got.dtype.kind in "f" or got.dtype == BF16:
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        where = ~np.isnan(got)
        got, expected = got[where], expected[where]
        bits = f"u{got.dtype.itemsize}"
        got, expected = got.view(bits), expected.view(bits)
    np.testing.assert_array_equal(got, expected)


def wide(x):
    return [int(v) for v in x]


def wrapped(numbers, dtype):
    bits = np.dtype(dtype).itemsize * 8
    return np.array([n & ((1 << bits) - 1) for n in numbers], f"u{bits // 8}").view(dtype)


KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": BF16}


def bits_of(x):
    return x.view("u2") if x.dtype == BF16 else x


def float_each(body, *arrays, out):
    got = each(body, *map(bits_of, arrays), out="u2" if out == BF16 else out)
    return got.view(BF16) if out == BF16 else got
