"""From what users give to values: NumPy arrays, Python scalars, and types of their own.

:func:`as_value` is the one place where an argument becomes an array of the language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.core import native
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array, Handle
from functrax.core.errors.typed import ArgumentError, DTypeError, FunctraxError
from functrax.core.ir.jaxpr import Literal
from functrax.core.tracing.primitive import Value, registry
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import python_scalar_dtype
from functrax.core.types.symbolic_sizes import Recorded

_SCALARS = (bool, int, float, complex)


def _as_value(x: Any, what: str = "argument") -> Value:
    """An array of the language for anything array-like that is not a list.

    NumPy arrays are copied, so that later changes to them do not matter; 64-bit types become
    32-bit ones unless ``enable_x64`` is set; Python scalars get a weak type.

    Args:
      x: an Array, a NumPy array or scalar, a Python scalar (or one of a subclass, such as a member
        of an ``IntEnum``), or an object with ``__jax_array__``.
      what: what ``x`` is called in the error.

    Raises:
      DTypeError: if ``x`` is none of these, or of a dtype that arrays cannot have.
    """
    kind = type(x)
    if kind is ConcreteArray or isinstance(x, Tracer):
        return x
    if kind in _SCALARS:
        dtype, weak = python_scalar_dtype(x)
        return ConcreteArray(np.asarray(x, dtype), ShapedArray((), dtype, weak))
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(x, what)
    if kind is Literal:
        return ConcreteArray(np.asarray(x.val), x.aval)
    if kind is Recorded:
        return _array_of_size(x)
    if hasattr(x, "__jax_array__"):
        return as_value(x.__jax_array__(), what)
    if isinstance(x, Handle):
        raise x.refusal()
    if isinstance(x, Array):
        return x
    if hasattr(x, "__array__") and not isinstance(x, type):
        return _from_numpy(np.asarray(x), what)
    if isinstance(x, _SCALARS):  # of a subclass, IntEnum for example
        bases: tuple[Any, ...] = _SCALARS
        return _as_value(next(base for base in bases if isinstance(x, base))(x), what)
    if getattr(x, "is_ref", False) and not isinstance(x, type):
        raise x.no_value(what)
    lists = "; convert lists with functrax.numpy.array" if isinstance(x, (list, tuple)) else ""
    raise DTypeError(
        f"{what} is not an array or a scalar",
        got=f"Value {x!r} of type {kind} is not a valid JAX type",
        fix=f"give arrays, NumPy arrays or numbers{lists}",
    )


def _array_of_size(x: Recorded) -> Value:
    """A size that has no value as an array of rank 0."""
    dtype = dtypes.default_int()
    literal = Literal(x, ShapedArray((), dtype))
    convert = registry["convert_element_type"]
    found: Value = convert.bind(literal, dtype=dtype, weak_type=True)
    return found


#: :func:`_as_value`, or the C++ function that copies the usual NumPy arrays by itself.
as_value: Callable[..., Value] = getattr(native.extension, "as_value", _as_value)


def shown_type(x: Any) -> str:
    """What errors call something that should have been a container."""
    if isinstance(x, Array):
        return f"an array {x.aval.str_short()}"
    if isinstance(x, (tuple, list)):
        return f"{type(x).__name__} of length {len(x)}"
    return type(x).__name__


def check_not_masked(x: Any, what: str) -> None:
    """Refuse NumPy's masked arrays, whose mask would be forgotten.

    Raises:
      ArgumentError: for a masked array; it is a ValueError.
    """
    if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
        raise ArgumentError(
            f"{what}: numpy masked arrays are not supported, for arrays have no masks",
            got=f"numpy {x.dtype}{list(x.shape)} with a mask",
            fix="x.filled(value), or functrax.numpy.where(x.mask, value, x.data)",
        )


def _from_numpy(x: Any, what: str) -> ConcreteArray:
    check_not_masked(x, what)
    if x.dtype == dtypes.float0:
        return ConcreteArray(np.asarray(x), ShapedArray(x.shape, dtypes.float0))
    try:
        dtype = dtypes.canonicalize_dtype(dtypes.as_dtype(x.dtype))
    except FunctraxError as error:
        raise DTypeError(
            f"{what} has a dtype that arrays cannot have",
            got=f"numpy {x.dtype}{list(x.shape)} is not a valid JAX type",
            fix="convert it to a number type, such as float32",
        ) from error
    return ConcreteArray(np.array(x, dtype), ShapedArray(x.shape, dtype))


def is_valid_argument(x: Any) -> bool:
    """Whether :func:`as_value` would take ``x``, without converting it."""
    return (
        isinstance(x, (Array, np.ndarray, np.generic, *_SCALARS))
        or hasattr(x, "__jax_array__")
        or (hasattr(x, "__array__") and not isinstance(x, type))
    )


def concrete(x: Value) -> Value:
    """The same value as the user sees it: a literal becomes an array."""
    return ConcreteArray(np.asarray(x.val), x.aval) if type(x) is Literal else x


def _install() -> None:
    if native.extension is not None:
        fixed = frozenset([d for d in dtypes.ALL if not dtypes.follows_x64(d)])
        native.extension.as_value_configure(ConcreteArray, _as_value, fixed)


_install()
