"""The exact remainder of floats, as a function in LLVM IR.

No instruction computes it, and LLVM would call a library for each element.  The quotient of two
float64 has up to 2098 bits, so long division it is, 52 bits at a time: while ``r >= y``, subtract
the multiple ``q y_k`` of ``y_k = y 2^k``, ``k`` being the least for which ``q = trunc(r / y_k)``
has at most 53 bits.  Rounding makes ``q`` at most one too large, and ``fma(-q, y_k, r)`` is exact
either way, being a multiple of the last bit of ``y_k`` and not larger than it.  Operands of like
size take one round.  float32 goes by way of float64, where it has no subnormal numbers.

Infinities and zeros need no care: infinity over ``y`` and ``x`` over zero turn into NaN, which
ends the loop.
"""

from __future__ import annotations

from typing import Final

from functrax.backends.llvm.functions.fma import FMA

#: What the names of the functions begin with; then come the dtype and the number of lanes.
REMAINDER: Final = "functrax.rem"

_FLOAT64: Final = """\
define internal {T} @{name}({T} %x, {T} %y) nounwind {{
entry:
  %start = call {T} @llvm.fabs.{t}({T} %x)
  %divisor = call {T} @llvm.fabs.{t}({T} %y)
  %scaled = fmul {T} %divisor, {two54}
  %tiny = fcmp olt {T} %divisor, {least_normal}
  %normal = select {B} %tiny, {T} %scaled, {T} %divisor
  %divisor_bits = bitcast {T} %normal to {I}
  %divisor_field = lshr {I} %divisor_bits, {i52}
  %lift = select {B} %tiny, {I} {minus2}, {I} {i52}
  %floor = add {I} %divisor_field, %lift
  br label %loop
loop:
  %r = phi {T} [ %start, %entry ], [ %next, %body ]
  %more = fcmp oge {T} %r, %divisor
  {any}
  br i1 %any, label %body, label %done
body:
  %bits = bitcast {T} %r to {I}
  %field = lshr {I} %bits, {i52}
  %gap = sub {I} %field, %floor
  %positive = icmp sgt {I} %gap, {i0}
  %k = select {B} %positive, {I} %gap, {I} {i0}
  %k_low = lshr {I} %k, {i1}
  %k_high = sub {I} %k, %k_low
  %field_low = add {I} %k_low, {i1023}
  %field_high = add {I} %k_high, {i1023}
  %bits_low = shl {I} %field_low, {i52}
  %bits_high = shl {I} %field_high, {i52}
  %low = bitcast {I} %bits_low to {T}
  %high = bitcast {I} %bits_high to {T}
  %half_step = fmul {T} %divisor, %low
  %step = fmul {T} %half_step, %high
  %ratio = fdiv {T} %r, %step
  %q = call {T} @llvm.trunc.{t}({T} %ratio)
  {minus_q}
  %left = call {T} @{fma}({T} %minus_q, {T} %step, {T} %r)
  %too_far = fcmp olt {T} %left, {zero}
  %back = fadd {T} %left, %step
  %right = select {B} %too_far, {T} %back, {T} %left
  %next = select {B} %more, {T} %right, {T} %r
  br label %loop
done:
  %signed = call {T} @llvm.copysign.{t}({T} %r, {T} %x)
  %missing = fcmp uno {T} %y, %y
  %result = select {B} %missing, {T} %y, {T} %signed
  ret {T} %result
}}
"""

_FLOAT32: Final = """\
define internal {S} @{name}({S} %x, {S} %y) nounwind {{
  %wide_x = fpext {S} %x to {T}
  %wide_y = fpext {S} %y to {T}
  %wide = call {T} @{inner}({T} %wide_x, {T} %wide_y)
  %result = fptrunc {T} %wide to {S}
  ret {S} %result
}}
"""


def remainder_function(dtype: str, lanes: int, fused: bool = True) -> str:
    """The definition for ``float64``, or for ``float32``, which calls the former.

    Args:
      dtype: of the operands and the result.
      lanes: how many elements they have.
      fused: whether the processor has an fma; else it is a function, too.
    """

    def of(element: str) -> str:
        return element if lanes == 1 else f"<{lanes} x {element}>"

    def splat(text: str, element: str) -> str:
        return text if lanes == 1 else f"splat ({element} {text})"

    name = f"{REMAINDER}.{dtype}.{lanes}"
    if dtype == "float32":
        inner = f"{REMAINDER}.float64.{lanes}"
        return _FLOAT32.format(name=name, inner=inner, S=of("float"), T=of("double"))
    found = "%any = freeze i1 %more"
    if lanes > 1:
        found = f"%any = call i1 @llvm.vector.reduce.or.v{lanes}i1({of('i1')} %more)"
    suffix = "f64" if lanes == 1 else f"v{lanes}f64"
    minus_q = f"%minus_q = fneg {of('double')} %q"
    if not fused:  # which takes longer where a factor is 0, as in lanes that are done
        one = splat("0x3FF0000000000000", "double")
        minus_q = (
            f"%opposite = fneg {of('double')} %q\n  %minus_q = select {of('i1')} %more, "
            f"{of('double')} %opposite, {of('double')} {one}"
        )
    return _FLOAT64.format(
        name=name,
        fma=f"llvm.fma.{suffix}" if fused else f"{FMA}.float64.{lanes}",
        T=of("double"),
        I=of("i64"),
        B=of("i1"),
        minus_q=minus_q,
        t=suffix,
        any=found,
        zero=splat("0x0000000000000000", "double"),
        two54=splat("0x4350000000000000", "double"),
        least_normal=splat("0x0010000000000000", "double"),
        **{f"i{k}": splat(str(k), "i64") for k in (0, 1, 52, 1023)},
        minus2=splat("-2", "i64"),
    )
