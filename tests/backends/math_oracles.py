"""What the mathematical functions are, to more bits than float32 or float64, and errors in ulp.

float32 is compared with float64, of NumPy and SciPy; float64 with NumPy's longdouble, where that
has 64 bits (on x86), and with series in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.special

Array = Any
Long = np.longdouble
HAS_LONG = np.finfo(Long).nmant == 63

_PI = Long("3.14159265358979323846264338327950288")
_EULER = Long("0.577215664901532860606512090082402431")
#: B_2k / (2k (2k - 1)) and B_2k / 2k
_STIRLING = [(1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156)]
_DIGAMMA = [(1, 12), (-1, 120), (1, 252), (-1, 240), (1, 132), (-691, 32760), (1, 12)]


def logistic(x: Array) -> Array:
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


def _erf_of_small(x: Array) -> Array:
    """The series without alternating signs, for |x| <= 1.2."""
    term = total = x * 2 / np.sqrt(_PI) * np.exp(-x * x)
    for n in range(1, 60):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    return total


def _erfc_of_large(x: Array) -> Array:
    """The continued fraction, for x >= 1.2."""
    tail = np.zeros_like(x)
    for n in range(300, 0, -1):
        tail = n / (2 * (x + tail))
    high = (x.astype(np.float32)).astype(Long)  # whose square is exact
    return np.exp(-high * high) * np.exp((high - x) * (high + x)) / np.sqrt(_PI) / (x + tail)


def erf(x: Array) -> Array:
    a = np.abs(x)
    far = 1 - _erfc_of_large(np.clip(a, 1.2, 12))
    return np.where(a < 1.2, _erf_of_small(np.clip(x, -1.2, 1.2)), np.copysign(far, x))


def erfc(x: Array) -> Array:
    near = 1 - _erf_of_small(np.clip(x, -1.2, 1.2))
    far = _erfc_of_large(np.clip(np.abs(x), 1.2, 100))
    return np.where(np.abs(x) < 1.2, near, np.where(x < 0, 2 - far, far))


def erf_inv(x: Array) -> Array:
    y = scipy.special.erfinv(x.astype(np.float64)).astype(Long)
    inside = (np.abs(x) < 1) & (x != 0)
    y0, x0 = y[inside], x[inside]
    for _ in range(2):
        a = np.abs(y0)
        miss = np.where(a < 0.5, erf(a) - np.abs(x0), (1 - np.abs(x0)) - erfc(a))
        y0 = y0 - np.copysign(1, x0) * miss * np.sqrt(_PI) / 2 * np.exp(a * a)
    y[inside] = y0
    return y


@cache
def _zeta(k: int, start: Array) -> Array:
    """``start^-k + (start + 1)^-k + ...``, by Euler and Maclaurin."""
    terms, top = start + np.arange(400)[::-1], start + 400
    tail = top ** (1 - k) / (k - 1) + top**-k / 2 + k * top ** (-k - 1) / 12
    return np.sum(terms**-k) + tail - k * (k + 1) * (k + 2) * top ** (-k - 3) / 720


def _lgamma_near_one(t: Array) -> Array:
    """``lgamma(1 + t)`` for ``|t| <= 1 / 2``."""
    total = np.zeros_like(t)
    for k in range(70, 1, -1):
        total = (total + _zeta(k, Long(1)) / k) * -t
    return (total + _EULER) * -t


def _shifted(x: Array) -> tuple[Array, Array, Array]:
    """``x + n`` from 40 on, the product of ``x ... x + n - 1``, and the sum of their inverses."""
    product, inverses, y = np.ones_like(x), np.zeros_like(x), x.copy()
    for _ in range(40):
        small = y < 40
        product[small] *= y[small]
        inverses[small] += 1 / y[small]
        y[small] += 1
    return y, product, inverses


def _series(z: Array, numbers: list[tuple[int, int]]) -> Array:
    total = np.zeros_like(z)
    for p, q in reversed(numbers):
        total = total * z + Long(p) / q
    return total


def _lgamma_of_positive(x: Array) -> Array:
    y, product, _ = _shifted(x)
    half = Long(1) / 2
    total = (y - half) * np.log(y) - y + np.log(2 * _PI) / 2
    far = total + _series(1 / (y * y), _STIRLING) / y - np.log(product)
    near_one = _lgamma_near_one(np.clip(x - 1, -0.5, 0.5))
    t = np.clip(x - 2, -0.5, 0.5)
    near_two = _lgamma_near_one(t) + np.log1p(t)
    far = np.where(np.abs(x - 1) <= 0.5, near_one, far)
    return np.where(np.abs(x - 2) <= 0.5, near_two, far)


def lgamma(x: Array) -> Array:
    a = np.abs(x)
    value = np.where(a < Long(2) ** -100, -np.log(a), _lgamma_of_positive(np.maximum(a, 1e-31)))
    d = a - np.rint(a)
    reflected = np.log(_PI) - np.log(a) - np.log(np.abs(np.sin(_PI * d))) - value
    value = np.where((x < 0) & (a > Long(2) ** -100), reflected, value)
    return np.where(np.isinf(x) | ((x <= 0) & (d == 0)), np.inf, value)


def _digamma_near_zero(x: Array) -> Array:
    """By Taylor's series about the zero, for ``x`` within 1/4 of it."""
    high, low = Long(1.4616321449683622), Long("9.549995429965697715184199075967050879513e-17")
    d = np.clip(x, 1.25, 1.7) - high - low
    total = np.zeros_like(d)
    for k in range(45, 0, -1):
        total = (total + (-1) ** (k + 1) * _zeta(k + 1, high + low)) * d
    return total


