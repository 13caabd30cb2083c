"""Arguments that all samplers share: the shape and the dtype of what is drawn, and parameters.

Start at :func:`checked_shape`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.symbolic_sizes import integer as as_size
from functrax.lax import broadcast_shapes

Shape = tuple[int, ...]
DType = np.dtype[Any]


def checked_shape(name: str, given: Any, what: str = "shape") -> Shape:
    """A shape as a tuple; a single integer is a shape of one axis.

    Raises:
      ShapeError: if it is not a sequence of known integers, or one is negative.
    """
    try:
        shape = _as_tuple(given)
    except TypeError as error:
        if what != "shape":
            raise ShapeError(
                f"{name}: {what} is not a known integer, nor a sequence of known integers",
                got=repr(given),
                fix="a Python integer; mark arguments that decide shapes with static_argnums",
            ) from error
        raise ShapeError(
            f"{name}: Shapes must be 1D sequences of concrete values of integer type, "
            f"and {what} is not a sequence of known integers",
            got=repr(given),
            fix="Python integers; mark arguments that decide shapes with static_argnums",
        ) from error
    if any(n < 0 for n in shape):
        raise ShapeError(
            f"{name}: a size is negative", got=f"{what} {shape}", fix="sizes of 0 or more"
        )
    return shape


def _as_tuple(given: Any) -> Shape:
    if isinstance(given, (tuple, list)):
        return tuple(map(as_size, given))
    if hasattr(given, "__index__") and not getattr(given, "shape", ()):
        return (as_size(given),)
    return tuple(map(as_size, given))


def broadcast_shape(name: str, given: Any, *parameters: Shape) -> Shape:
    """The shape that is drawn for parameters of these shapes; theirs if ``given`` is None.

    Raises:
      ShapeError: if the parameters do not broadcast to the shape.
    """
    if given is None:
        return broadcast_shapes(*parameters)
    shape = checked_shape(name, given)
    if not any(parameters):
        return shape
    try:
        fits = broadcast_shapes(shape, *parameters) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{name}: the parameters do not broadcast to the shape",
            got=f"shape {shape}, parameters of shape {', '.join(map(str, parameters))}",
            fix="a shape that ends in the parameters' shape",
        )
    return shape


def float_dtype(name: str, given: Any) -> DType:
    """The dtype of a floating point sample; the default float for None.

    Raises:
      DTypeError: for another kind of dtype.
    """
    return _dtype_of(name, given, float, dtypes.is_float, "a floating point dtype")


def inexact_dtype(name: str, given: Any) -> DType:
    """The dtype of a floating point or complex sample; the default float for None."""
    return _dtype_of(name, given, float, dtypes.is_inexact, "a floating point or complex dtype")


def integer_dtype(name: str, given: Any) -> DType:
    """The dtype of an integer sample; the default integer for None."""
    return _dtype_of(name, given, int, dtypes.is_integer, "an integer dtype")


def _dtype_of(
    name: str, given: Any, default: type, accepts: Callable[[DType], bool], kind: str
) -> DType:
    asked = default if given is None else given
    dtype = dtypes.canonicalize_dtype(dtypes.as_dtype(asked))
    if accepts(dtype):
        return dtype
    raise DTypeError(f"{name} needs {kind}", got=f"dtype {dtype}", fix=f"dtype={default.__name__}")


def parameter(name: str, given: Any, dtype: DType) -> Value:
    """A parameter of a distribution, as an array of the dtype of the sample."""
    value = as_value(given, f"a parameter of {name}")
    if value.aval.dtype == dtype and not value.aval.weak_type:
        return value
    return convert_element_type.bind(value, dtype=dtype, weak_type=False)


def repeated(x: Value, shape: Shape) -> Value:
    """An array repeated to a shape that it broadcasts to."""
    own = x.aval.shape
    if own == shape:
        return x
    return broadcast_in_dim.bind(
        x, shape=shape, dims=tuple(range(len(shape) - len(own), len(shape)))
    )
