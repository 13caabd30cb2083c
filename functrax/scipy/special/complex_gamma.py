"""The gamma function of complex numbers, by Lanczos's approximation.

C. Lanczos, "A precision approximation of the gamma function", 1964, with ``g = 7`` and nine terms;
left of ``1 / 2`` by reflection, with the logarithm of the sine that has no cut in either half of
the plane.
"""

from __future__ import annotations

import math
from typing import Any

import functrax.numpy as jnp
from functrax import lax
from functrax.core.tracing.primitive import Value
from functrax.numpy.promote import promoting

_G = 7
_FIRST = 0.99999999999980993
_TERMS = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _right(z: Value) -> Value:
    """The logarithm where the real part is at least ``1 / 2``."""
    total: Any = _FIRST
    for k, c in enumerate(_TERMS):
        total = total + c / (z + k)
    t = z + (_G - 0.5)
    return 0.5 * math.log(2 * math.pi) + (z - 0.5) * jnp.log(t) - t + jnp.log(total)


def _log_sine(z: Value) -> Value:
    """``log(sin(pi z))`` in the upper half plane, continued from between 0 and 1."""
    # Whole turns are taken away before the exponential, which would round them.
    x, y = z.real, z.imag
    turn = 2 * math.pi * (x - jnp.round(x))
    size = jnp.exp(-2 * math.pi * y)
    power = lax.complex(size * jnp.cos(turn), size * jnp.sin(turn))
    angle = lax.complex(math.pi * y - math.log(2), math.pi * (0.5 - x))
    return angle + jnp.log1p(-power)


def _pole(z: Value) -> Value:
    return (z.imag == 0) & (z.real <= 0) & (z.real == jnp.round(z.real))


@promoting
def complex_loggamma(z: Value) -> Value:
    """The logarithm of the gamma function, continuous but for a cut along the negative numbers.

    NaN at the poles, which are the whole numbers up to 0.
    """
    left = z.real < 0.5
    below = jnp.signbit(z.imag)
    safe = jnp.where(_pole(z), 0.25, jnp.where(below, jnp.conj(z), z))
    reflected = math.log(math.pi) - _log_sine(jnp.where(left, safe, 0.25))
    right = _right(jnp.where(left, 1 - safe, safe))
    out = jnp.where(left, reflected - right, right)
    out = jnp.where(below, jnp.conj(out), out)
    return jnp.where(_pole(z), lax.complex(jnp.nan, jnp.nan), out).astype(z.dtype)


@promoting
def complex_gamma(z: Value) -> Value:
    """The gamma function; NaN at its poles."""
    out = jnp.exp(complex_loggamma(z))
    real = lax.complex(out.real, jnp.zeros_like(out.real))
    return jnp.where((z.imag == 0) & ~_pole(z), real, out).astype(z.dtype)
