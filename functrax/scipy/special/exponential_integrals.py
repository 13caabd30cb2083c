"""Exponential integrals and the confluent hypergeometric function.

Series where they converge fast, a continued fraction or an asymptotic series elsewhere (Abramowitz
and Stegun, "Handbook of Mathematical Functions", 5.1 and 13.1).  The integrals have derivative
rules of their own; the hypergeometric function is differentiated term by term, in all arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.tracing.primitive import Value
from functrax.numpy.promote import promoting
from functrax.scipy.special.gammas import digamma, floats, gammaln, gammasgn, reals
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

_EULER = 0.5772156649015329


def _sum(first: Value, ratio: Callable[[Value], Value], terms: int) -> Value:
    """The sum of terms, each the one before times ``ratio(k)``."""

    def step(k: Value, carry: tuple[Value, Value]) -> tuple[Value, Value]:
        term, total = carry
        term = term * ratio(k.astype(first.dtype))
        return term, total + term

    found: Value = lax.fori_loop(1, terms, step, (first, first))[1]
    return found


def _power_series(x: Value, terms: int) -> Value:
    """The sum of ``x**k / (k k!)`` from ``k = 1``."""
    return x * _sum(jnp.ones_like(x), lambda k: x * k / ((k + 1) * (k + 1)), terms)


def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1: of ``exp(-t) / t`` from ``x`` to infinity (DLMF 6.2.1).

    Args:
      x: an array or a number; integers are computed in float32.

    Returns:
      Floats of the shape of ``x``; NaN below 0, infinite at 0.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import exp1
    >>> exp1(jnp.array([0.5, 2.0])).round(4)
    Array([0.5598, 0.0489], dtype=float32)
    """
    (v,) = reals("exp1", x)
    found: Value = _exp1(v)
    return found


@custom_jvp
def _exp1(x: Value) -> Value:
    small = jnp.where(x <= 2, x, 1.0)
    by_series = -_EULER - jnp.log(small) - _power_series(-small, 40)
    large = jnp.where(x > 2, x, 3.0)

    def step(k: Value, below: Value) -> Value:  # from the inside of the fraction outwards
        n = (60 - k).astype(large.dtype)
        return large + 2 * n + 1 - (n + 1) * (n + 1) / below

    below = lax.fori_loop(0, 61, step, large + 123)
    by_fraction = jnp.exp(-large) / below
    out = jnp.where(x <= 2, by_series, by_fraction)
    return jnp.where(x < 0, jnp.nan, jnp.where(x == 0, jnp.inf, out)).astype(x.dtype)


@_exp1.defjvp
def _exp1_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    ((x,), (dx,)) = primals, tangents
    return _exp1(x), -jnp.exp(-x) / x * dx


def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei: of ``exp(t) / t`` from minus infinity to ``x`` (DLMF 6.2.5).

    Args:
      x: an array or a number; integers are computed in float32.

    Returns:
      Floats of the shape of ``x``; minus infinity at 0.

    Raises:
      DTypeError: for complex numbers, and for lists.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import expi
    >>> expi(jnp.array([-1.0, 1.0])).round(4)
    Array([-0.2194,  1.8951], dtype=float32)
    """
    (v,) = reals("expi", x)
    found: Value = _expi(v)
    return found


@custom_jvp
def _expi(x: Value) -> Value:
    size = jnp.abs(x)
    small = jnp.where(size <= 40, jnp.where(size == 0, 1.0, size), 1.0)
    by_series = _EULER + jnp.log(small) + _power_series(small, 130)
    large = jnp.where(size > 40, size, 41.0)
    by_powers = jnp.exp(large) / large * _sum(jnp.ones_like(large), lambda k: k / large, 40)
    above = jnp.where(size <= 40, by_series, by_powers)
    out = jnp.where(x < 0, -_exp1(size), above)
    return jnp.where(x == 0, -jnp.inf, out).astype(x.dtype)


@_expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    ((x,), (dx,)) = primals, tangents
    return _expi(x), jnp.exp(x) / x * dx


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The generalised exponential integral: of ``exp(-x t) / t**n`` from 1 to infinity.

    DLMF 8.19.3.

    Args:
      n: whole numbers from 0 on; NaN below.
      x: real numbers; the result is NaN below 0.

    Returns:
      Floats of the shape to which the arguments broadcast; they have
      derivatives by ``x``.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import expn
    >>> expn(2, 1.0).round(4)
    Array(0.1485, dtype=float32)
    """
    (v,) = floats("expn", x)
    order = jnp.asarray(n)
    shape = jnp.broadcast_shapes(order.shape, v.shape)
    found: Value = _expn(jnp.broadcast_to(order, shape).astype(v.dtype), jnp.broadcast_to(v, shape))
    return found


@custom_jvp
@promoting
def _expn(n: Value, x: Value) -> Value:
    small = jnp.where((x > 0) & (x <= 2), x, 1.0)
    order = jnp.maximum(n, 1)  # order 0 is elementary

    def add(k: Value, carry: tuple[Value, Value]) -> tuple[Value, Value]:
        power, total = carry  # (-x)**k / k!
        j = k.astype(x.dtype)
        here = j + 1 == order
        term = power / jnp.where(here, 1.0, j + 1 - order)
        return power * -small / (j + 1), total - jnp.where(here, 0.0, term)

    total = lax.fori_loop(0, 40, add, (jnp.ones_like(small), jnp.zeros_like(small)))[1]
    size = jnp.exp((order - 1) * jnp.log(small) - gammaln(order))
    sign = jnp.where(order % 2 == 1, 1.0, -1.0)
    by_series = total + sign * size * (digamma(order) - jnp.log(small))
    large = jnp.where(x > 2, x, 3.0)

    def step(k: Value, below: Value) -> Value:  # from the inside of the fraction outwards
        j = (60 - k).astype(x.dtype)
        return large + order + 2 * j - (j + 1) * (order + j) / below

    by_fraction = jnp.exp(-large) / lax.fori_loop(0, 61, step, large + order + 122)
    out = jnp.where(x <= 2, by_series, by_fraction)
    out = jnp.where(n == 0, jnp.exp(-x) / x, out)
    at_zero = jnp.where(n > 1, 1 / jnp.where(n > 1, n - 1, 1.0), jnp.inf)
    out = jnp.where(x == 0, at_zero, out)
    return jnp.where((x < 0) | (n < 0), jnp.nan, out).astype(x.dtype)


