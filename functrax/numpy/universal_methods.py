"""What the methods of universal functions do, the class ``ufunc``, and ``frompyfunc``.

Known functions have ways of their own (``universal_known.py``): ``add.reduce`` is ``sum``.  All
others go from element to element, in a loop of the traced program, which is traced once for each
function and each type of its operands.

Start at :class:`ufunc` and :func:`reduce`.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NamedTuple

from functrax.core.errors.typed import ArgumentError, ShapeError, UnavailableError
from functrax.core.tracing.primitive import Value, literal
from functrax.core.types.dtypes import DType
from functrax.numpy import reductions, universal
from functrax.numpy.at import At
from functrax.numpy.axes import many_axes, one_axis
from functrax.numpy.creation import checked_dtype
from functrax.numpy.filling import full
from functrax.numpy.indexing import getitem
from functrax.numpy.joining import append
from functrax.numpy.logic import choose, no_out
from functrax.numpy.promote import broadcast_value, convert, promoting, result, to_array
from functrax.numpy.ranges import arange
from functrax.numpy.selecting import integers, take
from functrax.numpy.shaping import moveaxis, reshape_to
from functrax.numpy.triangles import refuse_inplace
from functrax.numpy.universal_known import KNOWN, Function, Ways
from functrax.numpy.vectorizing import vectorize
from functrax.transforms.arguments.inspect_types import eval_shape
from functrax.transforms.control.user_loops import fori_loop, scan
from functrax.transforms.staging.jit import jit

__all__ = ["frompyfunc", "ufunc"]


class _Static(NamedTuple):
    """What makes one universal function equal to another."""

    func: Function
    name: str
    nin: int
    nout: int
    nargs: int
    identity: Any


class _Universal(type):
    """The class of :class:`ufunc`: functions such as ``jnp.add`` count as its instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or universal.is_universal(instance)


class ufunc(metaclass=_Universal):  # noqa: N801 - NumPy's name
    """A universal function: one of scalars, applied to the elements of broadcast arrays.

    ``jnp.add``, ``subtract``, ``multiply``, ``negative``, ``maximum``, ``minimum``, ``logaddexp``,
    ``logaddexp2``, and the ``bitwise_`` and ``logical_`` functions of two operands are instances;
    :func:`frompyfunc` makes others.  It is immutable, and equal to another of the same function.

    Args:
      func: takes ``nin`` scalars, gives ``nout`` of them.
      nin: the number of operands.
      nout: the number of results.
      name: the name, that of ``func`` if None.
      nargs: the number of arguments, ``nin`` if None.
      identity: what leaves an operand as it is, or None.
      call: a function of arrays that does the same as ``func`` on the elements.
      reduce: a function that does what the method does, for ``a, axis=, dtype=, keepdims=,
        initial=, where=``.
      accumulate: the same, for ``a, axis=, dtype=``.
      at: the same, for ``a, indices`` and perhaps ``b``.
      reduceat: the same, for ``a, indices, axis=, dtype=``.

    Example:
      >>> import functrax.numpy as jnp
      >>> isinstance(jnp.add, jnp.ufunc), jnp.add.nin, jnp.add.identity
      (True, 2, 0)
      >>> jnp.add.outer(jnp.array([1, 2]), jnp.array([10, 20]))
      Array([[11, 21],
             [12, 22]], dtype=int32)
    """

    def __init__(
        self,
        func: Function,
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Function | None = None,
        reduce: Function | None = None,
        accumulate: Function | None = None,
        at: Function | None = None,
        reduceat: Function | None = None,
    ) -> None:
        self.__doc__ = func.__doc__
        self.__name__ = name or func.__name__
        nin = operator.index(nin)
        nargs = operator.index(nargs or nin)
        if nin < 0 or operator.index(nout) < 0:
            raise ArgumentError(
                f"{self.__name__}: the numbers of operands and results are at least 0",
                got=f"nin={nin}, nout={nout}",
                fix="nin=1, nout=1",
            )
        self._static = _Static(func, self.__name__, nin, operator.index(nout), nargs, identity)
        self._ways = Ways(call, reduce, accumulate, at, reduceat)

    _func = property(lambda self: self._static.func)
    nin = property(lambda self: self._static.nin, doc="The number of operands.")
    nout = property(lambda self: self._static.nout, doc="The number of results.")
    nargs = property(lambda self: self._static.nargs, doc="The number of arguments.")
    identity = property(lambda self: self._static.identity, doc="The identity, or None.")

    reduce = universal.reduce
    accumulate = universal.accumulate
    at = universal.at
    reduceat = universal.reduceat
    outer = universal.outer

    def __hash__(self) -> int:
        return hash(self._static)

    def __eq__(self, other: object) -> bool:
        return type(other) is ufunc and self._static == other._static

    def __repr__(self) -> str:
        return f"<jnp.ufunc {self.__name__!r}>"

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        """The function of the elements of arrays that broadcast together.

        Raises:
          UnavailableError: for ``out`` and ``where``.
          ArgumentError: for another number of operands than ``nin``.
        """
        no_out(self.__name__, out)
        if where is not None:
            raise UnavailableError(
                f"{self.__name__}: where= is not supported, for arrays are immutable",
                got=f"where of type {type(where).__name__}",
                fix=f"jnp.where(where, {self.__name__}(...), x)",
            )
        if len(args) != self.nin:
            raise ArgumentError(
                f"{self.__name__}: takes {self.nin} operands",
                got=f"{len(args)} operands",
                fix=f"{self.nin} arrays or scalars",
            )
        values = [to_array(self.__name__, x, i) for i, x in enumerate(args)]
        return (self._ways.call or _vectorized(self._func))(*values)


