"""Evenly spaced numbers.

Start at :func:`arange` and :func:`linspace`.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from functrax.backends.sharding.placement import device_put
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import (
    ArgumentError,
    ConcretizationError,
    DTypeError,
    ShapeError,
    SizeError,
)
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.powers import pow_
from functrax.core.prims.reindex import broadcast_in_dim, iota, transpose
from functrax.core.tracing.primitive import Value, like
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.core.types.promotion import (
    IntegerOverflowError,
    check_positions,
    lattice_result_type,
    typed_of,
)
from functrax.core.types.symbolic_sizes import applied, is_symbolic_dim
from functrax.numpy.axes import one_axis
from functrax.numpy.creation import checked_dtype
from functrax.numpy.powers import log10
from functrax.numpy.promote import (
    SCALARS,
    broadcast_shape,
    broadcast_value,
    convert,
    inexact,
    promote_args,
    promoting,
    result,
    to_array,
)
from functrax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from functrax.backends.device import Device
    from functrax.backends.sharding.shardings import Sharding


def arange(
    start: ArrayLike | None,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: Device | Sharding | None = None,
) -> Array:
    """Numbers from ``start`` up to, not including, ``stop``, in steps.

    Args:
      start: the first number; the end, if ``stop`` is left out.
      stop: the end.
      step: the distance, 1 by default.
      dtype: that in which the arguments meet by default.
      device: a device or a sharding to put the array on, or None.

    Returns:
      A vector.  Its dtype is the default integer for Python integers, as in JAX; where NumPy counts
      in 64 bits.

    Raises:
      ConcretizationError: if an argument is traced: it decides the shape.
      ArgumentError: for a step of 0.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.arange(2, 8, 2)
      Array([2, 4, 6], dtype=int32)
    """
    given = [x for x in (start, stop, step) if x is not None]
    known = [_known_scalar("arange", x) for x in given]
    if stop is None and step is None:
        start, stop, step = 0, known[0], 1
    else:
        values = iter(known)
        start = next(values) if start is not None else 0
        stop = next(values) if stop is not None else None
        step = next(values) if step is not None else 1
        if stop is None:
            start, stop = 0, start
    if dtype is None:
        found, weak = lattice_result_type(*[typed_of(x) for x in given])
        exact = dtypes.as_dtype(dtypes.scalar_type_of(found)) if weak else found
    else:
        exact = checked_dtype(dtype)
    if step == 0:
        raise ArgumentError("arange: step is zero", got=f"step={step}", fix="a step that is not 0")
    if any(isinstance(x, (complex, np.complexfloating)) for x in known):
        raise ArgumentError(
            "arange: Passing complex start/stop/step to jnp.arange is no longer supported",
            got=", ".join(map(repr, known)),
            fix="real numbers, and dtype=complex",
        )
    if exact == dtypes.bool_:
        raise DTypeError("arange: cannot count in bools", got=f"dtype={exact}", fix="dtype=int")
    made = _counted(start, stop, step, exact)
    return made if device is None else device_put(made, device)


def _counted(start: Any, stop: Any, step: Any, dtype: DType) -> Value:
    if start == 0 and step == 1:
        size = applied(max, stop if is_symbolic_dim(stop) else int(np.ceil(stop)), 0)
        if dtype.itemsize >= 4:  # narrower ones wrap, as NumPy's do
            check_positions("arange", size, dtype)
        return iota.bind(shape=(size,), dtype=dtype, axis=0)
    if any(map(is_symbolic_dim, (start, stop, step))):
        size = applied(max, -((start - stop) // step), 0)
        line = iota.bind(shape=(size,), dtype=dtype, axis=0)
        return prims.add.bind(prims.mul.bind(line, like(line, step)), like(line, start))
    # NumPy counts in the dtype of its own; the steps are then as in float64 or int64.
    wide = dtypes.float32 if dtype in dtypes.NARROW else dtypes.compute_dtype(dtype)
    try:
        return result(convert(evenly(start, step, _count(start, stop, step), wide), dtype))
    except OverflowError as error:
        raise IntegerOverflowError(
            f"arange: a number is out of bounds for {dtype.name}",
            got=f"from {start} to {stop} in steps of {step}",
            fix="a wider dtype; 64 bits need enable_x64()",
        ) from error


def _count(start: Any, stop: Any, step: Any) -> int:
    """How many numbers :func:`arange` makes, by the same operations as NumPy's."""
    span = stop - start
    steps = float(span / step)
    if span != 0 and steps == 0:  # the quotient is too small for a float
        return 0 if math.copysign(1.0, steps) < 0 else 1
    return max(math.ceil(steps), 0)


