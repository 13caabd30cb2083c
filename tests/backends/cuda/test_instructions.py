"""Each class of instructions, compared with NumPy or with numbers worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.backends.cuda import simulated
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


def types(prefix=""):
    return [
        (f"{k}{b}", np.dtype(f"{'i' if k == 's' else 'u'}{b // 8}"))
        for k in "us"
        for b in (16, 32, 64)
    ]


def trunc(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@pytest.mark.parametrize(("name", "dtype"), types())
def test_integer_arithmetic(name, dtype):
    bits = dtype.itemsize * 8
    a, b, c = integers(dtype), integers(dtype), integers(dtype)
    A, B, C = wide(a), wide(b), wide(c)
    two = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul.lo": lambda x, y: x * y,
        "mul.hi": lambda x, y: x * y >> bits,
        "min": min,
        "max": max,
        "div": lambda x, y: trunc(x, y) if y else -1,
        "rem": lambda x, y: x - y * trunc(x, y) if y else x,
    }
    for op, fn in two.items():
        got = each(f"{op}.{name} <d>, <a>, <b>;", a, b, out=dtype)
        equal(got, wrapped(map(fn, A, B), dtype))
    got = each(f"mad.lo.{name} <d>, <a>, <b>, <c>;", a, b, c, out=dtype)
    equal(got, wrapped([x * y + z for x, y, z in zip(A, B, C)], dtype))
    if name != "u16":
        got = each(f"mad.hi.{name} <d>, <a>, <b>, <c>;", a, b, c, out=dtype)
        equal(got, wrapped([(x * y >> bits) + z for x, y, z in zip(A, B, C)], dtype))
    got = each(f"sad.{name} <d>, <a>, <b>, <c>;", a, b, c, out=dtype) if bits < 64 else None
    if got is not None:
        equal(got, wrapped([z + abs(x - y) for x, y, z in zip(A, B, C)], dtype))
    if bits < 64:
        double = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
        got = each(f"mul.wide.{name} <d>, <a>, <b>;", a, b, out=double)
        equal(got, wrapped([x * y for x, y in zip(A, B)], double))
        got = each(f"mad.wide.{name} <d>, <a>, <b>, <c>;", a, b, c.astype(double), out=double)
        equal(got, wrapped([x * y + z for x, y, z in zip(A, B, C)], double))
    if name[0] == "s":
        equal(each(f"abs.{name} <d>, <a>;", a, out=dtype), wrapped(map(abs, A), dtype))
        equal(each(f"neg.{name} <d>, <a>;", a, out=dtype), wrapped([-x for x in A], dtype))


def test_saturated_sums():
    a, b = integers("i4"), integers("i4")
    for op, sign in (("add", 1), ("sub", -1)):
        expected = np.clip(a.astype("i8") + sign * b.astype("i8"), -(2**31), 2**31 - 1)
        equal(each(f"{op}.sat.s32 <d>, <a>, <b>;", a, b, out="i4"), expected.astype("i4"))


def test_sums_and_products_of_several_words():
    a, b, c, e = (integers("u4") for _ in range(4))
    A = [x | y << 32 for x, y in zip(wide(a), wide(b))]
    B = [x | y << 32 for x, y in zip(wide(c), wide(e))]
    low = "{ .reg .b32 lo, hi; "
    pack = " mov.b64 <d>, {lo, hi}; }"
    for op, fn in (("add", lambda x, y: x + y), ("sub", lambda x, y: x - y)):
        body = f"{low}{op}.cc.u32 lo, <a>, <c>; {op}c.u32 hi, <b>, <e>;{pack}"
        got = each(body, a, b, c, a, e, out="u8")
        equal(got, wrapped(map(fn, A, B), "u8"))
    body = f"{low}mad.lo.cc.u32 lo, <a>, <b>, <c>; madc.hi.u32 hi, <a>, <b>, <c>;{pack}"
    got = each(body, a, b, c, out="u8")
    expected = [
        ((x * y & 0xFFFFFFFF) + z) + ((x * y >> 32) + z << 32)
        for x, y, z in zip(*map(wide, (a, b, c)))
    ]
    equal(got, wrapped(expected, "u8"))


def signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def extract(x, position, length, bits, is_signed):
    """bfe as the manual's own loop has it."""
    last = bits - 1
    position, length = position & 255, length & 255
    sign = 0
    if is_signed and length:
        sign = x >> min(position + length - 1, last) & 1
    result = 0
    for k in range(bits):
        inside = k < length and position + k <= last
        result |= (x >> (position + k) & 1 if inside else sign) << k
    return result