def digamma(x: Array) -> Array:
    a = np.abs(x)
    y, _, inverses = _shifted(np.where(x < 0, a + 1, a))
    z = 1 / (y * y)
    value = np.log(y) - 1 / (2 * y) - z * _series(z, _DIGAMMA) - inverses
    d = a - np.rint(a)
    reflected = np.where(d == 0, np.nan, value + _PI / np.tan(_PI * d))
    value = np.where(x < 0, reflected, np.where(x == np.inf, x, value))
    value = np.where(np.abs(x - 1.46) < 0.2, _digamma_near_zero(x), value)
    return np.where(x == 0, np.nan, value)


_NUMPY: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "cbrt")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
    "atan2": np.arctan2,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": logistic,
}
_SCIPY: dict[str, Callable[..., Array]] = {
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erf_inv": scipy.special.erfinv,
}
_LONG = {"erf": erf, "erfc": erfc, "erf_inv": erf_inv, "lgamma": lgamma, "digamma": digamma}
NAMES = sorted({*_NUMPY, *_LONG})
ARITY = {"atan2": 2, "pow": 2}


def exact(name: str, *operands: Array) -> Array:
    """The function, to more bits than the operands have."""
    single = operands[0].dtype == np.float32
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64 if single else Long) for x in operands]
        if name in _NUMPY:
            return _NUMPY[name](*wide)
        if single and name in _SCIPY:
            return _SCIPY[name](*wide)
        return _LONG[name](*(x.astype(Long) for x in wide))


def scale(name: str, x: Array, want: Array) -> Array:
    """What an error is compared with: the value; for reflected ones also the terms."""
    size = np.abs(want)
    if name not in ("lgamma", "digamma"):
        return size
    shift = 0 if name == "lgamma" else 1
    with np.errstate(all="ignore"):
        terms = np.abs(exact(name, np.abs(x) + np.asarray(shift, x.dtype)))
    terms = np.where(np.isfinite(terms), terms, 0)
    return np.where(x < 0, size + terms + 1, size)


def errors_in_ulp(name: str, operands: tuple[Array, ...], got: Array, want: Array) -> Array:
    """Errors in units of the last place of the exact values; infinite where a NaN is wrong."""
    info, wide = np.finfo(got.dtype), want.dtype
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(want))
        size = np.maximum(scale(name, operands[0], want), info.smallest_normal)
        _, exponent = np.frexp(size)
        unit = np.ldexp(np.ones(want.shape, wide), exponent - 1 - info.nmant)
        # Infinity is one unit beyond the largest number.
        top = np.copysign(Long(2) ** int(info.maxexp), got).astype(wide)
        errors = np.abs(np.where(np.isinf(got), top, got.astype(wide)) - want) / unit
    wrong = np.isnan(errors) | np.isinf(want)
    return np.where(same, 0, np.where(wrong, np.inf, errors)).astype(np.float64)


def operands_of(name: str, dtype: Any, count: int, seed: int) -> tuple[Array, ...]:
    """Samples for a function, for pow also such that the power is in range."""
    x = samples(dtype, count, seed)
    if ARITY.get(name, 1) == 1:
        return (x,)
    rng = np.random.default_rng(seed + 1)
    y = rng.permutation(samples(dtype, count, seed + 2))
    a, b = (v.ravel() for v in np.meshgrid(edges(dtype), edges(dtype)))
    base = np.exp(3 * rng.standard_normal(count))
    exponent = rng.uniform(-150, 130, count) * (1 if dtype == np.float32 else 8) / np.log2(base)
    return np.concatenate([x, a, base.astype(dtype)]), np.concatenate(
        [y, b, exponent.astype(dtype)]
    )


def samples(dtype: Any, count: int, seed: int) -> Array:
    """Floats of every kind: all bit patterns, ordinary sizes, near 1, near pi / 2, edges."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    words = f"u{dtype.itemsize}"
    top = 88 if dtype == np.float32 else 700
    parts = [
        rng.integers(0, np.iinfo(words).max, count, words, endpoint=True).view(dtype),
        rng.standard_normal(count) * np.exp(1.5 * rng.standard_normal(count)),
        rng.uniform(-1.2, 1.2, count),
        rng.uniform(-top, top, count),
        1 + rng.standard_normal(count) * 10.0 ** rng.uniform(-8, 0, count),
        np.arange(1, count // 8) * np.pi / 2,
        edges(dtype.type),
    ]
    with np.errstate(all="ignore"):
        return np.concatenate([np.asarray(p).astype(dtype) for p in parts])


def edges(dtype: Any) -> Array:
    info = np.finfo(dtype)
    positive = [0, info.smallest_subnormal, info.smallest_normal, 0.5, 1, 2, 3, info.max, np.inf]
    near_one = [np.nextafter(dtype(1), dtype(v)) for v in (0, 2)]
    values = np.array([*positive, *near_one], dtype)
    return np.concatenate([values, -values, np.array([np.nan], dtype)])
