"""PTX ISA 9.7.3 to 9.7.5: floating-point instructions, of half and of mixed precision too.

Results are rounded as the manual says.  Where it gives a bound of the error (.approx, .full), they
are computed in f64 and rounded to the nearest, which is within every bound.  A NaN that arithmetic
gives is the canonical one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder, opcode
from functrax.backends.cuda.simulator.instructions.rounding import (
    F16,
    F32,
    F64,
    U16,
    U32,
    canonical,
    exact_operation,
    flush,
    fma_f32,
    fma_f64,
    fma_small,
    held,
    round_bf16,
    round_odd_f32,
    values,
    widen_bf16,
)
from functrax.backends.cuda.simulator.syntax import TYPES, Array, Instruction, Type

PtxFunction: TypeAlias = Callable[..., Any]

_MODES: Final = ("rn", "rz", "rm", "rp")
_FLOATING: Final = ("f", "bf", "f16x2", "bf16x2", "f32x2")
_ARITHMETIC: Final[dict[str, PtxFunction]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}


def float_operation(d: Decoder, i: Instruction, kind: Type) -> bool:
    """Decodes an operation that integers have too, if its type is floating-point."""
    if kind.kind not in _FLOATING:
        return False
    name = i.parts[0]
    if name in ("abs", "neg"):
        _signs(d, kind, name)
    elif name in ("min", "max"):
        _extreme(d, kind, name)
    elif name == "div":
        _divide(d, kind)
    else:
        _arithmetic(d, kind, name)
    return True


# Packed and bf16 values


#: The dtypes of packed types' elements.
_ELEMENTS: Final = {
    "f16x2": F16,
    "bf16x2": U16,
    "f32x2": F32,
    "s16x2": np.dtype("i2"),
    "u16x2": U16,
}


def on_elements(kind: Type, fn: PtxFunction) -> PtxFunction:
    """A function of values of a type's elements as one of what registers hold."""
    dtype = _ELEMENTS.get(kind.name)
    if dtype is None:
        return fn

    def packed(*operands: Array) -> Array:
        if len({len(x) for x in operands}) > 1:
            operands = np.broadcast_arrays(*operands)
        result: Array = fn(*(np.ascontiguousarray(x).view(dtype) for x in operands))
        return result.view(kind.dtype)

    return packed


def element(kind: Type) -> str:
    """The format of a type's elements."""
    return kind.name.removesuffix("x2")


def _zero_nan(x: Array) -> Array:
    return np.where(np.isnan(x), x.dtype.type(0), x)


def _saturated(fn: PtxFunction) -> PtxFunction:
    """.sat: within 0 and 1, and 0 for NaN."""
    return lambda *x: np.clip(_zero_nan(fn(*x)), 0, 1).astype(F32)


def _with_flush(fn: PtxFunction) -> PtxFunction:
    return lambda *x: flush(fn(*(flush(v) for v in x)))


def _nearest(name: str, form: str) -> PtxFunction:
    """An operation rounded to the nearest."""
    if name in ("fma", "mad"):
        return {
            "f16": lambda x, y, z: canonical(fma_small(x, y, z).astype(F16)),
            "bf16": lambda x, y, z: round_bf16(
                round_odd_f32(fma_small(widen_bf16(x), widen_bf16(y), widen_bf16(z)))
            ),
            "f32": lambda x, y, z: canonical(fma_f32(x, y, z)),
            "f64": lambda x, y, z: canonical(fma_f64(x, y, z)),
        }[form]
    ufunc = _ARITHMETIC[name]
    if form == "bf16":
        return lambda *x: round_bf16(ufunc(*(widen_bf16(v) for v in x)))
    return lambda *x: canonical(ufunc(*x))


def _operation(d: Decoder, kind: Type, name: str, modifiers: set[str]) -> PtxFunction:
    """An operation with its rounding, flushing and saturation."""
    form = element(kind)
    modes = modifiers.intersection(_MODES)
    mode = modes.pop() if modes else "rn"
    if mode == "rn":
        fn = _nearest(name, form)
    else:
        exact = "fma" if name == "mad" else name
        fn = _exactly(exact, form, mode)
    if "ftz" in modifiers and form == "f32":
        fn = _with_flush(fn)
    elif "ftz" in modifiers and form == "f16":
        fn = _with_flush_f16(fn)
    if "sat" in modifiers:
        fn = _saturated(fn) if form == "f32" else _saturated_f16(fn)
    if "relu" in modifiers:
        fn = _relu(fn, form)
    return fn


def _exactly(name: str, form: str, mode: str) -> PtxFunction:
    return lambda *x: held(exact_operation(name, form, mode, *(values(v, form) for v in x)), form)


