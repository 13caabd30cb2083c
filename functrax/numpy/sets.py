"""Arrays as sets: isin, union1d, intersect1d, setdiff1d, setxor1d.

Their sizes depend on values: arrays are known while tracing, or the caller gives the ``size`` of
the result, which is then cut off or filled up.

Start at :func:`isin`, on which the differences are built.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ConcretizationError
from functrax.core.prims.arithmetic import stop_gradient
from functrax.core.prims.ordering import sort as sort_p
from functrax.core.prims.reindex import iota
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy import logical_reductions, reductions
from functrax.numpy.axes import integer
from functrax.numpy.filling import zeros
from functrax.numpy.joining import concatenate
from functrax.numpy.logic import logical_not, where
from functrax.numpy.promote import convert, promote_dtypes, result, to_array
from functrax.numpy.rearranging import is_known, take_axis
from functrax.numpy.searching import nonzero, searchsorted
from functrax.numpy.shaping import reshape_to
from functrax.numpy.sorting import sort
from functrax.numpy.uniqueness import unique
from functrax.typing import ArrayLike

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d"]

#: Against up to this many elements, all are compared with all.
_COMPARE_ALL = 32
_METHODS = ("auto", "compare_all", "binary_search", "sort")


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Which elements are among others.

    Args:
      element: an array of any shape.
      test_elements: an array of any shape.
      assume_unique: accepted.
      invert: which elements are not among them instead.
      method: ``"compare_all"`` compares all with all, ``"binary_search"`` and ``"sort"`` sort the
        others first; ``"auto"`` chooses.

    Returns:
      Booleans, of the shape of ``element``; NaN is among nothing.

    Raises:
      ArgumentError: for another method.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([3, 1]))
      Array([ True, False,  True], dtype=bool)
    """
    if method not in _METHODS:
        raise ArgumentError(
            "isin: unknown method", got=repr(method), fix="one of " + ", ".join(_METHODS)
        )
    x, tests = (result(v) for v in promote_dtypes("isin", element, test_elements))
    tests = reshape_to(tests, (tests.aval.size,))
    small = method == "auto" and tests.aval.size <= _COMPARE_ALL
    if small or method == "compare_all" or not tests.aval.size:
        wide = reshape_to(x, (*x.aval.shape, 1))
        others = reshape_to(tests, (*[1] * x.aval.ndim, tests.aval.size))
        found = logical_reductions.any(wide == others, axis=-1)
    else:
        ordered = sort(stop_gradient.bind(tests))
        place = searchsorted(ordered, x, method="scan")
        last = tests.aval.size - 1
        found = take_axis(ordered, 0, where(place > last, last, place)) == x
    return logical_not(found) if invert else found


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The different elements of both arrays in order.

    Args:
      ar1: an array.
      ar2: another.
      size: the number of elements in the result, needed if an array is traced.
      fill_value: for elements that are missing; the first one if None.

    Returns:
      A vector.

    Raises:
      ConcretizationError: if an array is traced and there is no size.
      ShapeError: if there is nothing to fill up an empty result with.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.union1d(jnp.array([3, 1]), jnp.array([2, 3]))
      Array([1, 2, 3], dtype=int32)
    """
    both = concatenate(_flat("union1d", ar1, ar2))
    return _named_unique("union1d", both, size, fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The different elements of the first array that are not in the second.

    Args:
      ar1: an array.
      ar2: another.
      assume_unique: whether the elements of ``ar1`` differ; they then stay in their order.
      size: the number of elements in the result, needed if an array is traced.
      fill_value: for elements that are missing; 0 if None.

    Returns:
      A vector, in order unless ``assume_unique`` is set.

    Raises:
      ConcretizationError: if an array is traced and there is no size.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.setdiff1d(jnp.array([3, 1, 2]), jnp.array([2]))
      Array([1, 3], dtype=int32)
    """
    x, y = (to_array("setdiff1d", v, i) for i, v in enumerate((ar1, ar2)))
    x = reshape_to(x, (x.aval.size,))
    fill = 0 if fill_value is None else fill_value
    if assume_unique:
        return _chosen("setdiff1d", x, isin(x, y, invert=True), size, fill)[0]
    ordered, starts = _distinct(x)
    return _chosen("setdiff1d", ordered, starts & isin(ordered, y, invert=True), size, fill)[0]


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The elements that are in one array only, in order.

    Args:
      ar1: an array.
      ar2: another.
      assume_unique: whether the elements of each array differ: then those are taken that appear
        once in both arrays together.
      size: the number of elements in the result, needed if an array is traced.
      fill_value: for elements that are missing; the first one if None.

    Returns:
      A vector.

    Raises:
      ConcretizationError: if an array is traced and there is no size.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.setxor1d(jnp.array([3, 1, 2]), jnp.array([2, 4]))
      Array([1, 3, 4], dtype=int32)
    """
    x, y = _flat("setxor1d", ar1, ar2)
    ordered, starts = _distinct(concatenate([x, y]))
    if assume_unique:
        known = stop_gradient.bind(ordered)
        differs = known[1:] != known[:-1]
        end = iota.bind(shape=(min(ordered.aval.size, 1),), dtype=dtypes.int32, axis=0) < 1
        once = concatenate([end, differs]) & concatenate([differs, end])
        return _chosen("setxor1d", ordered, once, size, fill_value)[0]
    both = isin(ordered, x) & isin(ordered, y)
    return _chosen("setxor1d", ordered, starts & ~both, size, fill_value)[0]


@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = ...,
    return_indices: Literal[False] = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Array: ...
@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = ...,
    *,
    return_indices: Literal[True],
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> tuple[Array, Array, Array]: ...
@overload
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = ...,
    return_indices: bool = ...,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Array | tuple[Array, Array, Array]: ...
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The elements that are in both arrays, in order.

    Args:
      ar1: an array.
      ar2: another.
      assume_unique: accepted.
      return_indices: also give the positions in ``ar1`` and in ``ar2`` where they appear first.
      size: the number of elements in the result, needed if an array is traced.
      fill_value: for elements that are missing; the first one if None.  Missing positions are the
        sizes of the arrays.

    Returns:
      A vector; with ``return_indices`` a tuple of it and two vectors of default integers.

    Raises:
      ConcretizationError: if an array is traced and there is no size.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.intersect1d(jnp.array([3, 1, 2]), jnp.array([2, 3]))
      Array([2, 3], dtype=int32)
    """
    x, y = _flat("intersect1d", ar1, ar2)
    line = iota.bind(shape=x.aval.shape, dtype=dtypes.position_dtype(x.aval.size), axis=0)
    ordered, order = sort_p.bind(x, line, dimension=0, is_stable=True, num_keys=1)
    values, present, place = _chosen(
        "intersect1d", ordered, _starts(ordered) & isin(ordered, y), size, fill_value
    )
    if not return_indices:
        return values
    first = where(present, _read(order, place), x.aval.size)
    line = iota.bind(shape=y.aval.shape, dtype=dtypes.position_dtype(y.aval.size), axis=0)
    theirs, order = sort_p.bind(y, line, dimension=0, is_stable=True, num_keys=1)
    found = searchsorted(stop_gradient.bind(theirs), stop_gradient.bind(values))
    second = where(present, _read(order, where(present, found, 0)), y.aval.size)
    kind = dtypes.default_int()
    return values, convert(first, kind), convert(second, kind)