@pytest.mark.parametrize(("name", "dtype"), [t for t in types() if t[1].itemsize > 2])
def test_bits_and_fields(name, dtype):
    bits = dtype.itemsize * 8
    a, b = integers(dtype), integers(dtype)
    mask = (1 << bits) - 1
    A, B = [x & mask for x in wide(a)], [x & mask for x in wide(b)]
    position = RNG.integers(0, bits + 8, len(a)).astype("u4")
    length = RNG.integers(0, bits + 8, len(a)).astype("u4")
    P, L = wide(position), wide(length)
    got = each(f"bfe.{name} <d>, <a>, <b>, <c>;", a, position, length, out=dtype)
    expected = [extract(x, p, n, bits, name[0] == "s") for x, p, n in zip(A, P, L)]
    equal(got, wrapped(expected, dtype))
    if name[0] == "u":
        raw = f"b{bits}"
        got = each(f"bfi.{raw} <d>, <a>, <b>, <c>, <e>;", a, b, position, a, length, out=dtype)
        expected = []
        for x, y, p, n in zip(A, B, P, L):
            field = ((1 << n) - 1) << p & mask
            expected.append(y & ~field | x << p & field)
        equal(got, wrapped(expected, dtype))
        equal(
            each(f"popc.{raw} <d>, <a>;", a, out="u4"), np.array([x.bit_count() for x in A], "u4")
        )
        zeros = np.array([bits - x.bit_length() for x in A], "u4")
        equal(each(f"clz.{raw} <d>, <a>;", a, out="u4"), zeros)
        reverse = [int(f"{x:0{bits}b}"[::-1], 2) for x in A]
        equal(each(f"brev.{raw} <d>, <a>;", a, out=dtype), wrapped(reverse, dtype))
        for op, fn in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
            equal(
                each(f"{op}.{raw} <d>, <a>, <b>;", a, b, out=dtype), wrapped(map(fn, A, B), dtype)
            )
        equal(each(f"not.{raw} <d>, <a>;", a, out=dtype), ~a)
        equal(each(f"cnot.{raw} <d>, <a>;", a, out=dtype), (a == 0).astype(dtype))
    found = [x.bit_length() - 1 for x in A]
    if name[0] == "s":
        found = [(~x & mask if x >> (bits - 1) else x).bit_length() - 1 for x in A]
    equal(each(f"bfind.{name} <d>, <a>;", a, out="u4"), wrapped(found, "u4"))
    amount = [bits - 1 - k if k >= 0 else -1 for k in found]
    equal(each(f"bfind.shiftamt.{name} <d>, <a>;", a, out="u4"), wrapped(amount, "u4"))


@pytest.mark.parametrize(("name", "dtype"), types())
def test_shifts(name, dtype):
    bits = dtype.itemsize * 8
    a = integers(dtype)
    by = np.concatenate([RNG.integers(0, bits + 3, len(a) - 3), [bits, 255, 2**32 - 1]]).astype(
        "u4"
    )
    right = wrapped([x >> min(n, bits) for x, n in zip(wide(a), wide(by))], dtype)
    equal(each(f"shr.{name} <d>, <a>, <b>;", a, by, out=dtype), right)
    left = wrapped([x << min(n, bits) for x, n in zip(wide(a), wide(by))], dtype)
    equal(each(f"shl.b{bits} <d>, <a>, <b>;", a, by, out=dtype), left)


