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
from functrax.core.primitive import Value
from functrax.scipy.gammas import floats
from functrax.transforms.custom import custom_jvp

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


def exp1(x: Any) -> Value:
    """The exponential integral E1: of ``exp(-t) / t`` from ``x`` to infinity; NaN below 0.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.special.exp1(jnp.array([0.5, 2.0])).round(4)
    Array([0.5598, 0.0489], dtype=float32)
    """
    (v,) = floats("exp1", x)
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


def expi(x: Any) -> Value:
    """The exponential integral Ei: of ``exp(t) / t`` from minus infinity to ``x``.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.special.expi(jnp.array([-1.0, 1.0])).round(4)
    Array([-0.2194,  1.8951], dtype=float32)
    """
    (v,) = floats("expi", x)
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


def hyp1f1(a: Any, b: Any, x: Any) -> Value:
    """Kummer's confluent hypergeometric function ``1F1(a; b; x)``.

    >>> from functrax.scipy.special import hyp1f1
    >>> hyp1f1(1.0, 2.0, 1.0).round(4)
    Array(1.7183, dtype=float32)
    """
    first, second, v = floats("hyp1f1", a, b, x)
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
