"""The multinomial distribution: how often each of several outcomes comes in ``n`` trials.

>>> import functrax.numpy as jnp
>>> from functrax.scipy.stats import multinomial
>>> multinomial.pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5])).round(4)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.numpy.promote import promoting
from functrax.scipy.special import gammaln, xlogy
from functrax.scipy.special.gammas import floats
from functrax.typing import ArrayLike


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of counts, in the multinomial distribution.

    The probability is ``n! prod(p**x / x!)``.

    Args:
      x: counts, along the last axis.
      n: the number of trials.
      p: the chances of the outcomes, along the last axis.

    Returns:
      Floats, of the shape of the arguments without the last axis: minus infinity unless the counts
      are whole and add up to ``n``.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import multinomial
    >>> multinomial.logpmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5])).round(4)
    Array(-0.6931, dtype=float32)
    """
    (counts,), (trials,), (chances,) = (floats("multinomial.logpmf", v) for v in (x, n, p))
    return _logpmf(counts, trials, chances)


@promoting
def _logpmf(counts: Value, trials: Value, chances: Value) -> Value:
    dtype = jnp.result_type(counts.dtype, trials.dtype, chances.dtype)
    counts, trials, chances = (v.astype(dtype) for v in (counts, trials, chances))
    possible = (counts >= 0) & (jnp.floor(counts) == counts)
    good = jnp.all(possible, -1) & (jnp.sum(counts, -1) == trials)
    counts = jnp.where(possible, counts, 0.0)
    found = jnp.sum(xlogy(counts, chances) - gammaln(counts + 1), -1) + gammaln(trials + 1)
    return jnp.where(good, found, -jnp.inf).astype(counts.dtype)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of counts, in the multinomial distribution.

    The probability is ``n! prod(p**x / x!)``.

    Args:
      x: counts, along the last axis.
      n: the number of trials.
      p: the chances of the outcomes, along the last axis.

    Returns:
      Floats, of the shape of the arguments without the last axis: 0 unless the counts
      are whole and add up to ``n``.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import multinomial
    >>> multinomial.pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5])).round(4)
    Array(0.5, dtype=float32)
    """
    return jnp.exp(logpmf(x, n, p))


__dir__ = _listing(globals())