def test_funnel_shifts_permutations_and_tables():
    a, b, c = integers("u4"), integers("u4"), integers("u4")
    by = RNG.integers(0, 70, len(a)).astype("u4")
    both = [x | y << 32 for x, y in zip(wide(a), wide(b))]
    for mode, limit in (("wrap", lambda n: n & 31), ("clamp", lambda n: min(n, 32))):
        n = [limit(v) for v in wide(by)]
        got = each(f"shf.l.{mode}.b32 <d>, <a>, <b>, <c>;", a, b, by, out="u4")
        equal(got, wrapped([x << k >> 32 for x, k in zip(both, n)], "u4"))
        got = each(f"shf.r.{mode}.b32 <d>, <a>, <b>, <c>;", a, b, by, out="u4")
        equal(got, wrapped([x >> k for x, k in zip(both, n)], "u4"))
    expected = []
    for x, s in zip(both, wide(c)):
        value = 0
        for j in range(4):
            octet = x >> 8 * (s >> 4 * j & 7) & 255
            value |= (octet if not s >> 4 * j & 8 else 255 * (octet >> 7)) << 8 * j
        expected.append(value)
    equal(each("prmt.b32 <d>, <a>, <b>, <c>;", a, b, c, out="u4"), wrapped(expected, "u4"))
    octets = [[x >> 8 * k & 255 for k in range(8)] for x in both]
    modes = {
        "f4e": lambda k: [k, k + 1, k + 2, k + 3],
        "b4e": lambda k: [k, k - 1, k - 2, k - 3],
        "rc8": lambda k: [k, k, k, k],
        "rc16": lambda k: [0, 1, 0, 1] if k in (0, 2) else [2, 3, 2, 3],
        "ecl": lambda k: [max(k, j) for j in range(4)],
        "ecr": lambda k: [min(k, j) for j in range(4)],
    }
    for mode, places in modes.items():
        got = each(f"prmt.b32.{mode} <d>, <a>, <b>, <c>;", a, b, c, out="u4")
        expected = [
            sum(o[p % 8] << 8 * j for j, p in enumerate(places(s & 3)))
            for o, s in zip(octets, wide(c))
        ]
        equal(got, wrapped(expected, "u4"))
    for table, fn in (
        (0x80, lambda x, y, z: x & y & z),
        (0x96, lambda x, y, z: x ^ y ^ z),
        (0xCA, lambda x, y, z: (x & y) | (~x & z)),
    ):
        got = each(f"lop3.b32 <d>, <a>, <b>, <c>, {table};", a, b, c, out="u4")
        expected = []
        for x, y, z in zip(*map(wide, (a, b, c))):
            bits = [
                table >> (4 * (x >> k & 1) + 2 * (y >> k & 1) + (z >> k & 1)) & 1 for k in range(32)
            ]
            expected.append(sum(v << k for k, v in enumerate(bits)))
        equal(got, wrapped(expected, "u4"))
        equal(got, wrapped(map(fn, *map(wide, (a, b, c))), "u4"))


def test_rare_integer_instructions():
    a, b, c = integers("u4"), integers("u4"), integers("u4")
    by = RNG.integers(0, 40, len(a)).astype("u4")
    low24 = [x & 0xFFFFFF for x in wide(a)], [x & 0xFFFFFF for x in wide(b)]
    equal(
        each("mul24.lo.u32 <d>, <a>, <b>;", a, b, out="u4"),
        wrapped([x * y for x, y in zip(*low24)], "u4"),
    )
    equal(
        each("mul24.hi.u32 <d>, <a>, <b>;", a, b, out="u4"),
        wrapped([x * y >> 16 for x, y in zip(*low24)], "u4"),
    )
    equal(
        each("mad24.lo.s32 <d>, <a>, <b>, <c>;", a, b, c, out="u4"),
        wrapped([signed(x, 24) * signed(y, 24) + z for x, y, z in zip(*low24, wide(c))], "u4"),
    )
    equal(
        each("szext.wrap.s32 <d>, <a>, <b>;", a, by, out="u4"),
        wrapped([signed(x, n & 31) if n & 31 else 0 for x, n in zip(wide(a), wide(by))], "u4"),
    )
    equal(
        each("szext.clamp.u32 <d>, <a>, <b>;", a, by, out="u4"),
        wrapped([x & ((1 << min(n, 32)) - 1) for x, n in zip(wide(a), wide(by))], "u4"),
    )
    mask = [((1 << min(n, 32)) - 1) << min(p, 32) for p, n in zip(wide(by), wide(by[::-1]))]
    equal(each("bmsk.clamp.b32 <d>, <a>, <b>;", by, by[::-1], out="u4"), wrapped(mask, "u4"))
    octets = [np.ascontiguousarray(x).view("i1").reshape(-1, 4).astype(int) for x in (a, b)]
    expected = (octets[0] * octets[1]).sum(axis=1) + c.view("i4").astype(int)
    equal(
        each("dp4a.s32.s32 <d>, <a>, <b>, <c>;", a, b, c, out="u4"), wrapped(wide(expected), "u4")
    )
    halves = a.view("u2").reshape(-1, 2).astype(int)
    bytes_ = b.view("u1").reshape(-1, 4).astype(int)
    expected = (halves * bytes_[:, 2:]).sum(axis=1) + c.astype(int)
    equal(
        each("dp2a.hi.u32.u32 <d>, <a>, <b>, <c>;", a, b, c, out="u4"),
        wrapped(wide(expected), "u4"),
    )
    m, base, n = (
        np.array([0b101100, 0b101100, 0b101100, 0b101100], "u4"),
        np.array([2, 5, 0, 2], "u4"),
        np.array([2, -3, 0, 0], "i4"),
    )
    got = each("fns.b32 <d>, <a>, <b>, <c>;", m, base, n, out="u4")
    equal(got, wrapped([3, 2, -1, 2], "u4"))


