"""The emulator of kernels: single operations against exact arithmetic, and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import functrax.backends.reference.reference_device
import functrax.core.prims  # noqa: F401  (fills the registry)
from functrax.backends.kernels.evaluate import evaluate
from functrax.core.prims.fma_values import fma
from functrax.core.scalars.scalar import MATH, Builder, Scalar
from functrax.core.tracing.primitive import registry
from functrax.core.types import dtypes

INF, NAN = math.inf, math.nan


def loads(b: Builder, *dtypes_: np.dtype[Any]) -> list[Scalar]:
    return [b.node("load", d, (), k) for k, d in enumerate(dtypes_)]


def run(out: Scalar, *arrays: Any, **options: Any) -> Any:
    return evaluate([out], lambda node: arrays[node.attr], **options)[0]


def to_float32(exact: Fraction) -> np.float32:
    """Rounded to nearest even, for numbers in the range of float32."""
    if exact == 0:
        return np.float32(0)
    exponent = max(math.frexp(float(exact))[1] - 24, -149)
    scaled = exact / Fraction(2) ** exponent
    return np.float32(math.ldexp(round(scaled), exponent))


def hard_cases(rng: np.random.Generator, dtype: Any, digits: int) -> list[Any]:
    """Exact results close to halfway between two numbers, and sums that cancel."""
    x = rng.uniform(1, 2, 300).astype(dtype)
    y = rng.uniform(1, 2, 300).astype(dtype)
    z = -(x * y) * (1 + rng.integers(-2, 3, 300).astype(dtype) * dtype(2.0**-digits))
    z[::3] *= dtype(2.0 ** -(digits + 1))
    z[1::7] = dtype(2.0 ** -(2 * digits))
    return [x, y, z.astype(dtype)]


def test_fma_of_single_precision_is_rounded_once() -> None:
    operands = hard_cases(np.random.default_rng(0), np.float32, 24)
    got = fma(*operands)
    for out, x, y, z in zip(got, *operands, strict=True):
        assert out == to_float32(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))


def test_fma_of_double_precision_is_rounded_once() -> None:
    operands = hard_cases(np.random.default_rng(1), np.float64, 53)
    got = fma(*operands)
    for out, x, y, z in zip(got, *operands, strict=True):
        assert out == float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))


def test_single_precision_is_not_rounded_twice() -> None:
    # The exact result lies just above a tie, which float64 cannot tell from the tie.
    x, y, z = np.float32(1 + 2.0**-12), np.float32(1 + 2.0**-12), np.float32(2.0**-70)
    product = Fraction(float(x)) * Fraction(float(y))
    assert product == 1 + Fraction(2) ** -11 + Fraction(2) ** -24  # a tie of float32
    assert fma(x, y, np.float32(0)) == np.float32(1 + 2.0**-11)
    assert fma(x, y, z) == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert fma(x, y, -z) == np.float32(1 + 2.0**-11)


@pytest.mark.parametrize(
    ("x", "y", "z", "wanted"),
    [
        (1e300, 1e300, -INF, -INF),
        (1e300, 1e300, 1.0, INF),
        (-1e300, 1e300, 1.0, -INF),
        (2.0**1023, 2.0, -(2.0**1023), 2.0**1023),
        (2.0**-1074, 0.5, 0.0, 0.0),
        (2.0**-1074, 0.5, 2.0**-1074, 2.0**-1073),
        (-(2.0**-1074), 0.25, 0.0, -0.0),
        (INF, 0.0, 1.0, NAN),
        (NAN, 0.0, 1.0, NAN),
        (0.0, 1e300, -3.0, -3.0),
        (3.0, 4.0, -12.0, 0.0),
        (0.0, -4.0, -0.0, -0.0),
        (2.0**-600, 2.0**-500, 2.0**1023, 2.0**1023),
    ],
)
def test_fma_at_the_edges(x: float, y: float, z: float, wanted: float) -> None:
    got = fma(np.float64(x), np.float64(y), np.float64(z))
    np.testing.assert_array_equal(got, wanted)
    assert math.isnan(wanted) or math.copysign(1, got) == math.copysign(1, wanted)


def test_shared_nodes_and_several_outputs() -> None:
    b = Builder()
    (x,) = loads(b, dtypes.int32)
    twice = b.add(x, x)
    assert b.add(x, x) is twice
    got = evaluate([twice, b.mul(twice, twice), x], lambda node: np.int32([1, 2**30]))
    assert [g.tolist() for g in got] == [[2, -(2**31)], [4, 0], [1, 2**30]]


def test_loads_may_have_operands() -> None:
    b = Builder()
    (x,) = loads(b, dtypes.int32)
    array = np.float32([0.5, 1.5, 2.5])
    element = b.node("load", dtypes.float32, (b.add(x, x),), 1)

    def leaf(node: Scalar, *operands: Any) -> Any:
        return array[operands[0]] if operands else np.int32([1, 0])

    assert evaluate([element], leaf)[0].tolist() == [2.5, 0.5]


def test_half_precision_is_rounded_after_each_operation() -> None:
    b = Builder()
    x, y = loads(b, dtypes.float16, dtypes.float16)
    big, small = np.float16([2048.0]), np.float16([1.0])
    assert run(b.sub(b.add(x, y), x), big, small).tolist() == [0.0]
    wide = b.sub(b.add(b.widen(x), b.widen(y)), b.widen(x))
    assert run(b.convert(wide, dtypes.float16), big, small).tolist() == [1.0]


def test_conversions_go_by_way_of_single_precision() -> None:
    b = Builder()
    (x,) = loads(b, dtypes.float64)
    assert "float32" in repr(b.convert(x, dtypes.bfloat16))
    assert "float32" not in repr(b.convert(x, dtypes.float16))
    (n,) = loads(b, dtypes.int64)
    assert "float32" in repr(b.convert(n, dtypes.float16))


def test_floats_out_of_range_saturate() -> None:
    b = Builder()
    (x,) = loads(b, dtypes.float32)
    values = np.float32([300.0, -300.0, NAN, INF, -1.5])
    assert run(b.convert(x, dtypes.int8), values).tolist() == [127, -128, 0, 127, -1]
    assert run(b.convert(x, dtypes.uint8), values).tolist() == [255, 0, 0, 255, 0]
    # Of constants too, which NumPy would turn into anything.
    number = b.convert(b.const(300.0, dtypes.float32), dtypes.int8)
    assert run(number).tolist() == 127


@pytest.mark.parametrize("divisor", [0, -1])
@pytest.mark.parametrize("op", ["div", "rem"])
def test_divisors_without_a_meaning_are_refused(op: str, divisor: int) -> None:
    b = Builder()
    x, y = loads(b, dtypes.int32, dtypes.int32)
    with pytest.raises(AssertionError, match="divided by"):
        run(getattr(b, op)(x, y), np.int32([1, 2]), np.int32([3, divisor]))


def test_shifts_without_a_meaning_are_refused() -> None:
    b = Builder()
    x, y = loads(b, dtypes.int8, dtypes.int8)
    with pytest.raises(AssertionError, match="too many"):
        run(b.logic("shl", x, y), np.int8([1]), np.int8([8]))


@pytest.mark.parametrize("name", sorted(MATH))
def test_functions_have_values(name: str) -> None:
    b = Builder()
    operands = loads(b, *[dtypes.float32] * MATH[name])
    x = np.float32([0.25, 0.5, 0.75])
    got = run(b.math(name, *operands), *[x + np.float32(name == "acosh")] * MATH[name])
    assert got.dtype == np.float32
    assert np.isfinite(got).all()


def test_expansions_take_the_place_of_functions() -> None:
    def rsqrt(b: Builder, x: Scalar) -> Scalar:
        return b.div(b.like(x, 1), b.sqrt(x))

    def logistic(b: Builder, x: Scalar) -> Scalar:
        return b.math("rsqrt", b.math("exp", x))  # not what it is: to see that it is used

    b = Builder()
    (x,) = loads(b, dtypes.float64)
    expansions = {"rsqrt": rsqrt, "logistic": logistic}
    out = run(b.math("logistic", x), np.float64([0.0, 2.0]), expansions=expansions)
    np.testing.assert_allclose(out, [1.0, math.exp(-1)], rtol=1e-15)


def test_constants_are_compared_and_read_as_other_bits_at_once() -> None:
    b = Builder()
    one, two = b.const(1.0, dtypes.float32), b.const(2.0, dtypes.float32)
    (x,) = loads(b, dtypes.float32)
    assert b.select(b.compare("lt", one, two), x, one) is x
    assert b.bitcast(one, dtypes.int32).attr == 0x3F800000
    (n,) = loads(b, dtypes.int32)
    shifted = registry["shift_right_logical"].lower(b, n, b.const(9, dtypes.int32))
    assert "select" not in repr(shifted)
