"""Operands meet here: dtype promotion and broadcasting, as NumPy does it with JAX's dtypes.

What enters is what users give to an elementwise function: arrays, NumPy arrays, Python scalars,
objects with ``__jax_array__``.  What leaves is values of one dtype and one shape, which primitives
take.  Python scalars become literals, which need no broadcasting; the two common cases, arrays
of one type and an array with a Python scalar, are decided by one look-up.

Start at :func:`promote_pair`, the fast path, and :func:`promote_args`, which does the rest.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.options.config import Override, state as options
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.dtypes import DType
from functrax.core.types.promotion import lattice_result_type, python_scalar_dtype, typed_of

P = ParamSpec("P")
R = TypeVar("R")

SCALARS: Final[frozenset[type]] = frozenset({bool, int, float, complex})

#: (type of the array, Python type, x64, promotion mode) -> type of the literal, if the scalar
#: leaves the array's type as it is, else None.
_literal_types: dict[Any, ShapedArray | None] = {}

#: The literals of Python scalars met before, which NumPy makes slowly.
_scalar_literals: dict[tuple[complex, type, ShapedArray], Literal] = {}

Kind = Callable[[DType], DType]


def promoting(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of the library whose own operations promote ranks and dtypes.

    ``numpy_rank_promotion`` and ``numpy_dtype_promotion`` are about what users write: they hold for
    a function's operands, which are to be brought together before, and not for what it does with
    them.  Not for functions that call back into users' ones.
    """

    @functools.wraps(function)
    def promotes(*args: P.args, **kwargs: P.kwargs) -> R:
        if options.numpy_rank_promotion == "allow" and options.numpy_dtype_promotion == "standard":
            return function(*args, **kwargs)
        with _OWN_RANKS, _OWN_DTYPES:
            return function(*args, **kwargs)

    return promotes


_OWN_RANKS: Final = Override("numpy_rank_promotion", "allow")
_OWN_DTYPES: Final = Override("numpy_dtype_promotion", "standard")


def same(dtype: DType) -> DType:
    """The dtype itself."""
    return dtype


def inexact(dtype: DType) -> DType:
    """The dtype in which a function such as ``sin`` works: float32 (or 64) for integers."""
    if dtype in dtypes.INEXACT:
        return dtype
    return dtypes.float64 if dtype in _WIDE else dtypes.float32


_WIDE: Final = frozenset({dtypes.int64, dtypes.uint64})


def numeric(dtype: DType) -> DType:
    """The dtype in which arithmetic on it is done: int32 for booleans."""
    return dtypes.int32 if dtype == dtypes.bool_ else dtype


def result(x: Value) -> Array:
    """A value as the user sees it: an operation on constants may leave a literal."""
    return x if type(x) is not Literal else ConcreteArray(np.asarray(x.val), x.aval)


def as_weak_as(x: Value, out: Value) -> Value:
    """``out`` with the weak type of ``x``, where an operation that changes the dtype lost it."""
    return convert(out, out.aval.dtype, True) if x.aval.weak_type else out


def scalar_literal(value: complex, aval: ShapedArray) -> Literal:
    """A Python scalar as a constant of a type; integers wrap, if the default integer holds them.

    Raises:
      IntegerOverflowError: for an integer that does not fit the default integer dtype.
    """
    key = (value, type(value), aval)
    found = _scalar_literals.get(key) if value else None  # 0.0 and -0.0 are equal keys
    if found is None:
        found = _scalar_literals[key] = _new_literal(value, aval)
    return found


def _new_literal(value: complex, aval: ShapedArray) -> Literal:
    try:
        return Literal(value, aval)
    except OverflowError:
        dtype, _ = python_scalar_dtype(value)
        return Literal(np.asarray(value, dtype).astype(aval.dtype), aval)
    except TypeError:  # a complex number for a real type
        return Literal(np.asarray(value).astype(aval.dtype), aval)