def _with_flush_f16(fn: PtxFunction) -> PtxFunction:
    def small(x: Array) -> Array:
        return np.where(np.abs(x) < np.float16(6.1035e-05), np.copysign(F16.type(0), x), x)

    return lambda *x: small(fn(*(small(v) for v in x)))


def _saturated_f16(fn: PtxFunction) -> PtxFunction:
    return lambda *x: np.clip(_zero_nan(fn(*x)), F16.type(0), F16.type(1))


def _relu(fn: PtxFunction, form: str) -> PtxFunction:
    """.relu: at least 0; NaN stays."""

    def relu(*x: Array) -> Array:
        y = fn(*x)
        if form == "bf16":
            negative = (y & np.uint16(0x8000) != 0) & (y & np.uint16(0x7FFF) <= np.uint16(0x7F80))
            return np.where(negative, np.uint16(0), y)
        result: Array = np.where(y < 0, y.dtype.type(0), y)
        return result

    return relu


def _arithmetic(d: Decoder, kind: Type, name: str) -> None:
    """add, sub, mul: rounded once; fma, mad: d = a · b + c, rounded once."""
    if d.instruction.parts[-2] == "f32" and kind.name in ("f16", "bf16"):
        _mixed(d, kind, name)
        return
    modifiers = d.only(*_MODES, "ftz", "sat", "relu", "noftz")
    fn = on_elements(kind, _operation(d, kind, name, modifiers))
    d.simple(fn, kind, *[kind] * (3 if name in ("fma", "mad") else 2))


def _mixed(d: Decoder, kind: Type, name: str) -> None:
    """PTX ISA 9.7.5, Mixed Precision: the last operand and the result are of f32."""
    single = TYPES["f32"]
    fn = _operation(d, single, name, d.only(*_MODES, "sat", types=2))

    def mixed(*x: Array) -> Array:
        narrow = (values(v, kind.name).astype(F32) for v in x[:-1])
        result: Array = fn(*narrow, x[-1])
        return result

    d.simple(mixed, single, *[kind] * (2 if name == "fma" else 1), single)


@opcode("fma")
def _fma(d: Decoder, i: Instruction) -> None:
    kind = d.type()
    if kind.kind not in _FLOATING:
        raise d.error(f"fma of .{kind.name}")
    _arithmetic(d, kind, "fma")


def _divide(d: Decoder, kind: Type) -> None:
    """div: .rn and others rounded; .full within 2 ulp; .approx 0 for divisors above 2**126."""
    modifiers = d.only(*_MODES, "ftz", "full", "approx")
    if kind.kind != "f" or kind.bits == 16:
        raise d.error(f"div of .{kind.name}")
    if "approx" in modifiers:
        fn = _approximate_quotient
    else:
        fn = _operation(d, kind, "div", modifiers - {"ftz"})
    if "ftz" in modifiers:
        fn = _with_flush(fn)
    d.simple(fn, kind, kind, kind)


def _approximate_quotient(x: Array, y: Array) -> Array:
    size = np.abs(y)
    large = (size > F32.type(2.0**126)) & np.isfinite(y)
    if not large.any():
        return canonical(np.divide(x, y))
    zero = np.where(np.isinf(x), F32.type(np.nan), F32.type(0))
    return canonical(np.where(large, zero, np.divide(x, y)))


def _sign_bit(kind: Type) -> int:
    return {"f16x2": 0x80008000, "bf16x2": 0x80008000}.get(kind.name, 1 << (kind.bits - 1))


def _signs(d: Decoder, kind: Type, name: str) -> None:
    """abs, neg: the sign bit cleared or inverted."""
    ftz = "ftz" in d.only("ftz")
    bits = TYPES[f"b{kind.bits}"]
    sign = bits.dtype.type(_sign_bit(kind))
    rest = ~sign

    def fn(x: Array) -> Array:
        if ftz and kind.name == "f32":
            x = flush(x.view(F32)).view(U32)
        result: Array = x & rest if name == "abs" else x ^ sign
        return result

    target, source = d.operands(2)
    read = [(d.source(source, kind), bits.dtype)]
    d.pure(fn, (d.target(target, kind),), read)


