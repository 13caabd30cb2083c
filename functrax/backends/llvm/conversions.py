"""Conversions between dtypes as LLVM IR text: rounding, saturation, float16 and bfloat16.

Where LLVM's own conversion calls a library, rounds twice or takes vectors apart, it is written with
instructions that every target has.

Start at :func:`convert`, the rule of the operation ``convert``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.backends.llvm.templates import REGISTERS, Template, constant
from functrax.core.types import dtypes


def bitcast(t: Template, x: str) -> str:
    """The same bits as another dtype."""
    source, target = REGISTERS[t.source], REGISTERS[t.dtype]
    return x if source == target else t.cast("bitcast", x, source, target)


def convert(t: Template, x: str) -> str:
    """The number as another dtype; see ``core/scalars/scalar.py`` for how it is rounded."""
    source, target = t.source, t.dtype
    if source in dtypes.HALF:  # by way of float32
        x, source = _widened(t, x), dtypes.float32
    if target not in dtypes.HALF:
        return _to(t, x, source, target)
    if target == dtypes.float16 and source == dtypes.float64:
        return _rounded_to_half(t, _rounded_to_odd(t, x))
    x = _to(t, x, source, dtypes.float32)
    return _rounded_to_half(t, x) if target == dtypes.float16 else _rounded_to_bfloat(t, x)


def _to(t: Template, x: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """From bools, integers, float32 and float64 to the latter three."""
    if source == target:
        return x
    have, want = REGISTERS[source], REGISTERS[target]
    if source.kind == "b":
        if target.kind != "f":
            return t.cast("zext", x, have, want)
        type = t.of(want)
        one, zero = t.splat(1, want), t.splat(0, want)
        return t.add(f"select {t.of('i1')} {x}, {type} {one}, {type} {zero}")
    if source.kind == "f" and target.kind == "f":
        if have == "float":
            return t.cast("fpext", x, have, want)
        # Without a fence LLVM rounds once where a float16 follows, by a function of a library.
        return t.call("arithmetic.fence", t.cast("fptrunc", x, have, want), type=t.of(want))
    if target.kind == "f":
        return t.cast("sitofp" if source.kind == "i" else "uitofp", x, have, want)
    if source.kind == "f":
        return _saturated(t, x, source, target)
    if source.itemsize == target.itemsize:
        return x
    if source.itemsize > target.itemsize:
        return t.cast("trunc", x, have, want)
    return t.cast("sext" if source.kind == "i" else "zext", x, have, want)


def _saturated(t: Template, x: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """The integer of a float32 or float64 rounded towards 0; the nearest there is, and 0 of NaN.

    Out of range the conversion has no value, but then it is not chosen.  (LLVM's own saturating
    conversion takes vectors apart.)
    """
    info, have, want = np.iinfo(target), REGISTERS[source], REGISTERS[target]
    floats, ints, bools, zero = t.of(have), t.of(want), t.of("i1"), t.splat(0, want)
    sign = "u" if target.kind == "u" and target.itemsize >= 4 else "s"
    work = want if target.itemsize >= 4 else "i32"
    value = t.cast(f"fpto{sign}i", x, have, work)
    if work != want:
        value = t.cast("trunc", value, work, want)
    above = t.add(f"fcmp oge {floats} {x}, {t.splat(float(info.max + 1), have)}")
    largest = constant(info.max, target, t.lanes)
    value = t.add(f"select {bools} {above}, {ints} {largest}, {ints} {value}")
    if target.kind == "u":
        inside = t.add(f"fcmp ogt {floats} {x}, {t.splat(0, have)}")
        return t.add(f"select {bools} {inside}, {ints} {value}, {ints} {zero}")
    below = t.add(f"fcmp olt {floats} {x}, {t.splat(float(info.min), have)}")
    least = constant(info.min, target, t.lanes)
    value = t.add(f"select {bools} {below}, {ints} {least}, {ints} {value}")
    missing = t.add(f"fcmp uno {floats} {x}, {x}")
    return t.add(f"select {bools} {missing}, {ints} {zero}, {ints} {value}")


def _widened(t: Template, x: str) -> str:
    """The float32 of the bits of a float16 or bfloat16."""
    if t.source == dtypes.float16:
        return t.cast("fpext", t.cast("bitcast", x, "i16", "half"), "half", "float")
    wide = t.cast("zext", x, "i16", "i32")
    high = t.add(f"shl {t.of('i32')} {wide}, {t.splat(16, 'i32')}")
    return t.cast("bitcast", high, "i32", "float")


def _rounded_to_half(t: Template, x: str) -> str:
    return t.cast("bitcast", t.cast("fptrunc", x, "float", "half"), "half", "i16")


def _rounded_to_bfloat(t: Template, x: str) -> str:
    """The upper bits of a float32, rounded to the nearest, ties to even; NaN stays NaN."""
    ints, half = t.of("i32"), t.splat(16, "i32")
    bits = t.cast("bitcast", x, "float", "i32")
    upper = t.add(f"lshr {ints} {bits}, {half}")
    odd = t.add(f"and {ints} {upper}, {t.splat(1, 'i32')}")
    carry = t.add(f"add {ints} {odd}, {t.splat(0x7FFF, 'i32')}")
    total = t.add(f"add {ints} {bits}, {carry}")
    rounded = t.add(f"lshr {ints} {total}, {half}")
    quiet = t.add(f"or {ints} {upper}, {t.splat(0x40, 'i32')}")
    missing = t.add(f"fcmp uno {t.of('float')} {x}, {x}")
    value = t.add(f"select {t.of('i1')} {missing}, {ints} {quiet}, {ints} {rounded}")
    return t.cast("trunc", value, "i32", "i16")


def _rounded_to_odd(t: Template, x: str) -> str:
    """The float32 nearest to a float64 towards 0, its last bit set unless that is exact.

    Rounding it once more, to fewer bits, is then the same as rounding once.
    """
    doubles, ints = t.of("double"), t.of("i32")
    near = t.cast("fptrunc", x, "double", "float")
    back = t.cast("fpext", near, "float", "double")
    larger = t.add(
        f"fcmp ogt {doubles} {t.call('fabs', back, type=doubles)}, "
        f"{t.call('fabs', x, type=doubles)}"
    )
    inexact = t.add(f"fcmp une {doubles} {back}, {x}")
    bits = t.cast("bitcast", near, "float", "i32")
    below = t.add(f"add {ints} {bits}, {t.cast('sext', larger, 'i1', 'i32')}")
    odd = t.add(f"or {ints} {below}, {t.cast('zext', inexact, 'i1', 'i32')}")
    return t.cast("bitcast", odd, "i32", "float")
