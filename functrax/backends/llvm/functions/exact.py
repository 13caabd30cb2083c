"""Exact arithmetic that a processor may lack, as functions of the module: remainders, and fma.

**Remainders of floats.** No instruction computes them, and LLVM would call a library for each
element.  The quotient of two float64 has up to 2098 bits, so long division it is, 52 bits at a
time: while ``r >= y``, subtract the multiple ``q y_k`` of ``y_k = y 2^k``, ``k`` being the least
for which ``q = trunc(r / y_k)`` has at most 53 bits.  Rounding makes ``q`` at most one too large,
and ``fma(-q, y_k, r)`` is exact either way, being a multiple of the last bit of ``y_k`` and not
larger than it.  Operands of like size take one round.  float32 goes by way of float64, where it has
no subnormal numbers.  Infinities and zeros need no care: infinity over ``y`` and ``x`` over zero
turn into NaN, which ends the loop.

**fma**, ``x * y + z`` rounded once, for processors without an instruction, where LLVM would call a
library for each element, too.  float32 goes by way of float64, where the product is exact and the
sum is rounded to odd, so that rounding it again does no harm.  float64 is computed as unevaluated
sums of two numbers, as in :mod:`functrax.core.prims.fma_values`, which has the source; where those
could over- or underflow, of significands, whose exponents are put back at the end.

Start at :func:`definitions`.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Final

import numpy as np

from functrax.backends.kernels.math import expression as formulas
from functrax.backends.kernels.math.expression import Expr
from functrax.backends.llvm.function_bodies import FunctionBody
from functrax.backends.llvm.instructions import FMA, REMAINDER
from functrax.backends.llvm.templates import llvm_type
from functrax.backends.targets import target
from functrax.core.scalars.scalar import Builder
from functrax.core.types import dtypes

_CALLED: Final = re.compile(rf"call [^@]*@(({FMA}|{REMAINDER})\.(\w+)\.(\d+))\(")


def definitions(text: str) -> str:
    """The functions of ours which a module's text calls, directly or by others of them."""
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        for name, kind, dtype, lanes in sorted(set(_CALLED.findall(texts.pop()))):
            if name not in found:
                found[name] = _function(kind, dtype, int(lanes), target().functions)
                texts.append(found[name])
    return "\n".join(found.values())


@cache
def _function(kind: str, dtype: str, lanes: int, functions: frozenset[str]) -> str:
    """The definition of a function, for processors with these instructions."""
    b, body = Builder(), FunctionBody(lanes)
    operands = 2 if kind == REMAINDER else 3
    given = [b.node("argument", np.dtype(dtype), (), k) for k in range(operands)]
    taken = [body.parameter(x) for x in given]
    args = [Expr(b, x) for x in given]
    if dtype == "float32":
        x, y, *z = (x.to(dtypes.float64) for x in args)
        wide = _sum_to_odd(x * y, *z) if kind == FMA else Expr(b, b.rem(x.s, y.s))
        out = wide.to(dtypes.float32)
    elif kind == FMA:
        out = _fma_double(*args)
    else:
        out = _remainder(body, args[0], args[1], "fma" in functions)
    return body.function(f"{kind}.{dtype}.{lanes}", taken, out.s)


def _field(x: Expr) -> Expr:
    """The exponent of a positive float64 as its bits have it, which is 1023 for 1."""
    return (x.seen_as(dtypes.uint64) >> 52).to(dtypes.int64)


def _power(n: Expr) -> Expr:
    """``2^n`` as a float64, which is normal."""
    return ((n + 1023) << 52).seen_as(dtypes.float64)


# ---- remainders ---------------------------------------------------------------------------------


def _remainder(body: FunctionBody, x: Expr, y: Expr, fused: bool) -> Expr:
    """Of float64; its loop is written."""
    divisor = abs(y)
    tiny = divisor < 2.0**-1022
    normal = formulas.where(tiny, divisor * 2.0**54, divisor)
    field = _field(normal)
    floor = field + formulas.where(tiny, field.like(-2), 52)
    start = abs(x)
    for value in (start, divisor, floor):
        body.write(value.s)
    r = Expr(x.b, x.b.node("argument", x.dtype, (), "r"))
    name = body.parameter(r.s)
    phi = f"  {name} = phi {llvm_type(x.dtype, body.lanes)} [ {body.name(start.s)}, %entry ], "
    body.lines += ["  br label %loop", "loop:", phi]
    place = len(body.lines) - 1
    more = r >= divisor
    body.write(more.s)
    goes_on = body.any(body.name(more.s))
    body.lines += [f"  br i1 {goes_on}, label %body, label %done", "body:"]
    new = _step(r, divisor, floor, more, fused)
    body.write(new.s)
    body.lines[place] += f"[ {body.name(new.s)}, %body ]"
    body.lines += ["  br label %loop", "done:"]
    return formulas.where(y.differs(y), y, formulas.with_sign(r, x))