def _extreme(d: Decoder, kind: Type, name: str) -> None:
    """min, max: the number if one operand is NaN, and NaN with .NaN; -0 is less than +0."""
    modifiers = d.only("ftz", "NaN", "xorsign", "abs")
    operands = d.operands(3, 4)
    form = element(kind)
    dtype = {"bf16": U16}.get(form, kind.dtype if form == kind.name else F16)
    bits = np.dtype(f"u{dtype.itemsize}")
    ufunc = (
        (np.minimum if name == "min" else np.maximum)
        if "NaN" in modifiers
        else (np.fmin if name == "min" else np.fmax)
    )

    def two(x: Array, y: Array) -> Array:
        if "ftz" in modifiers and form == "f32":
            x, y = flush(x), flush(y)
        a, b = (widen_bf16(x), widen_bf16(y)) if form == "bf16" else (x, y)
        if "abs" in modifiers:
            a, b = np.abs(a), np.abs(b)
        result = ufunc(a, b)
        same = a == b
        if same.any():
            wide = np.dtype(f"u{a.dtype.itemsize}")
            p, q = a.view(wide), b.view(wide)
            either = (p | q) if name == "min" else (p & q)
            result = np.where(same, either.view(a.dtype), result)
        result = canonical(result)
        result = round_bf16(result) if form == "bf16" else result
        if "xorsign" in modifiers:
            sign = bits.type(1 << (bits.itemsize * 8 - 1))
            other = (x.view(bits) ^ y.view(bits)) & sign
            result = (result.view(bits) & ~sign | other).view(result.dtype)
        return result

    fn: PtxFunction = two if len(operands) == 3 else lambda x, y, z: two(two(x, y), z)
    fn = on_elements(kind, fn)
    d.simple(fn, kind, *[kind] * (len(operands) - 1))


@opcode("sqrt", "rcp", "rsqrt")
def _roots(d: Decoder, i: Instruction) -> None:
    """sqrt, rcp = 1 / a, rsqrt = 1 / sqrt(a): rounded, or .approx."""
    name = i.parts[0]
    modifiers = d.only(*_MODES, "ftz", "approx")
    kind = d.type()
    if kind.kind != "f" or kind.bits == 16:
        raise d.error(f"{name} of .{kind.name}")
    one = kind.dtype.type(1)
    if "approx" in modifiers or name == "rsqrt":
        fn = _accurate(_APPROXIMATE[name], kind.dtype)
    elif name == "sqrt":
        fn = _operation(d, kind, "sqrt", modifiers - {"ftz"})
    else:
        fn = partial(_operation(d, kind, "div", modifiers - {"ftz"}), np.full(1, one))
    if "ftz" in modifiers:
        fn = _with_flush(fn) if kind.bits == 32 else _upper_half(fn)
    d.simple(fn, kind, kind)


def _upper_half(fn: PtxFunction) -> PtxFunction:
    """Rcp and rsqrt.approx.ftz.f64: of the upper 32 bits of the operand, the lower are 0."""
    upper = np.uint64(0xFFFFFFFF00000000)

    def cut(x: Array) -> Array:
        bits = x.view(np.uint64) & upper
        small = bits & np.uint64(0x7FF0000000000000) == 0
        return np.where(small, bits & np.uint64(1 << 63), bits).view(F64)

    return lambda x: cut(fn(cut(x)))


_APPROXIMATE: Final[dict[str, PtxFunction]] = {
    "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _accurate(fn: PtxFunction, dtype: Any) -> PtxFunction:
    """A function computed in f64 and rounded."""
    return lambda x: canonical(fn(x.astype(F64)).astype(dtype))


def _accurate_bf16(fn: PtxFunction) -> PtxFunction:
    return lambda x: round_bf16(canonical(fn(widen_bf16(x).astype(F64)).astype(F32)))


@opcode("sin", "cos", "lg2", "ex2", "tanh")
def _functions(d: Decoder, i: Instruction) -> None:
    """sin, cos, lg2 = log2, ex2 = 2**a, tanh: .approx, f32 and, the last two, halves."""
    name = i.parts[0]
    modifiers = d.only("approx", "ftz")
    kind = d.type()
    if kind.bits == 64 or "approx" not in modifiers:
        raise d.error(f"{name} is there as .approx of f32 alone")
    form = element(kind)
    if form == "bf16":
        fn = _accurate_bf16(_APPROXIMATE[name])
    elif form == "f16":
        fn = _accurate(_APPROXIMATE[name], F16)
    else:
        fn = _accurate(_APPROXIMATE[name], F32)
        if "ftz" in modifiers:
            fn = _with_flush(fn)
    fn = on_elements(kind, fn)
    d.simple(fn, kind, kind)


@opcode("copysign")
def _copysign(d: Decoder, i: Instruction) -> None:
    """copysign: b with the sign of a."""
    d.only()
    kind = d.type()
    d.simple(lambda x, y: np.copysign(y, x), kind, kind, kind)


_TESTS: Final[dict[str, PtxFunction]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: (
        np.isfinite(x) & ((x == 0) | (np.abs(x) >= np.finfo(x.dtype).smallest_normal))
    ),
    "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).smallest_normal),
}


@opcode("testp")
def _testp(d: Decoder, i: Instruction) -> None:
    """testp: whether a number is of a class; zeros are normal."""
    (name,) = d.only(*_TESTS)
    d.simple(_TESTS[name], TYPES["pred"], d.type())
