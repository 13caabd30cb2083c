"""The function of Faddeeva, and what is made of it: wofz, erfcx, dawsn and the Fresnel integrals.

In the upper half of the complex plane it is a polynomial in ``(L + iz) / (L - iz)`` (J. A. C.
Weideman, "Computation of the complex error function", 1994), and a continued fraction far out;
elsewhere its symmetry gives it.  Near zero Dawson's and Fresnel's functions are power series, for
there the differences lose digits.

Start at :func:`wofz`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.matrices import is_complex
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.promote import promoting
from functrax.scipy.special.gammas import floats, reals
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

__all__ = ["dawsn", "erfcx", "fresnel", "wofz"]

_ROOT_PI = math.sqrt(math.pi)
_TERMS = 64
_SCALE = math.sqrt(_TERMS / math.sqrt(2))  # L above


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """Of the polynomial, from the highest power on."""
    m = 2 * _TERMS
    angles = np.arange(1 - m, m) * np.pi / m
    t = _SCALE * np.tan(angles / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (_SCALE**2 + t * t)])
    found = np.fft.fft(np.fft.fftshift(values)).real / (2 * m)
    return tuple(found[_TERMS:0:-1].tolist())


def _by_polynomial(turned: Value) -> Value:
    """The function where ``turned``, which is ``-iz``, has no negative real part."""
    ratio = (_SCALE - turned) / (_SCALE + turned)
    total = jnp.zeros_like(ratio)
    for c in _coefficients():
        total = total * ratio + c
    return 2 * total / (_SCALE + turned) ** 2 + (1 / _ROOT_PI) / (_SCALE + turned)


def _far(turned: Value) -> Value:
    """The same by Laplace's continued fraction, for sizes above 8."""
    below = turned
    for k in range(24, 0, -1):
        below = turned + (k / 2) / below
    return (1 / _ROOT_PI) / below


def _scaled_erfc(turned: Value) -> Value:
    far = jnp.abs(turned) > 8
    return jnp.where(far, _far(jnp.where(far, turned, 9.0)), _by_polynomial(turned))


@promoting
def wofz(z: ArrayLike) -> Array:
    """Faddeeva's function ``exp(-z**2) erfc(-i z)`` (DLMF 7.2.3).

    By the expansion of J. A. C. Weideman (1994).

    Args:
      z: complex numbers.

    Returns:
      Complex numbers of the shape of ``z``.

    Raises:
      ArgumentError: for real numbers.
      DTypeError: for lists, and what is not a number.

    >>> from functrax.scipy.special import wofz
    >>> wofz(1j).real.round(4)
    Array(0.4276, dtype=float32)
    """
    (v,) = floats("wofz", z)
    if not is_complex(v):
        raise ArgumentError(
            "wofz: z must be complex", got=v.aval.str_short(), fix="z.astype(complex)"
        )
    found: Value = _wofz(v)
    return found


@custom_jvp
@promoting
def _wofz(z: Value) -> Value:
    lower = z.imag < 0
    upper = _scaled_erfc(-1j * jnp.where(lower, -z, z))
    return jnp.where(lower, 2 * jnp.exp(-z * z) - upper, upper).astype(z.dtype)


@_wofz.defjvp
@promoting
def _wofz_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    ((z,), (dz,)) = primals, tangents
    w = _wofz(z)
    return w, ((2j / _ROOT_PI - 2 * z * w) * dz).astype(z.dtype)


@promoting
def erfcx(x: ArrayLike) -> Array:
    """The scaled complementary error function ``exp(x**2) erfc(x)``, without overflow above 0.

    DLMF 7.2.2, by the expansion of J. A. C. Weideman (1994).

    Args:
      x: real or complex numbers.

    Returns:
      Numbers of the shape of ``x``.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> from functrax.scipy.special import erfcx
    >>> erfcx(1.0).round(4)
    Array(0.4276, dtype=float32)
    """
    (v,) = floats("erfcx", x)
    found: Value = _wofz(1j * v) if is_complex(v) else _erfcx(v)
    return found


@custom_jvp
@promoting
def _erfcx(x: Value) -> Value:
    size = _scaled_erfc(jnp.abs(x))
    return jnp.where(x < 0, 2 * jnp.exp(x * x) - size, size).astype(x.dtype)


