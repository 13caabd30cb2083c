"""Gamma and beta functions and what is made of them, as ``jax.scipy.special`` has them."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.prims import special as prims
from functrax.core.prims.matrices import is_complex
from functrax.core.tracing.primitive import Value, like
from functrax.numpy.axes import integer
from functrax.numpy.elementwise import unary
from functrax.numpy.promote import inexact, promote_args, promote_pair, result
from functrax.scipy.special.complex_gamma import complex_gamma, complex_loggamma
from functrax.transforms.differentiation.derivatives import jvp
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc",
    "gammaincc", "gammaln", "gammasgn", "loggamma", "multigammaln", "poch", "polygamma", "zeta",
]  # fmt: skip


@unary(prims.lgamma)
def gammaln(x: ArrayLike, /) -> Array:
    """``log |gamma(x)|`` (DLMF 5.2.1).

    >>> from functrax.scipy.special import gammaln
    >>> gammaln(5.0).round(4)
    Array(3.1781, dtype=float32, weak_type=True)
    """


@unary(prims.digamma)
def digamma(x: ArrayLike, /) -> Array:
    """The derivative of :func:`gammaln` (DLMF 5.2.2).

    >>> from functrax.scipy.special import digamma
    >>> digamma(1.0).round(4)
    Array(-0.5772, dtype=float32, weak_type=True)
    """


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function P(a, x) (DLMF 8.2.4).

    Args:
      a: the shape, above 0.
      x: where the integral ends, from 0 on.

    Returns:
      Floats of the shape to which the arguments broadcast, from 0 to 1.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import gammainc
    >>> gammainc(2.0, 1.0).round(4)
    Array(0.2642, dtype=float32, weak_type=True)
    """
    return result(prims.igamma.bind(*promote_pair("gammainc", a, x, inexact)))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function Q(a, x) (DLMF 8.2.4).

    Args:
      a: the shape, above 0.
      x: where the integral begins, from 0 on.

    Returns:
      Floats of the shape to which the arguments broadcast, from 0 to 1.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import gammaincc
    >>> gammaincc(2.0, 1.0).round(4)
    Array(0.7358, dtype=float32, weak_type=True)
    """
    return result(prims.igammac.bind(*promote_pair("gammaincc", a, x, inexact)))


def floats(name: str, *xs: Any) -> list[Array]:
    """Operands in one inexact dtype and one shape, as arrays."""
    arrays = [jnp.asarray(result(x)) for x in promote_args(name, *xs, kind=inexact)]
    return jnp.broadcast_arrays(*arrays) if len(arrays) > 1 else arrays


def reals(name: str, *xs: Any) -> list[Array]:
    """:func:`floats` of real numbers.

    Raises:
      DTypeError: if one is complex.
    """
    found = floats(name, *xs)
    if is_complex(found[0]):
        raise DTypeError(f"{name}: takes real numbers", got=found[0].aval.str_short(), fix="x.real")
    return found


def loggamma(x: ArrayLike) -> Array:
    """The logarithm of the gamma function; ``gammaln`` for real numbers.

    Of complex numbers by Lanczos's approximation (1964) with nine terms.

    Args:
      x: real or complex numbers.

    Returns:
      Of complex numbers the branch that is real above 0, with a cut along the negative ones;
      NaN at the poles.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> from functrax.scipy.special import loggamma
    >>> loggamma(1.0 + 1.0j).round(4)
    Array(-0.6509-0.3016j, dtype=complex64)
    """
    (v,) = floats("loggamma", x)
    return complex_loggamma(v) if is_complex(v) else gammaln(v)


def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function.

    Args:
      x: an array or a number; integers are computed in float32.

    Returns:
      1 or -1; NaN at the poles below 0, and at 0 the sign of the zero.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import gammasgn
    >>> gammasgn(jnp.array([1.5, -0.5, -1.5]))
    Array([ 1., -1.,  1.], dtype=float32)
    """
    (v,) = floats("gammasgn", x)
    whole = jnp.floor(v)
    pole = ((v < 0) & (v == whole)) | (v == -jnp.inf)
    negative = ((v < 0) & (jnp.remainder(whole, 2) != 0)) | ((v == 0) & jnp.signbit(v))
    return jnp.where(pole, jnp.nan, jnp.where(negative, -1.0, 1.0)).astype(v.dtype)


