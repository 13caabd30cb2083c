"""PTX ISA 9.7.9, Data Movement and Conversion Instructions: cvt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder, opcode
from functrax.backends.cuda.simulator.instructions.octets import OCTETS, convert_octets
from functrax.backends.cuda.simulator.instructions.rounding import (
    F16,
    F32,
    F64,
    U16,
    U32,
    canonical,
    exact_round,
    flush,
    held,
    round_bf16,
    round_odd_f32,
    values,
    widen_bf16,
)
from functrax.backends.cuda.simulator.syntax import TYPES, Array, Instruction, Type

PtxFunction: TypeAlias = Callable[..., Any]

_TO_INTEGRAL: Final[dict[str, PtxFunction]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_MODES: Final = ("rn", "rz", "rm", "rp", "rna")
_FLOATING: Final = ("f", "bf")


@opcode("cvt")
def _cvt(d: Decoder, i: Instruction) -> None:
    """cvt: a number of one type as one of another."""
    to, of = d.type(-2), d.type(-1)
    modifiers = d.only(*_TO_INTEGRAL, *_MODES, "ftz", "sat", "relu", "satfinite", types=2)
    if to.name in OCTETS or of.name in OCTETS:
        if "satfinite" not in modifiers and to.name in OCTETS:
            raise d.error("a conversion to 8 bits without .satfinite")
        convert_octets(d, to, of, relu="relu" in modifiers)
        return
    if to.name in ("f16x2", "bf16x2"):
        _pack(d, to, of, modifiers)
        return
    target, source = d.operands(2)
    read = [(d.source(source, of, narrow=True), of.dtype)]
    if to.kind in "us" and of.kind in "us":
        fn = _between_integers(to, of, "sat" in modifiers)
    elif of.kind in "us":
        fn = _from_integer(to, of, modifiers)
    elif to.kind in "us":
        fn = _to_integer(to, of, modifiers)
    else:
        fn = _between_floats(d, to, of, modifiers)
    d.pure(fn, (d.target(target, to, widen=True),), read)


def _between_integers(to: Type, of: Type, saturates: bool) -> PtxFunction:
    """Extends by the source's sign, or drops high bits; .sat keeps to the range."""
    dtype = to.dtype
    if not saturates:
        return lambda x: x.astype(dtype)
    low, high = _range(to)
    low_of, high_of = _range(of)
    least, most = max(low, low_of), min(high, high_of)
    return lambda x: np.clip(x, of.dtype.type(least), of.dtype.type(most)).astype(dtype)


def _range(kind: Type) -> tuple[int, int]:
    info = np.iinfo(kind.dtype)
    return int(info.min), int(info.max)


def _to_f64(x: Array) -> Array:
    """Integers as f64, rounded to odd: fewer bits of it are then rounded correctly."""
    if x.dtype.itemsize < 8:
        return x.astype(F64)
    eleven = x.dtype.type(0x7FF)
    large = (x > (1 << 53)) | (x < -(1 << 53)) if x.dtype.kind == "i" else x > (1 << 53)
    rest = x & eleven
    sticky = np.where(rest != 0, x.dtype.type(1 << 11), x.dtype.type(0))
    return np.where(large, (x & ~eleven) | sticky, x).astype(F64)


def _mode(modifiers: set[str]) -> str:
    modes = modifiers.intersection(_MODES)
    return modes.pop() if modes else "rn"


def _from_integer(to: Type, of: Type, modifiers: set[str]) -> PtxFunction:
    mode, form = _mode(modifiers), to.name
    fn: PtxFunction
    if mode != "rn":
        # Rounding to odd in f64 is not enough for f64 itself, but there it is the exact integer
        # up to 2**53, and beyond that the sticky bit tells on which side of it the number is.
        def exactly(x: Array) -> Array:
            if form == "f64" and x.dtype.itemsize == 8:
                return _directed_f64(x, mode)
            return held(exact_round(_to_f64(x), form, mode), form)

        fn = exactly
    elif form == "bf16":

        def to_bf16(x: Array) -> Array:
            return round_bf16(round_odd_f32(_to_f64(x)))

        fn = to_bf16
    elif form == "f16":

        def to_f16(x: Array) -> Array:
            return _to_f64(x).astype(F16)

        fn = to_f16
    else:

        def plain(x: Array) -> Array:
            return x.astype(to.dtype)

        fn = plain
    return _saturated(fn) if "sat" in modifiers else fn


def _directed_f64(x: Array, mode: str) -> Array:
    nearest = x.astype(F64)
    found = []
    for exact, near in zip(x.tolist(), nearest.tolist()):
        over, under = int(near) > exact, int(near) < exact
        down = mode == "rm" or (mode == "rz" and exact > 0)
        if over and down:
            near = float(np.nextafter(near, -np.inf))
        elif under and not down:
            near = float(np.nextafter(near, np.inf))
        found.append(near)
    return np.array(found, F64)


