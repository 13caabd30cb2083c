"""Each operation of scalar expressions, for every dtype and number of lanes, against NumPy."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from functrax.backends.llvm import instructions
from functrax.backends.llvm.functions.exact import definitions
from functrax.backends.llvm.instructions import OPERATIONS
from functrax.backends.llvm.templates import constant, llvm_type
from functrax.core.errors.typed import DTypeError
from functrax.core.prims.fma_values import fma as rounded_once
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes
from tests.backends.llvm.scalar_kernels import (
    Kernel,
    compile_scalars,
    load,
    module_text,
    write_for,
)

LANES = (1, 8, 16)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SIGNED = [np.dtype(f"int{n}") for n in (8, 16, 32, 64)]
UNSIGNED = [np.dtype(f"uint{n}") for n in (8, 16, 32, 64)]
INTEGERS = SIGNED + UNSIGNED
WIDE = [np.dtype(np.float32), np.dtype(np.float64)]
FLOATS = [*WIDE, np.dtype(np.float16), BFLOAT16]
BOOL = np.dtype(np.bool_)


@pytest.fixture(autouse=True)
def quiet_numpy() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def _values(dtype: np.dtype[Any]) -> Any:
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        numbers = {info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, 7, 100, 113}
        if dtype.kind == "i":
            numbers |= {-1, -2, -7, -100}
        return np.array(sorted(numbers), dtype)
    info = ml_dtypes.finfo(dtype)
    tiny, least, top = (float(v) for v in (info.smallest_subnormal, info.tiny, info.max))
    numbers = [0.0, tiny, 3 * tiny, least, 0.5, 1.0, 1.5, 2.5, 3.0, 7.25, 100.0, 1e4, top, np.inf]
    return np.array([*numbers, *(-v for v in numbers), np.nan]).astype(dtype)


def _pairs(dtype: np.dtype[Any]) -> list[Any]:
    values = _values(dtype)
    return list(np.array(list(itertools.product(values, values)), dtype).T.copy())


def _same(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


def _in_c(op: str, x: Any, y: Any) -> Any:
    """As C divides integers, by Python's; wrapped."""
    modulus = 2 ** (8 * x.dtype.itemsize)
    results = []
    for a, b in zip(x.tolist(), y.tolist()):
        quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
        results.append((quotient if op == "div" else a - quotient * b) % modulus)
    return np.array(results, np.uint64).astype(x.dtype)


OF_TWO = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "copysign": np.copysign,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max"])
def test_arithmetic(op: str, lanes: int) -> None:
    for dtype in INTEGERS + FLOATS:
        x, y = _pairs(dtype)
        both_zero = (x == 0) & (y == 0) & (op in ("min", "max"))
        kernel = compile_scalars(getattr(Builder, op), [dtype, dtype], lanes)
        want = OF_TWO[op](x, y)
        _same(kernel(x, y)[~both_zero], want.astype(dtype)[~both_zero])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("op", ["div", "rem"])
def test_quotients(op: str, lanes: int) -> None:
    for dtype in INTEGERS + FLOATS:
        x, y = _pairs(dtype)
        kernel = compile_scalars(getattr(Builder, op), [dtype, dtype], lanes)
        if dtype in FLOATS:
            want = np.divide(x, y) if op == "div" else np.fmod(x, y)
            _same(kernel(x, y), want)
        else:
            allowed = (y != 0) & (y != -1)
            x, y = x[allowed], y[allowed]
            _same(kernel(x, y), _in_c(op, x, y))