def promote_pair(name: str, x: Any, y: Any, kind: Kind = same) -> Sequence[Value]:
    """:func:`promote_args` of two operands, with shortcuts for the common cases."""
    if isinstance(x, Array):
        a = x.aval
        if kind is not same and kind(a.dtype) is not a.dtype:
            return promote_args(name, x, y, kind=kind)
        if isinstance(y, Array):
            b = y.aval
            if a is b:
                return x, y
            if a.dtype is b.dtype and a.weak_type is b.weak_type:
                return broadcast_values(name, x, y)
        elif type(y) in SCALARS:
            found = literal_type(a, type(y))
            if found is not None:
                return x, scalar_literal(y, found)
    elif type(x) in SCALARS and isinstance(y, Array):
        b = y.aval
        if kind is same or kind(b.dtype) is b.dtype:
            found = literal_type(b, type(x))
            if found is not None:
                return scalar_literal(x, found), y
    return promote_args(name, x, y, kind=kind)


def literal_type(aval: ShapedArray, python_type: type) -> ShapedArray | None:
    """The type of the literal for a Python scalar that meets an array, or None.

    None means that the array has to be converted as well.
    """
    key = (aval, python_type, options.enable_x64, options.numpy_dtype_promotion)
    try:
        return _literal_types[key]
    except KeyError:
        pass
    mine = (aval.dtype, aval.weak_type)
    scalar = (dtypes.as_dtype(python_type), python_type is not bool)
    stays = aval.dtype.names is None and lattice_result_type(mine, scalar) == mine
    found = ShapedArray((), aval.dtype, aval.weak_type) if stays else None
    _literal_types[key] = found
    return found


def promote_args(name: str, *args: Any, kind: Kind = same) -> list[Value]:
    """Bring operands to one dtype and one shape.

    Args:
      name: the function, for errors.
      *args: arrays, NumPy arrays, Python scalars, objects with ``__jax_array__``.
      kind: from the dtype in which the operands meet to the one that the function needs.

    Returns:
      Values of one dtype; those that are not scalar literals have one shape.

    Raises:
      DTypeError: for operands that are not arrays (lists among them), or do not promote.
      ShapeError: for shapes that do not broadcast.
    """
    return broadcast_values(name, *promote_dtypes(name, *args, kind=kind))


def promote_dtypes(name: str, *args: Any, kind: Kind = same) -> list[Value]:
    """Bring operands to one dtype; Python scalars become literals."""
    if len(args) == 1 and isinstance(args[0], Array):
        own = args[0].aval.dtype
        if kind(own) is own:
            return [args[0]]
    operands = [operand(name, i, x) for i, x in enumerate(args)]
    typed = [
        (x.aval.dtype, x.aval.weak_type) if isinstance(x, (Array, Literal)) else typed_of(x)
        for x in operands
    ]
    dtype, weak = lattice_result_type(*typed)
    dtype = kind(dtype)
    return [convert(x, dtype, weak) for x in operands]


def operand(name: str, position: int, x: Any) -> Any:
    """An array or literal as it is, a Python scalar as it is, anything array-like as an array.

    Raises:
      DTypeError: for lists, None, strings and other things that are not arrays.
    """
    if isinstance(x, Array) or type(x) is Literal or type(x) in SCALARS:
        return x
    if isinstance(x, (list, tuple)) or x is None or isinstance(x, (str, bytes, dict, set)):
        raise not_an_array(name, position, x)
    if isinstance(x, (int, float, complex)) and not isinstance(x, np.generic):
        return x
    try:
        return as_value(x, f"{name}: operand {position}")
    except DTypeError:
        if hasattr(x, "dtype"):
            raise
        raise not_an_array(name, position, x) from None


