"""Making arrays of what is there: numbers, nested lists, NumPy arrays, buffers, other arrays.

Lists become arrays here and nowhere else: :func:`array` takes nested lists of numbers and of
arrays, traced ones too.  Where the values are known NumPy makes the array; what is traced is put
together with primitives.  Arrays that are full of something are made in ``filling.py``, evenly
spaced ones in ``ranges.py``.

Start at :func:`array`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends.device import another_copy, bound_to, device_on, made_on_default, put_on
from functrax.backends.places import known
from functrax.backends.runtime.choice import Buffer
from functrax.backends.sharding.placement import device_put
from functrax.core.arrays import dlpack
from functrax.core.arrays.array import Borrowed, ConcreteArray, from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ConcretizationError, DTypeError, ShapeError
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate
from functrax.core.tracing.inputs import as_value, check_not_masked
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.dtypes import DType
from functrax.core.types.promotion import IntegerOverflowError, lattice_result_type, typed_of
from functrax.core.types.symbolic_sizes import integer as as_size, is_symbolic_dim
from functrax.numpy.promote import SCALARS, convert, result, scalar_literal, to_array
from functrax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from functrax.backends.device import Device
    from functrax.backends.sharding.shardings import Sharding


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """An array of numbers, nested lists, NumPy arrays and arrays.

    Args:
      object: a number, an array, or nested lists or tuples of them, of one shape at each level.
      dtype: the dtype of the result; by default that in which the elements meet.
      copy: whether an array gives another one, which stays when the first is donated; the two
        have one memory until then.
      order: "K", "A" or "C"; the layout cannot be chosen.
      ndmin: the least number of axes; axes of size 1 are added in front.
      device: a device or a sharding to put the array on, or None.

    Returns:
      The array.  Numbers alone give a weak type, lists do not.

    Raises:
      DTypeError: for None, strings and objects.
      ShapeError: for lists whose elements differ in shape.
      IntegerOverflowError: for a Python integer that the dtype cannot hold; NumPy's wrap.
      ArgumentError: for ``order="F"``, and for NaN in a dtype of integers.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.array([[1, 2], [3, 4.5]])
      Array([[1. , 2. ],
             [3. , 4.5]], dtype=float32)
    """
    check_order("array", order)
    wanted = None if dtype is None else checked_dtype(dtype)
    made = _array(object, wanted)
    missing = ndmin - made.aval.ndim
    if missing > 0:
        made = reshape.bind(made, shape=(1,) * missing + made.aval.shape)
    if copy and made is object and type(made) is ConcreteArray:
        made = made.another()
    if device is not None:
        return device_put(result(made), device)
    return result(_on_its_device(object, made, copy) if known.several else made)


def _on_its_device(given: Any, made: Value, copy: bool) -> Value:
    """What was made of numbers, on the default device, or of another library's array on a GPU."""
    if isinstance(given, Array):
        return made
    if copy and bound_to(made) is not None:
        return another_copy(made)
    return made_on_default(made)


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Device | Sharding | None = None,
) -> Array:
    """:func:`array` without a copy where none is needed.

    The memory of a NumPy array is taken as it is where nobody can write to it any more, and with
    ``copy=False`` in any case: writing to it afterwards changes the array.

    Args:
      a: anything that :func:`array` takes.
      dtype: the dtype of the result; that of ``a`` if None.
      order: accepted for compatibility, as in :func:`array`.
      copy: True for memory of its own, False for none, None for as it is safe.
      device: a device or a sharding to put the array on, or None.

    Returns:
      The array; ``a`` itself if it is one of the dtype.

    Raises:
      ArgumentError: with ``copy=False``, if there is no way without a copy.
      DTypeError: for None, strings and objects.
      ShapeError: for lists whose elements differ in shape.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.asarray([1, 2], dtype="float32")
      Array([1., 2.], dtype=float32)
    """
    if device is not None:
        return device_put(asarray(a, dtype, order, copy=copy), device)
    if isinstance(a, np.ndarray) and not copy:
        wanted = checked_dtype(a.dtype if dtype is None else dtype)
        if a.dtype == wanted and (copy is False or _is_frozen(a)):
            return _alias(a)
    if dtype is None and not copy and isinstance(a, Array):
        return a
    made = array(a, dtype, bool(copy), order)
    if copy is False and made is not a:
        raise ArgumentError(
            "asarray: the array cannot be had without a copy",
            got=f"{type(a).__name__} of dtype {getattr(a, 'dtype', None)}",
            fix="a NumPy array of a dtype that arrays have (enable_x64 for 64 bits), or copy=None",
        )
    return made


