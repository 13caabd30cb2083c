"""``x * y + z`` rounded once, as a function in LLVM IR, for processors without an instruction.

LLVM would call a library for each element.  float32 goes by way of float64, where the product is
exact and the sum is rounded to odd, so that rounding it again does no harm.  float64 is computed as
unevaluated sums of two numbers, as in :mod:`functrax.core.prims.fma_values`, which has the source.
Where those could over- or underflow, a lane is computed with integers of 256 bits: the product is
shifted to leave 90 bits below it, and ``z`` to the same exponent.  A ``z`` that lies below all of
these bits counts as the last one of them.  Beside a ``z`` that is much larger the product does not
count.

Start at :func:`fma_function`.
"""

from __future__ import annotations

from typing import Final

#: What the names of the functions begin with; then come the dtype and the number of lanes.
FMA: Final = "functrax.fma"

# The last bit of a sum is set where it was lost, and the sum has it not: rounding to odd.
_ODD: Final = """\
  %odd_bits = bitcast {T} %{sum} to {I}
  %odd_last = and {I} %odd_bits, {i1}
  %odd_even = icmp eq {I} %odd_last, {i0}
  %odd_lost = fcmp one {T} %{lost}, {zero}
  %odd_wanted = and {B} %odd_even, %odd_lost
  %odd_up = fcmp ogt {T} %{lost}, {zero}
  %odd_positive = fcmp ogt {T} %{sum}, {zero}
  %odd_same = icmp eq {B} %odd_up, %odd_positive
  %odd_step = select {B} %odd_same, {I} {i1}, {I} {minus1}
  %odd_moved = add {I} %odd_bits, %odd_step
  %odd_chosen = select {B} %odd_wanted, {I} %odd_moved, {I} %odd_bits
  %odd = bitcast {I} %odd_chosen to {T}
"""

_TWO_SUM: Final = """\
  %{sum} = fadd {T} %{x}, %{y}
  %{sum}_part = fsub {T} %{sum}, %{x}
  %{sum}_rest = fsub {T} %{sum}, %{sum}_part
  %{sum}_x = fsub {T} %{x}, %{sum}_rest
  %{sum}_y = fsub {T} %{y}, %{sum}_part
  %{sum}_lost = fadd {T} %{sum}_x, %{sum}_y
"""

_HALVES: Final = """\
  %{x}_bits = bitcast {T} %{x} to {I}
  %{x}_up = add {I} %{x}_bits, {two26}
  %{x}_kept = and {I} %{x}_up, {minus_two27}
  %{x}0 = bitcast {I} %{x}_kept to {T}
  %{x}1 = fsub {T} %{x}, %{x}0
"""

_INSIDE: Final = """\
  %{x}_size = call {T} @llvm.fabs.{t}({T} %{x})
  %{x}_above = fcmp {least_order} {T} %{x}_size, {least}
  %{x}_below = fcmp olt {T} %{x}_size, {most}
  %{x}_inside = and {B} %{x}_above, %{x}_below
"""


def fma_function(dtype: str, lanes: int) -> str:
    """The definition for ``float32``, or for ``float64``, which comes with :data:`_BY_INTEGERS`."""
    return _float32(lanes) if dtype == "float32" else _float64(lanes)


