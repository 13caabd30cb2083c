"""Integrals that have names: the dilogarithm, Owen's T and the sine and cosine integrals.

Their derivatives are elementary, and stand beside them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.matrices import is_complex
from functrax.core.tracing.primitive import Value
from functrax.numpy.promote import promoting
from functrax.scipy.special.gammas import floats, reals
from functrax.scipy.special.probabilities import erf, ndtr
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

__all__ = ["owens_t", "sici", "spence"]

_EULER = 0.5772156649015329
#: ``B[2k] / (2k + 1)!`` with Bernoulli's numbers, from ``k = 1``.
_BERNOULLI = (
    1 / 36, -1 / 3600, 1 / 211680, -1 / 10886400, 1 / 526901760, -691 / 16999766784000,
    1 / 1120863744000, -3617 / 181400588328960000,
)  # fmt: skip


def spence(x: ArrayLike) -> Array:
    """The dilogarithm of ``1 - x``: the integral of ``log(t) / (1 - t)`` from 1 to ``x``.

    DLMF 25.12.2.

    Args:
      x: real numbers.

    Returns:
      Floats of the shape of ``x``; NaN below 0.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> from functrax.scipy.special import spence
    >>> spence(0.0).round(4)
    Array(1.6449, dtype=float32)
    """
    (v,) = reals("spence", x)
    found: Value = _spence(v)
    return found


@custom_jvp
@promoting
def _spence(x: Value) -> Value:
    inverted = x > 1.5
    y = jnp.where(inverted, 1 / jnp.where(inverted, x, 1.0), x)
    turned = y < 0.5
    z = jnp.where(turned, 1 - y, y)
    u = -jnp.log(z)
    square, total = u * u, jnp.zeros_like(x)
    for c in reversed(_BERNOULLI):
        total = (total + c) * square
    out = u * (1 - u / 4 + total)
    safe = jnp.where(turned & (y > 0), y, 0.5)
    out = jnp.where(turned, math.pi**2 / 6 - jnp.log(safe) * jnp.log1p(-safe) - out, out)
    out = jnp.where(y == 0, jnp.where(inverted, -jnp.inf, math.pi**2 / 6), out)
    half = jnp.log(jnp.where(inverted, x, 1.0)) ** 2 / 2
    out = jnp.where(inverted, -half - out, out)
    out = jnp.where(x == jnp.inf, -jnp.inf, out)
    return jnp.where(x < 0, jnp.nan, out).astype(x.dtype)


@_spence.defjvp
@promoting
def _spence_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    ((x,), (dx,)) = primals, tangents
    near = jnp.abs(x - 1) < 1e-3
    t = jnp.where(near, x - 1, 0.0)
    series = -(1 - t / 2 + t * t / 3 - t**3 / 4 + t**4 / 5)
    away = jnp.where(near, 2.0, x)
    return _spence(x), jnp.where(near, series, jnp.log(away) / (1 - away)) * dx


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: how probable ``X > h`` and ``0 < Y < a X`` are for normal ``X`` and ``Y``.

    D. B. Owen, "Tables for computing bivariate normal probabilities", 1956.

    Args:
      h, a: real numbers.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import owens_t
    >>> owens_t(0.0, 1.0).round(4)
    Array(0.125, dtype=float32)
    """
    x, y = floats("owens_t", h, a)
    found: Value = _owens_t(x, y)
    return found


#: Gauss and Legendre's nodes and weights of the interval from -1 to 1.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


@custom_jvp
@promoting
def _owens_t(h: Value, a: Value) -> Value:
    size, slope = jnp.abs(h), jnp.abs(a)
    steep = slope > 1
    # By the symmetry of both normal variables only slopes up to 1 need be integrated.
    h1 = jnp.where(steep, size * jnp.where(steep, slope, 1.0), size)
    h1 = jnp.where(size == 0, 0.0, h1)
    a1 = jnp.where(steep, 1 / jnp.where(steep, slope, 1.0), slope)
    half = h1 * h1 / 2
    total = jnp.zeros_like(size)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        square = 1 + (a1 * (1 + node) / 2) ** 2
        total = total + weight / 2 * jnp.exp(-half * square) / square
    inside = total * a1 / (2 * math.pi)
    p, q = ndtr(-size), ndtr(-h1)
    out = jnp.where(steep, (p + q) / 2 - p * q - inside, inside)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), jnp.nan, jnp.sign(a) * out).astype(h.dtype)


@_owens_t.defjvp
@promoting
def _owens_t_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    (h, a), (dh, da) = primals, tangents
    by_h = -jnp.exp(-h * h / 2) * erf(a * h / math.sqrt(2)) / (2 * math.sqrt(2 * math.pi))
    by_a = jnp.exp(-h * h * (1 + a * a) / 2) / (2 * math.pi * (1 + a * a))
    return _owens_t(h, a), by_h * dh + by_a * da


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine and the cosine integral.

    Args:
      x: real numbers.

    Returns:
      ``(Si, Ci)``: the integral of ``sin(t) / t`` from 0 to ``x``, and of ``cos(t) / t`` from
      infinity; ``Ci`` is that of ``|x|``.

    Raises:
      ArgumentError: for complex numbers.

    >>> from functrax.scipy.special import sici
    >>> [y.round(4) for y in sici(1.0)]
    [Array(0.9461, dtype=float32), Array(0.3374, dtype=float32)]
    """
    (v,) = floats("sici", x)
    if is_complex(v):
        raise ArgumentError(
            "sici: Argument `x` to sici must be real-valued.", got=v.aval.str_short(), fix="x.real"
        )
    found: tuple[Value, Value] = _sici(v)
    return found


@custom_jvp
@promoting
def _sici(x: Value) -> tuple[Value, Value]:
    size = jnp.abs(x)
    near = size <= 4
    small = jnp.where(near & (size > 0), size, 1.0)
    si, ci, term = small, jnp.zeros_like(small), small
    for k in range(2, 36):
        term = term * small / k
        sign = (-1) ** (k // 2)
        if k % 2:
            si = si + sign * term / k
        else:
            ci = ci + sign * term / k
    ci = _EULER + jnp.log(small) + ci
    far = jnp.where(near | jnp.isinf(size), 5.0, size)
    # The exponential integral of an imaginary argument, by its continued fraction.
    z = lax.complex(jnp.zeros_like(far), far)

    def step(k: Value, below: Value) -> Value:
        n = (60 - k).astype(far.dtype)
        return z + 2 * n + 1 - (n + 1) * (n + 1) / below

    below = lax.fori_loop(0, 61, step, z + 123)
    e1 = lax.complex(jnp.cos(far), -jnp.sin(far)) / below
    si = jnp.where(near, si, math.pi / 2 + e1.imag)
    ci = jnp.where(near, ci, -e1.real)
    si = jnp.where(size == 0, 0.0, jnp.where(jnp.isinf(size), math.pi / 2, si)) * jnp.sign(x)
    ci = jnp.where(size == 0, -jnp.inf, jnp.where(jnp.isinf(size), 0.0, ci))
    ci = jnp.where(jnp.isnan(x) | (x == -jnp.inf), jnp.nan, ci)
    return jnp.where(jnp.isnan(x), x, si).astype(x.dtype), ci.astype(x.dtype)


@_sici.defjvp
@promoting
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    ((x,), (dx,)) = primals, tangents
    return _sici(x), (jnp.sinc(x / math.pi) * dx, jnp.cos(x) / x * dx)
