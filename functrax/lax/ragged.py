"""Contractions of ragged arrays: an axis of the left operand is cut into groups of known sizes.

Which groups the places of an axis belong to is a mask, so the sums over groups are a contraction
with one more axis; the masked operand is never stored, as little as any broadcast operand is.

Start at :func:`ragged_dot_general`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError, UnavailableError
from functrax.core.prims.arithmetic import select_n, sub
from functrax.core.prims.comparisons import and_, le, lt
from functrax.core.prims.cumulative import cumsum
from functrax.core.prims.reindex import broadcast_in_dim, iota
from functrax.core.tracing.primitive import Value, literal
from functrax.core.types import dtypes
from functrax.lax.dot import dot_general
from functrax.lax.operands import Shape, value_of
from functrax.lax.precision import PrecisionLike
from functrax.typing import ArrayLike, DTypeLike


@dataclasses.dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which axis is which in :func:`ragged_dot_general`.

    Args:
      dot_dimension_numbers: as in :func:`functrax.lax.dot_general`.
      lhs_ragged_dimensions: the one axis of the left operand that is cut into groups.
      rhs_group_dimensions: the axis of the right operand that counts the groups, if it has one.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]

    def __post_init__(self) -> None:
        contracting, batch = self.dot_dimension_numbers
        numbers = (tuple(map(tuple, contracting)), tuple(map(tuple, batch)))
        object.__setattr__(self, "dot_dimension_numbers", numbers)
        object.__setattr__(self, "lhs_ragged_dimensions", tuple(self.lhs_ragged_dimensions))
        object.__setattr__(self, "rhs_group_dimensions", tuple(self.rhs_group_dimensions))


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


@with_out_sharding
def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
) -> Array:
    """The product of a matrix with several: each group of its rows meets its own.

    Args:
      lhs: shape ``(m, k)``; its rows are in groups, one after the other.
      rhs: shape ``(g, k, n)``, one matrix for each group.
      group_sizes: integers of shape ``(g,)``, how many rows each group has.
      precision, preferred_element_type, group_offset: as in :func:`ragged_dot_general`.

    Returns:
      Shape ``(m, n)``; rows of no group are 0.

    Raises:
      ShapeError, DTypeError: if the operands do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> rows, matrices = np.ones((3, 1), "float32"), np.array([[[2.0]], [[5.0]]], "float32")
    >>> lax.ragged_dot(rows, matrices, np.array([1, 2]))
    Array([[2.],
           [5.],
           [5.]], dtype=float32)
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset
    )


@with_out_sharding
def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
) -> Array:
    """A contraction of which one axis of the left operand, the ragged one, is cut into groups.

    What the groups are for depends on what the ragged axis is:

    - a free axis: each group meets its own part of ``rhs``, which has an axis for the groups;
    - a contracted one: each group is summed on its own, and the result has a leading axis for them;
    - a batch axis: the groups change nothing.

    Args:
      lhs: an array.
      rhs: an array.
      group_sizes: integers, shape ``(g,)``; or ``(*outer, g)``, where the sizes depend on the batch
        axes and those axes of the ragged one's kind that come before it.
      ragged_dot_dimension_numbers: which axis is which.
      precision, preferred_element_type: as in :func:`functrax.lax.dot_general`.
      group_offset: None; as in jax.lax, nothing else is possible yet.

    Returns:
      An array of the shape that ``dot_general`` gives, with a leading axis of size ``g`` if the
      ragged axis is contracted.

    Raises:
      ShapeError, ArgumentError: if sizes or axes do not fit.
      DTypeError: if the group sizes are not integers.
      UnavailableError: for a ``group_offset``.

    >>> import numpy as np
    >>> from functrax import lax
    >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> x, sizes = np.ones((3, 1), "float32"), np.array([1, 2])
    >>> lax.ragged_dot_general(x, x, sizes, numbers)  # a sum for each group
    Array([[[1.]],
    <BLANKLINE>
           [[2.]]], dtype=float32)
    """
    name = "ragged_dot_general"
    x, y = value_of(name, lhs), value_of(name, rhs)
    sizes = value_of(name, group_sizes)
    if group_offset is not None:
        raise UnavailableError(
            f"{name}: group_offset is not implemented, as in jax.lax",
            got=f"group_offset={group_offset!r}",
            fix="group_offset=None, and group_sizes that begin with a group to leave out",
        )
    numbers = ragged_dot_dimension_numbers
    axis = _ragged_axis(numbers, x)
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = numbers.dot_dimension_numbers
    groups = _check_sizes(sizes, _outer_sizes(x, axis, lhs_sum, lhs_batch))
    free = axis not in lhs_sum and axis not in lhs_batch
    _check_group_axis(numbers, y, groups, free)
    dims = numbers.dot_dimension_numbers
    if axis not in lhs_batch:
        outer = _outer(axis, x.aval.ndim, lhs_sum, lhs_batch)
        x = _by_group(x, sizes, axis, outer)
        sums, batch = _shifted(lhs_sum), _shifted(lhs_batch)
        if free:
            dims = (((*sums, 0), (*rhs_sum, *numbers.rhs_group_dimensions)), (batch, rhs_batch))
        else:
            place = tuple(lhs_sum).index(axis)
            rhs_outer = (*rhs_batch, *rhs_sum[:place])
            y = _by_group(y, sizes, rhs_sum[place], rhs_outer)
            dims = ((sums, _shifted(rhs_sum)), ((0, *batch), (0, *_shifted(rhs_batch))))
    return dot_general(x, y, dims, precision, preferred_element_type)


