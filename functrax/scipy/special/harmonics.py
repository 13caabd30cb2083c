"""Bessel functions of whole orders, and spherical harmonics, by their recurrences."""

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
from functrax.core.tracing.trace import Tracer
from functrax.numpy.axes import integer
from functrax.numpy.promote import promoting
from functrax.scipy.special.gammas import floats
from functrax.typing import ArrayLike

__all__ = ["bessel_jn", "sph_harm_y"]


@promoting
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind of orders 0 to ``v``.

    Ratios of neighbouring orders are worked out downwards from order ``n_iter``, which is to be
    above ``v`` and above ``z`` (F. W. J. Olver and D. J. Sookne, "Note on backward recurrence
    algorithms", 1972).

    Args:
      z: real numbers.
      v: the highest order.
      n_iter: the order where the recurrence begins.

    Returns:
      An array ``[v + 1, *z.shape]``.

    Raises:
      ArgumentError: for complex numbers, or a ``v`` that is not from 0 to ``n_iter``.

    >>> from functrax.scipy.special import bessel_jn
    >>> bessel_jn(1.0, v=1).round(4)
    Array([0.7652, 0.4401], dtype=float32)
    """
    (x,) = floats("bessel_jn", z)
    if is_complex(x):
        raise ArgumentError("bessel_jn: z must be real", got=x.aval.str_short(), fix="z.real")
    order, first = integer("bessel_jn", "v", v), integer("bessel_jn", "n_iter", n_iter)
    if not 0 <= order <= first:
        raise ArgumentError(
            "bessel_jn: v is no order from 0 to n_iter", got=f"v={v}, n_iter={n_iter}", fix="v=0"
        )

    def step(above: Value, k: Value) -> tuple[Value, Value]:
        """Of the ratios of order ``k + 1`` to ``k`` and of ``k`` to ``k - 1``, the second."""
        ratio = x / (2 * k - x * above)
        return ratio, ratio

    places = jnp.arange(first, 0, -1).astype(x.dtype)
    ratios = jnp.flip(lax.scan(step, jnp.zeros_like(x), places)[1], 0)
    sizes = jnp.concatenate([jnp.ones_like(x)[None], jnp.cumprod(ratios, 0)])
    # The sum of the zeroth and of twice the even ones is 1.
    total = 1 + 2 * jnp.sum(sizes[2::2], 0)
    return sizes[: order + 1] / total


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Spherical harmonics, with the phase of Condon and Shortley.

    Args:
      n: degrees, integers from 0 on.
      m: orders, integers from ``-n`` to ``n``; those outside give 0.
      theta: angles from the pole.
      phi: angles around it.
      diff_n: must be None.
      n_max: the largest degree; that of ``n``, if None, which then is to be known.

    Returns:
      Complex numbers, of the shape to which the arguments broadcast.

    Raises:
      ArgumentError: for ``diff_n``, or if no ``n_max`` is given for a traced ``n``.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import sph_harm_y
    >>> sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.0]), jnp.array([0.0])).real.round(4)
    Array([0.4886], dtype=float32)
    """
    if diff_n is not None:
        raise ArgumentError(
            "sph_harm_y: there are no derivatives among the results",
            got=f"diff_n={diff_n}",
            fix="functrax.jvp by theta or phi",
        )
    if n_max is None and isinstance(n, Tracer):
        raise ArgumentError(
            "sph_harm_y: the largest degree of a traced n is not known",
            got=n.aval.str_short(),
            fix="n_max=...",
        )
    most = int(np.max(np.asarray(n), initial=0)) if n_max is None else integer("", "n_max", n_max)
    degree, order = jnp.asarray(n), jnp.asarray(m)
    polar, around = floats("sph_harm_y", theta, phi)
    return _harmonics(degree, order, polar, around, most)


@promoting
def _harmonics(n: Value, m: Value, theta: Value, phi: Value, most: int) -> Value:
    shape = jnp.broadcast_shapes(n.shape, m.shape, theta.shape)
    n, m = (jnp.broadcast_to(x, shape).astype(int) for x in (n, m))
    size = jnp.abs(m)
    x, sine = (jnp.broadcast_to(y, shape) for y in (jnp.cos(theta), jnp.abs(jnp.sin(theta))))

    def step(k: Value, carry: Any) -> Any:
        """Degree ``k``: that of the order itself, or from the two degrees below."""
        diagonal, below, now, found = carry
        d, o = k.astype(x.dtype), size.astype(x.dtype)
        squares = jnp.maximum(d * d - o * o, 1)
        a = jnp.sqrt((4 * d * d - 1) / squares)
        before = jnp.maximum((d - 1) ** 2 - o * o, 0)
        b = jnp.sqrt(before / jnp.maximum(4 * (d - 1) ** 2 - 1, 1))
        risen = a * (x * now - b * below)
        new = jnp.where(k < size, 0.0, jnp.where(k == size, diagonal, risen))
        diagonal = -diagonal * sine * jnp.sqrt((2 * d + 3) / (2 * d + 2))
        return diagonal, now, new, jnp.where(k == n, new, found)

    zero = jnp.zeros(shape, x.dtype)
    start = (zero + 0.5 / math.sqrt(math.pi), zero, zero, zero)
    legendre = lax.fori_loop(0, most + 1, step, start)[3]
    sign = jnp.where((m < 0) & (size % 2 == 1), -1.0, 1.0)
    angle = m * phi
    return lax.complex(
        *jnp.broadcast_arrays(*(sign * legendre * f(angle) for f in (jnp.cos, jnp.sin)))
    )
