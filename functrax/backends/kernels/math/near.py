"""exp and its kin in float32, by instructions that give a power of two and a reciprocal nearly.

GPUs of NVIDIA have such instructions (PTX ISA 9.7.3: ``ex2.approx``, ``lg2.approx``,
``rcp.approx``, ``rsqrt.approx``), with errors of about a unit in the last place.
``x log2(e) = n + f``, of which the instruction gets ``f``: its error does not grow with ``x``.

Start at :func:`exp`.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.math.error_function import tail
from functrax.backends.kernels.math.exponential import power_of_two, rounded
from functrax.backends.kernels.math.expression import (
    Expr,
    at_least,
    at_most,
    careful,
    constant,
    expr_of,
    fma,
    muladd,
    where,
    with_sign,
)


def _near(op: str, x: Expr) -> Expr:
    return Expr(x.b, x.b.node(op, x.dtype, (x.s,)))


def exp(x: Expr) -> Expr:
    """``2^f 2^n``; past the normal numbers ``f`` is so large that the result is right."""
    high, low = constant("log2_e", x)
    n, bits = rounded(at_least(at_most(x, 88.0), -87.0), high)
    f = muladd(x, low, fma(x, high, -n))
    return _near("exp2_near", f) * power_of_two(bits, x)


def exp2(x: Expr) -> Expr:
    """``2^x``."""
    return _near("exp2_near", x)


def logistic(x: Expr) -> Expr:
    """``1 / (1 + e^-x)``."""
    return _near("reciprocal_near", exp(-x) + 1)


def tanh(x: Expr) -> Expr:
    """``1 - 2 / (e^(2 |x|) + 1)``; of small ``x`` a polynomial."""
    a, z = abs(x), x * x
    near = muladd(x * z, expr_of("tanh_near", z), x)
    far = muladd(_near("reciprocal_near", exp(a + a) + 1), -2.0, x.like(1))
    return where(a < 0.55, near, with_sign(far, x))


def rsqrt(x: Expr) -> Expr:
    """``1 / sqrt(x)``."""
    return _near("rsqrt_near", x)


def erf(x: Expr) -> Expr:
    """``1 - 2^q`` for a polynomial ``q``; of small ``x`` a polynomial."""
    near = muladd(x, expr_of("erf", x * x), x)
    t = at_most(abs(x), 4)
    far = 1 - _near("exp2_near", t * expr_of("erf_tail", t))
    return where(abs(x) < 0.85, near, with_sign(far, x))


def erf_inv(x: Expr) -> Expr:
    """Polynomials in ``w = -log(1 - x^2)``, whose own error counts little, and in its root."""
    a = abs(x)
    w = _near("log2_near", fma(-x, x, x.like(1))) * -math.log(2)
    high, low = constant("half_root_pi", x)
    near = fma(x, high, x * fma(w, careful("erf_inv", w), w.like(low)))
    far = tail("erf_inv_tail", x, w * _near("rsqrt_near", w) - 2.875)
    end = where(a.equals(1), x.like(math.inf), math.nan)
    return with_sign(where(a < 1, where(w < 4, near, far), end), x)