def _shifted(axes: Sequence[int]) -> Shape:
    return tuple(a + 1 for a in axes)


def _ragged_axis(numbers: RaggedDotDimensionNumbers, x: Value) -> int:
    axes = numbers.lhs_ragged_dimensions
    if len(axes) != 1:
        raise ArgumentError(
            "ragged_dot_general expects exactly one lhs ragged dimension",
            got=f"lhs_ragged_dimensions={tuple(axes)}",
            fix="one axis of lhs",
        )
    _check_in_range("lhs ragged", axes[0], x, "lhs")
    return axes[0]


def _check_in_range(what: str, axis: int, x: Value, operand: str) -> None:
    if not 0 <= axis < x.aval.ndim:
        raise ArgumentError(
            f"ragged_dot_general requires {what} dimension numbers to be nonnegative and less than "
            f"the number of axes of the {operand} value",
            got=f"{axis} for {operand} {x.aval.str_short()}",
            fix=f"an axis from 0 to {x.aval.ndim - 1}",
        )


def _outer(axis: int, ndim: int, summed: Sequence[int], batch: Sequence[int]) -> Shape:
    """The axes that group sizes may depend on: batch axes, and earlier ones of the axis' kind."""
    if axis in batch:
        return tuple(batch[: tuple(batch).index(axis)])
    free = [a for a in range(ndim) if a not in summed and a not in batch]
    kind = list(summed) if axis in summed else free
    return (*batch, *kind[: kind.index(axis)])


def _outer_sizes(x: Value, axis: int, summed: Sequence[int], batch: Sequence[int]) -> Shape:
    return tuple(x.aval.shape[a] for a in _outer(axis, x.aval.ndim, summed, batch))


def _check_sizes(sizes: Value, outer: Shape) -> int:
    """The number of groups."""
    aval = sizes.aval
    if not dtypes.is_integer(aval.dtype):
        raise DTypeError(
            "ragged_dot_general requires group_sizes of an integer dtype",
            got=aval.str_short(),
            fix="group_sizes.astype('int32')",
        )
    if not aval.shape:
        raise ShapeError(
            "ragged_dot_general: expected rank of group_sizes to be >=1",
            got=aval.str_short(),
            fix="one size for each group",
        )
    groups: int = aval.shape[-1]
    if aval.ndim > 1 and aval.shape != (*outer, groups):
        raise ShapeError(
            f"ragged_dot_general: expected group_sizes to have shape {(*outer, groups)}, "
            f"got {aval.shape}",
            got=aval.str_short(),
            fix=f"that shape, or {(groups,)} for groups that are the same everywhere",
        )
    return groups


def _check_group_axis(
    numbers: RaggedDotDimensionNumbers, y: Value, groups: int, free: bool
) -> None:
    axes = numbers.rhs_group_dimensions
    if len(axes) != free:
        many, kind = (
            ("exactly one rhs group dimension", "noncontracting")
            if free
            else ("zero group dimensions in the rhs", "contracting or batch")
        )
        raise ArgumentError(
            f"ragged_dot_general requires {many} when lhs ragged dimension is {kind}",
            got=f"rhs_group_dimensions={tuple(axes)}",
            fix="rhs_group_dimensions=(axis,)" if free else "rhs_group_dimensions=()",
        )
    if not free:
        return
    _check_in_range("rhs group", axes[0], y, "rhs")
    (_, summed), (_, batch) = numbers.dot_dimension_numbers
    if axes[0] in summed or axes[0] in batch:
        raise ArgumentError(
            "ragged_dot_general requires rhs group dimension numbers to be distinct from "
            "contracting and batch dimensions",
            got=f"axis {axes[0]}, contracting {tuple(summed)}, batch {tuple(batch)}",
            fix="another axis of rhs",
        )
    if y.aval.shape[axes[0]] != groups:
        raise ShapeError(
            f"ragged_dot_general: expected rhs group dimension size to be {groups}, "
            f"got {y.aval.shape[axes[0]]}",
            got=f"rhs {y.aval.str_short()}, {groups} group sizes",
            fix="one part of rhs for each group",
        )


def _by_group(x: Value, sizes: Value, axis: int, outer: Shape) -> Value:
    """An array for each group, in front, which is 0 where the ragged axis is outside of it."""
    if sizes.aval.ndim == 1:
        outer = ()
    ends = cumsum.bind(sizes, axis=len(outer), reverse=False)
    groups = sizes.aval.shape[-1]
    shape = (groups, *x.aval.shape)
    dims = (*_shifted(outer), 0)
    places = iota.bind(shape=shape, dtype=sizes.aval.dtype, axis=axis + 1)
    starts = broadcast_in_dim.bind(sub.bind(ends, sizes), shape=shape, dims=dims)
    stops = broadcast_in_dim.bind(ends, shape=shape, dims=dims)
    inside = and_.bind(le.bind(starts, places), lt.bind(places, stops))
    wide = broadcast_in_dim.bind(x, shape=shape, dims=_shifted(range(x.aval.ndim)))
    out: Value = select_n.bind(inside, literal(0, x.aval.dtype), wide)
    return out
