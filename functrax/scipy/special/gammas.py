"""Gamma and beta functions and what is made of them, as ``jax.scipy.special`` has them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims import special as prims
from functrax.core.prims.matrices import is_complex
from functrax.core.tracing.primitive import Value, like
from functrax.numpy.axes import integer
from functrax.numpy.elementwise import binary, unary
from functrax.numpy.promote import inexact, promote_args, result
from functrax.scipy.special.complex_gamma import complex_gamma, complex_loggamma
from functrax.transforms.differentiation.derivatives import jvp
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc",
    "gammaincc", "gammaln", "gammasgn", "loggamma", "multigammaln", "poch", "polygamma", "zeta",
]  # fmt: skip

gammaln = unary("gammaln", prims.lgamma, "``log |gamma(x)|``.")
digamma = unary("digamma", prims.digamma, "The derivative of ``gammaln``.")
gammainc = binary("gammainc", prims.igamma, "The regularized lower gamma function.", inexact)
gammaincc = binary("gammaincc", prims.igammac, "The regularized upper gamma function.", inexact)


def floats(name: str, *xs: Any) -> list[Array]:
    """Operands in one inexact dtype and one shape, as arrays."""
    arrays = [jnp.asarray(result(x)) for x in promote_args(name, *xs, kind=inexact)]
    return jnp.broadcast_arrays(*arrays) if len(arrays) > 1 else arrays


def loggamma(x: ArrayLike) -> Array:
    """The logarithm of the gamma function; ``gammaln`` for real numbers.

    Of complex numbers it is the one that is real above 0, and has a cut along the negative ones.

    >>> from functrax.scipy.special import loggamma
    >>> loggamma(1.0 + 1.0j).round(4)
    Array(-0.6509-0.3016j, dtype=complex64)
    """
    (v,) = floats("loggamma", x)
    return complex_loggamma(v) if is_complex(v) else gammaln(v)


def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function; NaN at its poles but 0, where it is that of the zero."""
    (v,) = floats("gammasgn", x)
    whole = jnp.floor(v)
    pole = ((v < 0) & (v == whole)) | (v == -jnp.inf)
    negative = ((v < 0) & (jnp.remainder(whole, 2) != 0)) | ((v == 0) & jnp.signbit(v))
    return jnp.where(pole, jnp.nan, jnp.where(negative, -1.0, 1.0)).astype(v.dtype)


def gamma(x: ArrayLike) -> Array:
    """The gamma function, which is ``(n - 1)!`` at whole numbers.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.special.gamma(jnp.array([1.0, 3.0])).round(3)
    Array([1., 2.], dtype=float32)
    """
    (v,) = floats("gamma", x)
    if is_complex(v):
        return complex_gamma(v)
    return gammasgn(v) * jnp.exp(gammaln(v))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """``n!``, as a float; 0 for negative numbers.

    Raises:
      ArgumentError: if ``exact``.
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
      0 where ``k`` is negative or above ``N``.
    """
    n, m = floats("comb", N, k)
    if repetition:
        n = n + m - 1
    inside = (m >= 0) & (m <= n) & (n >= 0)
    n, m = jnp.where(inside, n, 1), jnp.where(inside, m, 1)
    size = jnp.exp(gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1))
    return jnp.where(inside, size, 0)


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The rising factorial ``gamma(z + m) / gamma(z)``."""
    x, y = floats("poch", z, m)
    sign = gammasgn(x + y) * gammasgn(x)
    return jnp.where(y == 0, 1, sign * jnp.exp(gammaln(x + y) - gammaln(x)))


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """``log |beta(a, b)|``."""
    x, y = floats("betaln", a, b)
    return gammaln(x) + gammaln(y) - gammaln(x + y)


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """``gamma(a) gamma(b) / gamma(a + b)``."""
    x, y = floats("beta", a, b)
    return gammasgn(x) * gammasgn(y) * gammasgn(x + y) * jnp.exp(betaln(x, y))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function; differentiable by ``x`` only."""
    return result(prims.regularized_incomplete_beta(*floats("betainc", a, b, x)))


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Derivative number ``n`` of :func:`digamma`; not differentiable by ``n``."""
    if type(n) is int and n > 0:
        (v,) = floats("polygamma", x)
        return result(prims.polygamma(like(v, n), v))
    m, v = floats("polygamma", n, x)
    order = jnp.where(m == 0, 1, m)
    return jnp.where(m == 0, digamma(v), result(prims.polygamma(order, v)))


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz's zeta function, the sum of ``(k + q) ** -x``; Riemann's if ``q`` is None."""
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
    """The logarithm of the multivariate gamma function of dimension ``d``."""
    (v,) = floats("multigammaln", a)
    size = integer("multigammaln", "d", d)
    total = v * 0 + size * (size - 1) / 4 * math.log(math.pi)
    for j in range(size):
        total = total + gammaln(v - j / 2)
    return total


def bernoulli(n: int) -> Array:
    """Bernoulli's numbers 0 to ``n``, that of 1 being -1/2; by exact fractions.

    >>> import functrax
    >>> functrax.scipy.special.bernoulli(2)
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
