"""The positions of the triangles of a matrix, in row-major order.

A triangle is some rows of one length, and some that are each longer by one than the row before. So
which row an element is in is a quotient, or the root of a quadratic equation, of the element's
number, and is computed in the program.

Start at :func:`tril_indices`.
"""

from __future__ import annotations

from typing import TypeAlias

from functrax.core.arrays.operators import Array
from functrax.core.prims.arithmetic import add, div, floor, mul, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.powers import sqrt
from functrax.core.prims.reindex import iota
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.axes import integer
from functrax.numpy.promote import convert, result
from functrax.numpy.shaping import join, reshape_to, reverse

#: Rows and columns of some elements.
_Places: TypeAlias = "tuple[Value, Value]"


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions on and below the ``k``-th diagonal of an n × m matrix: rows, columns.

    Args:
      n: the number of rows.
      k: which diagonal: 0 the main one, above it if positive.
      m: the number of columns; as many as rows if None.

    Returns:
      The rows and the columns, int32 vectors.

    Raises:
      ArgumentError: for what is no integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.tril_indices(2)
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns, shift = _sizes("tril_indices", n, k, m)
    first = min(max(-shift, 0), rows)  # the first row that is not empty
    full = min(max(first, columns - shift), rows)  # the first that has all columns
    row, column = _growing(first + shift + 1, full - first)
    growing = add.bind(row, like(row, first)), column
    return _joined([growing, _rectangle(full, rows, columns)])


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions on and above the ``k``-th diagonal of an n × m matrix: rows, columns.

    Args:
      n: the number of rows.
      k: which diagonal: 0 the main one, above it if positive.
      m: the number of columns; as many as rows if None.

    Returns:
      The rows and the columns, int32 vectors.

    Raises:
      ArgumentError: for what is no integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.triu_indices(2)
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns, shift = _sizes("triu_indices", n, k, m)
    full = min(max(1 - shift, 0), rows)  # so many rows have all columns
    end = max(full, min(rows, columns - shift))  # behind the last row that is not empty
    row, column = _growing(columns - shift - end + 1, end - full)  # from the last element back
    row = sub.bind(like(row, end - 1), row)
    column = sub.bind(like(column, columns - 1), column)
    return _joined([_rectangle(0, full, columns), (reverse(row, (0,)), reverse(column, (0,)))])


def _sizes(name: str, n: int, k: int, m: int | None) -> tuple[int, int, int]:
    rows = max(integer(name, "n", n), 0)
    columns = rows if m is None else max(integer(name, "m", m), 0)
    return rows, columns, integer(name, "k", k)


def _growing(length: int, rows: int) -> _Places:
    """Of rows of lengths ``length``, ``length + 1``, …."""
    total = rows * length + rows * (rows - 1) // 2
    place = iota.bind(shape=(total,), dtype=dtypes.position_dtype(2 * total), axis=0)
    # Before row r are r length + r (r - 1) / 2 elements. What the root is taken of is an integer,
    # and exact in float64; so the root is at least the whole number where it should be.
    before = 2 * length - 1
    wide = convert_element_type.bind(place, dtype=dtypes.float64)
    square = add.bind(mul.bind(wide, like(wide, 8)), like(wide, before * before))
    row = sub.bind(sqrt.bind(square), like(wide, before))
    row = floor.bind(mul.bind(row, like(row, 0.5)))
    row = convert_element_type.bind(row, dtype=place.aval.dtype)
    twice = mul.bind(row, add.bind(row, like(row, before)))
    return row, sub.bind(place, div.bind(twice, like(twice, 2)))


def _rectangle(start: int, end: int, columns: int) -> _Places:
    """Of rows that have all columns."""
    shape = (end - start, columns)
    dtype = dtypes.position_dtype(max(end, columns))
    row, column = (iota.bind(shape=shape, dtype=dtype, axis=axis) for axis in (0, 1))
    row = add.bind(row, like(row, start)) if start else row
    return tuple(reshape_to(x, (shape[0] * columns,)) for x in (row, column))


def _joined(parts: list[_Places]) -> _Places:
    kept = [part for part in parts if part[0].aval.size] or parts[:1]
    found = [join([convert(x, dtypes.int32) for x in axis], 0) for axis in zip(*kept, strict=True)]
    return result(found[0]), result(found[1])