def _as_counted(x: Any, dtype: DType) -> Any:
    """A number in the dtype in which to count, refused where NumPy's ``arange`` refuses it."""
    return np.array([x.item() if isinstance(x, np.generic) else x], dtype)[0]


def evenly(start: Any, step: Any, count: int, dtype: DType) -> Value:
    """``start, b, start + 2 (b - start), ...``, where ``b`` is ``start + step`` in the dtype.

    These are the numbers of NumPy's ``arange``, which counts by its first two numbers in a dtype.
    """
    place = iota.bind(shape=(count,), dtype=dtype, axis=0)
    if not count:
        return place
    first = _as_counted(start, dtype)
    second = _as_counted(start + step, dtype) if count > 1 else first + dtype.type(1)
    with np.errstate(over="ignore"):  # integers wrap, as NumPy's do
        by = second - first
        exact = first + by == second
    line = place
    if by != 1:
        line = _multiplied(line, by)
    if first != 0 or by < 0:
        line = prims.add.bind(line, like(line, first))
    if exact:
        return line
    return prims.select_n.bind(compare.eq.bind(place, like(place, 1)), line, like(line, second))


def _multiplied(line: Value, by: Any) -> Value:
    dtype = line.aval.dtype
    if dtype != dtypes.float32:
        return prims.mul.bind(line, like(line, by))
    # A product of float32 is exact in float64: so nothing rounds it otherwise, with what is added.
    wide = convert_element_type.bind(line, dtype=dtypes.float64)
    return convert_element_type.bind(prims.mul.bind(wide, like(wide, by)), dtype=dtype)


def _known_scalar(name: str, x: Any) -> Any:
    if isinstance(x, Tracer):
        raise ConcretizationError(
            f"{name}: a traced value would decide the shape of the result",
            got=repr(x),
            fix="mark the argument with static_argnums, or take x.shape[i], which is known",
        )
    if type(x) in SCALARS or is_symbolic_dim(x):
        return x
    value = np.asarray(x)
    if value.ndim or value.dtype.kind in "OSU":
        raise ShapeError(f"{name}: takes scalars", got=repr(x), fix="numbers")
    return value[()]


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    retstep: Literal[False] = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    *,
    device: Device | Sharding | None = ...,
) -> Array: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    *,
    retstep: Literal[True],
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    device: Device | Sharding | None = ...,
) -> tuple[Array, Array]: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    retstep: bool = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    *,
    device: Device | Sharding | None = ...,
) -> Array | tuple[Array, Array]: ...
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Device | Sharding | None = None,
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop``.

    Args:
      start: the first number, a scalar or an array.
      stop: the last number; the two broadcast.
      num: how many.
      endpoint: whether ``stop`` is the last one; otherwise it is left out.
      retstep: also give the distance.
      dtype: that of the result, float by default; integers are rounded down.
      axis: the axis of the result along which the numbers are spaced.
      device: a device or a sharding to put the array on, or None.

    Returns:
      The array, or ``(array, distance)``.

    Raises:
      ArgumentError: if ``num`` is negative or no integer.
      ShapeError: if the ends do not broadcast.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.linspace(0, 1, 5)
      Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    count = checked_number("linspace", num)
    first, last = _ends("linspace", start, stop, dtype)
    line, step = _spaced(first, last, count, endpoint)
    wanted = first.aval.dtype if dtype is None else checked_dtype(dtype)
    if wanted in dtypes.INTEGER:
        line = prims.floor.bind(line)
    line = convert(_move_first(line, "linspace", axis), wanted)
    made = result(line) if device is None else device_put(result(line), device)
    return (made, result(step)) if retstep else made


def checked_number(name: str, num: Any) -> int:
    """How many numbers are wanted.

    Raises:
      ArgumentError: if it is negative or not an integer.
    """
    if is_symbolic_dim(num):
        raise SizeError(
            f"{name}: num is a symbolic size, which has no value",
            got=f"num={num!r}",
            fix="start + step * functrax.numpy.arange(size), which takes one; or export for a "
            "certain size",
        )
    try:
        count = operator.index(num)
    except ConcretizationError:
        raise
    except TypeError:
        count = -1
    if count < 0:
        raise ArgumentError(f"{name}: num is a number of elements", got=repr(num), fix="num=50")
    return count


