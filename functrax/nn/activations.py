"""Activation functions: elementwise functions of a float array, and a few of integers as well.

Where a function has a corner, its derivative there is the one that ``jax.nn`` takes; the functions
with a ``custom_jvp`` say which.  Numbers count as arrays of rank 0.

Those of straight lines and parabolas are in ``functrax.nn.piecewise``.

Start at :func:`softplus`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax import lax, numpy as jnp
from functrax.backends.eager.cached_traces import with_recipe
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.lax.operands import as_array
from functrax.numpy.axes import one_axis
from functrax.numpy.promote import inexact, promote_dtypes, to_array
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

#: Chosen so that the activation keeps mean 0 and variance 1 (Klambauer et al., NIPS 2017).
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193352946


def floating(name: str, x: Any) -> Any:
    """An array of a floating point or complex dtype; integers become floats."""
    (value,) = promote_dtypes(name, x, kind=inexact)
    return as_array(value)


def identity(x: ArrayLike) -> Array:
    """``x`` itself, as an array.

    Args:
      x: an array or a number.

    Returns:
      An array of the same shape and dtype.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> from functrax import nn
    >>> nn.identity(2)
    Array(2, dtype=int32, weak_type=True)
    """
    return as_array(to_array("identity", x))


def sigmoid(x: ArrayLike) -> Array:
    """``1 / (1 + exp(-x))``.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.sigmoid(jnp.array([-200.0, 0.0, 200.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.logistic(floating("sigmoid", x))


def log_sigmoid(x: ArrayLike) -> Array:
    """``log(sigmoid(x)) = -softplus(-x)``, exact for large ``-x``.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.log_sigmoid(jnp.array([-200.0, 200.0]))
    Array([-200.,   -0.], dtype=float32)
    """
    return -softplus(-floating("log_sigmoid", x))


def softplus(x: ArrayLike) -> Array:
    """``log(1 + exp(x))``, which does not overflow.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.softplus(jnp.array([-200.0, 0.0, 200.0]))
    Array([  0.       ,   0.6931472, 200.       ], dtype=float32)
    """
    return jnp.logaddexp(x, 0)


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """``(x + sqrt(x**2 + b)) / 2`` (Barron, arXiv:2112.11687).

    Args:
      x: an array or a number.
      b: how smooth the bend is; 0 for ``relu``.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.squareplus(jnp.array([-3.0, 0.0]), b=0)
    Array([0., 0.], dtype=float32)
    """
    value = to_array("squareplus", x)
    return (value + jnp.sqrt(jnp.square(value) + b)) / 2


def soft_sign(x: ArrayLike) -> Array:
    """``x / (|x| + 1)``.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.soft_sign(jnp.array([-1.0, 3.0]))
    Array([-0.5 ,  0.75], dtype=float32)
    """
    value = to_array("soft_sign", x)
    return value / (jnp.abs(value) + 1)


def silu(x: ArrayLike) -> Array:
    """``x sigmoid(x)``, also called swish.

    Elfwing, Uchibe and Doya, arXiv:1702.03118; Ramachandran, Zoph and Le, arXiv:1710.05941.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.silu(jnp.array([-200.0, 0.0, 200.0]))
    Array([ -0.,   0., 200.], dtype=float32)
    """
    value = floating("silu", x)
    return value * lax.logistic(value)


def mish(x: ArrayLike) -> Array:
    """``x tanh(softplus(x))`` (Misra, arXiv:1908.08681).

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.mish(jnp.array([-200.0, 0.0, 200.0]))
    Array([ -0.,   0., 200.], dtype=float32)
    """
    value = floating("mish", x)
    return value * jnp.tanh(softplus(value))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """``x`` above 0, ``alpha (exp(x) - 1)`` below.

    Clevert, Unterthiner and Hochreiter, arXiv:1511.07289.

    Args:
      x: an array or a number.
      alpha: the limit is ``-alpha``.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.elu(jnp.array([-200.0, 0.0, 2.0]), alpha=0.5)
    Array([-0.5,  0. ,  2. ], dtype=float32)
    """
    value = to_array("elu", x)
    above = value > 0
    # The inner choice keeps exp from overflowing where its value is not taken.
    return jnp.where(above, value, alpha * jnp.expm1(jnp.where(above, 0.0, value)))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """``x`` above 0, ``alpha (exp(x / alpha) - 1)`` below (Barron, arXiv:1704.07483).

    Args:
      x: an array or a number.
      alpha: the limit is ``-alpha``; the slope at 0 is 1 for all of them.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.celu(jnp.array([-200.0, 0.0, 2.0]), alpha=0.5)
    Array([-0.5,  0. ,  2. ], dtype=float32)
    """
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


def selu(x: ArrayLike) -> Array:
    """``scale * elu(x, alpha)`` with constants that keep mean 0 and variance 1.

    Klambauer et al., NIPS 2017, arXiv:1706.02515.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.selu(jnp.array([0.0, 1.0])).round(4)
    Array([0.    , 1.0507], dtype=float32)
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """``x`` times the normal distribution function of ``x`` (Hendrycks, Gimpel, arXiv:1606.08415).

    Args:
      x: an array.
      approximate: whether to use ``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2``.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax
    >>> functrax.nn.gelu(1.0)
    Array(0.841192, dtype=float32)
    """
    value = floating("gelu", x)
    if approximate:
        slope = np.asarray(np.sqrt(2 / np.pi), value.dtype)
        return value * (0.5 * (1.0 + jnp.tanh(slope * (value + 0.044715 * (value**3)))))
    return 0.5 * value * lax.erfc(-value * np.asarray(np.sqrt(0.5), value.dtype))


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of ``x`` along an axis, times the sigmoid of the second half.

    Dauphin et al., arXiv:1612.08083.

    Args:
      x: an array.
      axis: the axis that is cut in two.

    Returns:
      An array with half as many elements along the axis.

    Raises:
      ShapeError: if the size of the axis is odd.
      AxisError: if there is no such axis.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.glu(jnp.array([3.0, 5.0, 0.0, 200.0]))
    Array([1.5, 5. ], dtype=float32)
    """
    value = floating("glu", x)
    place = one_axis("glu", axis, value.ndim)
    half = value.shape[place] // 2
    if value.shape[place] % 2:
        raise ShapeError(
            "glu: the axis has no two halves",
            got=f"axis {axis} of {value.aval.str_short()}",
            fix="an axis of even size",
        )
    first, second = lax.split(value, (half, half), place)
    return lax.mul(first, lax.logistic(second))


@with_recipe
@custom_jvp
def log1mexp(x: ArrayLike) -> Array:
    """``log(1 - exp(-x))`` of ``x >= 0``, exact for small and for large ``x``.

    Source: Mächler, "Accurately computing ``log(1 - exp(-|a|))``".

    Args:
      x: an array or a number, 0 or more.

    Returns:
      An array of the shape of ``x``; minus infinity at 0.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.log1mexp(jnp.array([0.0, 1e-10])).round(3)
    Array([   -inf, -23.026], dtype=float32)
    """
    value = floating("log1mexp", x)
    return jnp.where(
        value < float(np.log(2)), jnp.log(-jnp.expm1(-value)), jnp.log1p(-jnp.exp(-value))
    )


@log1mexp.defjvp
def _log1mexp_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return log1mexp(x), t / jnp.expm1(x)


swish = silu
