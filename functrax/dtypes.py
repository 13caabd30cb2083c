"""Element types under JAX's names: what they are in relation to others, and their limits.

>>> import functrax
>>> canonicalize_dtype("float64"), itemsize_bits("bfloat16"), scalar_type_of("int8")
(dtype('float32'), 16, <class 'int'>)
"""

from __future__ import annotations

from typing import Any

import ml_dtypes

from functrax.core.lazy import listing as _listing
from functrax.core.types import dtypes
from functrax.core.types.dtypes import (
    DType,
    extended as extended,
    finfo as finfo,
    float0 as float0,
    iinfo as iinfo,
    issubdtype as issubdtype,
    prng_key as prng_key,
)
from functrax.core.types.promotion import (
    TypePromotionError as TypePromotionError,
    result_type as result_type,
    typed_of,
)

bfloat16 = ml_dtypes.bfloat16


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """The dtype that arrays asked to be of ``dtype`` have: narrowed, unless x64 is on.

    Args:
      dtype: a dtype, its name, or a scalar type; None for the default float.
      allow_extended_dtype: whether the dtype of random keys may be given; it is its own.

    Returns:
      A dtype.

    Raises:
      DTypeError: if no array has it.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    if allow_extended_dtype and issubdtype(dtype, extended):
        extended_dtype: DType = dtype
        return extended_dtype
    if dtype is None:
        return dtypes.default_float()
    return dtypes.canonicalize_dtype(dtypes.as_dtype(dtype))


def itemsize_bits(dtype: Any) -> int:
    """Bits that one element takes in memory: 8 for booleans, 0 for float0.

    Args:
      dtype: a dtype, its name, or a scalar type.

    Returns:
      A number of bits, below 8 for the narrow types such as ``int4``.

    Raises:
      DTypeError: if no array has it.

    >>> itemsize_bits("bfloat16")
    16
    """
    return dtypes.itemsize_bits(dtypes.as_dtype(dtype))


def scalar_type_of(x: Any) -> type[bool | int | float | complex]:
    """The Python type of the elements of an array, a scalar or a dtype.

    Args:
      x: an array, a number, a dtype, or its name.

    Returns:
      ``bool``, ``int``, ``float`` or ``complex``.

    Raises:
      DTypeError: if it is none of these.

    >>> scalar_type_of("int8")
    <class 'int'>
    """
    return dtypes.scalar_type_of(typed_of(x)[0])


__dir__ = _listing(globals())
