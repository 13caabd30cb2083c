"""Random numbers of a variance, real and complex, for the initializers of ``initializers.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax import numpy as jnp, random
from functrax.core.arrays.operators import Array
from functrax.core.types import dtypes
from functrax.lax.operands import as_array
from functrax.random.shapes import DType, Shape

#: Standard deviations of the standard normal distribution cut at 2: real, and complex.
_CUT_REAL = 0.87962566103423978
_CUT_COMPLEX = 0.95311164380491208


def uniform_weights(key: Any, shape: Shape, dtype: DType, variance: Any) -> Array:
    """Uniform numbers, complex ones of a disk, of a variance."""
    if dtypes.is_complex(dtype):
        return product(_uniform_disk(key, shape, dtype), jnp.sqrt(variance))
    return product(random.uniform(key, shape, dtype, -1), jnp.sqrt(3 * variance))


def truncated_weights(key: Any, shape: Shape, dtype: DType, variance: Any) -> Array:
    """Normal numbers, cut off at two deviations, of a variance."""
    if dtypes.is_complex(dtype):
        deviation = jnp.sqrt(variance) / jnp.asarray(_CUT_COMPLEX, dtype)
        return product(_truncated_disk(key, shape, dtype), deviation)
    deviation = jnp.sqrt(variance) / jnp.asarray(_CUT_REAL, dtype)
    return product(random.truncated_normal(key, -2, 2, shape, dtype), deviation)


def product(drawn: Any, factor: Any) -> Array:
    """Random numbers times a factor, in their dtype."""
    return as_array(drawn * factor)


def _uniform_disk(key: Any, shape: Shape, dtype: DType) -> Any:
    """Complex numbers of variance 1, all as likely in a disk."""
    by_radius, by_angle = random.split(key)
    radius: Any = random.uniform(by_radius, shape, dtypes.real_dtype(dtype))
    return jnp.sqrt(2 * radius).astype(dtype) * _directions(by_angle, shape, dtype)


def _truncated_disk(key: Any, shape: Shape, dtype: DType) -> Any:
    """Normally distributed complex numbers, of which those with a modulus below 2 are kept."""
    by_radius, by_angle = random.split(key)
    u: Any = random.uniform(by_radius, shape, dtypes.real_dtype(dtype))
    inside = (1 - jnp.exp(jnp.asarray(-4, dtype))) * u.astype(dtype)
    return jnp.sqrt(-jnp.log(1 - inside)) * _directions(by_angle, shape, dtype)


def _directions(key: Any, shape: Shape, dtype: DType) -> Any:
    turns: Any = random.uniform(key, shape, dtypes.real_dtype(dtype))
    return jnp.exp(1j * (2 * np.pi * turns.astype(dtype)))
