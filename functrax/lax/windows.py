"""Reductions over windows, and windows themselves.

The array is spread over the places of the result and the window's elements by an affine index map
(padding is out of bounds, and filled), and the window's axes are reduced.  A long window's sum is
made of the sums of windows of half its size, which its neighbours need as well.

Start at :func:`reduce_window`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.index.expr import Condition, Dim, IndexExpr, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import mapped
from functrax.core.prims.arithmetic import select_n
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.identity import optimization_barrier
from functrax.core.prims.reduce import op_identity
from functrax.core.prims.reindex import full, reshape
from functrax.core.pytree.operations import tree_unflatten
from functrax.core.tracing.primitive import Value, like, literal, named
from functrax.core.types import dtypes
from functrax.lax.conv_numbers import (
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
)
from functrax.lax.dot import dot_general
from functrax.lax.joining import part_of
from functrax.lax.monoids import (
    REDUCTIONS,
    combine_all,
    monoid_of,
    reduction_operands,
    with_init,
)
from functrax.lax.operands import Shape, as_array, as_ints, dtype_of, repeat, value_of
from functrax.lax.precision import PrecisionLike, check_preferred
from functrax.lax.shapes import transpose
from functrax.lax.window_shapes import WindowAxis, window_axes
from functrax.typing import ArrayLike, DTypeLike

#: So many times longer than its stride is a window that is combined by halves, and so much work.
_LONG, _MUCH = 16, 1 << 15


def reduce_window(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine the elements of each window by an associative function.

    Args:
      operands: an array, or a pytree of arrays of one shape.
      init_values: a scalar for each, combined once with each window.  It stands in the padding
        too if the function is not a named operation (sum, maximum, ...), so give its identity.
      computation: takes two elements and returns one; see :func:`reduce`.
      window_dimensions: the window's size along each axis.
      window_strides: how far apart neighbouring windows are; 1 if omitted.
      padding: ``"SAME"``, ``"SAME_LOWER"``, ``"VALID"``, or a pair ``(low, high)`` for each axis.
      base_dilation: the distance of the array's elements; 1 if omitted.
      window_dilation: the distance of the window's elements; 1 if omitted.

    Returns:
      An array, or a pytree of arrays, with an element for each window.  At ties, the cotangent of
      a maximum is shared evenly among the elements.

    Raises:
      ShapeError, ArgumentError, DTypeError, PyTreeError: if the arguments do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.reduce_window(np.arange(6), 0, lax.add, (2,), (2,))
    Array([1, 5, 9], dtype=int32)
    """
    name = "reduce_window"
    xs, inits, tree = reduction_operands(name, operands, init_values, computation)
    shape = xs[0].aval.shape
    window = as_ints(name, window_dimensions, "window_dimensions")
    axes = window_axes(name, shape, window, window_strides, padding, base_dilation, window_dilation)
    op = monoid_of(computation, xs[0].aval.dtype) if len(xs) == 1 else None
    if op is not None and _halves(op, xs[0].aval.dtype):
        for k, axis in enumerate(axes):
            long = axis.window >= _LONG * axis.stride
            if long and axis.out and axis.window * xs[0].aval.size >= _MUCH:
                xs = [_by_halves(xs[0], op, k, axis)]
                axes[k] = WindowAxis(axis.out, 1)
        shape = xs[0].aval.shape
    index_map = _window_map(shape, tuple(axes))
    reduced = tuple(range(len(shape), len(index_map.domain)))
    if op is None:
        spread = [_spread(x, i, index_map) for x, i in zip(xs, inits, strict=True)]
        outs = combine_all(spread, inits, reduced, computation, tree)
        return tree_unflatten(tree, map(as_array, outs))
    out = _spread(xs[0], like(xs[0], op_identity(op, xs[0].aval.dtype)), index_map)
    out = REDUCTIONS[op].bind(out, axes=reduced) if reduced else out
    return tree_unflatten(tree, [as_array(with_init(op, out, inits[0]))])


