"""Index arrays and grids: meshgrid, indices, ix_, mgrid, tril_indices, unravel_index.

Most of them depend on sizes only: they are made of ``iota`` in the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, overload

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import (
    ArgumentError,
    ConcretizationError,
    ShapeError,
    UnavailableError,
)
from functrax.core.prims.arithmetic import add, clamp, div, modulo, mul, rem
from functrax.core.prims.reindex import broadcast_in_dim, iota
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.core.types.promotion import check_positions, result_type
from functrax.numpy.axes import Shape, as_shape, integer
from functrax.numpy.broadcasting import broadcast_arrays
from functrax.numpy.creation import checked_dtype
from functrax.numpy.filling import ones, zeros
from functrax.numpy.index_plan import Bounds, operand_in_range
from functrax.numpy.index_triangles import tril_indices, triu_indices
from functrax.numpy.promote import convert, promote_args, result, to_array
from functrax.numpy.rearranging import is_known
from functrax.numpy.searching import nonzero
from functrax.numpy.selecting import integers
from functrax.numpy.shaping import join, reshape_to
from functrax.typing import ArrayLike, DTypeLike, ShapeLike

__all__ = [
    "diag_indices", "diag_indices_from", "indices", "ix_", "mask_indices", "meshgrid", "mgrid",
    "ogrid", "ravel_multi_index", "tril_indices_from", "triu_indices_from",
    "unravel_index",
]  # fmt: skip


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """The coordinates of a grid, from those of its axes.

    Args:
      *xi: one vector for each axis.
      copy: must be True.
      sparse: whether axes of the result along which nothing changes have size 1.
      indexing: ``"xy"``: the first vector runs along axis 1; ``"ij"``: along axis 0.

    Returns:
      A list of arrays, one for each vector.

    Raises:
      ArgumentError: for another indexing.
      ShapeError: if an argument is not a vector.
      UnavailableError: if ``copy`` is False.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.meshgrid(jnp.array([1, 2, 3]), jnp.array([10, 20]))[0]
      Array([[1, 2, 3],
             [1, 2, 3]], dtype=int32)
    """
    if not copy:
        raise UnavailableError(
            "meshgrid: there are no views of other arrays, for arrays are immutable",
            got="copy=False",
            fix="copy=True, or sparse=True for less memory",
        )
    if indexing not in ("xy", "ij"):
        raise ArgumentError("meshgrid: unknown indexing", got=repr(indexing), fix="'xy' or 'ij'")
    values = [to_array("meshgrid", x, k) for k, x in enumerate(xi)]
    for x in values:
        if x.aval.ndim > 1:
            raise ShapeError("meshgrid: takes vectors", got=x.aval.str_short(), fix="ravel it")
    count = len(values)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = [1, 0]
    lines = [
        reshape_to(x, tuple(x.aval.size if k == place else 1 for k in range(count)))
        for x, place in zip(values, places, strict=True)
    ]
    return lines if sparse else broadcast_arrays(*lines)


@overload
def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = ..., sparse: Literal[False] = ...
) -> Array: ...
@overload
def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = ..., *, sparse: Literal[True]
) -> tuple[Array, ...]: ...
@overload
def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = ..., sparse: bool = ...
) -> Array | tuple[Array, ...]: ...
def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The index of every element of an array of that shape, along each axis.

    Args:
      dimensions: the shape.
      dtype: of the indices, int32 if None.
      sparse: whether axes along which nothing changes have size 1.

    Returns:
      An array of shape ``(len(dimensions), *dimensions)``; if sparse, a tuple of arrays.

    Raises:
      IntegerOverflowError: if the dtype does not hold the largest index.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.indices((2, 3))[1]
      Array([[0, 1, 2],
             [0, 1, 2]], dtype=int32)
    """
    sizes = as_shape("indices", dimensions)
    kind = dtypes.int32 if dtype is None else dtypes.as_dtype(dtype)
    kind = dtypes.canonicalize_dtype(kind)
    check_positions("indices", max(sizes, default=0) if kind.itemsize >= 4 else 0, kind)
    found = [_coordinate(sizes, axis, kind, sparse) for axis in range(len(sizes))]
    return tuple(map(result, found)) if sparse else _stacked(found, kind)


def _coordinate(sizes: Shape, axis: int, dtype: DType, sparse: bool) -> Value:
    shape = tuple(n if k == axis else 1 for k, n in enumerate(sizes)) if sparse else sizes
    counted = dtype if dtypes.is_integer(dtype) else dtypes.position_dtype(sizes[axis])
    return convert(iota.bind(shape=shape, dtype=counted, axis=axis), dtype)