@_erfcx.defjvp
@promoting
def _erfcx_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    ((x,), (dx,)) = primals, tangents
    y = _erfcx(x)
    return y, (2 * x * y - 2 / _ROOT_PI) * dx


def dawsn(x: ArrayLike) -> Array:
    """Dawson's function, ``exp(-x**2)`` times the integral of ``exp(t**2)`` from 0 to ``x``.

    DLMF 7.2.5.

    Args:
      x: real numbers.

    Returns:
      Floats of the shape of ``x``.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> from functrax.scipy.special import dawsn
    >>> dawsn(1.0).round(4)
    Array(0.5381, dtype=float32)
    """
    (v,) = reals("dawsn", x)
    found: Value = _dawsn(v)
    return found


@custom_jvp
@promoting
def _dawsn(x: Value) -> Value:
    near = jnp.abs(x) < 1
    small = jnp.where(near, x, 0.0)
    square, term = -2 * small * small, small
    total = term
    for k in range(1, 24):
        term = term * square / (2 * k + 1)
        total = total + term
    far = jnp.where(near, 1.0, jnp.abs(x))
    # Values there are not complex numbers of a user's, so they may be of the same precision.
    outside = _wofz(far.astype(_complex_of(x))).imag * (_ROOT_PI / 2)
    return jnp.where(near, total, jnp.sign(x) * outside).astype(x.dtype)


def _complex_of(x: Value) -> Any:
    return dtypes.complex128 if x.dtype == dtypes.float64 else dtypes.complex64


@_dawsn.defjvp
@promoting
def _dawsn_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    ((x,), (dx,)) = primals, tangents
    y = _dawsn(x)
    return y, (1 - 2 * x * y) * dx


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The integrals of ``sin(pi t**2 / 2)`` and of ``cos(pi t**2 / 2)`` from 0 to ``x``.

    DLMF 7.2.7 and 7.2.8.

    Args:
      x: real numbers.

    Returns:
      ``(S, C)``, floats of the shape of ``x``.

    Raises:
      ArgumentError: for complex numbers.
      DTypeError: for lists, and what is not a number.

    >>> from functrax.scipy.special import fresnel
    >>> [y.round(4) for y in fresnel(1.0)]
    [Array(0.4383, dtype=float32), Array(0.7799, dtype=float32)]
    """
    (v,) = floats("fresnel", x)
    if is_complex(v):
        raise ArgumentError("fresnel: x must be real", got=v.aval.str_short(), fix="x.real")
    found: tuple[Value, Value] = _fresnel(v)
    return found


@custom_jvp
@promoting
def _fresnel(x: Value) -> tuple[Value, Value]:
    size = jnp.abs(x)
    near = size < 1.5
    small = jnp.where(near, size, 0.0)
    angle = small * small * (math.pi / 2)
    sums, term = [jnp.zeros_like(x), jnp.zeros_like(x)], small
    for k in range(28):  # cosine and sine in turn
        sums[k % 2] = sums[k % 2] + (-1) ** (k // 2) * term / (2 * k + 1)
        term = term * angle / (k + 1)
    far = jnp.where(near, 1.5, jnp.where(jnp.isinf(size), 1.5, size))
    # Whole turns are taken away before the angle is multiplied, which would round it.
    turns = jnp.remainder(far * far, 4.0) * (math.pi / 2)
    w = _wofz(((1 + 1j) * (_ROOT_PI / 2) * far).astype(_complex_of(x)))
    outside = (0.5 + 0.5j) * (1 - jnp.exp(1j * turns) * w)
    parts = [jnp.where(jnp.isinf(size), 0.5, y) for y in (outside.real, outside.imag)]
    c, s = (
        (jnp.sign(x) * jnp.where(near, a, b)).astype(x.dtype)
        for a, b in zip(sums, parts, strict=True)
    )
    return s, c


@_fresnel.defjvp
@promoting
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    ((x,), (dx,)) = primals, tangents
    angle = jnp.remainder(x * x, 4.0) * (math.pi / 2)
    return _fresnel(x), (jnp.sin(angle) * dx, jnp.cos(angle) * dx)