def _saturated(fn: PtxFunction) -> PtxFunction:
    def saturated(x: Array) -> Array:
        y = fn(x)
        zero, one = y.dtype.type(0), y.dtype.type(1)
        result: Array = np.clip(np.where(np.isnan(y), zero, y), zero, one)
        return result

    return saturated


def _widened(x: Array, of: Type) -> Array:
    return widen_bf16(x) if of.kind == "bf" else x


def _to_integer(to: Type, of: Type, modifiers: set[str]) -> PtxFunction:
    """Rounds to an integer and keeps to the range; NaN is 0, or 2**63 where 64 bits take part."""
    (mode,) = modifiers.intersection(_TO_INTEGRAL) or {"rzi"}
    rounded, ftz = _TO_INTEGRAL[mode], "ftz" in modifiers
    low, high = _range(to)
    bits = np.dtype(f"u{to.bytes}")
    wide = of.name == "f64" or to.bits == 64
    nan = np.array([1 << (to.bits - 1) if wide else 0], bits).view(to.dtype)[0]
    # The least numbers above the range, which f64 holds exactly.
    top, bottom = float(high + 1 if to.bits < 64 else 2.0 ** (64 - (to.kind == "s"))), float(low)

    def fn(x: Array) -> Array:
        x = _widened(x, of)
        if ftz and x.dtype == F32:
            x = flush(x)
        y = rounded(x.astype(F64) if x.dtype.itemsize < 4 or to.bits >= 32 else x)
        inside = (y >= bottom) & (y < top)
        result = np.where(inside, y, 0).astype(to.dtype)
        if inside.all():
            return result
        result = np.where(y >= top, to.dtype.type(high), result)
        result = np.where(y < bottom, to.dtype.type(low), result)
        return np.where(np.isnan(y), nan, result)

    return fn


def _between_floats(d: Decoder, to: Type, of: Type, modifiers: set[str]) -> PtxFunction:
    """Rounds to a narrower type; .rni and others round to an integer."""
    integral = modifiers.intersection(_TO_INTEGRAL)
    mode, form = _mode(modifiers), to.name
    if to.kind not in (*_FLOATING, "tf32") or of.kind not in _FLOATING:
        raise d.error(f"cvt from .{of.name} to .{to.name}")
    fn: PtxFunction
    if integral:
        rounded = _TO_INTEGRAL[integral.pop()]
        if to != of:
            raise d.error("rounding to an integer between different types")

        def to_integral(x: Array) -> Array:
            return canonical(rounded(x))

        fn = to_integral
    elif form == "tf32" or mode != "rn":

        def exactly(x: Array) -> Array:
            return held(exact_round(values(x, of.name), form, mode), form)

        fn = exactly
    elif form == "bf16":

        def to_bf16(x: Array) -> Array:
            wide = values(x, of.name)
            return round_bf16(round_odd_f32(wide) if of.name == "f64" else wide.astype(F32))

        fn = to_bf16
    elif form == "f16" and of.name == "f64":

        def halved(x: Array) -> Array:
            return canonical(x.astype(F16))

        fn = halved
    else:

        def plain(x: Array) -> Array:
            return canonical(_widened(x, of).astype(to.dtype))

        fn = plain
    if "ftz" in modifiers:
        fn = _flushed(fn)
    if "sat" in modifiers:
        fn = _saturated(fn)
    return _relu(fn, form) if "relu" in modifiers else fn


def _flushed(fn: PtxFunction) -> PtxFunction:
    def flushed(x: Array) -> Array:
        y = fn(flush(x) if x.dtype == F32 else x)
        return flush(y) if y.dtype == F32 else y

    return flushed


def _relu(fn: PtxFunction, form: str) -> PtxFunction:
    def relu(x: Array) -> Array:
        y = fn(x)
        number = values(y.view(F32) if form == "tf32" else y, form)
        result: Array = np.where(number < 0, y.dtype.type(0), y)
        return result

    return relu


def _pack(d: Decoder, to: Type, of: Type, modifiers: set[str]) -> None:
    """cvt.rn.f16x2.f32 d, a, b: a in the upper half, b in the lower one."""
    if of.name != "f32":
        raise d.error(f"cvt from .{of.name} to .{to.name}")
    target, high, low = d.operands(3)
    half = TYPES[to.name.removesuffix("x2")]
    convert = _between_floats(d, half, of, modifiers - {"satfinite"})
    most = {"f16": 65504.0, "bf16": float(widen_bf16(np.array([0x7F7F], U16))[0])}[half.name]

    def one(x: Array) -> Array:
        if "satfinite" in modifiers:
            x = np.clip(x, F32.type(-most), F32.type(most))
        return np.asarray(convert(x)).view(U16).astype(U32)

    def pack(x: Array, y: Array) -> Array:
        return one(x) << np.uint32(16) | one(y)

    read = [(d.source(high, of), F32), (d.source(low, of), F32)]
    d.pure(pack, (d.target(target, to),), read)