@_expn.defjvp
@promoting
def _expn_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    (n, x), (_, dx) = primals, tangents
    # An order below 0 is met by order 0 only, whose derivative is elementary.
    below = -_expn(jnp.maximum(n - 1, 0), x)
    elementary = -jnp.exp(-x) * (1 / x + 1 / (x * x))
    return _expn(n, x), jnp.where(n == 0, elementary, below) * dx


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function ``1F1(a; b; x)`` (DLMF 13.2.2).

    Args:
      a, b, x: real numbers; all have derivatives.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for complex numbers, and for lists.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import hyp1f1
    >>> hyp1f1(1.0, 2.0, 1.0).round(4)
    Array(1.7183, dtype=float32)
    """
    first, second, v = reals("hyp1f1", a, b, x)
    return _hyp1f1(first, second, v)


@promoting
def _hyp1f1(first: Value, second: Value, v: Value) -> Value:
    # Below 0 the terms would cancel; Kummer's transformation makes them all of one sign.
    left = v < 0
    found = _kummer(jnp.where(left, second - first, first), second, jnp.abs(v))
    return found * jnp.exp(jnp.where(left, v, 0.0))


def _kummer(a: Value, b: Value, x: Value) -> Value:
    """The series, until its terms no longer matter."""
    precision = 0.01 * float(jnp.finfo(x.dtype).eps)

    def matters(carry: Any) -> Value:
        k, term, total = carry
        return jnp.any(jnp.abs(term) > precision * jnp.abs(total)) & (k < 3000)

    def step(carry: Any) -> Any:
        k, term, total = carry
        term = term * (a + k) / (b + k) * x / (k + 1)
        return k + 1, term, total + term

    one = jnp.ones_like(a + b + x)
    found: Value = lax.while_loop(matters, step, (jnp.zeros((), x.dtype), one, one))[2]
    return found


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function ``2F1(a, b; c; x)`` of real numbers up to 1 (DLMF 15.2.1).

    Args:
      a, b, c: real numbers.
      x: real numbers, up to 1.

    Returns:
      Floats of the shape to which the arguments broadcast: infinite at the
      poles, where ``c`` is 0 or a negative whole number, and for ``x`` above 1, unless the series
      ends.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.special import hyp2f1
    >>> hyp2f1(1.0, 1.0, 2.0, 0.5).round(4)
    Array(1.3863, dtype=float32)
    """
    return _hyp2f1(*floats("hyp2f1", a, b, c, x))


@promoting
def _hyp2f1(a: Value, b: Value, c: Value, x: Value) -> Value:
    def ends(y: Value) -> Value:
        return (y <= 0) & (y == jnp.round(y))

    finite = ends(a) | ends(b)
    # Below 0 Pfaff's transformation, near 1 Euler's, which makes the terms fall faster.
    negative = (x < 0) & ~finite
    z = jnp.where(negative, x / (x - 1), x)
    second = jnp.where(negative, c - b, b)
    spare = c - a - second
    slow = (z > 0.5) & (spare < 0) & ~ends(a) & ~ends(second)
    first, other = jnp.where(slow, c - a, a), jnp.where(slow, c - second, second)
    inside = jnp.where(finite, z, jnp.where((z < 1) & (z > -1), z, 0.0))
    found = _gauss(first, other, jnp.where(ends(c) & ~(c == 0), 1.0, c), inside)
    rest = jnp.where(slow | negative, jnp.where(z < 1, 1 - z, 1.0), 1.0)
    found = found * jnp.where(slow, rest**spare, 1.0)
    found = found * jnp.where(negative, (1 - jnp.where(negative, x, 0.0)) ** -a, 1.0)
    positive = jnp.where(spare > 0, spare, 1.0)
    lasts = gammaln(c) + gammaln(positive) - gammaln(c - a) - gammaln(c - b)
    signs = gammasgn(c) * gammasgn(c - a) * gammasgn(c - b)
    at_one = jnp.where(spare > 0, jnp.exp(lasts) * signs, jnp.inf)
    out = jnp.where((x == 1) & ~finite, at_one, found)
    out = jnp.where((x > 1) & ~finite, jnp.inf, out)
    out = jnp.where((a == 0) | (b == 0) | (x == 0), 1.0, out)
    return jnp.where(ends(c) & ~finite & (x != 0), jnp.inf, out)


def _gauss(a: Value, b: Value, c: Value, x: Value) -> Value:
    """The series, until its terms no longer matter."""
    precision = 0.01 * float(jnp.finfo(x.dtype).eps)

    def matters(carry: Any) -> Value:
        k, term, total = carry
        return jnp.any(jnp.abs(term) > precision * jnp.abs(total)) & (k < 10000)

    def step(carry: Any) -> Any:
        k, term, total = carry
        term = term * (a + k) * (b + k) / ((c + k) * (k + 1)) * x
        return k + 1, term, total + term

    one = jnp.ones_like(a + b + c + x)
    found: Value = lax.while_loop(matters, step, (jnp.zeros((), x.dtype), one, one))[2]
    return found