def _of(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def _names(lanes: int) -> dict[str, str]:
    """What the texts above call types and numbers."""

    def splat(text: str, element: str) -> str:
        return text if lanes == 1 else f"splat ({element} {text})"

    integers = {"i0": 0, "i1": 1, "minus1": -1, "two26": 1 << 26, "minus_two27": -(1 << 27)}
    return {
        "T": _of("double", lanes),
        "I": _of("i64", lanes),
        "B": _of("i1", lanes),
        "t": "f64" if lanes == 1 else f"v{lanes}f64",
        "zero": splat("0x0000000000000000", "double"),
        **{name: splat(str(number), "i64") for name, number in integers.items()},
    }


def _splat_power(exponent: int, lanes: int) -> str:
    text = f"0x{(1023 + exponent) << 52:016X}"
    return text if lanes == 1 else f"splat (double {text})"


def _float32(lanes: int) -> str:
    names, single = _names(lanes), _of("float", lanes)
    wide = "".join(f"  %wide_{k} = fpext {single} %{k} to {names['T']}\n" for k in ("x", "y", "z"))
    return (
        f"define internal {single} @{FMA}.float32.{lanes}"
        f"({single} %x, {single} %y, {single} %z) nounwind {{\n{wide}"
        f"  %product = fmul {names['T']} %wide_x, %wide_y\n"
        + _TWO_SUM.format(sum="total", x="product", y="wide_z", **names)
        + _ODD.format(sum="total", lost="total_lost", **names)
        + f"  %result = fptrunc {names['T']} %odd to {single}\n  ret {single} %result\n}}\n"
    )


def _float64(lanes: int) -> str:
    names = _names(lanes)
    double, bools = names["T"], names["B"]
    every = "  %safe_all = freeze i1 %safe\n"
    if lanes > 1:
        every = f"  %safe_all = call i1 @llvm.vector.reduce.and.v{lanes}i1({bools} %safe)\n"
    factors = {"least": _splat_power(-400, lanes), "most": _splat_power(400, lanes)}
    terms = {"least": names["zero"], "most": _splat_power(1000, lanes)}
    return (
        f"define internal {double} @{FMA}.float64.{lanes}"
        f"({double} %x, {double} %y, {double} %z) nounwind {{\nentry:\n"
        + _INSIDE.format(x="x", least_order="ogt", **factors, **names)
        + _INSIDE.format(x="y", least_order="ogt", **factors, **names)
        + _INSIDE.format(x="z", least_order="oge", **terms, **names)
        + f"  %safe_factors = and {bools} %x_inside, %y_inside\n"
        f"  %safe = and {bools} %safe_factors, %z_inside\n"
        f"{every}  br i1 %safe_all, label %fast, label %slow\nfast:\n"
        + _by_pairs(names)
        + "slow:\n"
        + _lane_by_lane(lanes)
        + "}\n"
    )


def _by_pairs(names: dict[str, str]) -> str:
    """The product as two numbers, and their sum with ``z`` in three."""
    double = names["T"]
    return (
        _HALVES.format(x="x", **names)
        + _HALVES.format(x="y", **names)
        + f"""\
  %product = fmul {double} %x, %y
  %p00 = fmul {double} %x0, %y0
  %p01 = fmul {double} %x0, %y1
  %p10 = fmul {double} %x1, %y0
  %p11 = fmul {double} %x1, %y1
  %lost0 = fsub {double} %p00, %product
  %lost1 = fadd {double} %lost0, %p01
  %lost2 = fadd {double} %lost1, %p10
  %lost = fadd {double} %lost2, %p11
"""
        + _TWO_SUM.format(sum="middle", x="z", y="lost", **names)
        + _TWO_SUM.format(sum="head", x="product", y="middle", **names)
        + _TWO_SUM.format(sum="tail", x="head_lost", y="middle_lost", **names)
        + _ODD.format(sum="tail", lost="tail_lost", **names)
        + f"  %near = fadd {double} %head, %odd\n  ret {double} %near\n"
    )


def _lane_by_lane(lanes: int) -> str:
    if lanes == 1:
        call = f"call double @{FMA}.integers(double %x, double %y, double %z)"
        return f"  %far = {call}\n  ret double %far\n"
    vector, lines, total = _of("double", lanes), [], "poison"
    for k in range(lanes):
        for name in ("x", "y", "z"):
            lines.append(f"  %{name}_{k} = extractelement {vector} %{name}, i64 {k}")
        operands = ", ".join(f"double %{name}_{k}" for name in ("x", "y", "z"))
        lines.append(f"  %r_{k} = call double @{FMA}.integers({operands})")
        lines.append(f"  %far_{k} = insertelement {vector} {total}, double %r_{k}, i64 {k}")
        total = f"%far_{k}"
    return "\n".join([*lines, f"  ret {vector} {total}", ""])


def _taken_apart(name: str) -> str:
    """The exponent and the significand of a number, whose value is ``m 2^(e - 1075)``."""
    return f"""\
  %{name}_bits = bitcast double %{name} to i64
  %{name}_shifted = lshr i64 %{name}_bits, 52
  %{name}_field = and i64 %{name}_shifted, 2047
  %{name}_fraction = and i64 %{name}_bits, 4503599627370495
  %{name}_normal = icmp ne i64 %{name}_field, 0
  %{name}_whole = or i64 %{name}_fraction, 4503599627370496
  %{name}_m = select i1 %{name}_normal, i64 %{name}_whole, i64 %{name}_fraction
  %{name}_e = call i64 @llvm.umax.i64(i64 %{name}_field, i64 1)
  %{name}_special = icmp eq i64 %{name}_field, 2047
  %{name}_zero = icmp eq i64 %{name}_m, 0
"""


#: Of one lane, with integers: what calls of the function for float64 need besides.
BY_INTEGERS: Final = (
    f"""\
define internal double @{FMA}.integers(double %x, double %y, double %z) nounwind noinline {{
entry:
"""
    + "".join(_taken_apart(name) for name in ("x", "y", "z"))
    + """\
  %rounded = fmul double %x, %y
  %plain = fadd double %rounded, %z
  %special0 = or i1 %x_special, %y_special
  %special1 = or i1 %x_zero, %y_zero
  %special = or i1 %special0, %special1
  br i1 %special, label %as_plain, label %finite
as_plain:
  ret double %plain
finite:
  %e_sum = add i64 %x_e, %y_e
  %e = sub i64 %e_sum, 1075
  %d = sub i64 %z_e, %e
  %far_above = icmp sgt i64 %d, 111
  %z_some = xor i1 %z_zero, true
  %z_large = and i1 %far_above, %z_some
  %alone = or i1 %z_special, %z_large
  br i1 %alone, label %as_z, label %both
as_z:
  ret double %z
both:
  %x_wide = zext i64 %x_m to i128
  %y_wide = zext i64 %y_m to i128
  %m = mul i128 %x_wide, %y_wide
  %m_wide = zext i128 %m to i256
  %p = shl i256 %m_wide, 90
  %z_wide = zext i64 %z_m to i256
  %above0 = add i64 %d, 90
  %below = icmp slt i64 %above0, 0
  %above1 = call i64 @llvm.smax.i64(i64 %above0, i64 0)
  %above2 = call i64 @llvm.smin.i64(i64 %above1, i64 201)
  %above = zext i64 %above2 to i256
  %z_there = shl i256 %z_wide, %above
  %z_last = zext i1 %z_some to i256
  %q = select i1 %below, i256 %z_last, i256 %z_there
  %signs = xor i64 %x_bits, %y_bits
  %p_negative = icmp slt i64 %signs, 0
  %z_negative = icmp slt i64 %z_bits, 0
  %p_opposite = sub i256 0, %p
  %q_opposite = sub i256 0, %q
  %p_signed = select i1 %p_negative, i256 %p_opposite, i256 %p
  %q_signed = select i1 %z_negative, i256 %q_opposite, i256 %q
  %sum = add i256 %p_signed, %q_signed
  %nothing = icmp eq i256 %sum, 0
  br i1 %nothing, label %as_plain, label %some
some:
  %negative = icmp slt i256 %sum, 0
  %opposite = sub i256 0, %sum
  %total = select i1 %negative, i256 %opposite, i256 %sum
  %zeros = call i256 @llvm.ctlz.i256(i256 %total, i1 false)
  %zeros_short = trunc i256 %zeros to i64
  %surplus = sub i64 203, %zeros_short
  %unit = sub i64 1165, %e
  %unit_above = sub i64 %unit, 1074
  %drop0 = call i64 @llvm.smax.i64(i64 %surplus, i64 %unit_above)
  %drop1 = call i64 @llvm.smax.i64(i64 %drop0, i64 0)
  %drop = call i64 @llvm.smin.i64(i64 %drop1, i64 255)
  %drop_wide = zext i64 %drop to i256
  %down = lshr i256 %total, %drop_wide
  %odd = and i256 %down, 1
  %one = shl i256 1, %drop_wide
  %half = lshr i256 %one, 1
  %less = sub i256 %half, 1
  %inexact = icmp ne i64 %drop, 0
  %bias0 = add i256 %less, %odd
  %bias = select i1 %inexact, i256 %bias0, i256 0
  %biased = add i256 %total, %bias
  %kept_wide = lshr i256 %biased, %drop_wide
  %kept = trunc i256 %kept_wide to i64
  %kept_float = sitofp i64 %kept to double
  %power0 = sub i64 %drop, %unit
  %power = call i64 @llvm.smin.i64(i64 %power0, i64 1100)
  %first = ashr i64 %power, 1
  %second = sub i64 %power, %first
  %first_field = add i64 %first, 1023
  %second_field = add i64 %second, 1023
  %first_bits = shl i64 %first_field, 52
  %second_bits = shl i64 %second_field, 52
  %first_factor = bitcast i64 %first_bits to double
  %second_factor = bitcast i64 %second_bits to double
  %scaled0 = fmul double %kept_float, %first_factor
  %scaled = fmul double %scaled0, %second_factor
  %minus = fneg double %scaled
  %result = select i1 %negative, double %minus, double %scaled
  ret double %result
}
"""
)
