"""Operations of LLVM, lowered to PTX for two chips and run: the values are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.cuda.numbers_of_types import equal, floats, integers
from tests.backends.cuda.simulated import compiled, run

NAMES = {
    "i8": "i1",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
    "half": "f2",
    "float": "f4",
    "double": "f8",
}


def kernel(kind, body, declare="", result=None):
    """A kernel that computes ``%d`` of ``%a`` and ``%b``, an element a thread."""
    result = result or kind
    return f"""
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
{declare}
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %z, ptr addrspace(1) %y) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr {kind}, ptr addrspace(1) %x, i32 %t
  %pz = getelementptr {kind}, ptr addrspace(1) %z, i32 %t
  %py = getelementptr {result}, ptr addrspace(1) %y, i32 %t
  %a = load {kind}, ptr addrspace(1) %px
  %b = load {kind}, ptr addrspace(1) %pz
{body}
  store {result} %d, ptr addrspace(1) %py
  ret void
}}
"""


def call(name, kind, short, arguments="%a, %b"):
    count = len(arguments.split(","))
    typed = ", ".join(
        a.strip() if a.strip().startswith("i1 ") else f"{kind} {a.strip()}"
        for a in arguments.split(",")
    )
    types = ", ".join("i1" if a.strip().startswith("i1 ") else kind for a in arguments.split(","))
    assert count
    body = f"  %d = call {kind} @llvm.{name}.{short}({typed})"
    return body, f"declare {kind} @llvm.{name}.{short}({types})"


def saturated(fn, unsigned):
    def compute(a, b):
        dtype = np.dtype(f"{'u' if unsigned else 'i'}{a.itemsize}")
        info = np.iinfo(dtype)
        rows = zip(a.view(dtype).tolist(), b.view(dtype).tolist())
        return np.array([min(max(fn(x, y), info.min), info.max) for x, y in rows], dtype)

    return compute


def rotated(a, b):
    bits = a.itemsize * 8
    mask = (1 << bits) - 1
    rows = zip(a.tolist(), b.tolist())
    found = [((x & mask) << (y % bits) | (x & mask) >> (bits - y % bits)) & mask for x, y in rows]
    return np.array(found, f"u{a.itemsize}")


def product(a, b):
    """The product, or b where it overflows."""
    info = np.iinfo(a.dtype)
    rows = zip(a.tolist(), b.tolist())
    return np.array([x * y if info.min <= x * y <= info.max else y for x, y in rows], a.dtype)


def wide_product(a, b):
    """The upper 64 bits of the product of two numbers of 64 bits."""
    return np.array([x * y >> 64 for x, y in zip(a.tolist(), b.tolist())], "i8")


def of_integers(kind):
    safe = "  %o = or {k} %b, 1\n".replace("{k}", kind)
    unsigned = f"u{NAMES[kind][1]}"
    bits = int(kind[1:])
    by = f"  %s = and {kind} %b, {bits - 1}\n"
    return {
        "add": ("  %d = add {k} %a, %b", "", np.add),
        "udiv": (
            safe + "  %d = udiv {k} %a, %o",
            "",
            lambda a, b: a.view(unsigned) // (b | 1).view(unsigned),
        ),
        "urem": (
            safe + "  %d = urem {k} %a, %o",
            "",
            lambda a, b: a.view(unsigned) % (b | 1).view(unsigned),
        ),
        "srem": (safe + "  %d = srem {k} %a, %o", "", lambda a, b: np.fmod(a, b | 1)),
        "shl": (by + "  %d = shl {k} %a, %s", "", lambda a, b: a << (b & (bits - 1))),
        "ashr": (by + "  %d = ashr {k} %a, %s", "", lambda a, b: a >> (b & (bits - 1))),
        "lshr": (
            by + "  %d = lshr {k} %a, %s",
            "",
            lambda a, b: a.view(unsigned) >> (b & (bits - 1)).view(unsigned),
        ),
        "umin": (
            *call("umin", kind, kind),
            lambda a, b: np.minimum(a.view(unsigned), b.view(unsigned)),
        ),
        "smax": (*call("smax", kind, kind), np.maximum),
        "ctpop": (
            *call("ctpop", kind, kind, "%a"),
            lambda a, b: np.bitwise_count(a.view(unsigned)),
        ),
        "fshl": (*call("fshl", kind, kind, "%a, %a, %b"), rotated),
        "sadd.sat": (*call("sadd.sat", kind, kind), saturated(lambda x, y: x + y, False)),
        "usub.sat": (*call("usub.sat", kind, kind), saturated(lambda x, y: x - y, True)),
        "smul.with.overflow": (
            "  %m = call {{k}, i1} @llvm.smul.with.overflow.{k}({k} %a, {k} %b)\n"
            "  %v = extractvalue {{k}, i1} %m, 0\n  %o = extractvalue {{k}, i1} %m, 1\n"
            "  %d = select i1 %o, {k} %b, {k} %v",
            "declare {{k}, i1} @llvm.smul.with.overflow.{k}({k}, {k})",
            product,
        ),
        "ult": (
            "  %c = icmp ult {k} %a, %b\n  %d = zext i1 %c to {k}",
            "",
            lambda a, b: a.view(unsigned) < b.view(unsigned),
        ),
        "bitreverse": (*call("bitreverse", kind, kind, "%a"), reversed_bits),
    }


def reversed_bits(a, b):
    bits = a.itemsize * 8
    mask = (1 << bits) - 1
    return np.array([int(f"{x & mask:0{bits}b}"[::-1], 2) for x in a.tolist()], f"u{a.itemsize}")


@pytest.mark.parametrize("cpu", ["sm_75", "sm_90"])
@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_integers(kind, cpu):
    dtype = np.dtype(NAMES[kind])
    a, b = integers(dtype, 256), integers(dtype, 256)
    for name, (body, declare, fn) in of_integers(kind).items():
        text = compiled(kernel(kind, body.replace("{k}", kind), declare.replace("{k}", kind)), cpu)
        (_, _, y), _ = run(text, a, b, (256, dtype), block=256)
        with np.errstate(all="ignore"):
            expected = np.asarray(fn(a, b)).astype(dtype)
        np.testing.assert_array_equal(y, expected, err_msg=name)


@pytest.mark.parametrize("cpu", ["sm_75", "sm_90"])
def test_products_of_128_bits(cpu):
    a, b = integers("i8", 256), integers("i8", 256)
    body = (
        "  %p = sext i64 %a to i128\n  %q = sext i64 %b to i128\n  %m = mul i128 %p, %q\n"
        "  %h = lshr i128 %m, 64\n  %d = trunc i128 %h to i64"
    )
    (_, _, y), _ = run(compiled(kernel("i64", body), cpu), a, b, (256, "i8"), block=256)
    np.testing.assert_array_equal(y, wide_product(a, b))


def of_floats(kind):
    short = {"half": "f16", "float": "f32", "double": "f64"}[kind]
    table = {
        "fadd": ("  %d = fadd {k} %a, %b", "", np.add),
        "fsub": ("  %d = fsub {k} %a, %b", "", np.subtract),
        "fmul": ("  %d = fmul {k} %a, %b", "", np.multiply),
        "fdiv": ("  %d = fdiv {k} %a, %b", "", np.divide),
        "fneg": ("  %d = fneg {k} %a", "", lambda a, b: -a),
        "fabs": (*call("fabs", kind, short, "%a"), lambda a, b: np.abs(a)),
        "copysign": (*call("copysign", kind, short), np.copysign),
        "rint": (*call("rint", kind, short, "%a"), lambda a, b: np.rint(a)),
        "floor": (*call("floor", kind, short, "%a"), lambda a, b: np.floor(a)),
        "trunc": (*call("trunc", kind, short, "%a"), lambda a, b: np.trunc(a)),
        "maximum": (*call("maximum", kind, short), np.maximum),
        "minnum": (*call("minnum", kind, short), np.fmin),
        "select": (
            "  %c = fcmp olt {k} %a, %b\n  %d = select i1 %c, {k} %b, {k} %a",
            "",
            lambda a, b: np.where(a < b, b, a),
        ),
    }
    if kind != "half":
        table["sqrt"] = (*call("sqrt", kind, short, "%a"), lambda a, b: np.sqrt(a))
    return table


@pytest.mark.parametrize("cpu", ["sm_75", "sm_90"])
@pytest.mark.parametrize("kind", ["half", "float", "double"])
def test_floats(kind, cpu):
    dtype = np.dtype(NAMES[kind])
    a, b = floats(dtype, 256), floats(dtype, 256)
    with np.errstate(all="ignore"):
        for name, (body, declare, fn) in of_floats(kind).items():
            text = compiled(kernel(kind, body.replace("{k}", kind), declare), cpu)
            (_, _, y), _ = run(text, a, b, (256, dtype), block=256)
            expected = fn(a, b).astype(dtype)
            if name in ("maximum", "minnum"):  # of zeros NumPy returns either
                y, expected = y + dtype.type(0), expected + dtype.type(0)
            equal(y, expected)


@pytest.mark.parametrize("of", ["half", "float", "double"])
@pytest.mark.parametrize("to", ["i8", "i32", "i64"])
def test_conversions(of, to):
    dtype, target = np.dtype(NAMES[of]), np.dtype(NAMES[to])
    x = floats(dtype, 256)
    short = {"half": "f16", "float": "f32", "double": "f64"}[of]
    body = f"  %d = call {to} @llvm.fptosi.sat.{to}.{short}({of} %a)"
    declare = f"declare {to} @llvm.fptosi.sat.{to}.{short}({of})"
    (_, _, y), _ = run(
        compiled(kernel(of, body, declare, to), "sm_80"), x, x, (256, target), block=256
    )
    info = np.iinfo(target)
    wide = [0 if np.isnan(v) else v for v in x.astype(float).tolist()]
    expected = [int(min(max(v, -1e300), 1e300)) for v in wide]
    expected = np.array([min(max(v, int(info.min)), int(info.max)) for v in expected], target)
    np.testing.assert_array_equal(y, expected)
    n = integers(target, 256)
    body = f"  %d = uitofp {to} %a to {of}"
    (_, _, y), _ = run(compiled(kernel(to, body, "", of), "sm_80"), n, n, (256, dtype), block=256)
    with np.errstate(over="ignore"):
        equal(y, n.view(f"u{target.itemsize}").astype(dtype))


def test_approximate_functions():
    x = np.random.default_rng(0).uniform(0.1, 8, 256).astype("f4")
    for name, fn in (("sin", np.sin), ("cos", np.cos), ("lg2", np.log2), ("ex2", np.exp2)):
        declare = f"declare float @llvm.nvvm.{name}.approx.f(float)"
        body = f"  %d = call float @llvm.nvvm.{name}.approx.f(float %a)"
        text = compiled(kernel("float", body, declare), "sm_80")
        (_, _, y), _ = run(text, x, x, (256, "f4"), block=256)
        np.testing.assert_allclose(y, fn(x.astype(float)), rtol=2e-7, atol=6e-7)
