"""The transformation of Box and Cox, as in ``jax.scipy.special``."""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.tracing.primitive import Value
from functrax.scipy.special.gammas import floats
from functrax.typing import ArrayLike

__all__ = ["boxcox", "boxcox1p"]


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The transformation of Box and Cox, ``(x ** lmbda - 1) / lmbda``, or ``log(x)`` for 0.

    Args:
      x: positive numbers; NaN below 0.
      lmbda: the exponents.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import boxcox
    >>> boxcox(4.0, jnp.array([0.0, 0.5])).round(4)
    Array([1.3863, 2.    ], dtype=float32)
    """
    v, power = floats("boxcox", x, lmbda)
    return _boxcox(jnp.log(v), power)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """:func:`boxcox` of ``1 + x``, precise for small ``x``.

    Args:
      x: numbers above -1; NaN below.
      lmbda: the exponents.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.special import boxcox1p
    >>> boxcox1p(3.0, jnp.array([0.0, 0.5])).round(4)
    Array([1.3863, 2.    ], dtype=float32)
    """
    v, power = floats("boxcox1p", x, lmbda)
    return _boxcox(jnp.log1p(v), power)


def _boxcox(log: Value, power: Value) -> Value:
    some = power != 0
    safe = jnp.where(some, power, 1)
    return jnp.where(some, jnp.expm1(safe * log) / safe, log)