def _step(r: Expr, divisor: Expr, floor: Expr, more: Expr, fused: bool) -> Expr:
    """What is left of ``r`` after a round, in lanes where one is due."""
    gap = _field(r) - floor
    k = formulas.where(gap > 0, gap, 0)
    low = (k.seen_as(dtypes.uint64) >> 1).to(dtypes.int64)
    step = divisor * _power(low) * _power(k - low)
    factor = -Expr(r.b, r.b.trunc((r / step).s))
    if not fused:  # which takes longer where a factor is 0, as in lanes that are done
        factor = formulas.where(more, factor, 1.0)
    left = Expr(r.b, r.b.fma(factor.s, step.s, r.s))
    return formulas.where(more, formulas.where(left < 0.0, left + step, left), r)


# ---- fma ----------------------------------------------------------------------------------------


def _two_sum(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """The rounded sum and what rounding took away."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _sum_to_odd(x: Expr, y: Expr) -> Expr:
    """``x + y``; of the two neighbours of an inexact sum the one whose last bit is set."""
    total, lost = _two_sum(x, y)
    bits = total.bits
    away = (lost > 0.0).equals(total > 0.0)
    inexact = ((bits & 1).equals(0)) & (abs(lost) > 0.0)
    return formulas.where(inexact, bits + formulas.where(away, bits.like(1), -1), bits).seen_as(
        x.dtype
    )


def _exact_sum(x: Expr, y: Expr, z: Expr) -> tuple[Expr, Expr]:
    """``x * y + z`` as two numbers, whose rounded sum is the rounded result."""
    product = x * y
    middle, rest = _two_sum(z, formulas.lost_of_product(x, y, product))
    head, tail = _two_sum(product, middle)
    return head, _sum_to_odd(tail, rest)


def _fma_double(x: Expr, y: Expr, z: Expr) -> Expr:
    safe = abs(z) < 2.0**1000
    for factor in (x, y):
        safe = safe & (abs(factor) > 2.0**-400) & (abs(factor) < 2.0**400)
    head, rest = _exact_sum(x, y, z)
    return formulas.unlikely(Expr(x.b, x.b.logic("not", safe.s)), _fma_of_all(x, y, z), head + rest)


def _fma_of_all(x: Expr, y: Expr, z: Expr) -> Expr:
    """Of float64 of all sizes: the sum of significands, times a power of two."""
    (x_part, x_power), (y_part, y_power), (z_part, z_power) = map(_taken_apart, (x, y, z))
    power = x_power + y_power
    above = z_power - power
    # A term that lies below all bits of the product counts as one bit there.
    term = z_part * _power(formulas.at_most(formulas.at_least(above, -170), 110))
    head, rest = _exact_sum(x_part, y_part, formulas.where(z.equals(0.0), z, term))
    power = formulas.at_least(power, -2000)  # below, the result is 0 either way
    found = _rounded(head, rest, _power(-1022 - formulas.at_most(power, 0)))
    half = power >> 1
    found = found * _power(half) * _power(power - half)
    found = formulas.where((above > 110) & z.differs(0.0), z, found)
    finite = (abs(x) < math.inf) & (abs(y) < math.inf)
    found = formulas.where(finite & (abs(x) > 0.0) & (abs(y) > 0.0), found, x * y + z)
    return formulas.where(finite & Expr(x.b, x.b.logic("not", (abs(z) < math.inf).s)), z, found)


def _taken_apart(x: Expr) -> tuple[Expr, Expr]:
    """The significand of a float64, from 1 on and below 2, and the exponent."""
    tiny = abs(x) < 2.0**-1022
    x = formulas.where(tiny, x * 2.0**54, x)
    power = _field(abs(x)) - formulas.where(tiny, x.bits.like(1077), 1023)
    return ((x.bits & ~(2047 << 52)) | (1023 << 52)).seen_as(x.dtype), power


def _rounded(head: Expr, rest: Expr, least: Expr) -> Expr:
    """The sum of two numbers; below ``least`` a multiple of the last bit of that."""
    total, lost = _two_sum(head, rest)
    place = formulas.with_sign(least, total)
    high, low = _two_sum(place, total)
    subnormal = formulas.with_sign(high + _sum_to_odd(low, lost) - place, total)
    return formulas.where(abs(total) < least, subnormal, total)