def gamma(x: ArrayLike) -> Array:
    """The gamma function, which is ``(n - 1)!`` at whole numbers (DLMF 5.2.1).

    Args:
      x: real or complex numbers; integers are computed in float32.

    Returns:
      Numbers of the shape of ``x``; NaN at the poles below 0.

    Raises:
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import gamma
    >>> gamma(jnp.array([1.0, 3.0])).round(3)
    Array([1., 2.], dtype=float32)
    """
    (v,) = floats("gamma", x)
    if is_complex(v):
        return complex_gamma(v)
    return gammasgn(v) * jnp.exp(gammaln(v))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """``n!``, as a float.

    Args:
      n: an array or a number; between whole numbers it is ``gamma(n + 1)``.
      exact: must be False: there are no exact integers here.

    Returns:
      Floats of the shape of ``n``; 0 for negative numbers.

    Raises:
      ArgumentError: if ``exact``.
      DTypeError: for lists, and what is not a number.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import factorial
    >>> factorial(jnp.arange(5)).round(3)
    Array([ 1.,  1.,  2.,  6., 24.], dtype=float32)
    """
    if exact:
        raise ArgumentError(
            "factorial: there are no exact integers here", got="exact=True", fix="math.factorial"
        )
    (v,) = floats("factorial", n)
    return jnp.where(v < 0, 0, jnp.exp(gammaln(jnp.where(v < 0, 0, v) + 1))).astype(v.dtype)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """How many ways there are to take ``k`` things of ``N``, as a float.

    Args:
      N: how many there are.
      k: how many to take.
      repetition: whether a thing may be taken again.

    Returns:
      Floats of the shape to which the arguments broadcast; 0 where ``k``
      is negative or above ``N``.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import comb
    >>> comb(4, jnp.arange(5)).round(3)
    Array([1., 4., 6., 4., 1.], dtype=float32)
    """
    n, m = floats("comb", N, k)
    if repetition:
        n = n + m - 1
    inside = (m >= 0) & (m <= n) & (n >= 0)
    n, m = jnp.where(inside, n, 1), jnp.where(inside, m, 1)
    size = jnp.exp(gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1))
    return jnp.where(inside, size, 0)


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The rising factorial ``gamma(z + m) / gamma(z)`` (DLMF 5.2.5).

    Args:
      z: where it starts.
      m: how many factors it has; any real number.

    Returns:
      Floats of the shape to which the arguments broadcast; 1 where ``m`` is 0.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import poch
    >>> poch(2.0, 3.0).round(3)
    Array(24., dtype=float32)
    """
    x, y = floats("poch", z, m)
    sign = gammasgn(x + y) * gammasgn(x)
    return jnp.where(y == 0, 1, sign * jnp.exp(gammaln(x + y) - gammaln(x)))


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """``log |beta(a, b)|``.

    Args:
      a, b: real numbers.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import betaln
    >>> betaln(2.0, 3.0).round(4)
    Array(-2.4849, dtype=float32, weak_type=True)
    """
    x, y = floats("betaln", a, b)
    return gammaln(x) + gammaln(y) - gammaln(x + y)


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function, ``gamma(a) gamma(b) / gamma(a + b)`` (DLMF 5.12.1).

    Args:
      a, b: real numbers.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import beta
    >>> beta(2.0, 3.0).round(4)
    Array(0.0833, dtype=float32)
    """
    x, y = floats("beta", a, b)
    return gammasgn(x) * gammasgn(y) * gammasgn(x + y) * jnp.exp(betaln(x, y))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function (DLMF 8.17.2), the distribution function of beta.

    Args:
      a, b: the shapes, above 0.
      x: the upper end of the integral, from 0 to 1; the only argument with derivatives.

    Returns:
      Floats of the shape to which the arguments broadcast, from 0 to 1.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import betainc
    >>> betainc(2.0, 3.0, 0.5).round(4)
    Array(0.6875, dtype=float32, weak_type=True)
    """
    return result(prims.regularized_incomplete_beta(*floats("betainc", a, b, x)))


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Derivative number ``n`` of :func:`digamma` (DLMF 5.15).

    Args:
      n: whole numbers from 0 on; it has no derivatives.
      x: real numbers, which have.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import polygamma
    >>> polygamma(1, 1.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    if type(n) is int and n > 0:
        (v,) = floats("polygamma", x)
        return result(prims.polygamma(like(v, n), v))
    m, v = floats("polygamma", n, x)
    order = jnp.where(m == 0, 1, m)
    return jnp.where(m == 0, digamma(v), result(prims.polygamma(order, v)))


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz's zeta function, the sum of ``(k + q) ** -x``; Riemann's if ``q`` is None.

    DLMF 25.11.1; derivatives by the formula of Euler and Maclaurin.

    Args:
      x: the exponent, above 1; infinite at 1, and NaN below.
      q: where the sum starts; 1 if None.

    Returns:
      Floats of the shape to which the arguments broadcast; they have derivatives
      by both.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import zeta
    >>> zeta(2.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    found: Value = _zeta(*floats("zeta", x, 1.0 if q is None else q))
    return found


@custom_jvp
def _zeta(s: Value, q: Value) -> Value:
    return result(prims.zeta(s, q))


@_zeta.defjvp
def _zeta_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    (s, q), (ds, dq) = primals, tangents
    by_s = jvp(lambda x: _zeta_sum(x, q), (s,), (ds,))[1]
    return _zeta(s, q), by_s - s * _zeta(s + 1, q) * dq


#: How many terms are added up before the formula of Euler and Maclaurin, and its coefficients,
#: Bernoulli's numbers divided by factorials.
_ZETA_TERMS = 10
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600,
)  # fmt: skip


def _zeta_sum(s: Value, q: Value) -> Value:
    """Zeta as a sum that has derivatives by ``s``."""
    total = jnp.zeros_like(s)
    for k in range(_ZETA_TERMS):
        total = total + (q + k) ** -s
    a = q + _ZETA_TERMS
    power = a**-s
    total = total + power * (a / (s - 1) + 0.5)
    factor = s * power / a
    for j, c in enumerate(_EULER_MACLAURIN):
        total = total + c * factor
        factor = factor * (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a)
    return total


def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension ``d`` (DLMF 35.3.4).

    Args:
      a: real numbers above ``(d - 1) / 2``.
      d: the dimension, an integer that is known.

    Returns:
      Floats of the shape of ``a``.

    Raises:
      ArgumentError: if ``d`` is no integer.
      DTypeError: for lists, and what is not a number.

    >>> from functrax.scipy.special import multigammaln
    >>> multigammaln(3.0, 2).round(4)
    Array(1.5502, dtype=float32, weak_type=True)
    """
    (v,) = floats("multigammaln", a)
    size = integer("multigammaln", "d", d)
    total = v * 0 + size * (size - 1) / 4 * math.log(math.pi)
    for j in range(size):
        total = total + gammaln(v - j / 2)
    return total


def bernoulli(n: int) -> Array:
    """Bernoulli's numbers 0 to ``n``, that of 1 being -1/2; by exact fractions.

    Args:
      n: the last one, an integer that is known.

    Returns:
      A vector of ``n + 1`` floats.

    Raises:
      ArgumentError: for negative numbers, and those that are no integers.

    >>> from functrax.scipy.special import bernoulli
    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    count = integer("bernoulli", "n", n)
    if count < 0:
        raise ArgumentError("bernoulli: n is negative", got=f"n={count}", fix="0 and up")
    found = [Fraction(1)]
    for m in range(1, count + 1):
        rest = sum((math.comb(m + 1, k) * found[k] for k in range(m)), Fraction(0))
        found.append(-rest / (m + 1))
    return jnp.array([float(b) for b in found])
