"""From what users give to operands of primitives, as strictly as jax.lax.

Arrays are never converted to another dtype, and only arrays of rank 0 and axes of size 1 are
repeated.  A Python or NumPy scalar becomes a literal of the other operand's dtype.  The common
cases (one array; two arrays of one shape; an array and a Python number) are decided at once.

Start at :func:`value_of` for one array and :func:`pair` for two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.dtypes import DTypeLike
from functrax.core.types.promotion import IntegerOverflowError
from functrax.core.types.symbolic_sizes import integer as as_size

Shape: TypeAlias = "tuple[int, ...]"

_NUMBERS = frozenset({bool, int, float, complex})
_RANK_OF_KIND = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
_RANK_OF_TYPE = {bool: 0, int: 1, float: 2, complex: 3}


def value_of(name: str, x: Any) -> Value:
    """The value of an array-like argument of the function ``name``."""
    if type(x) is ConcreteArray or isinstance(x, Tracer):
        return x
    return as_value(x, f"an operand of {name}")


def as_array(x: Value) -> Array:
    """A value as the user sees it: an operation on constants may leave a literal."""
    if type(x) is Literal:
        return ConcreteArray(np.asarray(x.val), x.aval)
    return x


def pair(name: str, x: Any, y: Any) -> tuple[Value, Value]:
    """Two operands of one shape (literals aside), for an elementwise primitive.

    Raises:
      DTypeError: if a number does not go with the array's dtype, or an operand is no array.
      ShapeError: if the shapes differ by more than rank 0 or sizes of 1.
    """
    if isinstance(x, Array):
        if isinstance(y, Array):
            if x.aval.shape == y.aval.shape:
                return x, y
        elif type(y) in _NUMBERS:
            return x, scalar(name, y, x.aval)
    elif type(x) in _NUMBERS and isinstance(y, Array):
        return scalar(name, x, y.aval), y
    a, b = operands(name, x, y)
    return a, b


def operands(name: str, *xs: Any) -> list[Value]:
    """Any number of operands of one shape; see :func:`pair`."""
    values = [None if type(x) in _NUMBERS or isinstance(x, np.generic) else x for x in xs]
    found = [None if x is None else value_of(name, x) for x in values]
    first = next((x for x in found if x is not None), None)
    if first is None:
        return [as_value(x, f"an operand of {name}") for x in xs]
    filled = [scalar(name, x, first.aval) if v is None else v for x, v in zip(xs, found)]
    return same_shape(name, filled)


def scalar(name: str, value: Any, aval: ShapedArray) -> Value:
    """A number as a constant of an array's dtype.

    A Python number may be of a lower kind than the array (int among floats), not of a higher one;
    a NumPy scalar has a dtype, and keeps it.
    """
    if isinstance(value, np.generic):
        given = as_value(value)
        return Literal(given.value, given.aval)
    dtype = aval.dtype
    kind = type(value)
    fits = kind is int or kind is float or kind is complex
    if fits != (dtype.kind != "b") or _RANK_OF_TYPE[kind] > _RANK_OF_KIND[dtype.kind]:
        raise DTypeError(
            f"{name} requires arguments to have the same dtypes",
            got=f"{value!r} ({kind.__name__}) with {aval.str_short()}",
            fix="a number of the array's kind, or functrax.numpy, which promotes",
        )
    try:
        return Literal(value, ShapedArray((), dtype, aval.weak_type))
    except OverflowError as error:
        raise IntegerOverflowError(
            f"{name}: the integer does not fit the array's dtype",
            got=f"{value!r} with {aval.str_short()}",
            fix="convert the array to a wider dtype with lax.convert_element_type",
        ) from error


def same_shape(name: str, values: Sequence[Value]) -> list[Value]:
    """Repeat arrays of rank 0, and axes of size 1, to the operands' one shape."""
    shapes = {x.aval.shape for x in values if type(x) is not Literal}
    if len(shapes) < 2:
        return list(values)
    shape = broadcast_sizes(name, [s for s in shapes if s])
    return [x if type(x) is Literal else repeat(x, shape) for x in values]


def broadcast_sizes(name: str, shapes: Sequence[Shape]) -> Shape:
    """The shape to which shapes of one rank are repeated."""
    if len({len(s) for s in shapes}) > 1:
        raise ShapeError(
            f"{name}: the arrays have different ranks",
            got=", ".join(map(str, shapes)),
            fix="lax.broadcast_in_dim, or functrax.numpy, which broadcasts",
        )
    out = []
    for sizes in zip(*shapes, strict=True):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise ShapeError(
                f"{name}: the arrays' shapes differ",
                got=", ".join(map(str, shapes)),
                fix="sizes that are equal or 1",
            )
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def repeat(x: Value, shape: Shape) -> Value:
    """An array of rank 0, or of the rank of ``shape``, repeated to ``shape``."""
    if x.aval.shape == shape:
        return x
    return broadcast_in_dim.bind(x, shape=shape, dims=tuple(range(x.aval.ndim)))


def as_ints(name: str, given: Any, what: str = "shape") -> Shape:
    """A shape, or another list of integers, as a tuple.

    Raises:
      ShapeError: if it is not one; a traced size has no known value.
    """
    try:
        return tuple(map(as_size, given))
    except TypeError as error:
        rule = "Shapes must be 1D sequences of concrete values of integer type, and "
        raise ShapeError(
            f"{name}: {rule if what == 'shape' else ''}{what} is not a sequence of known integers",
            got=f"{given!r}",
            fix="Python integers; mark arguments that decide shapes with static_argnums",
        ) from error


def axes_of(name: str, ndim: int, axes: Iterable[int]) -> Shape:
    """Axes counted from 0, of which negative ones count from the end; each once."""
    given = as_ints(name, axes, "axes")
    found = tuple(a + ndim if a < 0 else a for a in given)
    outside = [a for a in given if not -ndim <= a < ndim]
    if outside or len(set(found)) != len(found):
        what = (
            f"axis {outside[0]} is out of bounds"
            if outside
            else f"duplicate value in 'axes' {given}: axes are not unique"
        )
        raise AxisError(
            f"{name}: {what}",
            got=f"axes {given} of an array of rank {ndim}",
            fix=f"different axes from {-ndim} to {ndim - 1}" if ndim else "no axes at all",
        )
    return found


def axis_of(name: str, ndim: int, axis: int) -> int:
    """One axis, counted from 0."""
    return axes_of(name, ndim, (axis,))[0]


def dtype_of(given: DTypeLike) -> np.dtype[Any]:
    """A dtype argument: 64-bit types are narrowed while x64 is off."""
    return dtypes.canonicalize_dtype(dtypes.as_dtype(given))


def check_same_dtype(name: str, values: Sequence[Value], fix: str) -> None:
    """Refuse operands of different dtypes."""
    if any(x.aval.dtype != values[0].aval.dtype for x in values):
        shown = ", ".join(x.aval.str_short() for x in values)
        raise DTypeError(f"{name} requires arguments to have the same dtypes", got=shown, fix=fix)


def static_scalar(name: str, value: Any, dtype: np.dtype[Any]) -> Literal:
    """A constant of a dtype from a number that is known while tracing."""
    if isinstance(value, Tracer) or np.ndim(value) != 0:
        raise ArgumentError(
            f"{name}: a number known while tracing is needed",
            got=repr(value),
            fix="a Python number",
        )
    return Literal(np.asarray(value).astype(dtype), ShapedArray((), dtype))