def not_an_array(name: str, position: int, x: Any) -> DTypeError:
    """The error for an operand that is not an array."""
    shown = repr(x)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    fix = "give an array or a number"
    if isinstance(x, (list, tuple)):
        fix = (
            f"functrax.numpy.{name.split('.')[-1]}(functrax.numpy.array(...)): lists are not arrays"
        )
    return DTypeError(
        f"{name}: takes arrays and scalars",
        got=f"{shown} of type {type(x).__name__} at position {position}",
        fix=fix,
    )


def to_array(name: str, x: Any, position: int = 0) -> Value:
    """One operand as an array; refuses lists.

    Raises:
      DTypeError: for lists and other things that are not arrays.
    """
    if isinstance(x, Array):
        return x
    return as_value(operand(name, position, x), name)


def convert(x: Any, dtype: DType, weak: bool = False) -> Value:
    """A value with another dtype and weak type; a Python scalar becomes a literal."""
    if isinstance(x, Array):
        aval = x.aval
        if aval.dtype is dtype and aval.weak_type is weak:
            return x
        if aval.dtype == dtypes.float0:
            return as_value(np.zeros(aval.shape, dtype))
        return convert_element_type.bind(x, dtype=dtype, weak_type=weak)
    aval = ShapedArray((), dtype, weak)
    if type(x) is Literal:
        return convert_element_type.simplify(x, dtype=dtype, weak_type=weak)
    if isinstance(x, int) and not isinstance(x, bool):
        python_scalar_dtype(x)  # refuses what the default integer cannot hold
    return scalar_literal(x, aval)


def broadcast_values(name: str, *values: Value) -> list[Value]:
    """Repeat values along axes of size 1 and missing leading axes, to one shape.

    Raises:
      ShapeError: for shapes that do not broadcast.
    """
    arrays = [x for x in values if type(x) is not Literal]
    if not arrays:
        return list(values)
    first = arrays[0].aval.shape
    if all(x.aval.shape == first for x in arrays):
        return list(values)
    shape = broadcast_shape(name, [x.aval.shape for x in arrays])
    return [x if type(x) is Literal else broadcast_value(x, shape) for x in values]


def broadcast_value(x: Value, shape: tuple[int, ...]) -> Value:
    """Repeat a value to a shape that it is known to broadcast to."""
    own = x.aval.shape
    if own == shape:
        return x
    dims = tuple(range(len(shape) - len(own), len(shape)))
    return broadcast_in_dim.bind(x, shape=shape, dims=dims)


def broadcast_shape(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    Raises:
      ShapeError: if they do not, or if their ranks differ and ``numpy_rank_promotion`` forbids it.
    """
    ndim = max(map(len, shapes))
    out = [1] * ndim
    for shape in shapes:
        for i, size in enumerate(shape, ndim - len(shape)):
            if size == out[i] or size == 1:
                continue
            if out[i] != 1:
                raise ShapeError(
                    f"{name}: shapes do not broadcast",
                    got=", ".join(map(str, shapes)),
                    fix="sizes must be equal or 1, counted from the last axis; reshape, or add "
                    "an axis with x[:, None]",
                )
            out[i] = size
    if options.numpy_rank_promotion != "allow":
        _check_ranks(name, shapes)
    return tuple(out)


#: Functions that bring arrays of different ranks together whatever ``numpy_rank_promotion`` says.
_ANY_RANKS: Final = frozenset(
    {
        *("where", "select", "choose", "broadcast_arrays", "broadcast_shapes", "cross"),
        *("heaviside", "indexing"),
    }
)


def _check_ranks(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    ranks = {len(shape) for shape in shapes if shape}
    if len(ranks) < 2 or name in _ANY_RANKS:
        return
    shown = ", ".join(map(str, shapes))
    if options.numpy_rank_promotion == "raise":
        raise ShapeError(
            f"{name}: operands could not be broadcast together, for their ranks differ and "
            "numpy_rank_promotion is 'raise'",
            got=shown,
            fix='add axes with x[None], or config.update("numpy_rank_promotion", "allow")',
        )
    warnings.warn(f"{name}: following NumPy, shapes {shown} broadcast", stacklevel=2)
