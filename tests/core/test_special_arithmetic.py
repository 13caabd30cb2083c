"""Division, powers, rounding, sign and complex functions; values recorded from JAX on a CPU."""

from __future__ import annotations

import cmath
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.prims import special_values as values

BF16 = np.dtype(ml_dtypes.bfloat16)
INF, NAN = float("inf"), float("nan")
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]


def _corners(dtype: np.dtype[Any]) -> list[int]:
    info = np.iinfo(dtype)
    return [int(info.min), int(info.min) // 2, 0, 1, 2, 7, int(info.max) - 1, int(info.max)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_division_truncates_and_defines_every_case(dtype: np.dtype[Any]) -> None:
    corners = _corners(dtype) + ([-1, -2, -7] if dtype.kind == "i" else [])
    x, y = (
        grid.ravel() for grid in np.meshgrid(np.array(corners, dtype), np.array(corners, dtype))
    )
    quotient, remainder = values.div(x, y), values.rem(x, y)
    assert quotient.dtype == remainder.dtype == dtype
    bits = 8 * dtype.itemsize
    for a, b, q, r in zip(*(v.tolist() for v in (x, y, quotient, remainder)), strict=True):
        exact = -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert (q - exact) % 2**bits == 0
        assert r == (a if b == 0 else a - b * exact)


def test_float_remainder_has_the_sign_of_the_dividend() -> None:
    x = np.array([5.0, -5, 5, INF, 5, -0.0, 5])
    y = np.array([3.0, 3, -3, 2, INF, 2, 0])
    got = values.rem(x, y)
    np.testing.assert_array_equal(got, [2, -2, 2, NAN, 5, -0.0, NAN])
    assert np.signbit(got[5])
    half = values.rem(x.astype(BF16), y.astype(BF16))
    np.testing.assert_array_equal(half.astype(np.float64), got)


def test_float_and_complex_division() -> None:
    np.testing.assert_array_equal(
        values.div(np.array([1.0, 0.0]), np.array([0.0, 0.0])), [INF, NAN]
    )
    assert values.div(np.complex64(1 + 2j), np.complex64(1j)) == np.complex64(2 - 1j)
    third = values.div(np.array([1.0], BF16), np.array([3.0], BF16))
    assert third.dtype == BF16
    assert float(third[0]) == 0.333984375


def test_integer_pow() -> None:
    np.testing.assert_array_equal(
        values.integer_pow(np.array([2.0, 0.0, -0.0, INF]), -3), [0.125, INF, -INF, 0]
    )
    np.testing.assert_array_equal(values.integer_pow(np.array([0.0, NAN]), 0), [1, 1])
    np.testing.assert_array_equal(values.integer_pow(np.uint8([3]), 9), [227])
    np.testing.assert_array_equal(values.integer_pow(np.int32([2, -3]), 5), [32, -243])
    assert values.integer_pow(np.complex128(1 + 2j), 3) == -11 - 2j
    assert values.integer_pow(np.array([1.1], BF16), 7).dtype == BF16
    x = np.random.default_rng(1).uniform(-3, 3, 500)
    for n in (2, 5, 13, -4):
        np.testing.assert_allclose(values.integer_pow(x, n), x**n, rtol=4e-15)
    with pytest.raises(ArgumentError, match=r"integers have no negative powers[\s\S]*int32"):
        values.integer_pow(np.int32([2]), -1)


def test_rounding() -> None:
    x = [0.5, -0.5, 1.5, 2.5, -0.2, 0.49999999999999994, -2.5, INF, NAN, 4503599627370497.0]
    away = values.round_half_away(np.array(x))
    even = values.round_half_even(np.array(x))
    np.testing.assert_array_equal(away, [1, -1, 2, 3, -0.0, 0, -3, INF, NAN, 4503599627370497.0])
    np.testing.assert_array_equal(even, [0, -0.0, 2, 2, -0.0, 0, -2, INF, NAN, 4503599627370497.0])
    assert np.signbit(away[4])
    assert np.signbit(even[[1, 4]]).all()
    for dtype in (np.float16, BF16, np.float32):
        narrow = values.round_half_away(np.array(x[:5], dtype))
        assert narrow.dtype == dtype
        np.testing.assert_array_equal(narrow.astype(np.float64), away[:5])


def test_sign() -> None:
    got = values.sign(np.array([-0.0, 0.0, NAN, -INF, 3]))
    np.testing.assert_array_equal(got, [-0.0, 0.0, NAN, -1, 1])
    assert np.signbit(got[0])
    np.testing.assert_array_equal(values.sign(np.int8([-128, 0, 4])), [-1, 0, 1])
    np.testing.assert_array_equal(values.sign(np.uint8([0, 200])), [0, 1])
    z = np.array([3 + 4j, 0, 1e-300 - 1e-300j, 1e308 + 1e308j, -5e-324j])
    root = 0.5**0.5
    want = [0.6 + 0.8j, 0, root - root * 1j, root + root * 1j, -1j]
    np.testing.assert_allclose(values.sign(z), want, rtol=1e-15)


def test_complex_logistic_and_rsqrt_do_not_overflow() -> None:
    z = np.array([1000 + 1j, -1000 + 1j, 0.3 - 2j, -0.3 + 2j])
    want = [1, 0, *(1 / (1 + cmath.exp(-v)) for v in z[2:])]
    np.testing.assert_allclose(values.logistic(z), want, rtol=1e-14)
    np.testing.assert_allclose(values.rsqrt(z) ** 2 * z, 1, rtol=1e-14)


def test_complex_log1p_keeps_both_parts() -> None:
    # from 60-digit arithmetic; the last one lies on the circle |1 + z| = 1 to rounding
    z = np.array([1e-10 + 1e-10j, -1e-12 + 3j, 5e-9 - 1e-4j, -0.5 + 0.8660254037844386j])
    got = values.log1p(z)
    want = [1e-10, 1.1512925464969228, 9.999999912500001e-09, -4.345318932600586e-17]
    np.testing.assert_allclose(got.real, want, rtol=2e-15)
    np.testing.assert_allclose(got.imag, np.arctan2(z.imag, 1 + z.real), rtol=1e-15)
    single = values.log1p(z.astype(np.complex64))
    assert single.dtype == np.complex64


def test_complex_expm1_at_small_and_infinite_arguments() -> None:
    got = values.expm1(np.array([1e-10 + 1e-10j, INF, -INF, 0.5 + 1j]))
    np.testing.assert_array_equal(got[1:3], [INF, -1])
    np.testing.assert_allclose(got[[0, 3]], [1e-10 + 1e-10j, cmath.exp(0.5 + 1j) - 1], rtol=1e-9)
    assert got[0].real == pytest.approx(1e-10, rel=1e-15)


def test_operands_of_two_dtypes_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"div: operands must share one dtype"):
        values.div(np.int32([1]), np.int8([1]))
    with pytest.raises(DTypeError, match=r"rem: needs integers or real floats"):
        values.rem(np.complex64([1]), np.complex64([1]))
