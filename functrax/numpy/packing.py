"""Booleans as the bits of bytes, and back: packbits and unpackbits.

Start at :func:`packbits`.
"""

from __future__ import annotations

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.prims.slicing import pad
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy import reductions
from functrax.numpy.axes import integer, one_axis
from functrax.numpy.promote import convert, promoting, to_array
from functrax.numpy.shaping import moveaxis, reshape_to, slice_axis
from functrax.typing import ArrayLike

__all__ = ["packbits", "unpackbits"]


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight elements each, as the bits of one byte: whether they are not 0.

    Args:
      a: an array of integers or booleans; zeros are added up to a multiple of 8.
      axis: along which to pack; None takes the elements in row-major order.
      bitorder: ``"big"``: the first element is the highest bit; ``"little"``: the lowest.

    Returns:
      An array of uint8.

    Raises:
      DTypeError: for other dtypes.
      ArgumentError: for another order.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.packbits(jnp.array([1, 0, 1]))
      Array([160], dtype=uint8)
    """
    x = to_array("packbits", a)
    if not dtypes.is_integer(x.aval.dtype) and x.aval.dtype != dtypes.bool_:
        raise DTypeError("packbits: takes integers and booleans", got=x.aval.str_short(),
                         fix="x != 0")  # fmt: skip
    shifts = _shifts("packbits", bitorder)
    x, k = _along("packbits", x, axis)
    return _packed(x, k, shifts)


@promoting
def _packed(x: Value, k: int, shifts: Value) -> Value:
    bits = convert(moveaxis(x != 0, k, -1), dtypes.uint8)
    bits = _lengthened(bits, -(-x.aval.shape[k] // 8) * 8)
    *rest, size = bits.aval.shape
    bits = reshape_to(bits, (*rest, size // 8, 8)) << shifts
    return moveaxis(reductions.sum(bits, axis=-1, dtype=dtypes.uint8), -1, k)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes, as an array of zeros and ones.

    Args:
      a: an array of uint8.
      axis: along which to unpack; None takes the bytes in row-major order.
      count: how many bits to keep, zeros being added if there are fewer; a negative number is
        left out at the end.
      bitorder: ``"big"``: the highest bit comes first; ``"little"``: the lowest.

    Returns:
      An array of uint8.

    Raises:
      DTypeError: for other dtypes.
      ArgumentError: for another order.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unpackbits(jnp.array([160], dtype="uint8"), count=3)
      Array([1, 0, 1], dtype=uint8)
    """
    x = to_array("unpackbits", a)
    if x.aval.dtype != dtypes.uint8:
        raise DTypeError("unpackbits: takes bytes", got=x.aval.str_short(),
                         fix="x.astype('uint8')")  # fmt: skip
    shifts = _shifts("unpackbits", bitorder)
    x, k = _along("unpackbits", x, axis)
    bits = _unpacked(moveaxis(x, k, -1), shifts)
    if count is not None:
        bits = _counted(bits, integer("unpackbits", "count", count))
    return moveaxis(bits, -1, k)


@promoting
def _unpacked(lines: Value, shifts: Value) -> Value:
    """The bits of the bytes along the last axis."""
    *rest, size = lines.aval.shape
    bits = (reshape_to(lines, (*rest, size, 1)) >> shifts) & 1
    return reshape_to(bits, (*rest, size * 8))


def _counted(bits: Value, count: int) -> Value:
    size = bits.aval.shape[-1]
    wanted = count if count >= 0 else size + count
    if wanted < 0:
        raise ShapeError(
            "unpackbits: there are fewer bits than are to be left out",
            got=f"count={count} of {size} bits",
            fix=f"a count from {-size} on",
        )
    if wanted > size:
        return _lengthened(bits, wanted)
    return slice_axis(bits, bits.aval.ndim - 1, 0, wanted)


def _shifts(name: str, bitorder: str) -> Value:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"{name}: unknown order", got=repr(bitorder), fix="'big' or 'little'")
    line = np.arange(8, dtype=np.uint8)
    return from_numpy(line[::-1].copy() if bitorder == "big" else line)


def _along(name: str, x: Value, axis: int | None) -> tuple[Value, int]:
    if axis is None:
        return reshape_to(x, (x.aval.size,)), 0
    return x, one_axis(name, axis, x.aval.ndim)


def _lengthened(x: Value, size: int) -> Value:
    """Zeros added at the end of the last axis."""
    nothing = (0,) * x.aval.ndim
    high = (*nothing[1:], size - x.aval.shape[-1])
    return pad.bind(x, low=nothing, high=high, interior=nothing, fill=like(x, 0))
