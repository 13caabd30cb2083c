"""Elements in order, and the positions that put them in order: sort, argsort, lexsort, partition.

All of them are the one ``sort`` primitive, which is stable and puts NaN last.  Positions are
sorted along with the values; a descending order is an ascending one read backwards.

Start at :func:`sort`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, AxisError, ShapeError
from functrax.core.prims.ordering import sort as sort_p
from functrax.core.prims.reindex import iota
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.promotion import check_positions, promote_types
from functrax.numpy.axes import integer, one_axis
from functrax.numpy.creation import checked_dtype
from functrax.numpy.promote import convert, promoting, result, to_array
from functrax.numpy.shaping import reshape_to, reverse
from functrax.typing import ArrayLike, DTypeLike

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]


def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in order along an axis, the smallest first and NaN last.

    Args:
      a: an array of at least one axis; complex numbers are ordered by real part first.
      axis: the axis; None sorts the elements in row-major order.
      kind: must be None: there is one algorithm.
      order: must be None: there are no fields.
      stable: accepted; equal elements always keep their order.
      descending: the largest first instead (and NaN before it).

    Returns:
      An array of the same shape; flat if ``axis`` is None.

    Raises:
      AxisError: for an axis out of range.
      ArgumentError: for ``kind`` or ``order``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.sort(jnp.array([[3, 1, 2], [9, 7, 8]]))
      Array([[1, 2, 3],
             [7, 8, 9]], dtype=int32)
    """
    x, k = _along("sort", a, axis, kind, order)
    (ordered,) = sort_p.bind(x, dimension=k, is_stable=True, num_keys=1)
    return result(reverse(ordered, (k,)) if descending else ordered)


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """The positions along an axis that put the elements in order.

    Equal elements come in the order in which they are, descending or not.

    Args:
      a: an array of at least one axis; complex numbers are ordered by real part first.
      axis: the axis; None sorts the elements in row-major order.
      kind: must be None: there is one algorithm.
      order: must be None: there are no fields.
      stable: accepted; equal elements always keep their order.
      descending: the largest first instead (and NaN before it).
      dtype: of the positions, the default integer if None.

    Returns:
      Positions of the shape of ``a``; flat if ``axis`` is None.

    Raises:
      AxisError: for an axis out of range.
      ArgumentError: for ``kind`` or ``order``.
      IntegerOverflowError: if the dtype does not hold the size of the axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.argsort(jnp.array([3.0, 1.0, 2.0]))
      Array([1, 2, 0], dtype=int32)
    """
    x, k = _along("argsort", a, axis, kind, order)
    wanted = dtypes.default_int() if dtype is None else checked_dtype(dtype)
    check_positions("argsort", x.aval.shape[k], wanted)
    line = iota.bind(shape=x.aval.shape, dtype=wanted, axis=k)
    if not descending:
        return result(sort_p.bind(x, line, dimension=k, is_stable=True, num_keys=1)[1])
    # Read backwards before and after, so that equal elements keep their order.
    x, line = reverse(x, (k,)), reverse(line, (k,))
    positions = sort_p.bind(x, line, dimension=k, is_stable=True, num_keys=1)[1]
    return result(reverse(positions, (k,)))


def _along(name: str, a: Any, axis: int | None, kind: Any, order: Any) -> tuple[Value, int]:
    """The array and the axis, counted from 0, along which it is sorted."""
    if kind is not None or order is not None:
        raise ArgumentError(
            f"{name}: kind and order must be None",
            got=f"kind={kind!r}, order={order!r}",
            fix=f"{name}(x): the order is always stable",
        )
    x = to_array(name, a)
    if axis is None:
        return reshape_to(x, (x.aval.size,)), 0
    return x, one_axis(name, axis, x.aval.ndim)


def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Array:
    """The positions that put several arrays in order: by the last one first, ties by the others.

    Args:
      keys: a sequence of arrays of one shape, or an array whose rows they are.
      axis: along which to sort.

    Returns:
      Positions in the default integer, of the shape of a key.

    Raises:
      ShapeError: if there are no keys, or of different shapes.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.lexsort((jnp.array([2, 1, 3]), jnp.array([0, 1, 0])))
      Array([0, 2, 1], dtype=int32)
    """
    values = _keys(keys)
    shape = values[0].aval.shape
    if not shape and axis in (0, -1):  # one element is in order
        return result(iota.bind(shape=(1,), dtype=dtypes.default_int(), axis=0))[0]
    k = one_axis("lexsort", axis, len(shape))
    check_positions("lexsort", shape[k], dtypes.default_int())
    line = iota.bind(shape=shape, dtype=dtypes.default_int(), axis=k)
    *_, positions = sort_p.bind(
        *reversed(values), line, dimension=k, is_stable=True, num_keys=len(values)
    )
    return result(positions)


def _keys(keys: Any) -> list[Value]:
    listed: Sequence[Any]
    if isinstance(keys, (list, tuple)):
        listed = keys
    else:
        x = to_array("lexsort", keys)
        listed = [x[i] for i in range(x.aval.shape[0])] if x.aval.shape else []
    values = [to_array("lexsort", key, i) for i, key in enumerate(listed)]
    if not values or any(x.aval.shape != values[0].aval.shape for x in values):
        raise ShapeError(
            "lexsort: needs at least one key, all of one shape",
            got=", ".join(x.aval.str_short() for x in values) or "no keys",
            fix="a tuple of arrays, the most important last",
        )
    return values


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Along an axis the smallest ``kth`` elements, then the next one, then the larger ones.

    Args:
      a: an array of at least one axis.
      kth: the position whose element is where it would be in order.
      axis: along which to partition.

    Returns:
      An array of the same shape; here it is in order as a whole.

    Raises:
      AxisError: for an axis or a position out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.partition(jnp.array([4, 2, 3, 1]), 1)[1]
      Array(2, dtype=int32)
    """
    x, k = _partitioned("partition", a, kth, axis)
    return sort(x, k)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The int32 positions that :func:`partition` reads.

    Args:
      a: an array of at least one axis.
      kth: the position whose element is where it would be in order.
      axis: along which to partition.

    Returns:
      Positions of the shape of ``a``.

    Raises:
      AxisError: for an axis or a position out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.argpartition(jnp.array([4, 2, 3, 1]), 1)[:2]
      Array([3, 1], dtype=int32)
    """
    x, k = _partitioned("argpartition", a, kth, axis)
    return argsort(x, k, dtype=dtypes.int32)


def _partitioned(name: str, a: Any, kth: int, axis: int) -> tuple[Value, int]:
    x = to_array(name, a)
    k = one_axis(name, axis, x.aval.ndim)
    size, place = x.aval.shape[k], integer(name, "kth", kth)
    if not -size <= place < size:
        raise AxisError(
            f"{name}: kth is out of range",
            got=f"kth={place}, {size} elements along axis {k} of {x.aval.str_short()}",
            fix=f"a position from {-size} to {size - 1}" if size else "an axis with elements",
        )
    return x, k


def sort_complex(a: ArrayLike) -> Array:
    """The elements in order along the last axis, as complex numbers.

    Args:
      a: an array of at least one axis, real or complex.

    Returns:
      A complex array of the same shape, ordered by real part, then by imaginary part.

    Raises:
      AxisError: for a scalar.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.sort_complex(jnp.array([2.0, 1.0]))
      Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    ordered = sort(a)
    return convert(ordered, promoting(promote_types)(ordered.aval.dtype, dtypes.complex64))
