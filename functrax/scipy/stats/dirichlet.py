"""The Dirichlet distribution of positive numbers that add up to 1.

>>> import functrax.numpy as jnp
>>> from functrax.scipy.stats import dirichlet
>>> dirichlet.pdf(jnp.array([0.25, 0.75]), jnp.array([1.0, 2.0])).round(4)
Array(1.5, dtype=float32)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import gammaln, xlogy
from functrax.typing import ArrayLike


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density of the Dirichlet distribution.

    The density is ``gamma(sum(alpha)) / prod(gamma(alpha)) prod(x**(alpha - 1))``.

    Args:
      x: numbers along the first axis, as many as ``alpha`` has, or one less: the last is then what
        is left of 1.
      alpha: the parameters, a vector of positive numbers.

    Returns:
      Floats, of the shape of ``x`` without its first axis: minus infinity where the numbers do not
      add up to 1, or one is negative.

    Raises:
      ShapeError: if ``x`` and ``alpha`` do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import dirichlet
    >>> dirichlet.logpdf(jnp.array([0.25, 0.75]), jnp.array([1.0, 2.0])).round(4)
    Array(0.4055, dtype=float32)
    """
    numbers, weights = jnp.asarray(x), jnp.asarray(alpha)
    dtype = jnp.result_type(numbers, weights, float)
    numbers, weights = numbers.astype(dtype), weights.astype(dtype)
    size = weights.shape[0] if weights.ndim == 1 else -1
    if numbers.ndim == 0 or numbers.shape[0] not in (size, size - 1) or size < 1:
        raise ShapeError(
            "dirichlet.logpdf: the numbers do not fit the parameters",
            got=f"x {numbers.aval.str_short()}, alpha {weights.aval.str_short()}",
            fix="alpha of one axis, and x with as many rows, or one less",
        )
    if numbers.shape[0] == size - 1:
        rest = 1 - jnp.sum(numbers, 0, keepdims=True)
        numbers = jnp.concatenate([numbers, rest])
    weights = weights.reshape(-1, *(1,) * (numbers.ndim - 1))
    within = jnp.all(numbers >= 0, 0)
    within &= jnp.abs(jnp.sum(numbers, 0) - 1) < 10 * jnp.finfo(dtype).eps * size
    constant = gammaln(jnp.sum(alpha)) - jnp.sum(gammaln(alpha))
    found = constant + jnp.sum(xlogy(weights - 1, jnp.where(within, numbers, 0.5)), 0)
    return jnp.where(within, found, -jnp.inf).astype(dtype)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density of the Dirichlet distribution.

    The density is ``gamma(sum(alpha)) / prod(gamma(alpha)) prod(x**(alpha - 1))``.

    Args:
      x: numbers along the first axis, as many as ``alpha`` has, or one less: the last is then what
        is left of 1.
      alpha: the parameters, a vector of positive numbers.

    Returns:
      Floats, of the shape of ``x`` without its first axis: 0 where the numbers do not
      add up to 1, or one is negative.

    Raises:
      ShapeError: if ``x`` and ``alpha`` do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import dirichlet
    >>> dirichlet.pdf(jnp.array([0.25, 0.75]), jnp.array([1.0, 2.0])).round(4)
    Array(1.5, dtype=float32)
    """
    return jnp.exp(logpdf(x, alpha))


__dir__ = _listing(globals())