def _alias(a: np.ndarray[Any, Any]) -> ConcreteArray:
    """An array in the memory of a NumPy array."""
    check_not_masked(a, "asarray: the argument")
    shown = np.asarray(a).view()
    shown.flags.writeable = False
    raw = shown if _is_frozen(a) else Borrowed(shown)
    return ConcreteArray(raw, ShapedArray(shown.shape, shown.dtype))


def _is_frozen(a: Any) -> bool:
    """Whether nobody can write to the memory of a NumPy array: it is an array's of ours."""
    while isinstance(a, (np.ndarray, memoryview)):
        if not isinstance(a, memoryview) and a.flags.writeable:
            return False
        a = a.obj if isinstance(a, memoryview) else a.base
    return isinstance(a, (bytes, Buffer))


def check_order(name: str, order: Any) -> None:
    """Refuse an order that cannot be given.

    Raises:
      ArgumentError: for ``order="F"``.
    """
    if order not in (None, "K", "A", "C"):
        raise ArgumentError(
            f"{name}: arrays are stored in row-major order",
            got=f"order={order!r}",
            fix='leave order out, or give "C"',
        )


def checked_dtype(spec: Any) -> DType:
    """The dtype that ``spec`` names, narrowed to 32 bits while x64 is off."""
    return dtypes.canonicalize_dtype(dtypes.as_dtype(spec))


def _array(x: Any, dtype: DType | None) -> Value:
    if isinstance(x, Array):
        return x if dtype is None else convert(x, dtype)
    if isinstance(x, (list, tuple)):
        return _from_list(x, dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        return as_value(x, "array: the argument") if dtype is None else _from_numpy(x, dtype)
    if isinstance(x, (bool, int, float, complex)):
        return as_value(x) if dtype is None else _scalar(x, dtype)
    if hasattr(x, "__jax_array__"):
        return _array(x.__jax_array__(), dtype)
    if hasattr(x, "__cuda_array_interface__") and not isinstance(x, type):
        made = _of_cuda(x)
        return made if dtype is None else convert(made, dtype)
    if x is None:
        raise DTypeError("None is not a valid value for jnp.array", got="None", fix="give numbers")
    if hasattr(x, "__array__") or isinstance(x, (bytearray, memoryview)):
        return _array(np.asarray(x), dtype)
    if hasattr(x, "__len__") and hasattr(x, "__getitem__") and not isinstance(x, (str, bytes)):
        return _from_list([x[i] for i in range(len(x))], dtype)
    return as_value(x, "array: the argument")


def _scalar(x: complex, dtype: DType) -> ConcreteArray:
    _check_range(x, dtype)
    made = scalar_literal(x, ShapedArray((), dtype))
    return ConcreteArray(np.asarray(made.val), made.aval)


def _from_numpy(x: Any, dtype: DType) -> ConcreteArray:
    check_not_masked(x, "array: the argument")
    if x.dtype.kind in "OSUmM":
        as_value(x, "array: the argument")
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype):
        x = x.real
    with np.errstate(all="ignore"):
        return from_numpy(np.array(x, dtype))


def _of_cuda(x: Any) -> Value:
    """An array in the memory that ``__cuda_array_interface__`` tells of."""
    described = dict(x.__cuda_array_interface__)
    if described.get("mask") is not None:
        raise ArgumentError("array: arrays have no masks", got="a mask", fix="an array without one")
    stream = described.pop("stream", None)
    if stream not in (None, 1, 2):
        raise ArgumentError(
            "array: the elements are made on a stream that programs do not wait for",
            got=f"stream={stream!r} in __cuda_array_interface__",
            fix="functrax.numpy.from_dlpack(x), or give it when the stream is synchronised",
        )
    address, _ = described["data"]
    described["data"] = (address, False)
    return _adopted(np.asarray(dlpack.ArrayInterface(described, x)), None)


def _from_list(items: Sequence[Any], dtype: DType | None) -> Value:
    leaves: list[Any] = []
    plain = _collect(items, leaves)
    if not leaves:
        return from_numpy(np.zeros(_empty_shape(items), dtype or dtypes.default_float()))
    wanted = _meeting(leaves) if dtype is None else dtype
    if plain:
        return _nested_numpy(items, wanted)
    return _stack(items, wanted)


