"""Bit counts, shifts, bit casts, neighbours and reduced precision; values recorded from JAX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.prims import bits

BF16 = np.dtype(ml_dtypes.bfloat16)
INF, NAN = float("inf"), float("nan")
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64)]


def _sample(dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
    octets = np.random.default_rng(3).bytes(size * dtype.itemsize)
    random = np.frombuffer(octets, dtype) >> np.arange(size).astype(dtype) % (8 * dtype.itemsize)
    return np.concatenate(
        [random, np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)]
    )


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_counts_agree_with_python_integers(dtype: np.dtype[Any]) -> None:
    x, width = _sample(dtype, 100), 8 * dtype.itemsize
    unsigned = [v % 2**width for v in x.tolist()]
    ones, zeros = bits.population_count(x), bits.clz(x)
    assert ones.dtype == zeros.dtype == dtype
    assert ones.tolist() == [bin(v).count("1") for v in unsigned]
    assert zeros.tolist() == [width - v.bit_length() for v in unsigned]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_agree_with_python_integers(dtype: np.dtype[Any]) -> None:
    width = 8 * dtype.itemsize
    amounts = np.array([0, 1, width - 1, width, width + 1, -1 % 2 ** (width - 1)], dtype)
    x = _sample(dtype, 30)[:, np.newaxis]
    left = bits.shift_left(x, amounts)
    logical = bits.shift_right_logical(x, amounts)
    arithmetic = bits.shift_right_arithmetic(x, amounts)
    for i, value in enumerate(x[:, 0].tolist()):
        unsigned = value % 2**width
        signed = unsigned - 2**width * (unsigned >> (width - 1))
        for j, amount in enumerate(amounts.tolist()):
            steps = min(amount, width)
            assert (int(left[i, j]) - (unsigned << steps)) % 2**width == 0
            assert int(logical[i, j]) % 2**width == unsigned >> steps
            assert (int(arithmetic[i, j]) - (signed >> steps)) % 2**width == 0


def test_negative_shift_amounts_count_as_large_ones() -> None:
    x, amount = np.int32([-3, 3]), np.int32([-1, -1])
    assert bits.shift_left(x, amount).tolist() == [0, 0]
    assert bits.shift_right_logical(x, amount).tolist() == [0, 0]
    assert bits.shift_right_arithmetic(x, amount).tolist() == [-1, 0]


def test_bitcast_changes_widths_on_the_last_axis() -> None:
    x = np.float32([[1.5, 2]])
    octets = bits.bitcast_convert(x, np.uint8)
    assert octets.tolist() == [[[0, 0, 192, 63], [0, 0, 0, 64]]]
    np.testing.assert_array_equal(bits.bitcast_convert(octets, np.float32), x)
    scalar = bits.bitcast_convert(np.uint8([1, 2, 3, 4]), np.uint32)
    assert isinstance(scalar, np.ndarray)
    assert (scalar.shape, int(scalar)) == ((), 67305985)
    assert float(bits.bitcast_convert(np.float16([1.0]), BF16)[0]) == 0.0078125
    assert bits.bitcast_convert(np.zeros((2, 0), np.uint32), np.uint8).shape == (2, 0, 4)
    assert bits.bitcast_convert(np.zeros((0, 4), np.uint8), np.uint32).shape == (0,)
    transposed = np.arange(6, dtype=np.int32).reshape(2, 3).T
    np.testing.assert_array_equal(bits.bitcast_convert(transposed, np.uint32), transposed)


def test_bitcast_refuses_what_has_no_meaning() -> None:
    with pytest.raises(ShapeError, match=r"the last axis must have size 4[\s\S]*uint8\[3\]"):
        bits.bitcast_convert(np.zeros(3, np.uint8), np.float32)
    for x in (np.zeros(2, np.complex64), np.zeros(2, np.bool_)):
        with pytest.raises(DTypeError, match="only integers and real floats"):
            bits.bitcast_convert(x, np.uint8)
        assert bits.bitcast_convert(x, x.dtype).dtype == x.dtype


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nextafter_walks_through_every_corner(dtype: np.dtype[Any]) -> None:
    info = ml_dtypes.finfo(dtype)
    tiny, largest = float(info.smallest_subnormal), float(info.max)
    eps = float(info.eps)
    cases = [
        (0.0, -0.0, -0.0), (-0.0, 1.0, tiny), (0.0, -1.0, -tiny), (tiny, -1.0, 0.0),
        (-tiny, 1.0, -0.0), (1.0, 2.0, 1 + eps), (1.0, 0.0, 1 - eps / 2), (-1.0, -2.0, -1 - eps),
        (largest, INF, INF), (INF, 0.0, largest), (-INF, 0.0, -largest), (1.0, 1.0, 1.0),
        (NAN, 1.0, NAN), (1.0, NAN, NAN),
    ]  # fmt: skip
    x, y, want = (np.array(column, np.float64).astype(dtype) for column in zip(*cases, strict=True))
    got = bits.nextafter(x, y)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    assert np.signbit(got.astype(np.float64)).tolist()[:5] == [True, False, True, False, True]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nextafter_agrees_with_numpy(dtype: type) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.normal(0, 1, 500).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(bits.nextafter(x, y), np.nextafter(x, y))


REDUCED_FROM = [1.5, -0.0, NAN, INF, 1e-40, 65520, 65519, 6e-5, 5.9e-8, 1e38, 3.4e38, 1 + 2**-11]
REDUCED: dict[tuple[int, int], list[float]] = {
    (5, 10): [1.5, -0.0, NAN, INF, 0, INF, 65504, 0, 0, INF, INF, 1],
    (8, 7): [1.5, -0.0, NAN, INF, 9.1835496e-41, 65536, 65536, 6.0081482e-05, 5.8906153e-08,
             9.9692100e37, INF, 1],
    (8, 0): [2, -0.0, NAN, INF, 0, 65536, 65536, 6.1035156e-05, 5.9604645e-08,
             8.5070592e37, INF, 1],
    (4, 3): [1.5, -0.0, NAN, INF, 0, INF, INF, 0, 0, INF, INF, 1],
    (1, 0): [INF, -0.0, NAN, INF, 0, INF, INF, 0, 0, INF, INF, 0],
    (11, 52): REDUCED_FROM,
}  # fmt: skip


@pytest.mark.parametrize("form", REDUCED, ids=str)
def test_reduce_precision_as_xla_does(form: tuple[int, int]) -> None:
    got = bits.reduce_precision(np.array(REDUCED_FROM, np.float32), *form)
    np.testing.assert_array_equal(got, np.array(REDUCED[form], np.float32))
    assert np.signbit(got[1])


def test_reduce_precision_to_bfloat16_and_half_is_a_round_trip() -> None:
    x = np.random.default_rng(6).normal(0, 100, 2000).astype(np.float32)
    half = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(bits.reduce_precision(x, 5, 10), half)
    np.testing.assert_array_equal(bits.reduce_precision(x, 8, 7), x.astype(BF16).astype(np.float32))
    narrow = bits.reduce_precision(np.array([1.7, 3e38, 1e-39], BF16), 8, 3)
    np.testing.assert_allclose(
        narrow.astype(np.float64), [1.75, 2.97747e38, 1.46937e-39], rtol=1e-5
    )
    with pytest.raises(ArgumentError, match="exponent_bits >= 1"):
        bits.reduce_precision(x, 0, 4)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)], ids=str)
def test_any_shape(shape: tuple[int, ...]) -> None:
    integers, floats = np.ones(shape, np.int16), np.ones(shape, np.float32)
    results = [
        bits.population_count(integers), bits.clz(integers), bits.shift_left(integers, integers),
        bits.shift_right_logical(integers, integers),
        bits.shift_right_arithmetic(integers, integers), bits.nextafter(floats, floats),
        bits.reduce_precision(floats, 5, 2), bits.bitcast_convert(floats, np.int32),
    ]  # fmt: skip
    assert all(isinstance(result, np.ndarray) and result.shape == shape for result in results)


def test_dtypes_are_checked() -> None:
    with pytest.raises(DTypeError, match="clz: needs an integer dtype"):
        bits.clz(np.float32([1]))
    with pytest.raises(DTypeError, match="shift_left: operands must share one dtype"):
        bits.shift_left(np.int32([1]), np.int8([1]))
    with pytest.raises(DTypeError, match="nextafter: needs a real float dtype"):
        bits.nextafter(np.int32([1]), np.int32([1]))
