"""Floating-point instructions, compared with NumPy and with exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.backends.cuda import simulated
from tests.backends.cuda.numbers_of_types import (
    BF16,
    KINDS,
    RNG,
    equal,
    float_each,
    floats,
    integers,
)
from tests.backends.cuda.simulated import each


def nearest(exact, dtype, zero):
    """A fraction rounded to the nearest, through integers."""
    if exact == 0:
        return zero
    info = ml_dtypes.finfo(dtype)
    digits, least = info.nmant + 1, info.minexp
    exponent = math.floor(math.log2(abs(exact.numerator)) - math.log2(exact.denominator))
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, least) - digits + 1)
    whole = abs(round(exact / step) * step)
    top = whole > Fraction(float(info.max))
    return (1 if exact > 0 else -1) * (math.inf if top else float(whole))


@pytest.mark.parametrize("name", KINDS)
def test_float_arithmetic(name):
    dtype = KINDS[name]
    a, b, c = floats(dtype), floats(dtype), floats(dtype)
    mode = ".rn" if name != "f16" else ""
    with np.errstate(all="ignore"):
        for op, fn in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            equal(float_each(f"{op}{mode}.{name} <d>, <a>, <b>;", a, b, out=dtype), fn(a, b))
        if name in ("f32", "f64"):
            equal(float_each(f"div.rn.{name} <d>, <a>, <b>;", a, b, out=dtype), a / b)
            equal(float_each(f"sqrt.rn.{name} <d>, <a>;", a, out=dtype), np.sqrt(a))
            equal(float_each(f"rcp.rn.{name} <d>, <a>;", a, out=dtype), dtype(1) / a)
        equal(float_each(f"neg.{name} <d>, <a>;", a, out=dtype), -a)
        equal(float_each(f"abs.{name} <d>, <a>;", a, out=dtype), np.abs(a))
        got = float_each(f"fma.rn.{name} <d>, <a>, <b>, <c>;", a, b, c, out=dtype)
        expected = []
        for x, y, z in zip(a.astype(float), b.astype(float), c.astype(float)):
            usual = x * y + z
            if all(map(math.isfinite, (x, y, z))):
                exact = Fraction(x) * Fraction(y) + Fraction(z)
                usual = nearest(exact, dtype, usual)
            expected.append(usual)
        equal(got, np.array(expected).astype(dtype))


def test_a_product_that_vanishes_keeps_its_sign():
    x, y = np.array([-1e-200, 1e-200, -1e-200]), np.array([1e-200, 1e-200, -1e-200])
    got = each("fma.rn.f64 <d>, <a>, <b>, <c>;", x, y, np.zeros(3), out="f8")
    np.testing.assert_array_equal(np.signbit(got), [True, False, False])
    np.testing.assert_array_equal(got, 0)
    zeros = np.full(2, -0.0)
    got = each("fma.rn.f64 <d>, <a>, <b>, <c>;", np.array([0.5, -0.5]), zeros, zeros, out="f8")
    np.testing.assert_array_equal(np.signbit(got), [True, False])


def test_fma_at_midpoints():
    """x·y + z in the middle between two numbers of f32, but for a last bit."""
    one = np.float32(1)
    x = np.array([1 + 2**-12, 1 + 2**-12, 1 + 2**-23, 3.0], "f4")
    y = np.array([1 + 2**-12, 1 + 2**-12, 1 - 2**-24, 2.0**-126], "f4")
    z = np.array([2**-60, -(2**-60), 2**-80, 2.0**-149], "f4")
    got = each("fma.rn.f32 <d>, <a>, <b>, <c>;", x, y, z, out="f4")
    expected = [
        nearest(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)), np.float32, 0.0)
        for p, q, r in zip(x, y, z)
    ]
    equal(got, np.array(expected, "f4"))
    assert got[0] != got[1] or got[0] > one


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_other_roundings(name, mode):
    with np.errstate(all="ignore"):
        check_other_roundings(name, mode)


def check_other_roundings(name, mode):
    dtype = KINDS[name]
    a, b = floats(dtype, 80), floats(dtype, 80)
    operations = {
        "add": lambda x, y: x + y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
    }
    for op, fn in operations.items():
        got = each(f"{op}.{mode}.{name} <d>, <a>, <b>;", a, b, out=dtype)
        for x, y, z in zip(a.tolist(), b.tolist(), got.tolist()):
            if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
                continue
            exact, below, above = (
                fn(Fraction(x), Fraction(y)),
                *(float(np.nextafter(dtype(z), dtype(t))) for t in (-np.inf, np.inf)),
            )
            near = Fraction(z)
            down = mode == "rm" or (mode == "rz" and exact > 0)
            if near != exact:
                assert (near < exact) == down
            if down and math.isfinite(above):
                assert Fraction(above) > exact
            elif not down and math.isfinite(below):
                assert Fraction(below) < exact
    got = each(f"sqrt.{mode}.{name} <d>, <a>;", np.abs(a), out=dtype)
    for x, z in zip(np.abs(a).tolist(), got.tolist()):
        if math.isfinite(x) and z:
            square, up = (
                Fraction(z) ** 2,
                Fraction(float(np.nextafter(dtype(z), dtype(np.inf)))) ** 2,
            )
            assert (square <= Fraction(x) < up) if mode != "rp" else square >= Fraction(x)


@pytest.mark.parametrize("name", KINDS)
def test_extremes(name):
    dtype = KINDS[name]
    a, b = floats(dtype), floats(dtype)
    a[:4], b[:4] = np.array([0.0, -0.0, np.nan, 1.0]), np.array([-0.0, 0.0, 1.0, np.nan])
    nan = np.isnan(a) | np.isnan(b)
    for op in ("min", "max"):
        pick = np.fmin if op == "min" else np.fmax
        expected = pick(a.astype(float), b.astype(float))
        zeros = (a == 0) & (b == 0)
        signs = np.signbit(a) | np.signbit(b) if op == "min" else np.signbit(a) & np.signbit(b)
        expected = np.where(zeros, np.where(signs, -0.0, 0.0), expected)
        equal(float_each(f"{op}.{name} <d>, <a>, <b>;", a, b, out=dtype), expected.astype(dtype))
        if name == "f64":
            continue
        expected = np.where(nan, np.nan, expected).astype(dtype)
        equal(float_each(f"{op}.NaN.{name} <d>, <a>, <b>;", a, b, out=dtype), expected)
    got = each("min.NaN.f32 <d>, <a>, <b>;", np.array([np.nan], "f4"), np.ones(1, "f4"), out="f4")
    assert got.view("u4")[0] == 0x7FFFFFFF


@pytest.mark.parametrize("name", ["f16x2", "bf16x2"])
def test_packed_halves(name):
    dtype = np.float16 if name == "f16x2" else BF16
    a, b, c = (floats(dtype) for _ in range(3))
    packed = [x.view("u4") for x in (a, b, c)]
    plain = "f16" if name == "f16x2" else "bf16"
    rn = "" if name == "f16x2" else ".rn"
    for op in (f"add{rn}", f"mul{rn}", "min", "max.NaN"):
        got = each(f"{op}.{name} <d>, <a>, <b>;", *packed[:2], out="u4").view(dtype)
        equal(got, float_each(f"{op}.{plain} <d>, <a>, <b>;", a, b, out=dtype))
    got = each(f"fma.rn.{name} <d>, <a>, <b>, <c>;", *packed, out="u4").view(dtype)
    equal(got, float_each(f"fma.rn.{plain} <d>, <a>, <b>, <c>;", a, b, c, out=dtype))
    got = each(f"fma.rn.relu.{name} <d>, <a>, <b>, <c>;", *packed, out="u4").view(dtype)
    whole = float_each(f"fma.rn.{plain} <d>, <a>, <b>, <c>;", a, b, c, out=dtype)
    with np.errstate(all="ignore"):
        equal(got, np.where(whole < 0, dtype(0), whole))
    got = each(f"neg.{name} <d>, <a>;", packed[0], out="u4").view(dtype)
    equal(got, -a)


def blackwell(monkeypatch):
    """Instructions that came with sm_100."""
    monkeypatch.setattr(simulated, "HEADER", ".version 8.6\n.target sm_100\n.address_size 64\n")


def test_packed_singles_and_mixed_precision(monkeypatch):
    blackwell(monkeypatch)
    a, b, c = (floats("f4") for _ in range(3))
    packed = [x.view("u8") for x in (a, b, c)]
    for op in ("add", "sub", "mul"):
        got = each(f"{op}.rn.f32x2 <d>, <a>, <b>;", *packed[:2], out="u8").view("f4")
        equal(got, each(f"{op}.rn.f32 <d>, <a>, <b>;", a, b, out="f4"))
    got = each("fma.rn.f32x2 <d>, <a>, <b>, <c>;", *packed, out="u8").view("f4")
    equal(got, each("fma.rn.f32 <d>, <a>, <b>, <c>;", a, b, c, out="f4"))
    for name in ("f16", "bf16"):
        h, k = floats(KINDS[name]), floats(KINDS[name])
        wide = h.astype("f4"), k.astype("f4")
        for op in ("add", "sub"):
            got = float_each(f"{op}.rn.f32.{name} <d>, <a>, <b>;", h, c, out="f4")
            equal(got, each(f"{op}.rn.f32 <d>, <a>, <b>;", wide[0], c, out="f4"))
        got = float_each(f"fma.rn.f32.{name} <d>, <a>, <b>, <c>;", h, k, c, out="f4")
        equal(got, each("fma.rn.f32 <d>, <a>, <b>, <c>;", *wide, c, out="f4"))


def test_packed_integers():
    a, b = integers("i2"), integers("i2")
    packed = [x.view("u4") for x in (a, b)]
    got = each("add.s16x2 <d>, <a>, <b>;", *packed, out="u4").view("i2")
    equal(got, a + b)
    got = each("min.s16x2 <d>, <a>, <b>;", *packed, out="u4").view("i2")
    equal(got, np.minimum(a, b))
    got = each("max.u16x2 <d>, <a>, <b>;", *packed, out="u4")
    equal(got.view("u2"), np.maximum(a.view("u2"), b.view("u2")))
    got = each("max.relu.s16x2 <d>, <a>, <b>;", *packed, out="u4").view("i2")
    equal(got, np.maximum(np.maximum(a, b), 0))


def test_subnormal_numbers_are_flushed():
    tiny = np.float32(2**-126)
    x = np.array([tiny / 2, -tiny / 4, tiny, 1.0], "f4")
    one = np.ones(4, "f4")
    got = each("mul.rn.ftz.f32 <d>, <a>, <b>;", x, one, out="f4")
    equal(got, np.array([0.0, -0.0, tiny, 1.0], "f4"))
    got = each("mul.rn.f32 <d>, <a>, <b>;", x, one, out="f4")
    equal(got, x)
    got = each("mul.rn.ftz.f32 <d>, <a>, <b>;", x, one / 2, out="f4")
    equal(got, np.array([0.0, -0.0, 0.0, 0.5], "f4"))
    got = each(
        "add.rn.sat.f32 <d>, <a>, <b>;", np.array([-1.0, 0.25, 3, np.nan], "f4"), 0 * one, out="f4"
    )
    equal(got, np.array([0, 0.25, 1, 0], "f4"))
    got = each("setp.eq.ftz.f32 %p1, <a>, <b>; selp.u32 <d>, 1, 0, %p1;", x, 0 * x, out="u4")
    assert got.tolist() == [1, 1, 0, 0]


def test_approximations_are_within_their_bounds():
    x = np.concatenate([RNG.uniform(-3, 3, 500), RNG.uniform(-60, 60, 100)]).astype("f4")
    X = x.astype(float)
    with np.errstate(all="ignore"):
        bounds = {
            "sin.approx": (np.sin(X), None, 2.0**-20.5),
            "cos.approx": (np.cos(X), None, 2.0**-20.5),
            "ex2.approx": (np.exp2(X), 2.0**-22, 0),
            "lg2.approx": (np.log2(np.abs(X)), 2.0**-22, 2.0**-22),
            "rcp.approx": (1 / X, 2.0**-23, 0),
            "sqrt.approx": (np.sqrt(np.abs(X)), 2.0**-23, 0),
            "rsqrt.approx": (1 / np.sqrt(np.abs(X)), 2.0**-22, 0),
            "tanh.approx": (np.tanh(X), 2.0**-11, 0),
        }
    for op, (expected, relative, absolute) in bounds.items():
        source = np.abs(x) if op[0] in "lrs" and "sin" not in op and "rcp" not in op else x
        got = each(f"{op}.f32 <d>, <a>;", source, out="f4").astype(float)
        error = np.abs(got - expected)
        assert (error <= (relative or 0) * np.abs(expected) + absolute).all(), op
    y = floats("f4", len(x))
    got = each("div.full.f32 <d>, <a>, <b>;", x, y, out="f4")
    with np.errstate(all="ignore"):
        equal(got, x / y)
    large = np.array([2.0**127, 2.0**127, 2.0, 0.0], "f4")
    got = each("div.approx.f32 <d>, <a>, <b>;", np.array([1, np.inf, 4, 1], "f4"), large, out="f4")
    equal(got, np.array([0, np.nan, 2, np.inf], "f4"))
    got = each("tanh.approx.f16 <d>, <a>;", x.astype("f2"), out="f2")
    np.testing.assert_allclose(got.astype(float), np.tanh(x.astype("f2").astype(float)), rtol=2e-3)


def test_tests_of_numbers():
    x = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, 2**-130, 2**-126], "f4")
    expected = {
        "finite": [1, 1, 1, 0, 0, 0, 1, 1],
        "infinite": [0, 0, 0, 1, 1, 0, 0, 0],
        "number": [1, 1, 1, 1, 1, 0, 1, 1],
        "notanumber": [0, 0, 0, 0, 0, 1, 0, 0],
        "normal": [1, 1, 1, 0, 0, 0, 0, 1],
        "subnormal": [0, 0, 0, 0, 0, 0, 1, 0],
    }
    for name, answer in expected.items():
        got = each(f"testp.{name}.f32 %p1, <a>; selp.u32 <d>, 1, 0, %p1;", x, out="u4")
        assert got.tolist() == answer, name
    y = np.array([-1, 1, -2, -3, 4, -5, 6, -7], "f4")
    equal(
        each("copysign.f32 <d>, <a>, <b>;", y, x[[2, 2, 2, 2, 3, 3, 2, 2]], out="f4"),
        np.copysign(x[[2, 2, 2, 2, 3, 3, 2, 2]], y),
    )
