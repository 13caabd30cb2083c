"""Between dtypes, between bit patterns, and between real and complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.prims import bitwise, convert, reindex
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.comparisons import and_
from functrax.core.prims.reduce import reduce_or
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.core.types.promotion import result_type
from functrax.lax.operands import as_array, dtype_of, pair, value_of
from functrax.typing import ArrayLike, DTypeLike


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The nearest values of another dtype; floats become integers by truncation.

    Args:
      operand: an array or a number.
      new_dtype: the dtype; 64-bit dtypes are narrowed while x64 is off.

    Returns:
      An array of the operand's shape.

    Raises:
      DTypeError: if the operand is no array or number, or the dtype is unknown.

    >>> from functrax import lax
    >>> lax.convert_element_type(2.7, "int32")
    Array(2, dtype=int32)
    """
    wanted = dtype_of(new_dtype)
    if type(operand) is int and dtypes.is_inexact(wanted):
        return as_array(literal(operand, wanted))  # larger than integers are, maybe
    x = value_of("convert_element_type", operand)
    return as_array(convert.convert_element_type.bind(x, dtype=wanted, weak_type=False))


def dtype(x: ArrayLike | DTypeLike) -> dtypes.DType:
    """The dtype that an array, a number or the name of a dtype has as an array.

    Args:
      x: an array, a number, a dtype, or the name of one.

    Returns:
      A NumPy dtype; 64-bit types are narrowed while x64 is off.

    Raises:
      DTypeError: if ``x`` is none of these.

    >>> from functrax import lax
    >>> lax.dtype(2.0), lax.dtype(int)
    (dtype('float32'), dtype('int32'))
    """
    return result_type(x)


def real(x: ArrayLike) -> Array:
    """The real part of complex numbers.

    Args:
      x: a complex array.

    Returns:
      A real array of the same shape: float32 for complex64, float64 for complex128.

    Raises:
      DTypeError: if ``x`` is not complex.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.real(np.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    return as_array(convert.real.bind(value_of("real", x)))


def imag(x: ArrayLike) -> Array:
    """The imaginary part of complex numbers.

    Args:
      x: a complex array.

    Returns:
      A real array of the same shape: float32 for complex64, float64 for complex128.

    Raises:
      DTypeError: if ``x`` is not complex.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.imag(np.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    return as_array(convert.imag.bind(value_of("imag", x)))


def conj(x: ArrayLike) -> Array:
    """The complex conjugate; of real numbers, the same number as a complex one.

    Args:
      x: an array, floating point or complex.

    Returns:
      A complex array of the same shape.

    Raises:
      DTypeError: for integers and truth values.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.conj(np.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    value = value_of("conj", x)
    if dtypes.is_complex(value.aval.dtype):
        return as_array(convert.conj.bind(value))
    return as_array(convert.complex_.bind(value, like(value, 0)))


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """``x + iy`` of float32 or float64 operands.

    Args:
      x: the real part, an array or a number.
      y: the imaginary part, of the same shape and dtype.

    Returns:
      A complex array of the same shape.

    Raises:
      DTypeError: for other dtypes, or different ones.
      ShapeError: if the shapes differ.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.complex(np.array([1.0, 2.0]), 3.0)
    Array([1.+3.j, 2.+3.j], dtype=complex64)
    """
    a, b = pair("complex", x, y)
    return as_array(convert.complex_.bind(a, b))


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The same bits read as another dtype.

    A narrower dtype adds a last axis, which counts the parts from the lowest bits up; a wider one
    takes the last axis, which must have as many elements as one of the wider dtype.

    Args:
      operand: an array.
      new_dtype: the dtype to read the bits as; neither bool nor complex if the width changes.

    Returns:
      An array of the new dtype; of the operand's shape if the dtypes have one width.

    Raises:
      DTypeError: if the bits cannot be read as that dtype.
      ShapeError: if the last axis has another size.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.bitcast_convert_type(np.float32(1.0), "int32")
    Array(1065353216, dtype=int32)
    >>> lax.bitcast_convert_type(np.int32(258), "uint8")
    Array([2, 1, 0, 0], dtype=uint8)
    """
    x = value_of("bitcast_convert_type", operand)
    dtype, old = dtype_of(new_dtype), x.aval.dtype
    if dtype.itemsize == old.itemsize:
        return as_array(convert.bitcast_convert_type.bind(x, dtype=dtype))
    for other in (dtype, old):
        if other == dtypes.bool_ or dtypes.is_complex(other):
            raise DTypeError(
                "bitcast_convert_type: the dtypes have different widths",
                got=f"{x.aval.str_short()} to {dtype}",
                fix="dtypes of one width, or integers and floats",
            )
    if dtype.itemsize < old.itemsize:
        return as_array(_split_bits(x, dtype))
    return as_array(_join_bits(x, dtype))


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _split_bits(x: Value, dtype: np.dtype[Any]) -> Value:
    wide, narrow = _unsigned(x.aval.dtype), _unsigned(dtype)
    count = wide.itemsize // narrow.itemsize
    shape = (*x.aval.shape, count)
    whole = convert.bitcast_convert_type.bind(x, dtype=wide)
    spread = reindex.broadcast_in_dim.bind(whole, shape=shape, dims=tuple(range(x.aval.ndim)))
    shifted = bitwise.shift_right_logical.bind(spread, _shifts(shape, wide, narrow))
    mask = literal(np.iinfo(narrow).max, wide)
    low = and_.bind(shifted, mask)
    part = convert.convert_element_type.bind(low, dtype=narrow, weak_type=False)
    return convert.bitcast_convert_type.bind(part, dtype=dtype)


def _join_bits(x: Value, dtype: np.dtype[Any]) -> Value:
    narrow, wide = _unsigned(x.aval.dtype), _unsigned(dtype)
    shape, count = x.aval.shape, wide.itemsize // narrow.itemsize
    if not shape or shape[-1] != count:
        raise ShapeError(
            f"bitcast_convert_type: the last axis must have the {count} parts of a {dtype}",
            got=x.aval.str_short(),
            fix=f"reshape it to (..., {count})",
        )
    bits = convert.bitcast_convert_type.bind(x, dtype=narrow)
    parts = convert.convert_element_type.bind(bits, dtype=wide, weak_type=False)
    placed = bitwise.shift_left.bind(parts, _shifts(shape, wide, narrow))
    whole = reduce_or.bind(placed, axes=(len(shape) - 1,))
    return convert.bitcast_convert_type.bind(whole, dtype=dtype)


def _shifts(shape: tuple[int, ...], wide: np.dtype[Any], narrow: np.dtype[Any]) -> Value:
    """By how many bits each part is shifted, counted along the last axis."""
    parts = reindex.iota.bind(shape=shape, dtype=wide, axis=len(shape) - 1)
    return mul.bind(parts, literal(8 * narrow.itemsize, wide))
