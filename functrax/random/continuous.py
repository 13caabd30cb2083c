"""Samples of continuous distributions.

All start from :func:`uniform`: random bits become the mantissa of a float from 1 to 2, less 1.  The
others are functions of it, most of them the inverse of the distribution function; the formulas, and
with them the numbers for a key, are those of ``jax.random``.

Start at :func:`uniform_sample`, which takes the words of a key, a shape and a dtype that have been
checked; the public functions check them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax import lax
from functrax.core import dtypes
from functrax.core.errors import DTypeError
from functrax.core.operators import Array
from functrax.core.primitive import Value, literal
from functrax.core.prims.arithmetic import or_, sub
from functrax.core.prims.bitwise import shift_right_logical
from functrax.core.prims.convert import bitcast_convert_type, convert_element_type
from functrax.lax.operands import as_array
from functrax.random.bits import random_bits, unsigned
from functrax.random.keys import key_words, split_pair
from functrax.random.shapes import (
    DType,
    Shape,
    broadcast_shape,
    checked_shape,
    float_dtype,
    inexact_dtype,
    parameter,
    repeated,
)


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Uniform random bits, as unsigned integers.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: an unsigned integer dtype; ``uint32`` if omitted, ``uint64`` when x64 is on.

    Raises:
      DTypeError: for another kind of dtype.

    >>> from functrax import random
    >>> random.bits(random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    words = key_words("bits", key)
    asked = dtypes.canonicalize_dtype(dtypes.uint64 if dtype is None else dtypes.as_dtype(dtype))
    if asked not in dtypes.UNSIGNED:
        raise DTypeError(
            "bits needs an unsigned integer dtype", got=f"dtype {asked}", fix="dtype='uint32'"
        )
    return as_array(random_bits(words, 8 * asked.itemsize, checked_shape("bits", shape)))


def uniform_sample(
    words: Value, shape: Shape, dtype: DType, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Uniform floats from ``minval`` to ``maxval``, which are numbers or arrays of ``dtype``."""
    info = dtypes.finfo(dtype)
    width, mantissa = info.bits, info.nmant
    drawn = max(8, width if mantissa >= 8 else 8)
    whole = unsigned(width)
    mixed = random_bits(words, drawn, shape)
    if drawn != width:
        mixed = convert_element_type.bind(mixed, dtype=whole, weak_type=False)
    fraction = shift_right_logical.bind(mixed, literal(drawn - mantissa, whole))
    one = np.ones((), dtype)
    exponent = literal(int(one.view(whole)), whole)
    from_one = bitcast_convert_type.bind(or_.bind(fraction, exponent), dtype=dtype)
    unit: Any = as_array(sub.bind(from_one, literal(1, dtype)))
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return unit
    low, high = _bound(minval, shape, dtype), _bound(maxval, shape, dtype)
    return lax.max(low, lax.add(lax.mul(unit, lax.sub(high, low)), low))


def _bound(given: Any, shape: Shape, dtype: DType) -> Any:
    value = parameter("uniform", given, dtype)
    return repeated(value, shape) if value.aval.shape else value


def _normal_sample(words: Value, shape: Shape, dtype: DType) -> Any:
    if dtypes.is_complex(dtype):
        real = dtypes.real_dtype(dtype)
        parts = [_normal_sample(w, shape, real) for w in split_pair(words)]
        return lax.div(lax.complex(*parts), np.asarray(np.sqrt(2), dtype)[()])
    lowest = np.nextafter(dtype.type(-1), dtype.type(0), dtype=dtype)
    u = uniform_sample(words, shape, dtype, lowest, dtype.type(1))
    return lax.mul(np.asarray(np.sqrt(2), dtype)[()], lax.erf_inv(u))


def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Array:
    """Floats from ``minval`` (included) to ``maxval`` (not included), all as likely.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: a floating point dtype; the default float if omitted.
      minval, maxval: numbers, or arrays that broadcast to the shape.

    Raises:
      DTypeError: for another kind of dtype, or if ``key`` is not a key.
      ShapeError: if a size is negative, or the bounds do not broadcast to the shape.

    >>> from functrax import random
    >>> random.uniform(random.key(0), (3,))
    Array([0.947667  , 0.9785799 , 0.33229148], dtype=float32)
    """
    words = key_words("uniform", key)
    of_type, sizes = float_dtype("uniform", dtype), checked_shape("uniform", shape)
    broadcast_shape("uniform", sizes, np.shape(minval), np.shape(maxval))
    return uniform_sample(words, sizes, of_type, minval, maxval)  # type: ignore[no-any-return]


def normal(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Floats of mean 0 and variance 1, normally distributed.

    A complex number has the variance 1/2 in each part.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: a floating point or complex dtype; the default float if omitted.

    Raises:
      DTypeError, ShapeError: for other dtypes, bad shapes, and what is not a key.

    >>> from functrax import random
    >>> random.normal(random.key(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    words = key_words("normal", key)
    of_type = inexact_dtype("normal", dtype)
    return _normal_sample(words, checked_shape("normal", shape), of_type)  # type: ignore[no-any-return]
