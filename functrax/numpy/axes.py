"""Axes and shapes as users write them, made exact: negative axes, single axes, ``-1`` sizes.

What enters is what a user gave for ``axis``, ``axes`` or ``shape``; what leaves is tuples of
plain non-negative integers, as primitives take them, or a typed error that says what was wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from functrax.core.errors.typed import ArgumentError, AxisError, ConcretizationError, ShapeError
from functrax.core.prims.shape_checks import axis_from_start
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import integer as as_size

Shape = tuple[int, ...]


def one_axis(name: str, axis: Any, ndim: int, what: str = "axis") -> int:
    """An axis counted from 0.

    Raises:
      AxisError: if an array of rank ``ndim`` has no such axis.
      ArgumentError: if ``axis`` is not an integer.
    """
    if type(axis) is int and 0 <= axis < ndim:
        return axis
    return axis_from_start(name, integer(name, what, axis), ndim, what)


def many_axes(name: str, axes: Any, ndim: int, what: str = "axis") -> Shape:
    """Axes counted from 0, in the order given; None means all of them.

    Raises:
      AxisError: if one is out of range, or named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    given = listed(axes)
    found = tuple(one_axis(name, axis, ndim, what) for axis in given)
    if len(set(found)) != len(found):
        raise AxisError(
            f"{name}: repeated axis, a duplicate value in '{what}': {given}",
            got=f"{what} {given}",
            fix="each once",
        )
    return found


def listed(axes: Any) -> tuple[Any, ...]:
    """An axis, or any iterable of them, as a tuple."""
    if type(axes) is tuple:
        return axes
    return tuple(axes) if type(axes) is not int and _is_iterable(axes) else (axes,)


def _is_iterable(x: Any) -> bool:
    """Whether something can be gone through that stands for several integers."""
    several = isinstance(x, Iterable) or hasattr(type(x), "__getitem__")
    return several and not isinstance(x, str) and getattr(x, "ndim", 1) != 0


def integer(name: str, what: str, value: Any) -> int:
    """A Python integer known while tracing.

    Raises:
      ArgumentError: if ``value`` is not an integer.
      TracerIntegerConversionError: if it is traced.
    """
    try:
        return as_size(value)
    except ConcretizationError:
        raise
    except TypeError:
        raise ArgumentError(
            f"{name}: {what} must be an integer",
            got=f"{value!r} of type {type(value).__name__}",
            fix=f"an int for {what}",
        ) from None


def as_shape(name: str, shape: Any) -> Shape:
    """A tuple of sizes from an integer or a sequence of them; ``-1`` is left in."""
    if type(shape) is tuple and all(type(size) is int for size in shape):
        return shape
    if type(shape) is not int and hasattr(shape, "__len__") and _is_iterable(shape):
        return tuple(integer(name, "a size", size) for size in shape)
    return (integer(name, "shape", shape),)


def complete_shape(name: str, aval: ShapedArray, shape: Shape) -> Shape:
    """The shape with its ``-1`` worked out.

    Raises:
      ShapeError: if the number of elements differs, or is not a multiple of the other sizes.
    """
    unknown = shape.count(-1)
    known = math.prod(size for size in shape if size != -1)
    if any(size < -1 for size in shape):
        raise ShapeError(f"{name}: a size is negative", got=f"shape {shape}", fix="-1, or 0 and up")
    if unknown > 1:
        raise ShapeError(f"{name}: more than one size is -1", got=f"shape {shape}", fix="one -1")
    if unknown and known and aval.size % known == 0:
        return tuple(aval.size // known if size == -1 else size for size in shape)
    if unknown or known != aval.size:
        why = "the number of elements differs"
        if unknown:
            why = f"{known} does not divide {aval.size}, the number of elements"
        raise ShapeError(
            f"{name}: cannot reshape array of {aval.size} elements: {why}",
            got=f"{aval.str_short()} of {aval.size} elements, shape {shape}",
            fix=f"a shape with {aval.size} elements; one size may be -1",
        )
    return shape