def _flat(name: str, ar1: Any, ar2: Any) -> list[Value]:
    values = [result(v) for v in promote_dtypes(name, ar1, ar2)]
    return [reshape_to(v, (v.aval.size,)) for v in values]


def _named_unique(name: str, x: Value, size: int | None, fill_value: Any) -> Value:
    if size is None and not is_known(stop_gradient.bind(x)):
        raise _needs_size(name, x)
    return unique(x, size=size, fill_value=fill_value)


def _needs_size(name: str, x: Value) -> ConcretizationError:
    return ConcretizationError(
        f"{name}: the shape of the result depends on the values of a traced array",
        got=x.aval.str_short(),
        fix="size=..., the number of elements in the result",
    )


def _starts(ordered: Value) -> Value:
    """Which elements differ from the one before; NaNs are equal."""
    x = stop_gradient.bind(ordered)
    before, after = x[:-1], x[1:]
    differs = (before != after) & ~((before != before) & (after != after))
    first = iota.bind(shape=(min(x.aval.size, 1),), dtype=dtypes.int32, axis=0) < 1
    return concatenate([first, differs])


def _distinct(x: Value) -> tuple[Value, Value]:
    ordered = sort(x)
    return ordered, _starts(ordered)


def _chosen(
    name: str, x: Value, mask: Value, size: int | None, fill_value: Any
) -> tuple[Value, Value, Value]:
    """The elements where the mask holds, which of them are not missing, and their positions."""
    if size is not None:
        count = integer(name, "size", size)
    elif is_known(mask):
        count = int(np.asarray(mask).sum())
    else:
        raise _needs_size(name, x)
    (place,) = nonzero(mask, size=count)
    wide = dtypes.position_dtype(max(count, mask.aval.size))
    number = iota.bind(shape=(count,), dtype=wide, axis=0)
    present = number < reductions.sum(mask, dtype=wide)
    if count:
        place = where(present, place, place[0])  # beyond the last one, the first one is repeated
    values = _read(x, place)
    if fill_value is not None:
        values = where(present, values, convert(to_array(name, fill_value), x.aval.dtype))
    return values, present, place


def _read(x: Value, place: Value) -> Value:
    return take_axis(x, 0, place) if x.aval.size else zeros(place.aval.shape, x.aval.dtype)
