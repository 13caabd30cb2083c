"""Error functions, the normal distribution, entropies and odds, as in ``jax.scipy.special``.

Where a formula loses digits or its derivative is wrong at a limit, the function has a derivative
rule of its own, made of the same functions, so that derivatives of every order are right.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functools
import math
from typing import Any

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.prims import analytic, special as prims
from functrax.core.tracing.primitive import Value
from functrax.numpy.elementwise import unary
from functrax.scipy.special.gammas import floats, reals
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

__all__ = [
    "entr", "erf", "erfc", "erfinv", "expit", "i0", "i0e", "i1", "i1e",
    "kl_div", "log_ndtr", "logit", "ndtr", "ndtri", "rel_entr", "xlog1py", "xlogy",
]  # fmt: skip


@unary(prims.erf)
def erf(x: ArrayLike, /) -> Array:
    """The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``x``.

    >>> from functrax.scipy.special import erf
    >>> erf(0.5).round(4)
    Array(0.5205, dtype=float32, weak_type=True)
    """


@unary(prims.erfc)
def erfc(x: ArrayLike, /) -> Array:
    """``1 - erf(x)``, precise for large ``x`` (DLMF 7.2.2).

    >>> from functrax.scipy.special import erfc
    >>> erfc(0.5).round(4)
    Array(0.4795, dtype=float32, weak_type=True)
    """


@unary(prims.erf_inv)
def erfinv(x: ArrayLike, /) -> Array:
    """The inverse of the error function, from -1 to 1.

    >>> from functrax.scipy.special import erfinv
    >>> erfinv(0.5).round(4)
    Array(0.4769, dtype=float32, weak_type=True)
    """


@unary(analytic.logistic)
def expit(x: ArrayLike, /) -> Array:
    """The logistic function, ``1 / (1 + exp(-x))``.

    >>> from functrax.scipy.special import expit
    >>> expit(1.0).round(4)
    Array(0.7311, dtype=float32, weak_type=True)
    """


@unary(prims.bessel_i0e)
def i0e(x: ArrayLike, /) -> Array:
    """``exp(-|x|) i0(x)``, which does not overflow.

    >>> from functrax.scipy.special import i0e
    >>> i0e(1000.0).round(4)
    Array(0.0126, dtype=float32, weak_type=True)
    """


@unary(prims.bessel_i1e)
def i1e(x: ArrayLike, /) -> Array:
    """``exp(-|x|) i1(x)``, which does not overflow.

    >>> from functrax.scipy.special import i1e
    >>> i1e(1000.0).round(4)
    Array(0.0126, dtype=float32, weak_type=True)
    """


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind and order 0 (DLMF 10.25.2).

    Args:
      x: an array or a number; integers are computed in float32.

    Returns:
      Floats of the shape of ``x``.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> from functrax.scipy.special import i0
    >>> i0(1.0).round(4)
    Array(1.2661, dtype=float32, weak_type=True)
    """
    (v,) = floats("i0", x)
    return jnp.i0(v)


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind and order 1 (DLMF 10.25.2).

    Args:
      x: an array or a number; integers are computed in float32.

    Returns:
      Floats of the shape of ``x``.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> from functrax.scipy.special import i1
    >>> i1(1.0).round(4)
    Array(0.5652, dtype=float32, weak_type=True)
    """
    (v,) = floats("i1", x)
    return jnp.exp(v * jnp.sign(v)) * i1e(v)  # abs would have a derivative at 0


def logit(x: ArrayLike) -> Array:
    """``log(x / (1 - x))``, the inverse of :func:`expit`.

    Args:
      x: an array or a number; integers are computed in float32.

    Returns:
      Floats of the shape of ``x``; infinite at 0 and 1, NaN outside of them.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import logit
    >>> logit(jnp.array([0.25, 0.5, 1.0])).round(4)
    Array([-1.0986,  0.    ,     inf], dtype=float32)
    """
    (v,) = floats("logit", x)
    return jnp.log(v) - jnp.log1p(-v)


@custom_jvp
def _xlogy(x: Value, y: Value) -> Value:
    some = (x != 0) | jnp.isnan(y)
    return jnp.where(some, x * jnp.log(jnp.where(some, y, 1)), 0).astype(x.dtype)


@_xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    (x, y), (dx, dy) = primals, tangents
    return _xlogy(x, y), dx * jnp.log(y) + dy * x / y


@custom_jvp
def _xlog1py(x: Value, y: Value) -> Value:
    some = (x != 0) | jnp.isnan(y)
    return jnp.where(some, x * jnp.log1p(jnp.where(some, y, 0)), 0).astype(x.dtype)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    (x, y), (dx, dy) = primals, tangents
    return _xlog1py(x, y), dx * jnp.log1p(y) + dy * x / (1 + y)


@custom_jvp
def _xlogx(x: Value) -> Value:
    some = x != 0
    return jnp.where(some, x * jnp.log(jnp.where(some, x, 1)), 0).astype(x.dtype)


@_xlogx.defjvp
def _xlogx_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    (x,), (t,) = primals, tangents
    return _xlogx(x), t * (jnp.log(x) + 1)


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """``x log(y)``, 0 where ``x`` is 0.

    Args:
      x, y: arrays or numbers; integers are computed in float32.

    Returns:
      Floats of the shape to which the arguments broadcast; NaN where ``y`` is.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import xlogy
    >>> xlogy(0.0, 0.0), xlogy(2.0, 1.5).round(4)
    (Array(0., dtype=float32), Array(0.8109, dtype=float32))
    """
    out: Value = _xlogy(*floats("xlogy", x, y))
    return out


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """``x log(1 + y)``, 0 where ``x`` is 0; precise for small ``y``.

    Args:
      x, y: arrays or numbers; integers are computed in float32.

    Returns:
      Floats of the shape to which the arguments broadcast; NaN where ``y`` is.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import xlog1py
    >>> xlog1py(0.0, -1.0), xlog1py(2.0, 0.5).round(4)
    (Array(0., dtype=float32), Array(0.8109, dtype=float32))
    """
    out: Value = _xlog1py(*floats("xlog1py", x, y))
    return out


def entr(x: ArrayLike) -> Array:
    """``-x log(x)``, what an outcome of probability ``x`` adds to an entropy.

    Args:
      x: an array or a number; integers are computed in float32.

    Returns:
      Floats of the shape of ``x``; 0 at 0, and minus infinity below.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import entr
    >>> entr(jnp.array([0.5, 0.0, -1.0])).round(4)
    Array([ 0.3466, -0.    ,    -inf], dtype=float32)
    """
    (v,) = reals("entr", x)
    return jnp.where(v < 0, -jnp.inf, -_xlogx(jnp.where(v < 0, 1, v))).astype(v.dtype)


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """``p log(p / q)``, what an outcome adds to a relative entropy.

    Args:
      p: real numbers.
      q: real numbers.

    Returns:
      Floats of the shape to which the arguments broadcast; 0 where ``p``
      is 0 and ``q`` at least 0, infinite where one is negative, or ``q`` alone is 0.

    Raises:
      DTypeError: for complex numbers, and for lists.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import rel_entr
    >>> rel_entr(0.5, 0.25).round(4)
    Array(0.3466, dtype=float32)
    """
    x, y = reals("rel_entr", p, q)
    both = (x > 0) & (y > 0)
    a, b = jnp.where(both, x, 1), jnp.where(both, y, 1)
    nothing = (x == 0) & (y >= 0)
    return jnp.where(both, _xlogx(a) - _xlogy(a, b), jnp.where(nothing, 0, jnp.inf)).astype(x.dtype)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """``p log(p / q) - p + q``: :func:`rel_entr` made convex.

    Args:
      p: real numbers.
      q: real numbers.

    Returns:
      Floats of the shape to which the arguments broadcast; infinite where one
      is negative, or ``q`` alone is 0.

    Raises:
      DTypeError: for complex numbers, and for lists.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import kl_div
    >>> kl_div(0.5, 0.25).round(4)
    Array(0.0966, dtype=float32)
    """
    x, y = reals("kl_div", p, q)
    return rel_entr(x, y) - x + y


def ndtr(x: ArrayLike) -> Array:
    """The normal distribution function: the probability to be below ``x``.

    Args:
      x: real numbers; integers are computed in float32.

    Returns:
      Floats of the shape of ``x``, from 0 to 1.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import ndtr
    >>> ndtr(jnp.array([-1.0, 0.0])).round(4)
    Array([0.1587, 0.5   ], dtype=float32)
    """
    return 0.5 * erfc(-math.sqrt(0.5) * reals("ndtr", x)[0])


def _limits(x: Value) -> tuple[float, float]:
    """Between which numbers ``log(ndtr(x))`` is as exact as the dtype."""
    return (-10.0, 5.0) if x.dtype.itemsize < 8 else (-20.0, 8.0)


def _series(x: Value, order: int) -> Value:
    """``ndtr(x)`` as a multiple of ``-exp(-x**2 / 2) / (sqrt(2 pi) x)``, far on the left."""
    total, term = jnp.ones_like(x), jnp.ones_like(x)
    for n in range(1, order + 1):
        term = term * -(2 * n - 1) / (x * x)
        total = total + term
    return total


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _log_ndtr(x: Value, series_order: int) -> Value:
    """By three formulas: from ``1 - ndtr(-x)``, from ``log``, and asymptotically on the left."""
    low, high = _limits(x)
    middle = jnp.log(ndtr(jnp.clip(x, low, high)))
    far = jnp.minimum(x, low)
    total = _series(far, series_order)
    left = -0.5 * far * far - jnp.log(-far) - _HALF_LOG_2PI + jnp.log(total)
    right = -ndtr(-jnp.maximum(x, high))
    return jnp.where(x > high, right, jnp.where(x > low, middle, left))


@_log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Any, tangents: Any) -> tuple[Value, Value]:
    (x,), (t,) = primals, tangents
    out = _log_ndtr(x, series_order)
    # On the left both logarithms are large, and their difference is one of the series.
    low, _ = _limits(x)
    is_near = x > low
    far, near = jnp.where(is_near, low, x), jnp.where(is_near, x, low)
    right = jnp.exp(-0.5 * near * near - _HALF_LOG_2PI - jnp.where(is_near, out, 0))
    return out, t * jnp.where(is_near, right, -far / _series(far, series_order))


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """The logarithm of :func:`ndtr`, without underflow.

    Args:
      x: real numbers; integers are computed in float32.
      series_order: how many terms of the asymptotic series to take far on the left.

    Returns:
      Floats of the shape of ``x``, up to 0.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import log_ndtr
    >>> log_ndtr(jnp.array([-30.0, 0.0])).round(4)
    Array([-454.3212,   -0.6931], dtype=float32)
    """
    out: Value = _log_ndtr(reals("log_ndtr", x)[0], int(series_order))
    return out


#: Numerators and denominators of PPND16, constants first; M. J. Wichura, "Algorithm AS 241: The
#: percentage points of the normal distribution", 1988.  Their relative error is 1e-16.
_CENTRE = (
    (3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077,
     21213.794301586595867, 39307.89580009271061, 28729.085735721942674, 5226.495278852545925),
)  # fmt: skip
_NEAR_TAIL = (
    (1.42343711074968357734, 4.6303378461565452959, 5.7694972214606914055, 3.64784832476320460504,
     1.27045825245236838258, 0.24178072517745061177, 0.0227238449892691845833,
     7.7454501427834140764e-4),
    (1.0, 2.05319162663775882187, 1.6763848301838038494, 0.68976733498510000455,
     0.14810397642748007459, 0.0151986665636164571966, 5.475938084995344946e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
_FAR_TAIL = (
    (6.6579046435011037772, 5.4637849111641143699, 1.7848265399172913358, 0.29656057182850489123,
     0.026532189526576123093, 0.0012426609473880784386, 2.71155556874348757815e-5,
     2.01033439929228813265e-7),
    (1.0, 0.59983220655588793769, 0.13692988092273580531, 0.0148753612908506148525,
     7.868691311456132591e-4, 1.8463183175100546818e-5, 1.4215117583164458887e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


def _ratio(x: Value, of: tuple[tuple[float, ...], tuple[float, ...]]) -> Value:
    """A quotient of two polynomials."""
    above, below = (functools.reduce(lambda s, c: s * x + c, reversed(c[:-1]), c[-1]) for c in of)
    return above / below


@custom_jvp
def _ndtri(p: Value) -> Value:
    """A rational function of ``p`` in the middle, and of ``sqrt(-log(p))`` in either tail."""
    dtype, p = p.dtype, p.astype(jnp.promote_types(p.dtype, jnp.float32))
    q = p - 0.5
    centre = q * _ratio(0.180625 - q * q, _CENTRE)
    small = jnp.minimum(p, 1 - p)
    inside = small > 0
    r = jnp.sqrt(-jnp.log(jnp.where(inside, small, 0.5)))
    tail = jnp.where(r <= 5, _ratio(r - 1.6, _NEAR_TAIL), _ratio(r - 5, _FAR_TAIL))
    x = jnp.where(jnp.abs(q) <= 0.425, centre, jnp.copysign(tail, q))
    ends = jnp.where(p == 0, -jnp.inf, jnp.where(p == 1, jnp.inf, jnp.nan))
    return jnp.where(inside, x, ends).astype(dtype)


@_ndtri.defjvp
def _ndtri_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, t * jnp.exp(0.5 * x * x + _HALF_LOG_2PI)


def ndtri(p: ArrayLike) -> Array:
    """The inverse of :func:`ndtr`: where the probability to be below is ``p``.

    M. J. Wichura, "Algorithm AS 241", 1988.

    Args:
      p: probabilities; integers are computed in float32.

    Returns:
      Floats of the shape of ``p``; infinite at 0 and 1, NaN outside of them.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import ndtri
    >>> ndtri(jnp.array([0.5, 0.975])).round(4)
    Array([0.  , 1.96], dtype=float32)
    """
    out: Value = _ndtri(reals("ndtri", p)[0])
    return out