def _meeting(leaves: Sequence[Any]) -> DType:
    """The dtype in which the elements of a list meet; it is not weak."""
    scalars = {type(x) for x in leaves if type(x) in SCALARS}
    others = {typed_of(x) for x in leaves if type(x) not in SCALARS}
    found, weak = lattice_result_type(*others, *map(typed_of, scalars))
    return dtypes.as_dtype(dtypes.scalar_type_of(found)) if weak else found


def _collect(items: Sequence[Any], leaves: list[Any]) -> bool:
    """Gather the numbers and arrays in nested lists; whether all are known."""
    plain = True
    for x in items:
        if isinstance(x, (list, tuple)):
            plain = _collect(x, leaves) and plain
            continue
        if hasattr(x, "__jax_array__") and not isinstance(x, Array):
            plain = False
            x = x.__jax_array__()
        if x is None or isinstance(x, (str, bytes)):
            raise DTypeError(
                f"{x!r} is not a valid value for jnp.array: a list holds more than numbers",
                got=f"{x!r} of type {type(x).__name__}",
                fix="give numbers and arrays",
            )
        leaves.append(x)
        plain = plain and not isinstance(x, Tracer)
    return plain


def _empty_shape(items: Sequence[Any]) -> tuple[int, ...]:
    if not items:
        return (0,)
    shapes = {_empty_shape(x) for x in items}
    if len(shapes) > 1:
        raise _ragged(items)
    return (len(items), *shapes.pop())


def _ragged(items: Sequence[Any]) -> ShapeError:
    return ShapeError(
        "array: the elements of a list have different shapes",
        got=", ".join(str(_shape_of(x)) for x in items[:6]) + (", ..." if len(items) > 6 else ""),
        fix="give lists of one length at each level",
    )