@functools.lru_cache(maxsize=256)
def _vectorized(func: Function) -> Function:
    """A function of scalars as one of arrays, which is traced once for each type."""
    made: Function = jit(vectorize(func))
    return made


def frompyfunc(func: Function, /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A universal function made of a function of scalars.

    Args:
      func: takes ``nin`` scalars and gives ``nout``, by functions of ``functrax.numpy``.
      nin: the number of operands.
      nout: the number of results.
      identity: what leaves an operand as it is, if there is such a value.

    Returns:
      An instance of :class:`ufunc`, which takes arrays and has ``reduce``, ``accumulate``,
      ``outer`` and ``at``.

    Raises:
      ArgumentError: for negative numbers, and when it is called with another number of operands.
      DTypeError: when it is called with lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> both = jnp.frompyfunc(lambda x, y: x + y + x * y, nin=2, nout=1, identity=0)
      >>> both(jnp.array([1, 2]), 3), both.reduce(jnp.array([1, 2, 3]))
      (Array([ 7, 11], dtype=int32), Array(23, dtype=int32))
    """
    return ufunc(func, nin, nout, identity=identity)


def ways_of(function: Any) -> Ways:
    """What a universal function has of its own."""
    return function._ways if type(function) is ufunc else KNOWN[function.__name__]


def _binary_only(function: Any, method: str) -> None:
    if (function.nin, function.nout) != (2, 1):
        raise ArgumentError(
            f"{function.__name__}.{method}: only of functions with two operands and one result",
            got=f"nin={function.nin}, nout={function.nout}",
            fix="jnp.vectorize, or a scan of your own",
        )


def reduce(
    function: Any, a: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Value:
    """:func:`universal.reduce` of a function."""
    name = f"{function.__name__}.reduce"
    _binary_only(function, "reduce")
    no_out(name, out)
    x = to_array(name, a)
    if where is not None and function.identity is None and initial is None:
        raise ArgumentError(
            f"{name}: where= needs initial=, for the function has no identity",
            got="where without initial",
            fix=f"{name}(x, where=mask, initial=...)",
        )
    options = {"dtype": dtype, "keepdims": keepdims, "initial": initial, "where": where}
    way = ways_of(function).reduce
    if way is not None:
        return way(x, axis=axis, **options)
    axes = many_axes(name, axis, x.aval.ndim)
    return _reduce(function, x, axes, **options)


@functools.partial(jit, static_argnums=(0, 2), static_argnames=("dtype", "keepdims"))
@promoting
def _reduce(
    function: Any, x: Value, axes: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
) -> Value:
    name = f"{function.__name__}.reduce"
    shape = x.aval.shape
    wanted = _dtype_of_result(function, x) if dtype is None else checked_dtype(dtype)
    if initial is None:
        initial = function.identity
    mask = None
    if where is not None:
        mask = broadcast_value(reductions.mask_of(name, where, len(shape)), shape)
        mask = _in_front(mask, axes)
    rows = _in_front(x, axes)
    rest = rows.aval.shape[1:]
    if initial is None and not rows.aval.shape[0]:
        raise ShapeError(
            f"{name}: an axis has no elements, and the function has no identity",
            got=f"{x.aval.str_short()} along {axes}",
            fix="give initial=",
        )
    if initial is None:
        start, rows = convert(getitem(rows, 0), wanted), getitem(rows, slice(1, None))
    else:
        start = full(rest, initial, wanted)

    def step(total: Value, row: tuple[Value, Value | None]) -> tuple[Value, None]:
        element, counts = row
        found = convert(function(total, convert(element, wanted)), wanted)
        return (found if counts is None else choose(counts, found, total)), None

    total, _ = scan(step, start, (rows, mask))
    return reductions.keep(total, shape, axes, keepdims)


def _in_front(x: Value, axes: tuple[int, ...]) -> Value:
    """The axes made one, which is the first."""
    moved = moveaxis(x, axes, tuple(range(len(axes))))
    rest = moved.aval.shape[len(axes) :]
    return reshape_to(moved, (math.prod(moved.aval.shape[: len(axes)]), *rest))


def _dtype_of_result(function: Any, *operands: Value) -> DType:
    """The dtype that a function gives for elements of arrays; of one array for two of them."""
    scalars = [literal(1, x.aval.dtype) for x in operands]
    scalars *= function.nin // len(scalars)
    found: DType = eval_shape(function, *map(result, scalars)).dtype
    return found


def accumulate(function: Any, a: Any, axis: Any, dtype: Any, out: Any) -> Value:
    """:func:`universal.accumulate` of a function."""
    name = f"{function.__name__}.accumulate"
    _binary_only(function, "accumulate")
    no_out(name, out)
    x = to_array(name, a)
    ways = ways_of(function)
    if ways.accumulate is not None:
        return ways.accumulate(x, axis=axis, dtype=dtype)
    k = one_axis(name, axis, x.aval.ndim)
    wanted = _dtype_of_result(function, x) if dtype is None else checked_dtype(dtype)
    if ways.running is not None and wanted in ways.running.accepts:
        return ways.running.bind(convert(x, wanted), axis=k, reverse=False)
    return _accumulate(function, convert(x, wanted), k)


@functools.partial(jit, static_argnums=(0, 2))
@promoting
def _accumulate(function: Any, x: Value, axis: int) -> Value:
    rows = moveaxis(x, axis, 0)
    if not x.aval.size:
        return x

    def step(total: Value, row: Value) -> tuple[Value, Value]:
        found = convert(function(total, row), x.aval.dtype)
        return found, found

    first = getitem(rows, slice(0, 1))
    _, others = scan(step, getitem(rows, 0), getitem(rows, slice(1, None)))
    return moveaxis(append(first, others, 0), 0, axis)


def at(function: Any, a: Any, indices: Any, b: Any, inplace: bool) -> Value:
    """:func:`universal.at` of a function."""
    name = f"{function.__name__}.at"
    refuse_inplace(name, inplace)
    x = to_array(name, a)
    given = () if b is None else (to_array(name, b, 2),)
    if function.nout != 1 or function.nin != 1 + len(given):
        raise ArgumentError(
            f"{name}: the function does not make one result of these operands",
            got=f"{1 + len(given)} operands; nin={function.nin}, nout={function.nout}",
            fix=f"{name}(x, indices, y, inplace=False) of a function of two operands, and without "
            "y of a function of one",
        )
    way = ways_of(function).at
    if way is not None:
        return way(x, indices, *given)
    x = convert(x, _dtype_of_result(function, x, *given))
    places = reshape_to(arange(x.aval.size), x.aval.shape)
    named = At(places)[indices].get(mode="fill", fill_value=x.aval.size)
    return _at(function, x, named, *given)


@functools.partial(jit, static_argnums=0)
@promoting
def _at(function: Any, x: Value, named: Value, *given: Value) -> Value:
    """One element after the other, for ``named`` holds positions, perhaps some of them twice."""
    shape = named.aval.shape
    values = [reshape_to(_broadcast(function, y, shape), (named.aval.size,)) for y in given]

    def step(flat: Value, row: tuple[Value, list[Value]]) -> tuple[Value, None]:
        place, operands = row
        here = At(flat)[place]
        return here.set(convert(function(here.get(), *operands), flat.aval.dtype)), None

    flat = reshape_to(x, (x.aval.size,))
    flat, _ = scan(step, flat, (reshape_to(named, (named.aval.size,)), values))
    return reshape_to(flat, x.aval.shape)


def _broadcast(function: Any, y: Value, shape: tuple[int, ...]) -> Value:
    own = y.aval.shape
    tail = shape[len(shape) - len(own) :]
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own, tail, strict=True)):
        raise ShapeError(
            f"{function.__name__}.at: the operand does not broadcast to the indexed shape",
            got=f"{y.aval.str_short()}, an index of shape {shape}",
            fix=f"an operand of shape {shape}, or one that broadcasts to it",
        )
    return broadcast_value(y, shape)


def reduceat(function: Any, a: Any, indices: Any, axis: Any, dtype: Any, out: Any) -> Value:
    """:func:`universal.reduceat` of a function."""
    name = f"{function.__name__}.reduceat"
    _binary_only(function, "reduceat")
    no_out(name, out)
    x, starts = to_array(name, a), integers(name, indices)
    if not x.aval.ndim or starts.aval.ndim != 1:
        raise ShapeError(
            f"{name}: takes an array with axes, and a vector of indices",
            got=f"{x.aval.str_short()}, {starts.aval.str_short()}",
            fix="indices of shape (n,)",
        )
    k = one_axis(name, axis, x.aval.ndim)
    way = ways_of(function).reduceat
    if way is not None:
        return way(x, starts, axis=k, dtype=dtype)
    wanted = _dtype_of_result(function, x) if dtype is None else checked_dtype(dtype)
    return _reduceat(function, convert(x, wanted), starts, k)


@functools.partial(jit, static_argnums=(0, 3))
@promoting
def _reduceat(function: Any, x: Value, starts: Value, axis: int) -> Value:
    """All segments at once, from row to row; each takes those rows that are its own."""
    rows: Any = moveaxis(x, axis, 0)
    size = rows.aval.shape[0]
    totals = take(rows, starts, axis=0)
    column = (-1, *(1,) * (x.aval.ndim - 1))
    edges: Any = append(starts, _scalar(size, starts.aval.dtype))
    low, high = (edges[part].reshape(column) for part in (slice(None, -1), slice(1, None)))

    def step(i: Any, totals: Any) -> Any:
        found = convert(function(totals, rows[i]), totals.aval.dtype)
        return choose((i > low) & (i < high), found, totals)

    found: Value = fori_loop(_scalar(0, starts.aval.dtype), size, step, totals)
    return moveaxis(found, 0, axis)


def _scalar(value: int, dtype: DType) -> Value:
    """A scalar array."""
    return result(literal(value, dtype))


def outer(function: Any, A: Any, B: Any) -> Value:
    """:func:`universal.outer` of a function."""
    name = f"{function.__name__}.outer"
    _binary_only(function, "outer")
    x, y = to_array(name, A), to_array(name, B, 1)
    columns = reshape_to(x, (*x.aval.shape, *(1,) * y.aval.ndim))
    rows = reshape_to(y, (*(1,) * x.aval.ndim, *y.aval.shape))
    return function(columns, rows)