COMPARISONS = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


@pytest.mark.parametrize("name", ["u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "f16"])
def test_comparisons(name):
    floating = name[0] == "f"
    dtype = np.dtype(
        f"{ {'u': 'u', 's': 'i', 'f': 'f'}[name[0]] }{int(name[1:]) // 8}".replace(" ", "")
    )
    make = floats if floating else integers
    a = make(dtype)
    b = np.where(RNG.random(len(a)) < 0.3, a, make(dtype)).astype(dtype)
    nan = np.isnan(a) | np.isnan(b) if floating else np.zeros(len(a), bool)
    for op, fn in COMPARISONS.items():
        expected = fn(a, b) & ~nan
        body = f"setp.{op}.{name} %p1, <a>, <b>; selp.u32 <d>, 1, 0, %p1;"
        equal(each(body, a, b, out="u4"), expected.astype("u4"))
        if floating:
            body = f"setp.{op}u.{name} %p1, <a>, <b>; selp.u32 <d>, 1, 0, %p1;"
            equal(each(body, a, b, out="u4"), (fn(a, b) | nan).astype("u4"))
    if floating:
        for op, expected in (("num", ~nan), ("nan", nan)):
            body = f"setp.{op}.{name} %p1, <a>, <b>; selp.u32 <d>, 1, 0, %p1;"
            equal(each(body, a, b, out="u4"), expected.astype("u4"))
    less = (a < b) & ~nan
    if name == "f16":  # has no second result
        return
    odd = np.arange(len(a)) % 2 == 1
    for op, fn in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        for negated in ("", "!"):
            body = (
                "and.b32 %r20, %r60, 1; setp.ne.u32 %p3, %r20, 0;"
                f"setp.lt.{op}.{name} %p1|%p2, <a>, <b>, {negated}%p3;"
                "selp.u32 <d>, 1, 0, %p1; @%p2 add.u32 <d>, <d>, 2;"
            )
            c = ~odd if negated else odd
            expected = fn(less, c) + 2 * fn(~less, c)
            equal(each(body, a, b, out="u4"), expected.astype("u4"))
    if name in ("u32", "f32", "s32"):
        body = f"set.lt.u32.{name} <d>, <a>, <b>;"
        equal(each(body, a, b, out="u4"), np.where(less, 0xFFFFFFFF, 0).astype("u4"))
        body = f"set.lt.f32.{name} <d>, <a>, <b>;"
        equal(each(body, a, b, out="f4"), less.astype("f4"))
    if name in ("f32", "s32"):
        c = integers("u4", len(a))
        body = f"slct.u32.{name} <d>, <b>, <c>, <a>;"
        equal(each(body, a, c, c[::-1], out="u4"), np.where(a >= 0, c, c[::-1]))


def test_operations_of_predicates():
    x = np.arange(8, dtype="u4")
    for op, fn in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        body = (
            "and.b32 %r20, <a>, 1; setp.ne.u32 %p1, %r20, 0; and.b32 %r20, <a>, 2;"
            f"setp.ne.u32 %p2, %r20, 0; {op}.pred %p3, %p1, %p2; not.pred %p4, %p3;"
            "mov.pred %p5, %p4; selp.u32 <d>, 5, 6, !%p5;"
        )
        p, q = x & 1 != 0, x & 2 != 0
        equal(each(body, x, out="u4"), np.where(fn(p, q), 5, 6).astype("u4"))


# Floating-point arithmetic

KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": BF16}


def bits_of(x):
    return x.view("u2") if x.dtype == BF16 else x


def float_each(body, *arrays, out):
    got = each(body, *map(bits_of, arrays), out="u2" if out == BF16 else out)
    return got.view(BF16) if out == BF16 else got


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
