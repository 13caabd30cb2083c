"""Activation functions of straight lines and parabolas: relu, and what resembles others cheaply.

Their derivatives at corners are those that ``jax.nn`` takes.

Start at :func:`relu`.
"""

from __future__ import annotations

from typing import Any

from functrax import numpy as jnp
from functrax.backends.eager.cached_traces import with_recipe
from functrax.core.arrays.operators import Array
from functrax.numpy.promote import to_array
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike


@with_recipe
@custom_jvp
def relu(x: ArrayLike) -> Array:
    """``max(x, 0)``; the derivative at 0 is 0.

    Args:
      x: an array.

    Returns:
      An array of the shape and dtype of ``x``.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.nn.relu(jnp.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 2.], dtype=float32)
    >>> functrax.grad(functrax.nn.relu)(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return jnp.maximum(x, 0)


@relu.defjvp
def _relu_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return relu(x), jnp.where(x > 0, t, 0)


@with_recipe
@custom_jvp
def relu6(x: ArrayLike) -> Array:
    """``min(max(x, 0), 6)``; the derivative at 0 and at 6 is 0.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.relu6(jnp.array([-1.0, 2.0, 9.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


@relu6.defjvp
def _relu6_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return relu6(x), jnp.where((x > 0) & (x < 6), t, 0)


def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, ``(x + 1)**2 / 4`` up to 1, and ``x`` from there on.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    value = to_array("sparse_plus", x)
    return jnp.where(value <= -1.0, 0.0, jnp.where(value >= 1.0, value, (value + 1.0) ** 2 / 4))


def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 up to -1, ``(x + 1) / 2`` up to 1, and 1 from there on: the slope of ``sparse_plus``.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.sparse_sigmoid(jnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * jnp.clip(to_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """``x`` from 0 on, ``negative_slope * x`` below.

    Args:
      x: an array or a number.
      negative_slope: the slope below 0.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.leaky_relu(jnp.array([-2.0, 3.0]), negative_slope=0.5)
    Array([-1.,  3.], dtype=float32)
    """
    value = to_array("leaky_relu", x)
    return jnp.where(value >= 0, value, negative_slope * value)


def hard_tanh(x: ArrayLike) -> Array:
    """``x`` between -1 and 1, which are its bounds.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape and dtype of ``x``.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.hard_tanh(jnp.array([-3.0, 0.5, 3.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    value = to_array("hard_tanh", x)
    return jnp.where(value > 1, 1, jnp.where(value < -1, -1, value))


def hard_sigmoid(x: ArrayLike) -> Array:
    """``relu6(x + 3) / 6``.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.hard_sigmoid(jnp.array([-3.0, 0.0, 3.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6(to_array("hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: ArrayLike) -> Array:
    """``x hard_sigmoid(x)``, also called hard_swish.

    Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.

    Args:
      x: an array or a number.

    Returns:
      An array of the shape of ``x``; integers become floats.

    Raises:
      DTypeError: for lists and what else is no array.

    >>> import functrax.numpy as jnp
    >>> from functrax import nn
    >>> nn.hard_silu(jnp.array([-3.0, 0.0, 3.0]))
    Array([-0.,  0.,  3.], dtype=float32)
    """
    value = to_array("hard_silu", x)
    return value * hard_sigmoid(value)


hard_swish = hard_silu