def _halves(op: str, dtype: dtypes.DType) -> bool:
    """Whether an operation may be done by halves: the cotangent of a maximum would be shared so."""
    return op == "add" or not dtypes.is_inexact(dtype)


def _by_halves(x: Value, op: str, k: int, axis: WindowAxis) -> Value:
    """The array with the windows along axis ``k`` combined.

    Windows of 1, 2, 4, ... elements are made of two neighbours each, and the window of those that
    its size is the sum of.
    """
    shape, rank = x.aval.shape, x.aval.ndim
    room = (shape[k] - 1) * axis.base + 1 + axis.low + axis.high
    dims = [Dim(i) for i in range(rank)]
    spot, holding = WindowAxis(shape[k], 1, 1, axis.low, axis.high, axis.base).index(
        dims[k], Dim(k) * 0
    )
    padded = IndexMap(
        (*shape[:k], room, *shape[k + 1 :]), shape, (*dims[:k], spot, *dims[k + 1 :]), holding
    )
    part = mapped.reindex.bind(x, map=padded, fill=like(x, op_identity(op, x.aval.dtype)))
    combine = named(op)  # monoids are named as the primitives are

    found, done, size = None, 0, 1
    places = room - (axis.window - 1) * axis.dilation
    while True:
        if axis.window & size:
            start = done * axis.dilation
            own = part_of(part, k, start, start + places)
            found = own if found is None else combine.bind(found, own)
            done += size
        if done == axis.window:
            break
        apart = size * axis.dilation
        length = part.aval.shape[k]
        part = combine.bind(part_of(part, k, 0, length - apart), part_of(part, k, apart, length))
        size *= 2
        # Else one kernel would compute each from the array, as often as the window is long.
        (part,) = optimization_barrier.bind(part)
    assert found is not None
    return part_of(found, k, 0, places, axis.stride)


@functools.lru_cache(maxsize=1024)
def _window_map(shape: Shape, axes: tuple[WindowAxis, ...]) -> IndexMap:
    """From windows and the elements in them to the array; windows of size 1 need no axis."""
    domain = [axis.out for axis in axes]
    exprs: list[IndexExpr] = []
    conditions: list[Condition] = []
    for k, axis in enumerate(axes):
        tap: IndexExpr = Dim(len(domain)) if axis.window != 1 else as_expr(0)
        if axis.window != 1:
            domain.append(axis.window)
        expr, holding = axis.index(Dim(k), tap)
        exprs.append(expr)
        conditions.extend(holding)
    return IndexMap(tuple(domain), shape, tuple(exprs), tuple(conditions))