@pytest.mark.parametrize("cpu", ["", "x86-64-v2"])
@pytest.mark.parametrize("dtype", WIDE)
def test_remainders_of_all_sizes(
    dtype: np.dtype[Any], cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cpu:
        write_for(cpu, monkeypatch)
    rng = np.random.default_rng(0)
    words = f"uint{8 * dtype.itemsize}"
    x, y = (
        rng.integers(0, np.iinfo(words).max, 20_000, words, endpoint=True).view(dtype)
        for _ in range(2)
    )
    x[:5000] = y[:5000] * rng.integers(1, 1000, 5000).astype(dtype)
    want = np.fmod(x, y)
    for lanes in LANES:
        _same(compile_scalars(Builder.rem, [dtype, dtype], lanes)(x, y), want)


def test_long_division_of_integers() -> None:
    rng = np.random.default_rng(1)
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, 4096, dtype, endpoint=True)
        y = rng.integers(1, info.max, 4096, dtype, endpoint=True) >> rng.integers(
            0, 8 * dtype.itemsize - 1, 4096
        ).astype(dtype)
        y[y == 0] = 1
        x[:1000] = (x[:1000] // y[:1000]) * y[:1000]
        for op in ("div", "rem"):
            _same(compile_scalars(getattr(Builder, op), [dtype] * 2, 16)(x, y), _in_c(op, x, y))


@pytest.mark.parametrize("lanes", LANES)
def test_of_one_float(lanes: int) -> None:
    for dtype in FLOATS:
        x = _values(dtype)
        for op, numpy in [
            ("sqrt", np.sqrt),
            ("floor", np.floor),
            ("ceil", np.ceil),
            ("trunc", np.trunc),
            ("round_even", np.rint),
            ("abs", np.abs),
            ("neg", np.negative),
        ]:
            kernel = compile_scalars(getattr(Builder, op), [dtype], lanes)
            _same(kernel(x), numpy(x).astype(dtype))


@pytest.mark.parametrize("lanes", LANES)
def test_fma_and_copysign(lanes: int) -> None:
    for dtype in FLOATS:
        x, y = _pairs(dtype)
        _same(compile_scalars(Builder.copysign, [dtype] * 2, lanes)(x, y), np.copysign(x, y))
    fma = compile_scalars(Builder.fma, [np.float64] * 3, lanes)
    e = 2.0**-30
    assert fma([1 + e], [1 - e], [-1.0])[0] == -(e * e)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_of_processors_without_one(
    dtype: Any, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rounded once, of numbers of all sizes, of zeros, infinities and NaN."""
    write_for("x86-64-v2", monkeypatch)
    kernel = compile_scalars(Builder.fma, [dtype] * 3, lanes)
    random = np.random.default_rng(0)
    info, n = np.finfo(dtype), 1000
    words = f"u{info.dtype.itemsize}"
    anything = [random.integers(0, 2**64, n, np.uint64).astype(words).view(dtype) for _ in "xyz"]
    x, y, z = (random.normal(size=n).astype(dtype) for _ in "xyz")
    edges = [0, -0.0, 1, -1, np.inf, np.nan, info.max, info.tiny, -info.smallest_subnormal]
    some = [v.ravel() for v in np.meshgrid(*[np.array(edges, dtype)] * 3)]
    exponents = random.integers(info.minexp - 60, info.maxexp, (2, n))
    with np.errstate(all="ignore"):
        far_x, far_y = (np.ldexp(v, e) for v, e in zip((x, y), exponents, strict=True))
        apart = random.integers(-125, 125, n) + exponents.sum(0)
        far_z = np.ldexp(z, np.clip(apart, info.minexp - 60, info.maxexp - 2))
        cancelled = np.nextafter(-(far_x * far_y), dtype(0))
    cases = [anything, some, (x, y, z), (x, y, -(x * y)), (far_x, far_y, far_z)]
    for operands in [*cases, (far_x, far_y, cancelled)]:
        got, want = kernel(*operands), rounded_once(*operands)
        missing = np.isnan(want)
        np.testing.assert_array_equal(np.isnan(got), missing)
        np.testing.assert_array_equal(got[~missing].view(words), want[~missing].view(words))


@pytest.mark.parametrize("lanes", LANES)
def test_of_one_integer(lanes: int) -> None:
    for dtype in INTEGERS:
        x = _values(dtype)
        bits = 8 * dtype.itemsize
        whole = [v % 2**bits for v in x.tolist()]
        for op, want in [
            ("popcount", [v.bit_count() for v in whole]),
            ("clz", [bits - v.bit_length() for v in whole]),
            ("not", np.invert(x)),
        ]:
            kernel = compile_scalars(lambda b, v, op=op: b.logic(op, v), [dtype], lanes)
            _same(kernel(x), np.asarray(want).astype(dtype))
        _same(compile_scalars(Builder.neg, [dtype], lanes)(x), np.negative(x))
        _same(compile_scalars(Builder.abs, [dtype], lanes)(x), np.abs(x))


@pytest.mark.parametrize("lanes", LANES)
def test_logic(lanes: int) -> None:
    for dtype in [*INTEGERS, BOOL]:
        x, y = _pairs(dtype)
        for op in ("and", "or", "xor"):
            kernel = compile_scalars(lambda b, v, w, op=op: b.logic(op, v, w), [dtype] * 2, lanes)
            _same(kernel(x, y), OF_TWO[op](x, y))
    which = np.array([False, True])
    _same(compile_scalars(lambda b, v: b.logic("not", v), [BOOL], lanes)(which), ~which)
    x, y = _pairs(BOOL)
    _same(compile_scalars(Builder.min, [BOOL] * 2, lanes)(x, y), x & y)
    _same(compile_scalars(Builder.max, [BOOL] * 2, lanes)(x, y), x | y)


@pytest.mark.parametrize("lanes", LANES)
def test_shifts(lanes: int) -> None:
    for dtype in INTEGERS:
        values = _values(dtype)
        counts = np.arange(8 * dtype.itemsize)
        x, n = (a.ravel().astype(dtype) for a in np.meshgrid(values, counts))
        for op, numpy in (("shl", np.left_shift), ("shr", np.right_shift)):
            kernel = compile_scalars(lambda b, v, w, op=op: b.logic(op, v, w), [dtype] * 2, lanes)
            _same(kernel(x, n), numpy(x, n))


@pytest.mark.parametrize("lanes", LANES)
def test_comparisons(lanes: int) -> None:
    compare = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    for dtype in [*INTEGERS, *FLOATS, BOOL]:
        x, y = _pairs(dtype)
        builder = Builder()
        operands = load(builder, dtype, 0), load(builder, dtype, 1)
        outs = [builder.compare(kind, *operands) for kind in compare]
        for got, numpy in zip(Kernel(outs, [dtype] * 2, lanes)(x, y), compare.values()):
            _same(got, numpy(x, y))


@pytest.mark.parametrize("lanes", LANES)
def test_select(lanes: int) -> None:
    for dtype in [*INTEGERS, *FLOATS, BOOL]:
        x, y = _pairs(dtype)
        which = np.arange(x.size) % 3 == 0
        kernel = compile_scalars(Builder.select, [BOOL, dtype, dtype], lanes)
        _same(kernel(which, x, y), np.where(which, x, y))


def _converted(x: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu" and x.dtype in FLOATS:
        info = np.iinfo(dtype)
        whole = [0 if v != v else v for v in x.astype(np.float64).tolist()]
        return (
            np.array(
                [
                    int(min(max(v, float(info.min)), float(info.max)))
                    if abs(v) < 2**70
                    else (info.min if v < 0 else info.max)
                    for v in whole
                ],
                object,
            )
            .clip(info.min, info.max)
            .astype(dtype)
        )
    return x.astype(dtype)


@pytest.mark.parametrize("lanes", LANES)
def test_conversions(lanes: int) -> None:
    every = [*INTEGERS, *FLOATS, BOOL]
    for source in every:
        x = _values(source)
        builder = Builder()
        operand = load(builder, source)
        targets = [d for d in every if d not in (source, BOOL)]
        outs = [builder.convert(operand, d) for d in targets]
        for got, dtype in zip(Kernel(outs, [source], lanes)(x), targets):
            _same(got, _converted(x, dtype))


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16])
@pytest.mark.parametrize("source", WIDE)
def test_rounding_to_sixteen_bits(source: np.dtype[Any], dtype: np.dtype[Any]) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    x = every.astype(source)
    x = x[np.isfinite(x)]
    halves = (x[1:] + x[:-1]) / 2
    x = np.concatenate([x, halves, np.nextafter(halves, 0), np.nextafter(halves, np.inf)])
    kernel = compile_scalars(lambda b, v: b.convert(v, dtype), [source])
    _same(kernel(x), x.astype(dtype))
    back = compile_scalars(lambda b, v: b.convert(v, source), [dtype])
    _same(back(every), every.astype(source))


@pytest.mark.parametrize("lanes", LANES)
def test_bitcasts(lanes: int) -> None:
    for source, target in [
        (np.float32, np.int32),
        (np.uint32, np.float32),
        (np.float64, np.uint64),
        (np.int32, np.uint32),
        (np.float16, np.int16),
        (np.uint16, BFLOAT16),
    ]:
        x = _values(np.dtype(source))
        kernel = compile_scalars(lambda b, v, t=target: b.bitcast(v, np.dtype(t)), [source], lanes)
        assert kernel(x).tobytes() == x.tobytes()


@pytest.mark.parametrize("lanes", LANES)
def test_constants(lanes: int) -> None:
    for dtype in [*INTEGERS, *FLOATS, BOOL]:
        builder = Builder()
        values = _values(dtype)
        outs = [builder.const(v, dtype) for v in values]
        got = np.concatenate([g[:1] for g in Kernel(outs, [dtype], lanes)(values[:1])])
        _same(got, values)


def test_products_and_sums_stay_apart() -> None:
    """They are one operation only where the program says so, as ``fma``."""
    e = 2.0**-30
    operands = ([1 + e], [1 - e], [-1.0])

    def expression(b: Builder, x: Any, y: Any, z: Any) -> Any:
        return b.add(b.mul(x, y), z)

    assert compile_scalars(expression, [np.float64] * 3)(*operands)[0] == 0
    fused = compile_scalars(lambda b, *xyz: b.fma(*xyz), [np.float64] * 3)
    assert fused(*operands)[0] == -(e * e)


def test_every_operation_is_tested_for_what_the_builder_makes() -> None:
    of_builder = {"add", "sub", "mul", "neg", "min", "max", "div", "rem", "fma"}
    of_builder |= {"sqrt", "floor", "ceil", "trunc", "round_even", "abs", "copysign"}
    of_builder |= {"and", "or", "xor", "not", "shl", "shr", "popcount", "clz"}
    of_builder |= {"eq", "ne", "lt", "le", "gt", "ge", "select", "convert", "bitcast"}
    of_functions = {"ldexp", "unlikely"}  # which is a select, where it cannot branch
    of_complex = {"real", "imag", "complex"}  # test_complex_kernels.py
    of_gpus = {f"{name}_near" for name in ("exp2", "log2", "reciprocal", "rsqrt")}
    assert of_builder | of_functions | of_complex | of_gpus == OPERATIONS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("cpu", ["", "x86-64-v2"])
def test_products_with_powers_of_two_are_rounded_once(
    dtype: Any, lanes: int, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To subnormal numbers, 0 and infinity, too; by an instruction, or by two products."""
    if cpu:
        write_for(cpu, monkeypatch)
    random = np.random.default_rng(0)
    single = dtype == np.float32
    low, high, integer = (-160, 140, np.int32) if single else (-1100, 1060, np.int64)
    n = random.integers(low, high, 4000).astype(integer)
    x = random.uniform(0.5, 2, 4000).astype(dtype) * random.choice([-1, 1], 4000).astype(dtype)
    x[:4] = [0, -0.0, np.nan, np.inf]
    n[:4] = [
        low,
        low,
        np.iinfo(integer).min // 2,
        high,
    ]  # where NaN comes in, the power is anything

    def scaled(b: Builder, p: Scalar, k: Scalar) -> Scalar:
        return b.node("ldexp", p.dtype, (p, k))

    got = compile_scalars(scaled, [dtype, integer], lanes)(x, n)
    with np.errstate(all="ignore"):
        want = np.ldexp(x.astype(np.float64), n).astype(dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v4"])
def test_what_underflows_is_zero_before_it_is_scaled(
    cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product that underflows takes a processor a hundred cycles; one with zero takes four."""
    write_for(cpu, monkeypatch)
    b = Builder()
    x, n = load(b, np.float32), load(b, np.int32, 1)
    text = module_text([b.node("ldexp", x.dtype, (x, n))], 1, 16)
    (name,) = re.findall(r"(%t\d+) = select", text)
    (use,) = [line for line in text.splitlines() if name + "," in line and "select" not in line]
    assert "@llvm.ldexp" in use or "fmul" in use


@pytest.mark.parametrize(
    ("triple", "cpu"),
    [
        ("x86_64-unknown-linux-gnu", "x86-64-v2"),
        ("x86_64-unknown-linux-gnu", "x86-64-v3"),
        ("x86_64-unknown-linux-gnu", "x86-64-v4"),
        ("aarch64-unknown-linux-gnu", "neoverse-n1"),
    ],
)
def test_no_operation_calls_a_library(
    triple: str, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_for(cpu, monkeypatch)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=cpu, opt=1, codemodel="small")
    every = [*INTEGERS, *FLOATS, BOOL]
    if not instructions.target().has_halves:  # kernels there have no float16
        every = [d for d in every if d != np.float16]
    for source in every:
        builder = Builder()
        x = load(builder, source)
        outs = [builder.convert(x, d) for d in every if d not in (source, BOOL)]
        if source in FLOATS:
            outs += [getattr(builder, op)(x) for op in ("sqrt", "floor", "ceil", "trunc")]
            outs += [builder.round_even(x), builder.fma(x, x, x), builder.max(x, x)]
        elif source in INTEGERS:
            outs += [builder.logic("popcount", x), builder.logic("clz", x), builder.div(x, x)]
        for lanes in (1, 16):
            module = llvm.parse_assembly(module_text(outs, 1, lanes))
            module.triple, module.data_layout = triple, str(machine.target_data)
            assembly = machine.emit_assembly(module)
            called = re.findall(r"\n\s+(?:callq?|blr?)\s+(\S+)", assembly)
            assert [name for name in called if "functrax." not in name] == [], source


def test_text() -> None:
    builder = Builder()
    x = load(builder, np.float32)
    text = module_text([builder.add(x, builder.like(x, 1.5))], 1, 16)
    assert "fadd <16 x float> %t1, splat (float 0x3FF8000000000000)" in text
    assert definitions(text) == ""
    assert llvm_type(np.dtype(np.float16), 8) == "<8 x i16>"
    assert constant(np.float64("nan"), np.dtype(np.float64), 1) == "0x7FF8000000000000"
    assert llvm_type(np.dtype(np.complex64), 4) == "<8 x float>"
    with pytest.raises(DTypeError, match="float0"):
        llvm_type(dtypes.float0, 4)


@pytest.mark.parametrize("seed", range(4))
def test_divisions_of_short_integers_do_not_depend_on_the_order_of_sets(seed: int) -> None:
    """A constant of the register i16 is an integer, though halves live in such registers."""
    lines = [
        "import numpy as np, functrax; from functrax import lax",
        "f = functrax.jit(lambda a: (lax.rem(a, a), lax.div(a, a)))",
        "assert [int(x) for x in f(np.int16(5))] == [0, 1]",
    ]
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "FUNCTRAX_CACHE": "0"}
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, env=env)