def _shape_of(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return (len(x), *(_shape_of(x[0]) if x else ()))
    return tuple(getattr(x, "shape", ()))


def _nested_numpy(items: Sequence[Any], dtype: DType) -> Value:
    try:
        made = np.array(_known(items))
    except ValueError:
        raise _ragged(items) from None
    if made.dtype == object:
        return _stack(items, dtype)
    if made.size and dtypes.is_integer(dtype) and made.dtype.kind in "iuf":
        limits = dtypes.iinfo(dtype)
        if not (made.min() >= limits.min and made.max() <= limits.max):
            _check_python_scalars(items, dtype)
    return _from_numpy(made, dtype)


def _check_python_scalars(items: Sequence[Any], dtype: DType) -> None:
    for x in items:
        if isinstance(x, (list, tuple)):
            _check_python_scalars(x, dtype)
        else:
            _check_range(x, dtype)


def _check_range(x: Any, dtype: DType) -> None:
    """Refuse a Python number that an integer dtype cannot hold; fewer than 8 bits wrap."""
    if type(x) not in (int, float) or not dtypes.is_integer(dtype):
        return
    if x != x:
        raise ArgumentError(
            f"array: NaN has no value of {dtype.name}",
            got=repr(x),
            fix="a floating point dtype, or another number for what is missing",
        )
    limits = dtypes.iinfo(dtype)
    if limits.bits >= 8 and not limits.min - 1 < x < limits.max + 1:
        raise IntegerOverflowError(
            f"array: a Python number is out of bounds for {dtype.name}",
            got=repr(x),
            fix=f"a wider dtype, or jnp.array({x!r}).astype({dtype.name!r}) to wrap"
            if limits.bits < 32
            else "a wider dtype; 64 bits need enable_x64()",
        )


def _known(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_known(y) for y in x]
    return x.value if type(x) is ConcreteArray else x


def _stack(items: Sequence[Any], dtype: DType) -> Value:
    rows = [_array(x, dtype) for x in items]
    if len({x.aval.shape for x in rows}) > 1:
        raise _ragged(items)
    shape = (1, *rows[0].aval.shape)
    return concatenate.bind(*(reshape.bind(x, shape=shape) for x in rows), axis=0)


def checked_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of non-negative integers.

    Raises:
      ShapeError: if a size is negative or not an integer.
      ConcretizationError: if a size is traced.
    """
    sizes = shape if isinstance(shape, (tuple, list)) else None
    if sizes is None:
        single = is_symbolic_dim(shape) or np.ndim(shape) == 0
        sizes = (shape,) if single else tuple(shape)
    try:
        known = tuple(map(as_size, sizes))
    except ConcretizationError:
        raise
    except TypeError:
        raise ShapeError(
            f"{name}: Shapes must be 1D sequences of concrete values of integer type",
            got=repr(shape),
            fix="(3, 4)",
        ) from None
    if any(n < 0 for n in known):
        raise ShapeError(f"{name}: sizes cannot be negative", got=repr(known), fix="sizes >= 0")
    return known


def from_dlpack(
    x: Any, /, *, device: Device | Sharding | None = None, copy: bool | None = None
) -> Array:
    """An array in the memory of another library's array, by the DLPack protocol.

    Args:
      x: an object with ``__dlpack__``, of PyTorch or NumPy for example.
      device: a device or a sharding to put the array on, or None.
      copy: True for memory of its own, False for none; None copies only where the dtype has to
        change, since 64-bit types are narrowed while x64 is off.

    Returns:
      An array; changes of the memory by the other library are seen in it.

    Raises:
      ArgumentError: with ``copy=False``, if the dtype has to change.

    Example:
      >>> import numpy as np, functrax.numpy as jnp
      >>> x = np.arange(3.0, dtype=np.float32)
      >>> np.shares_memory(x, jnp.from_dlpack(x))
      True
    """
    if device is not None:
        return device_put(from_dlpack(x, copy=copy), device)
    if isinstance(x, ConcreteArray):
        return x
    if x.__dlpack_device__()[0] == dlpack.CUDA:
        return _adopted(dlpack.imported_memory(x), copy)
    value = dlpack.imported(x)
    if copy or value.dtype not in dtypes.ALL or checked_dtype(value.dtype) != value.dtype:
        return asarray(value, copy=copy)
    return _alias(value)


def _adopted(shown: np.ndarray[Any, Any], copy: bool | None) -> Value:
    """An array in another library's memory on a GPU, bound to it; ``shown`` says where that is."""
    gpu = device_on("gpu")
    aval = ShapedArray(shown.shape, shown.dtype)
    dense = not shown.size or shown.flags.c_contiguous
    fits = aval.dtype in dtypes.ALL and checked_dtype(aval.dtype) == aval.dtype
    if copy is False and not (dense and fits):
        raise ArgumentError(
            "from_dlpack: the array cannot be had without a copy",
            got=f"{aval.str_short()} with strides {shown.strides}",
            fix="an array that lies row by row, of a dtype that arrays have, or copy=None",
        )
    adopted = gpu.adopted(shown)
    if not fits:
        return device_put(asarray(adopted.materialize()), gpu)
    made = put_on(ConcreteArray(adopted, aval), gpu)
    return another_copy(made) if copy else made


def copy(a: Any, order: str | None = None) -> Array:
    """An array of the same elements, which stays when the first one is donated or deleted.

    Args:
      a: anything that :func:`array` takes.
      order: accepted for compatibility, as in :func:`array`.

    Returns:
      A new array.

    Raises:
      DTypeError: for None, strings and objects.
      ArgumentError: for ``order="F"``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.copy(jnp.array([1, 2]))
      Array([1, 2], dtype=int32)
    """
    return array(a, order=order)


def astype(
    x: ArrayLike, /, dtype: DTypeLike, copy: bool = False, device: Device | Sharding | None = None
) -> Array:
    """The array with another dtype.

    Floats become integers by truncation towards zero, and are limited to the integer's range;
    complex numbers lose their imaginary part.

    Args:
      x: an array or a scalar.
      dtype: the dtype; the default float if None.
      copy: accepted; arrays are immutable.
      device: a device or a sharding to put the array on, or None.

    Returns:
      An array of the same shape.

    Raises:
      DTypeError: for lists, and for what names no dtype.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.astype(jnp.array([1.7, -1.7]), int)
      Array([ 1, -1], dtype=int32)
    """
    v = to_array("astype", x)
    made = result(convert(v, float_or(dtype)))
    return made if device is None else device_put(made, device)


def float_or(dtype: Any) -> DType:
    """The dtype that is named, or the default float for None."""
    return dtypes.default_float() if dtype is None else checked_dtype(dtype)