def _stacked(found: Sequence[Value], dtype: DType) -> Value:
    """Arrays of one shape along a new first axis; no elements if there are none."""
    if not found:
        return zeros((0,), dtype)
    return result(join([reshape_to(x, (1, *x.aval.shape)) for x in found], 0))


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that together mean an open grid; masks become positions.

    Args:
      *args: vectors of integers, or of booleans.

    Returns:
      A tuple of arrays; each has its elements along another axis.

    Raises:
      ShapeError: if an argument is not a vector.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.arange(6).reshape(2, 3)
      >>> x[jnp.ix_(jnp.array([1]), jnp.array([0, 2]))]
      Array([[3, 5]], dtype=int32)
    """
    found = []
    for k, arg in enumerate(args):
        x = to_array("ix_", arg, k)
        if x.aval.ndim != 1:
            raise ShapeError("ix_: takes vectors", got=x.aval.str_short(), fix="ravel it")
        if x.aval.dtype == dtypes.bool_:
            (x,) = nonzero(x)
        if not x.aval.size:
            x = convert(x, dtypes.int32)
        found.append(reshape_to(x, tuple(x.aval.size if n == k else 1 for n in range(len(args)))))
    return tuple(found)


class _Grid:
    """NumPy's ``mgrid`` or ``ogrid``: a grid of what slices say, a complex step being a number of
    elements.  It counts in NumPy's dtypes, 64 bits wide, and gives the default ones.
    """

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return self._line(key, self._dtype([key]))
        dtype = self._dtype(key)
        lines = [self._line(item, dtype) for item in key]
        shape = tuple(x.aval.size for x in lines)
        found = []
        for k, x in enumerate(lines):
            own = tuple(n if k == axis else 1 for axis, n in enumerate(shape))
            found.append(reshape_to(x, own) if self._sparse else
                         broadcast_in_dim.bind(x, shape=shape, dims=(k,)))  # fmt: skip
        return list(found) if self._sparse else _stacked(found, dtypes.canonicalize_dtype(dtype))

    def _dtype(self, items: Sequence[slice]) -> DType:
        numbers = [x for item in items for x in _start_step_count(item)[:2]]
        stops = [item.stop for item in items if not isinstance(item.step, complex)]
        return np.result_type(*numbers, *stops)

    def _line(self, item: slice, dtype: DType) -> Value:
        start, step, count = _start_step_count(item)
        line = iota.bind(shape=(count,), dtype=dtype, axis=0)
        line = mul.bind(line, like(line, step)) if step != 1 else line
        line = add.bind(line, like(line, start)) if start != 0 else line
        return result(convert(line, dtypes.canonicalize_dtype(dtype)))


def _start_step_count(item: slice) -> tuple[Any, Any, int]:
    start = 0 if item.start is None else item.start
    step = 1 if item.step is None else item.step
    if not isinstance(step, (complex, np.complexfloating)):
        return start, step, max(math.ceil((item.stop - start) / step), 0)
    count = int(abs(complex(step)))
    return start, (item.stop - start) / float(count - 1) if count > 1 else 1.0, count


mgrid: Final = _Grid(sparse=False)
ogrid: Final = _Grid(sparse=True)


def _matrix_shape(name: str, arr: Any) -> Shape:
    shape: Shape = tuple(np.shape(arr)) if not hasattr(arr, "shape") else tuple(arr.shape)
    if len(shape) != 2:
        raise ShapeError(f"{name}: takes a matrix", got=f"shape {shape}", fix="two axes")
    return shape


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """:func:`tril_indices` for the shape of a matrix.

    Args:
      arr: a matrix; only its shape matters.
      k: which diagonal: 0 the main one, above it if positive.

    Returns:
      The rows and the columns, int32 vectors.

    Raises:
      ShapeError: if ``arr`` is not a matrix.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.tril_indices_from(jnp.zeros((2, 2)))
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """:func:`triu_indices` for the shape of a matrix.

    Args:
      arr: a matrix; only its shape matters.
      k: which diagonal: 0 the main one, above it if positive.

    Returns:
      The rows and the columns, int32 vectors.

    Raises:
      ShapeError: if ``arr`` is not a matrix.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.triu_indices_from(jnp.zeros((2, 2)))
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k, columns)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array of ``ndim`` axes of size ``n``.

    Args:
      n: the size of each axis.
      ndim: the number of axes.

    Returns:
      ``ndim`` times the same int32 vector.

    Raises:
      ArgumentError: for what is no integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.diag_indices(2)
      (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    size = integer("diag_indices", "n", n)
    line = result(iota.bind(shape=(size,), dtype=dtypes.int32, axis=0))
    return (line,) * integer("diag_indices", "ndim", ndim)


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """:func:`diag_indices` for an array of equal sizes.

    Args:
      arr: an array of at least two axes, of one size; only its shape matters.

    Returns:
      For each axis the same int32 vector.

    Raises:
      ShapeError: if the sizes differ, or there are fewer than two.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.diag_indices_from(jnp.zeros((2, 2)))
      (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = to_array("diag_indices_from", arr).aval.shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ShapeError(
            "diag_indices_from: takes an array of equal sizes", got=f"shape {shape}",
            fix="at least two axes, of one size",
        )  # fmt: skip
    return diag_indices(shape[0], len(shape))


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """The positions of an n × n matrix of ones that ``mask_func(matrix, k)`` leaves.

    Args:
      n: the size of the matrix.
      mask_func: takes a matrix and ``k``, such as :func:`triu`.
      k: handed on to ``mask_func``.
      size: the number of positions; needed if the function gives a traced array.

    Returns:
      The rows and the columns, vectors of default integers.

    Raises:
      ConcretizationError: for a traced array and no size.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.mask_indices(2, jnp.triu)
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return nonzero(mask_func(ones((n, n), dtypes.int32), k), size=size)


def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """From row-major positions to one index for each axis; out of range, the nearest.

    Args:
      indices: an integer array; negative ones count from the end.
      shape: the shape in which they are positions.

    Returns:
      A tuple of integer arrays of the shape of ``indices``.

    Raises:
      DTypeError: if the indices are no integers.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unravel_index(jnp.array([1, 5]), (2, 3))
      (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    sizes = as_shape("unravel_index", shape)
    total = math.prod(sizes)
    index = operand_in_range(integers("unravel_index", indices), total, Bounds(clip=True))
    found = []
    for size in reversed(sizes):
        found.append(result(rem.bind(index, like(index, max(size, 1)))))
        index = div.bind(index, like(index, max(size, 1)))
    return tuple(reversed(found))


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """From one index for each axis to row-major positions.

    Args:
      multi_index: one integer array for each axis, which broadcast.
      dims: the shape in which they are indices.
      mode: out of range, ``"raise"`` an error (the indices must be known), ``"clip"``, ``"wrap"``,
        or ``"ignore"``, which computes with the indices as they are.
      order: ``"C"``, or ``"F"`` for column-major positions.
      dtype: of the result; by default the indices' own.

    Returns:
      Positions, of the shape to which the index arrays broadcast.

    Raises:
      ArgumentError: for an index out of range, other modes or orders, and a dtype that does not
        hold the largest position.
      ConcretizationError: for traced indices, if the mode is ``"raise"``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([1, 2])), (2, 3))
      Array([1, 5], dtype=int32)
    """
    sizes = as_shape("ravel_multi_index", dims)
    if len(sizes) != len(multi_index) or order not in ("C", "F"):
        raise ArgumentError(
            "ravel_multi_index: needs one index array for each axis, and order 'C' or 'F'",
            got=f"{len(multi_index)} arrays for the shape {sizes}, order {order!r}",
            fix=f"{len(sizes)} arrays",
        )
    columns = [integers("ravel_multi_index", x) for x in multi_index]
    wanted = _dtype_of_positions(columns, sizes, dtype)
    columns = [_inside(x, size, mode) for x, size in zip(columns, sizes, strict=True)]
    columns = promote_args("ravel_multi_index", *(convert(x, wanted) for x in columns))
    total = None
    stride = 1
    pairs = list(zip(columns, sizes, strict=True))
    for x, size in pairs if order == "F" else reversed(pairs):
        term = x if stride == 1 else mul.bind(x, like(x, stride))
        total = term if total is None else add.bind(total, term)
        stride *= size
    return result(convert(like(columns[0], 0) if total is None else total, wanted))


def _dtype_of_positions(columns: Sequence[Value], sizes: Shape, dtype: Any) -> DType:
    """That of the result of :func:`ravel_multi_index`.

    Raises:
      ArgumentError: if it holds no integers, or not the largest position.
    """
    found = result_type(int, *columns) if dtype is None else checked_dtype(dtype)
    if dtypes.is_integer(found) and math.prod(sizes) - 1 <= dtypes.iinfo(found).max:
        return found
    raise ArgumentError(
        "ravel_multi_index: the dtype does not hold all positions",
        got=f"{found} for the shape {sizes}",
        fix="dtype='int64', with enable_x64()"
        if found == dtypes.int32
        else "dtype='int32', or another dtype of integers that is wide enough",
    )


def _inside(x: Value, size: int, mode: str) -> Value:
    if mode == "clip":
        return result(clamp.bind(like(x, 0), x, like(x, size - 1)))
    if mode == "wrap":
        return result(modulo(x, size))
    if mode == "ignore":
        return x
    if mode != "raise":
        raise ArgumentError("ravel_multi_index: unknown mode", got=repr(mode),
                            fix="'raise', 'clip', 'wrap' or 'ignore'")  # fmt: skip
    if not is_known(x):
        raise ConcretizationError(
            "ravel_multi_index: mode 'raise' needs to know the indices, which are traced",
            got=x.aval.str_short(),
            fix="Use mode='wrap' or mode='clip' instead.",
        )
    values = np.asarray(x)
    if values.size and not 0 <= values.min() <= values.max() < size:
        raise ArgumentError(
            "invalid entry in coordinates array: an index of ravel_multi_index is out of range",
            got=f"from {values.min()} to {values.max()}, for a size of {size}",
            fix="mode='clip' or mode='wrap'",
        )
    return x