def _spread(x: Value, init: Value, index_map: IndexMap) -> Value:
    """The elements of each window, with ``init`` in the padding; it may be traced."""
    if type(init) is Literal:
        return mapped.reindex.bind(x, map=index_map, fill=init)
    spread = mapped.reindex.bind(x, map=index_map, fill=like(x, 0))
    here = full(x.aval.shape, literal(True, dtypes.bool_))
    inside = mapped.reindex.bind(here, map=index_map, fill=literal(False, dtypes.bool_))
    return select_n.bind(inside, repeat(init, spread.aval.shape), spread)


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The windows that a convolution looks at, as features ("im2col").

    Args:
      lhs: an array with a batch, a feature and spatial axes.
      filter_shape: the window's size along each spatial axis.
      window_strides: as in :func:`conv_general_dilated`.
      padding: as in :func:`conv_general_dilated`.
      lhs_dilation: as in :func:`conv_general_dilated`.
      rhs_dilation: as in :func:`conv_general_dilated`.
      dimension_numbers: the layouts; the kernel's only orders the spatial axes.
      precision: accepted as in jax.lax; nothing is added up here.
      preferred_element_type: the dtype of the result; that of the array if None.

    Returns:
      The result's features are those of the array, each with all elements of the window:
      feature ``c*prod(filter_shape) + k`` is element ``k`` (row-major) of feature ``c``.

    Raises:
      ShapeError: if window and array have different ranks.
      ArgumentError: if strides, padding, dilations or layouts are not understood.
      DTypeError: for integers and complex numbers, if the dtype is a narrower one.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    name = "conv_general_dilated_patches"
    x = value_of(name, lhs)
    window = as_ints(name, filter_shape, "filter_shape")
    numbers = conv_dimension_numbers(x.aval.shape, (1, 1, *window), dimension_numbers)
    shape = tuple(x.aval.shape[a] for a in numbers.lhs_spec[2:])
    axes = window_axes(name, shape, window, window_strides, padding, lhs_dilation, rhs_dilation)
    batch, features = (x.aval.shape[a] for a in numbers.lhs_spec[:2])
    taps = len(window)
    parts = {0: (batch,), 1: (features, *window), **{k + 2: (a.out,) for k, a in enumerate(axes)}}
    roles = [tuple(numbers.out_spec).index(k) for k in range(x.aval.ndim)]
    domain: list[int] = []
    first: dict[int, int] = {}
    for role in roles:
        first[role] = len(domain)
        domain.extend(parts[role])
    exprs: dict[int, IndexExpr] = {}
    conditions: list[Condition] = []
    for role, where in enumerate(numbers.lhs_spec):
        exprs[where] = Dim(first[role])
        if role > 1:
            tap = Dim(first[1] + 1 + role - 2)
            exprs[where], holding = axes[role - 2].index(Dim(first[role]), tap)
            conditions.extend(holding)
    assert len(domain) == x.aval.ndim + taps
    ordered = tuple(exprs[k] for k in range(x.aval.ndim))
    index_map = IndexMap(tuple(domain), x.aval.shape, ordered, tuple(conditions))
    spread = mapped.reindex.bind(x, map=index_map, fill=like(x, 0))
    out = reshape.bind(spread, shape=tuple(math.prod(parts[role]) for role in roles))
    if preferred_element_type is not None:
        dtype = dtype_of(preferred_element_type)
        check_preferred(name, dtype, x.aval.dtype)
        out = convert_element_type.bind(out, dtype=dtype, weak_type=False)
    return as_array(out)


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """A convolution whose kernel differs from place to place (a locally connected layer).

    Args:
      lhs: an array with a batch, a feature and spatial axes.
      rhs: the kernels: its spatial axes are those of the result, and its input features are
        those of :func:`conv_general_dilated_patches`.
      window_strides: as in :func:`conv_general_dilated`.
      padding: as in :func:`conv_general_dilated`.
      filter_shape: the window's size along each spatial axis.
      lhs_dilation: as in :func:`conv_general_dilated`.
      rhs_dilation: as in :func:`conv_general_dilated`.
      dimension_numbers: the layouts of ``lhs``, ``rhs`` and the result.
      precision: accepted as in jax.lax.

    Returns:
      At each place the sum of products of its window and its kernel.

    Raises:
      ShapeError: if the kernels do not fit the windows.

    >>> import numpy as np
    >>> from functrax import lax
    >>> x, kernels = np.ones((1, 1, 4), np.float32), np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    >>> lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))
    Array([[[3., 5., 7.]]], dtype=float32)
    """
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
    )
    window = as_ints("conv_general_dilated_local", filter_shape, "filter_shape")
    numbers = conv_dimension_numbers(patches.shape, (1, 1, *window), dimension_numbers)
    (out_batch, out_feature, *places) = numbers.out_spec
    (_, kernel_in, *kernel_places) = numbers.rhs_spec
    made = dot_general(
        patches,
        rhs,
        (((out_feature,), (kernel_in,)), (places, kernel_places)),
        precision=precision,
    )  # the places, then the batch, then the kernels' output features
    order = [0] * made.ndim
    for k, axis in enumerate((*places, out_batch, out_feature)):
        order[axis] = k
    return transpose(made, order)
