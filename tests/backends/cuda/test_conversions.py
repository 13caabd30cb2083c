"""Conversions between types, and moves that pack and unpack."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.backends.cuda.numbers_of_types import BF16, KINDS, equal, float_each, floats, integers
from tests.backends.cuda.simulated import each

INTEGERS = {
    f"{k}{b}": np.dtype(f"{'i' if k == 's' else 'u'}{b // 8}") for k in "us" for b in (16, 32, 64)
}


@pytest.mark.parametrize("of", INTEGERS)
@pytest.mark.parametrize("to", INTEGERS)
def test_between_integers(of, to):
    x = integers(INTEGERS[of])
    equal(each(f"cvt.{to}.{of} <d>, <a>;", x, out=INTEGERS[to]), x.astype(INTEGERS[to]))
    info, source = np.iinfo(INTEGERS[to]), np.iinfo(INTEGERS[of])
    if int(info.min) <= int(source.min) and int(info.max) >= int(source.max):
        return
    expected = [min(max(int(v), int(info.min)), int(info.max)) for v in x]
    got = each(f"cvt.sat.{to}.{of} <d>, <a>;", x, out=INTEGERS[to])
    equal(got, np.array(expected, INTEGERS[to]))


def test_low_bits_of_wide_registers():
    x = integers("u4")
    equal(each("cvt.s32.s8 <d>, <a>;", x, out="i4"), x.astype("i1").astype("i4"))
    equal(each("cvt.u32.u8 <d>, <a>;", x, out="u4"), x & 0xFF)
    equal(each("cvt.u64.u16 <d>, <a>;", x, out="u8"), (x & 0xFFFF).astype("u8"))
    equal(each("cvt.s64.s32 <d>, <a>;", x, out="i8"), x.view("i4").astype("i8"))


@pytest.mark.parametrize("of", INTEGERS)
@pytest.mark.parametrize("to", KINDS)
def test_from_integers(of, to):
    x = integers(INTEGERS[of])
    dtype = KINDS[to]
    if to == "bf16":
        # Through f64, rounded to odd: from that, one rounding is right.
        near = x.astype(np.longdouble)
        scale = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(near), 1))) - 7, 0))
        expected = (np.rint(near / scale) * scale).astype("f4").astype(BF16)
    elif to == "f16":
        with np.errstate(over="ignore"):
            expected = np.array([min(max(int(v), -70000), 70000) for v in x], "f8").astype("f2")
    else:
        expected = x.astype(dtype)
    equal(float_each(f"cvt.rn.{to}.{of} <d>, <a>;", x, out=dtype), expected)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_from_integers_with_other_roundings(mode):
    x = integers("i8")
    for to, dtype in (("f32", np.float32), ("f64", np.float64)):
        got = each(f"cvt.{mode}.{to}.s64 <d>, <a>;", x, out=dtype)
        for exact, near in zip(x.tolist(), got.tolist()):
            step = [int(np.nextafter(dtype(near), dtype(t))) for t in (-np.inf, np.inf)]
            down = mode == "rm" or (mode == "rz" and exact > 0)
            if int(near) == exact:
                continue
            assert (int(near) <= exact < step[1]) if down else (step[0] < exact <= int(near))


@pytest.mark.parametrize("of", ["f32", "f64", "f16"])
@pytest.mark.parametrize("to", INTEGERS)
def test_to_integers(of, to):
    x = floats(KINDS[of])
    info = np.iinfo(INTEGERS[to])
    wide = of == "f64" or to[1:] == "64"
    for mode, fn in (("rzi", np.trunc), ("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil)):
        expected = []
        for v in fn(x.astype(float)).tolist():
            if np.isnan(v):
                number = 1 << (info.bits - 1) if wide else 0
                expected.append(int(info.min) if number and info.min else number)
            elif np.isinf(v):
                expected.append(int(info.max if v > 0 else info.min))
            else:
                expected.append(min(max(int(v), int(info.min)), int(info.max)))
        got = each(f"cvt.{mode}.{to}.{of} <d>, <a>;", x, out=INTEGERS[to])
        equal(got, np.array(expected, INTEGERS[to]))


def test_between_floats():
    single, double, half, brain = (floats(KINDS[k]) for k in ("f32", "f64", "f16", "bf16"))
    with np.errstate(all="ignore"):
        equal(each("cvt.rn.f32.f64 <d>, <a>;", double, out="f4"), double.astype("f4"))
        equal(each("cvt.f64.f32 <d>, <a>;", single, out="f8"), single.astype("f8"))
        equal(each("cvt.rn.f16.f32 <d>, <a>;", single, out="f2"), single.astype("f2"))
        equal(each("cvt.rn.f16.f64 <d>, <a>;", double, out="f2"), double.astype("f2"))
        equal(each("cvt.f32.f16 <d>, <a>;", half, out="f4"), half.astype("f4"))
        equal(float_each("cvt.rn.bf16.f32 <d>, <a>;", single, out=BF16), single.astype(BF16))
        equal(float_each("cvt.f32.bf16 <d>, <a>;", brain, out="f4"), brain.astype("f4"))
        other = floats(np.float32)
        for name, dtype in (("f16", np.float16), ("bf16", BF16)):
            got = each(f"cvt.rn.{name}x2.f32 <d>, <a>, <b>;", single, other, out="u4")
            pair = got.view("u2").reshape(-1, 2)
            equal(pair[:, 1].copy().view(dtype), single.astype(dtype))
            equal(pair[:, 0].copy().view(dtype), other.astype(dtype))
        got = each("cvt.sat.f32.f32 <d>, <a>;", single, out="f4")
        equal(got, np.where(np.isnan(single), 0, np.clip(single, 0, 1)).astype("f4"))
        got = float_each("cvt.rn.relu.bf16.f32 <d>, <a>;", single, out=BF16)
        equal(got, np.where(single < 0, np.float32(0), single).astype(BF16))
    for mode, fn in (("rzi", np.trunc), ("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil)):
        equal(each(f"cvt.{mode}.f32.f32 <d>, <a>;", single, out="f4"), fn(single))
        equal(each(f"cvt.{mode}.f64.f64 <d>, <a>;", double, out="f8"), fn(double))


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_between_floats_with_other_roundings(mode):
    x = floats(np.float64)
    x = x[np.isfinite(x) & (np.abs(x) < 1e30)]
    got = each(f"cvt.{mode}.f32.f64 <d>, <a>;", x, out="f4")
    below, above = (np.nextafter(got, np.float32(t)).astype(float) for t in (-np.inf, np.inf))
    down = np.full(len(x), mode == "rm") | ((mode == "rz") & (x > 0))
    near = got.astype(float)
    assert (np.where(down, (near <= x) & (x < above), (below < x) & (x <= near)) | (x == 0)).all()


def test_tf32_keeps_ten_bits():
    x = np.array([1 + 2**-10, 1 + 2**-11, 1 + 2**-11 - 2**-20, -3.7], "f4")
    got = each("cvt.rna.tf32.f32 <d>, <a>;", x, out="u4").view("f4")
    equal(got, np.array([1 + 2**-10, 1 + 2**-10, 1, -np.rint(3.7 * 512) / 512], "f4"))


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_numbers_of_8_bits(name):
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[name]
    top = float(ml_dtypes.finfo(dtype).max)
    x, y = floats("f4"), floats("f4")
    x[:5] = [top * 1.03, -top * 1.03, 2.0**-10, 3 * 2.0**-10, 17.0]
    got = each(f"cvt.rn.satfinite.{name}x2.f32 <d>, <a>, <b>;", x, y, out="u2")
    pair = got.view("u1").reshape(-1, 2)
    with np.errstate(all="ignore"):
        for octets, source in ((pair[:, 1], x), (pair[:, 0], y)):
            expected = np.clip(source, -top, top).astype(dtype).view("u1")
            number = ~np.isnan(source)
            np.testing.assert_array_equal(octets[number], expected[number])
            assert (octets[~number] == 0x7F).all()
        halves = x.astype("f2")
        got = each(f"cvt.rn.satfinite.{name}x2.f16x2 <d>, <a>;", halves.view("u4"), out="u2")
        expected = np.clip(halves, -top, top).astype(dtype)
        number = ~np.isnan(halves)
        np.testing.assert_array_equal(got.view("u1")[number], expected.view("u1")[number])
    every = np.arange(256, dtype="u1")
    got = each(f"cvt.rn.f16x2.{name}x2 <d>, <a>;", every.view("u2"), out="u4").view("f2")
    expected = every.view(dtype).astype("f2")
    np.testing.assert_array_equal(got, expected)


def test_packing_and_unpacking():
    x, y = integers("u4"), integers("u4")
    got = each("mov.b64 <d>, {<a>, <b>};", x, y, out="u8")
    equal(got, x.astype("u8") | y.astype("u8") << np.uint64(32))
    equal(each("mov.b64 {_, <d>}, <a>;", got, out="u4"), y)
    body = "mov.b32 {%h5, %h6}, <a>; mov.b32 <d>, {%h6, %h5};"
    equal(each(body, x, out="u4"), x << np.uint32(16) | x >> np.uint32(16))
    body = "mov.b64 {%h1, %h2, %h3, %h4}, <a>; mov.b64 <d>, {%h4, %h3, %h2, %h1};"
    equal(each(body, got, out="u8"), got.view("u2").reshape(-1, 4)[:, ::-1].copy().view("u8")[:, 0])


def test_constants():
    one = np.zeros(1, "u4")
    for text, value in (
        ("0f3FC00000", np.float32(1.5).view("u4")),
        ("0x10U", 16),
        ("017", 15),
        ("0b101", 5),
        ("-7", np.uint32(2**32 - 7)),
        ("WARP_SZ", 32),
    ):
        assert each(f"mov.b32 <d>, {text};", one, out="u4")[0] == value
    assert each("mov.f32 <d>, 2.5;", one, out="f4")[0] == 2.5
    assert each("mov.f64 <d>, 0d4004000000000000;", one, out="f8")[0] == 2.5
    assert each("mov.f64 <d>, -1.5e3;", one, out="f8")[0] == -1500
    assert ml_dtypes.bfloat16 is BF16
