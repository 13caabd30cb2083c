"""Questions about types and shapes, answered without looking at values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.core.types.promotion import result_type, typed_of
from functrax.numpy.promote import SCALARS, to_array
from functrax.typing import ArrayLike, DTypeLike


def ndim(a: Any) -> int:
    """The number of axes; lists as in :func:`shape`.

    Args:
      a: an array, a scalar or a list.

    Returns:
      A Python integer.

    Raises:
      ValueError: for lists of unequal lengths, from NumPy.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ndim(jnp.ones((2, 3))), jnp.ndim(1.5)
      (2, 0)
    """
    return len(_shape("ndim", a))


def shape(a: Any) -> tuple[int, ...]:
    """The sizes of the axes; of lists and None as NumPy has them, with a DeprecationWarning.

    Args:
      a: an array, a scalar or a list.

    Returns:
      A tuple of Python integers.

    Raises:
      ValueError: for lists of unequal lengths, from NumPy.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.shape(jnp.ones((2, 3))), jnp.shape(1.5)
      ((2, 3), ())
    """
    return _shape("shape", a)


def size(a: Any, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the size of some axes; lists as in :func:`shape`.

    Args:
      a: an array, a scalar or a list.
      axis: an axis, or several; None for all.

    Returns:
      A Python integer.

    Raises:
      AxisError: for an axis out of range or named twice.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.size(jnp.ones((2, 3))), jnp.size(jnp.ones((2, 3)), axis=0)
      (6, 2)
    """
    from functrax.numpy.reductions import checked_axes

    sizes = _shape("size", a)
    axes = checked_axes("size", axis, len(sizes))
    return int(np.prod([sizes[i] for i in axes], dtype=np.int64))


def _shape(name: str, a: Any) -> tuple[int, ...]:
    if isinstance(a, Array):
        return a.shape
    if type(a) in SCALARS:
        return ()
    if hasattr(a, "shape") and isinstance(a.shape, tuple):
        return tuple(a.shape)
    if hasattr(a, "__jax_array__"):
        return _shape(name, a.__jax_array__())
    warnings.warn(
        f"{name} requires ndarray or scalar arguments, got {type(a)} at position 0. "
        "Lists and None are taken for now, as JAX takes them",
        DeprecationWarning,
        stacklevel=3,
    )
    return np.shape(a)


def iscomplexobj(x: ArrayLike | Sequence[Any] | None) -> bool:
    """Whether the dtype of ``x`` is complex.

    Args:
      x: an array, a scalar or a list; None is not complex.

    Returns:
      A Python boolean.

    Raises:
      DTypeError: for what is no array.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.iscomplexobj(1j), jnp.iscomplexobj(jnp.zeros(2))
      (True, False)
    """
    if isinstance(x, (list, tuple)):
        return bool(np.iscomplexobj(x))
    return x is not None and _dtype_of(x) in dtypes.COMPLEX


def isrealobj(x: ArrayLike | Sequence[Any] | None) -> bool:
    """Whether the dtype of ``x`` is not complex.

    Args:
      x: an array, a scalar or a list.

    Returns:
      A Python boolean.

    Raises:
      DTypeError: for what is no array.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isrealobj(1j), jnp.isrealobj(jnp.zeros(2))
      (False, True)
    """
    return not iscomplexobj(x)


def _dtype_of(x: Any) -> DType:
    return typed_of(x if hasattr(x, "dtype") else to_array("iscomplexobj", x))[0]


def isscalar(element: Any) -> bool:
    """Whether ``element`` is a number, or an array without axes.

    Args:
      element: anything.

    Returns:
      A Python boolean; True for arrays without axes, where NumPy says False.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isscalar(1.5), jnp.isscalar(jnp.array(1.5)), jnp.isscalar(jnp.zeros(1))
      (True, True, False)
    """
    if isinstance(element, Array):
        return not element.shape
    if isinstance(element, np.ndarray):
        return element.ndim == 0
    if hasattr(element, "__jax_array__"):
        return isscalar(element.__jax_array__())
    return bool(np.isscalar(element))


def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether NumPy's rules let a dtype become another.

    Args:
      from_: a dtype, or its name.
      to: another.
      casting: ``"no"``, ``"equiv"``, ``"safe"`` (nothing is lost), ``"same_kind"`` or ``"unsafe"``
        (always).

    Returns:
      A Python boolean.

    Raises:
      DTypeError: for what names no dtype.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.can_cast("int32", "int8"), jnp.can_cast("int32", "int8", "same_kind")
      (False, True)
    """
    return bool(np.can_cast(dtypes.as_dtype(from_), dtypes.as_dtype(to), casting))  # type: ignore[arg-type]


_KINDS = {
    "bool": dtypes.BOOL,
    "signed integer": dtypes.SIGNED,
    "unsigned integer": dtypes.UNSIGNED,
    "integral": dtypes.INTEGER,
    "real floating": dtypes.FLOATING,
    "complex floating": dtypes.COMPLEX,
    "numeric": dtypes.NUMERIC,
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Whether a dtype is of a kind of the array API.

    Args:
      dtype: a dtype.
      kind: "bool", "signed integer", "unsigned integer", "integral", "real floating",
        "complex floating", "numeric", a dtype, or a tuple of them.

    Returns:
      A Python boolean.

    Raises:
      ArgumentError: for a kind that does not exist.
      DTypeError: if ``dtype`` is not one.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isdtype("float32", "real floating")
      True
    """
    exact = dtypes.as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(_is_of_kind(exact, k) for k in kinds)


def _is_of_kind(dtype: DType, kind: Any) -> bool:
    if isinstance(kind, str) and kind in _KINDS:
        return dtype in _KINDS[kind]
    try:
        return dtype == dtypes.as_dtype(kind)
    except DTypeError:
        raise ArgumentError(
            "isdtype: no such kind", got=repr(kind), fix="a dtype, or one of " + ", ".join(_KINDS)
        ) from None


def issubdtype(arg1: DTypeLike | None, arg2: DTypeLike | None) -> bool:
    """Whether a dtype is of a type, or of an abstract type such as ``floating``.

    Args:
      arg1: a dtype, a scalar type, or a name.
      arg2: another, or an abstract type.

    Returns:
      A Python boolean.

    Raises:
      TypeError: for what is neither.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.issubdtype("bfloat16", jnp.floating)
      True
    """
    return dtypes.issubdtype(_plain(arg1), _plain(arg2))


def _plain(spec: Any) -> Any:
    """A dtype for one of the scalar types of this package; anything else as it is."""
    dtype = getattr(spec, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) and isinstance(spec, type) else spec


__all__ = [
    "can_cast", "iscomplexobj", "isdtype", "isrealobj", "isscalar", "issubdtype", "ndim",
    "result_type", "shape", "size",
]  # fmt: skip


def iterable(y: Any) -> bool:
    """Whether one can iterate over it.

    Args:
      y: anything.

    Returns:
      A Python boolean.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.iterable(jnp.zeros(2)), jnp.iterable(jnp.array(1.5))
      (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True
