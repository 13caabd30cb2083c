"""Constructors of index maps: what broadcasts, slices, paddings and their kin are as maps.

What enters: shapes and the numbers of an operation, checked here.  What leaves: the
:class:`~functrax.core.index.map.IndexMap` of it.

Start at :meth:`Constructors.from_function`, which takes any expressions; the others are the
specialisations that have names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TypeVar

from functrax.core.errors.typed import ArgumentError, AxisError, ShapeError
from functrax.core.index.expr import Condition, Dim, Index, as_expr
from functrax.core.index.map_form import (
    MapForm,
    Shape,
    check_shape,
    flatten,
    pad_parts,
    size_of,
    unflatten,
)
from functrax.core.types.symbolic_sizes import integer

Map = TypeVar("Map", bound="Constructors")


class Constructors(MapForm):
    """The ways to make an index map (abstract)."""

    @classmethod
    def from_function(
        cls: type[Map],
        domain: Iterable[int],
        codomain: Iterable[int],
        fn: Callable[..., Iterable[Index | Condition]],
    ) -> Map:
        """The map that ``fn`` writes down.

        Args:
          domain: the shape of the iteration space.
          codomain: the shape of the array.
          fn: called with one ``Dim`` per domain dimension; returns the expressions in order, and
            anywhere among them the conditions.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.from_function((3, 3), (9,), lambda i, j: (3 * i + j,)))
          {[3,3] -> [9]: (3*d0 + d1)}
          >>> print(IndexMap.from_function((9,), (3,), lambda i: (i // 3, (i % 3).eq(1))))
          {[9] -> [3]: (d0//3 | d0%3 - 1 == 0)}
        """
        shape = check_shape(domain, "domain")
        parts = tuple(fn(*(Dim(k) for k in range(len(shape)))))
        exprs = tuple(as_expr(part) for part in parts if not isinstance(part, Condition))
        conditions = tuple(part for part in parts if isinstance(part, Condition))
        return cls(shape, tuple(codomain), exprs, conditions)

    @classmethod
    def identity(cls: type[Map], shape: Iterable[int]) -> Map:
        """Every point means itself."""
        sizes = check_shape(shape, "shape")
        return cls(sizes, sizes, tuple(Dim(k) for k in range(len(sizes))))

    @classmethod
    def broadcast(
        cls: type[Map], shape_in: Iterable[int], shape_out: Iterable[int], dims: Iterable[int]
    ) -> Map:
        """Operand dimension ``j`` becomes result dimension ``dims[j]``; the others are repeated.

        Args:
          shape_in: the operand's shape; a size of 1 is repeated.
          shape_out: the result's shape.
          dims: a different result dimension for each operand dimension.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.broadcast((3, 1), (2, 3, 4), (1, 2)))
          {[2,3,4] -> [3,1]: (d1, 0)}
        """
        operand = check_shape(shape_in, "operand's shape")
        result = check_shape(shape_out, "result's shape")
        axes = check_axes("broadcast", dims, len(result))
        fits = len(axes) == len(operand) and all(
            size in (1, result[axis]) for size, axis in zip(operand, axes, strict=True)
        )
        if not fits:
            raise ShapeError(
                "IndexMap.broadcast: the operand does not fit the result's dimensions",
                got=f"shape {operand} into {result} at dimensions {axes}",
                fix="give one dimension per operand dimension, whose size is the same or 1",
            )
        exprs = tuple(
            as_expr(0) if size == 1 else Dim(axis) for size, axis in zip(operand, axes, strict=True)
        )
        return cls(result, operand, exprs)

    @classmethod
    def transpose(cls: type[Map], shape: Iterable[int], perm: Iterable[int]) -> Map:
        """Result dimension ``k`` is operand dimension ``perm[k]``.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.transpose((2, 3, 4), (2, 0, 1)))
          {[4,2,3] -> [2,3,4]: (d1, d2, d0)}
        """
        sizes = check_shape(shape, "shape")
        axes = check_axes("transpose", perm, len(sizes))
        if len(axes) != len(sizes):
            raise AxisError(
                "IndexMap.transpose: not a permutation of the dimensions",
                got=f"{axes} for the shape {sizes}",
                fix="every dimension once, as (1, 0) for a matrix",
            )
        where = {axis: Dim(k) for k, axis in enumerate(axes)}
        exprs = tuple(where[axis] for axis in range(len(sizes)))
        return cls(tuple(sizes[axis] for axis in axes), sizes, exprs)

    @classmethod
    def reshape(cls: type[Map], shape_in: Iterable[int], shape_out: Iterable[int]) -> Map:
        """The element at the same row-major position.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.reshape((6, 4), (4, 6)))
          {[4,6] -> [6,4]: ((6*d0 + d1)//4, (6*d0 + d1)%4)}
          >>> print(IndexMap.reshape((6, 4), (2, 3, 4)))
          {[2,3,4] -> [6,4]: (3*d0 + d1, d2)}
        """
        operand = check_shape(shape_in, "operand's shape")
        result = check_shape(shape_out, "result's shape")
        if size_of(operand) != size_of(result):
            raise ShapeError(
                "IndexMap.reshape: the number of elements changes",
                got=f"{operand} ({size_of(operand)}) to {result} ({size_of(result)})",
                fix="shapes of the same number of elements",
            )
        if size_of(operand) == 0:
            return cls(result, operand, (as_expr(0),) * len(operand))
        position = flatten([Dim(k) for k in range(len(result))], result)
        return cls(result, operand, unflatten(position, operand))

    @classmethod
    def slice_(
        cls: type[Map],
        shape: Iterable[int],
        start: Iterable[int],
        limit: Iterable[int],
        stride: Iterable[int] | None = None,
    ) -> Map:
        """The elements ``range(start, limit, stride)`` of each dimension.

        Args:
          shape: the operand's shape.
          start: the first index of each dimension.
          limit: the index to stop before; -1 with a negative stride takes the element 0 too.
          stride: not 0; 1 when omitted.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.slice_((10, 4), (8, 0), (-1, 4), (-3, 1)))
          {[3,4] -> [10,4]: (-3*d0 + 8, d1)}
        """
        sizes = check_shape(shape, "shape")
        starts, limits = _per_dim("start", start, sizes), _per_dim("limit", limit, sizes)
        strides = (1,) * len(sizes) if stride is None else _per_dim("stride", stride, sizes)
        if 0 in strides:
            raise ArgumentError(
                "IndexMap.slice_: a stride is 0",
                got=f"strides {strides}",
                fix="a positive stride, or a negative one to go backwards",
            )
        counts = [
            max(0, -((first - end) // step))  # of range(first, end, step)
            for first, end, step in zip(starts, limits, strides, strict=True)
        ]
        for size, first, step, count in zip(sizes, starts, strides, counts, strict=True):
            last = first + step * (count - 1)
            if count and not (0 <= first < size and 0 <= last < size):
                raise ArgumentError(
                    "IndexMap.slice_: the slice leaves the array",
                    got=f"start {starts}, limit {limits}, stride {strides} for the shape {sizes}",
                    fix="limits are counted from 0 and are not clipped",
                )
        exprs = tuple(
            first + step * Dim(k)
            for k, (first, step) in enumerate(zip(starts, strides, strict=True))
        )
        return cls(tuple(counts), sizes, exprs)

    @classmethod
    def pad(
        cls: type[Map],
        shape: Iterable[int],
        low: Iterable[int],
        high: Iterable[int],
        interior: Iterable[int] | None = None,
    ) -> Map:
        """Fill values around and between the elements, as XLA's Pad.

        Args:
          shape: the operand's shape.
          low: how many to add before each dimension; negative numbers take elements away.
          high: how many to add after.
          interior: how many to add between neighbours; not negative.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.pad((3,), (1,), (0,), (1,)))
          {[6] -> [3]: ((d0 + 1)//2 - 1 | (d0 + 1)%2 == 0)}
        """
        sizes = check_shape(shape, "shape")
        lows, highs = _per_dim("low", low, sizes), _per_dim("high", high, sizes)
        gaps = (0,) * len(sizes) if interior is None else _per_dim("interior", interior, sizes)
        domain = tuple(
            before + after + (size + (size - 1) * gap if size else 0)
            for size, before, after, gap in zip(sizes, lows, highs, gaps, strict=True)
        )
        if min((*gaps, *domain, 0)) < 0:
            raise ArgumentError(
                "IndexMap.pad: a result's size, or an interior padding, is negative",
                got=f"low {lows}, high {highs}, interior {gaps} for the shape {sizes}",
                fix="interior padding of 0 or more; cut off no more than there is",
            )
        return cls(domain, sizes, *pad_parts(lows, gaps))

    @classmethod
    def reverse(cls: type[Map], shape: Iterable[int], axes: Iterable[int]) -> Map:
        """The axes named, back to front.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.reverse((3, 4), (1,)))
          {[3,4] -> [3,4]: (d0, -d1 + 3)}
        """
        sizes = check_shape(shape, "shape")
        turned = check_axes("reverse", axes, len(sizes))
        exprs = (size - 1 - Dim(k) if k in turned else Dim(k) for k, size in enumerate(sizes))
        return cls(sizes, sizes, tuple(exprs))

    @classmethod
    def reduction(cls: type[Map], shape: Iterable[int], axes: Iterable[int]) -> Map:
        """The map by which a reindex_reduce reduces the axes named.

        Example:
          >>> from functrax.core.index.map import IndexMap
          >>> print(IndexMap.reduction((2, 3, 4), (1,)))
          {[2,3,4] -> [2,4]: (d0, d2)}
        """
        sizes = check_shape(shape, "shape")
        gone = check_axes("reduction", axes, len(sizes))
        kept = [k for k in range(len(sizes)) if k not in gone]
        return cls(sizes, tuple(sizes[k] for k in kept), tuple(Dim(k) for k in kept))


def check_axes(name: str, axes: Iterable[int], rank: int) -> Shape:
    """Axes as a tuple: inside of the rank, and none twice."""
    given = tuple(operator.index(axis) for axis in axes)
    if any(not 0 <= axis < rank for axis in given) or len(set(given)) != len(given):
        raise AxisError(
            f"IndexMap.{name}: an axis is out of range, or named twice",
            got=f"axes {given} of {rank} dimensions",
            fix="name each axis once, counted from 0; negative axes are the caller's to resolve",
        )
    return given


def _per_dim(name: str, values: Iterable[int], shape: Shape) -> Shape:
    given = tuple(map(integer, values))
    if len(given) != len(shape):
        raise ArgumentError(
            f"IndexMap: '{name}' has one number per dimension",
            got=f"{given} for the shape {shape}",
            fix="as many numbers as the shape has dimensions",
        )
    return given