def _ends(name: str, start: Any, stop: Any, dtype: Any) -> tuple[Value, Value]:
    """Both ends as arrays of one shape, of the floating point dtype to compute in."""
    wanted = None if dtype is None else inexact(dtypes.compute_dtype(checked_dtype(dtype)))

    def kind(own: DType) -> DType:
        given = inexact(own)
        if wanted is None:
            return given
        return promoting(lattice_result_type)((given, False), (wanted, False))[0]

    x, y = promote_args(name, start, stop, kind=kind)
    x, y = (to_array(name, result(convert(v, v.aval.dtype))) for v in (x, y))
    shape = broadcast_shape(name, [x.aval.shape, y.aval.shape])
    return broadcast_value(x, shape), broadcast_value(y, shape)


def _spaced(first: Value, last: Value, count: int, endpoint: bool) -> tuple[Value, Value]:
    """The numbers along a new first axis, and the distance."""
    dtype = first.aval.dtype
    shape = (count, *first.aval.shape)
    gaps = count - 1 if endpoint else count
    if gaps <= 0:
        return _along(first, shape), like(first, np.nan)
    position = iota.bind(shape=shape, dtype=dtypes.real_dtype(dtype), axis=0)
    t = convert(prims.div.bind(position, like(position, gaps)), dtype)
    rest = prims.sub.bind(like(t, 1), t)
    a, b = _along(first, shape), _along(last, shape)
    line = prims.add.bind(prims.mul.bind(a, rest), prims.mul.bind(b, t))
    if endpoint:
        line = prims.select_n.bind(compare.eq.bind(position, like(position, gaps)), line, b)
    return line, prims.div.bind(prims.sub.bind(last, first), like(first, gaps))


def _along(x: Value, shape: tuple[int, ...]) -> Value:
    return broadcast_in_dim.bind(x, shape=shape, dims=tuple(range(1, len(shape))))


def _move_first(x: Value, name: str, axis: int) -> Value:
    to = one_axis(name, axis, x.aval.ndim)
    if to == 0:
        return x
    perm = list(range(1, x.aval.ndim))
    perm.insert(to, 0)
    return transpose.bind(x, perm=tuple(perm))


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """``base ** linspace(start, stop)``.

    Args:
      start: the first exponent.
      stop: the last exponent.
      num: how many numbers.
      endpoint: whether ``stop`` is the last exponent.
      base: what is raised.
      dtype: that of the result.
      axis: the axis along which the numbers are spaced.

    Returns:
      An array of ``num`` numbers along ``axis``.

    Raises:
      ArgumentError: if ``num`` is negative or no integer.
      ShapeError: if the ends do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.logspace(0, 2, 3)
      Array([  1.,  10., 100.], dtype=float32)
    """
    count = checked_number("logspace", num)
    first, last = _ends("logspace", start, stop, None)
    line, _ = _spaced(first, last, count, endpoint)
    raised, line = promote_args("logspace", base, _move_first(line, "logspace", axis))
    found = pow_.bind(raised, line)
    return result(convert(found, found.aval.dtype if dtype is None else checked_dtype(dtype)))


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before.

    Args:
      start: the first number, not 0.
      stop: the last number, of the same sign.
      num: how many numbers.
      endpoint: whether ``stop`` is the last one.
      dtype: that of the result.
      axis: the axis along which the numbers are spaced.

    Returns:
      An array of ``num`` numbers along ``axis``; the first and the last are the ends exactly.

    Raises:
      ArgumentError: if ``num`` is negative or no integer.
      ShapeError: if the ends do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.geomspace(1, 100, 3)
      Array([  1.,  10., 100.], dtype=float32)
    """
    count = checked_number("geomspace", num)
    first, last = _ends("geomspace", start, stop, dtype)
    sign_ = prims.sign.bind(first)
    a, b = (log10(prims.div.bind(x, sign_)) for x in (first, last))
    line, _ = _spaced(a, b, count, endpoint)
    powers = prims.mul.bind(pow_.bind(like(line, 10), line), _along(sign_, line.aval.shape))
    position = iota.bind(shape=line.aval.shape, dtype=dtypes.int32, axis=0)
    exact = prims.select_n.bind(
        compare.eq.bind(position, like(position, 0)), powers, _along(first, line.aval.shape)
    )
    if endpoint and count > 1:
        at_end = compare.eq.bind(position, like(position, count - 1))
        exact = prims.select_n.bind(at_end, exact, _along(last, line.aval.shape))
    wanted = first.aval.dtype if dtype is None else checked_dtype(dtype)
    return result(convert(_move_first(exact, "geomspace", axis), wanted))
