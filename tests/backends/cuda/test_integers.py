"""Instructions of integers and bits, comparisons, and predicates, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.cuda.numbers_of_types import (
    RNG,
    equal,
    floats,
    integers,
    wide,
    wrapped,
)
from tests.backends.cuda.simulated import each


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
