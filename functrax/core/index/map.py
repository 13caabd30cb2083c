"""Index maps as data: which element of an array each point of an iteration space means.

What enters: shapes and integer expressions (:mod:`functrax.core.index.expr`).  What leaves: a
frozen, hashable :class:`IndexMap` that the reindex primitives carry as a parameter::

    reindex[f]:             O[o]    =  I[f(o)]   or fill, where the point o is not valid
    reindex_reduce[op, f]:  O[f(i)] op= I[i]     for the valid points i

A point is **valid** when every condition holds, every index is inside the codomain, and every
index array that is read is read inside its bounds.  Division is floor division.

Start at :class:`IndexMap`: constructors for the specialisations first, then the algebra
(compose, invert, batch), then proofs and NumPy semantics, which live in
:mod:`functrax.core.index.proofs` and :mod:`functrax.core.index.in_numpy`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from functrax.core.errors.typed import ArgumentError, AxisError, ShapeError
from functrax.core.index import in_numpy, proofs, specialisations
from functrax.core.index.bounds import LoadBounds, bounds, decide
from functrax.core.index.expr import Condition, Dim, Index, IndexExpr, Load, as_expr
from functrax.core.index.in_numpy import Array, Indices, ScatterOp, Valid
from functrax.core.index.map_form import (
    MapForm,
    Shape,
    check_shape,
    flatten,
    pad_parts,
    size_of,
    unflatten,
)
from functrax.core.records import record
from functrax.core.types.symbolic_sizes import integer

if TYPE_CHECKING:
    import numpy.typing as npt


@record
class IndexMap(MapForm):
    """A map from the points of ``domain`` to the elements of an array of shape ``codomain``.

    Args:
      domain: the shape of the iteration space.
      codomain: the shape of the array that is read (reindex) or written (reindex_reduce).
      exprs: one integer expression of ``Dim(0), Dim(1), …`` per codomain dimension.
      conditions: what must hold besides for a point to be valid.

    Raises:
      ArgumentError: the number of expressions is not the codomain's rank, or a dimension that
        the domain does not have is used.
      ShapeError: a size is negative or not an integer.

    Example:
      >>> import numpy as np
      >>> i, j = Dim(0), Dim(1)
      >>> f = IndexMap((4, 5), (9,), (i + j,), (((i - j) % 2).eq(0),))
      >>> print(f)
      {[4,5] -> [9]: (d0 + d1 | (d0 - d1)%2 == 0)}
      >>> f.gather(np.arange(9), fill=-1)[1]
      array([-1,  2, -1,  4, -1])
    """

    # ---- constructors -------------------------------------------------------------------------

    @classmethod
    def from_function(
        cls,
        domain: Iterable[int],
        codomain: Iterable[int],
        fn: Callable[..., Iterable[Index | Condition]],
    ) -> IndexMap:
        """The map that ``fn`` writes down.

        Args:
          domain: the shape of the iteration space.
          codomain: the shape of the array.
          fn: called with one ``Dim`` per domain dimension; returns the expressions in order, and
            anywhere among them the conditions.

        Example:
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
    def identity(cls, shape: Iterable[int]) -> IndexMap:
        """Every point means itself."""
        sizes = check_shape(shape, "shape")
        return cls(sizes, sizes, tuple(Dim(k) for k in range(len(sizes))))

    @classmethod
    def broadcast(
        cls, shape_in: Iterable[int], shape_out: Iterable[int], dims: Iterable[int]
    ) -> IndexMap:
        """Operand dimension ``j`` becomes result dimension ``dims[j]``; the others are repeated.

        Args:
          shape_in: the operand's shape; a size of 1 is repeated.
          shape_out: the result's shape.
          dims: a different result dimension for each operand dimension.

        Example:
          >>> print(IndexMap.broadcast((3, 1), (2, 3, 4), (1, 2)))
          {[2,3,4] -> [3,1]: (d1, 0)}
        """
        operand = check_shape(shape_in, "operand's shape")
        result = check_shape(shape_out, "result's shape")
        axes = _check_axes("broadcast", dims, len(result))
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
    def transpose(cls, shape: Iterable[int], perm: Iterable[int]) -> IndexMap:
        """Result dimension ``k`` is operand dimension ``perm[k]``.

        Example:
          >>> print(IndexMap.transpose((2, 3, 4), (2, 0, 1)))
          {[4,2,3] -> [2,3,4]: (d1, d2, d0)}
        """
        sizes = check_shape(shape, "shape")
        axes = _check_axes("transpose", perm, len(sizes))
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
    def reshape(cls, shape_in: Iterable[int], shape_out: Iterable[int]) -> IndexMap:
        """The element at the same row-major position.

        Example:
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
        cls,
        shape: Iterable[int],
        start: Iterable[int],
        limit: Iterable[int],
        stride: Iterable[int] | None = None,
    ) -> IndexMap:
        """The elements ``range(start, limit, stride)`` of each dimension.

        Args:
          shape: the operand's shape.
          start: the first index of each dimension.
          limit: the index to stop before; -1 with a negative stride takes the element 0 too.
          stride: not 0; 1 when omitted.

        Example:
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
        cls,
        shape: Iterable[int],
        low: Iterable[int],
        high: Iterable[int],
        interior: Iterable[int] | None = None,
    ) -> IndexMap:
        """Fill values around and between the elements, as XLA's Pad.

        Args:
          shape: the operand's shape.
          low: how many to add before each dimension; negative numbers take elements away.
          high: how many to add after.
          interior: how many to add between neighbours; not negative.

        Example:
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
    def reverse(cls, shape: Iterable[int], axes: Iterable[int]) -> IndexMap:
        """The axes named, back to front.

        Example:
          >>> print(IndexMap.reverse((3, 4), (1,)))
          {[3,4] -> [3,4]: (d0, -d1 + 3)}
        """
        sizes = check_shape(shape, "shape")
        turned = _check_axes("reverse", axes, len(sizes))
        exprs = (size - 1 - Dim(k) if k in turned else Dim(k) for k, size in enumerate(sizes))
        return cls(sizes, sizes, tuple(exprs))

    @classmethod
    def reduction(cls, shape: Iterable[int], axes: Iterable[int]) -> IndexMap:
        """The map by which a reindex_reduce reduces the axes named.

        Example:
          >>> print(IndexMap.reduction((2, 3, 4), (1,)))
          {[2,3,4] -> [2,4]: (d0, d2)}
        """
        sizes = check_shape(shape, "shape")
        gone = _check_axes("reduction", axes, len(sizes))
        kept = [k for k in range(len(sizes)) if k not in gone]
        return cls(sizes, tuple(sizes[k] for k in kept), tuple(Dim(k) for k in kept))

    # ---- algebra ------------------------------------------------------------------------------

    def compose(self, inner: IndexMap, load_offset: int | None = None) -> IndexMap:
        """The map ``o -> inner(self(o))``.

        If ``O[o] = M[self(o)]`` and ``M[m] = I[inner(m)]``, then ``O[o] = I[composed(o)]``.  A
        point is valid when it is valid for ``self`` and its image is valid for ``inner``; so the
        composition is right only where both reindexes fill with the same value, or where one
        of them is total.  **The caller checks that.**

        Args:
          inner: the map of ``M``; its domain is the codomain of ``self``.
          load_offset: added to the numbers of ``inner``'s extra operands, while those of ``self``
            stay; ``self.num_loads`` when omitted, so that ``inner``'s follow.

        Raises:
          ShapeError: the codomain of ``self`` is not the domain of ``inner``.

        Example:
          >>> rows = IndexMap.slice_((8, 4), (2, 0), (6, 4))
          >>> print(IndexMap.transpose((4, 4), (1, 0)).compose(rows))
          {[4,4] -> [8,4]: (d1 + 2, d0)}
        """
        if self.codomain != inner.domain:
            raise ShapeError(
                "IndexMap.compose: the maps do not meet",
                got=f"{self} then {inner}",
                fix="the first map's codomain is the second one's domain",
            )
        dims = dict(enumerate(self.exprs))
        offset = self.num_loads if load_offset is None else load_offset

        def renumber(operand: int, indices: tuple[IndexExpr, ...]) -> IndexExpr:
            return Load(operand + offset, indices)

        return IndexMap(
            self.domain,
            inner.codomain,
            tuple(expr.substitute(dims, renumber) for expr in inner.exprs),
            (
                *self.conditions,
                *(condition.substitute(dims, renumber) for condition in inner.conditions),
                *self.bounds_conditions(),
            ),
        )

    def bounds_conditions(self) -> tuple[Condition, ...]:
        """``0 <= expr < size`` for every expression of which it is not proven.

        Example:
          >>> IndexMap.pad((3,), (1,), (0,)).bounds_conditions()
          (Condition(d0 - 1 >= 0),)
        """
        asked: list[Condition] = []
        for expr, size in zip(self.exprs, self.codomain, strict=True):
            interval = bounds(expr, self.domain)
            if interval is None or interval[0] < 0:
                asked.append(expr >= 0)
            if interval is None or interval[1] >= size:
                asked.append(expr < size)
        return tuple(asked)

    def batched(
        self, size: int, loads_batched: Sequence[bool] = (), operand_batched: bool = True
    ) -> IndexMap:
        """The map with a new leading domain dimension, as batching makes it.

        Args:
          size: the extent of the new dimension.
          loads_batched: for each extra operand, whether it has the new dimension in front.
          operand_batched: whether the array has the new dimension in front; if not, every
            element of the batch uses the same one.

        Example:
          >>> take = IndexMap((5,), (9,), (Load(0, [Dim(0)]),))
          >>> print(take.batched(3, (True,)))
          {[3,5] -> [3,9]: (d0, e0(d0, d1))}
        """
        dims = {k: Dim(k + 1) for k in range(len(self.domain))}
        batched = [number for number, flag in enumerate(loads_batched) if flag]

        def lead(operand: int, indices: tuple[IndexExpr, ...]) -> IndexExpr:
            return Load(operand, (Dim(0), *indices) if operand in batched else indices)

        exprs = tuple(expr.substitute(dims, lead) for expr in self.exprs)
        return IndexMap(
            (size, *self.domain),
            (size, *self.codomain) if operand_batched else self.codomain,
            (Dim(0), *exprs) if operand_batched else exprs,
            tuple(condition.substitute(dims, lead) for condition in self.conditions),
        )

    def substitute(self, domain: Iterable[int], dims: Mapping[int, Index]) -> IndexMap:
        """The map over another domain, with an expression in place of each dimension in ``dims``.

        Example:
          >>> print(IndexMap.identity((12,)).substitute((3, 4), {0: 4 * Dim(0) + Dim(1)}))
          {[3,4] -> [12]: (4*d0 + d1)}
        """
        return IndexMap(
            tuple(domain),
            self.codomain,
            tuple(expr.substitute(dims) for expr in self.exprs),
            tuple(condition.substitute(dims) for condition in self.conditions),
        )

    def permute_domain(self, perm: Iterable[int]) -> IndexMap:
        """The map whose domain dimension ``k`` is dimension ``perm[k]`` of this one.

        Example:
          >>> print(IndexMap.reduction((2, 3), (1,)).permute_domain((1, 0)))
          {[3,2] -> [2]: (d1)}
        """
        axes = _check_axes("permute_domain", perm, len(self.domain))
        domain = tuple(self.domain[axis] for axis in axes)
        return self.substitute(domain, {axis: Dim(k) for k, axis in enumerate(axes)})

    def drop_unused_dims(self) -> tuple[IndexMap, tuple[int, ...]]:
        """The map without the domain dimensions that nothing depends on, and those that stay.

        Example:
          >>> smaller, kept = IndexMap.broadcast((3,), (2, 3, 4), (1,)).drop_unused_dims()
          >>> print(smaller, kept)
          {[3] -> [3]: (d0)} (1,)
        """
        kept = tuple(sorted(self.used_dims()))
        domain = tuple(self.domain[k] for k in kept)
        return self.substitute(domain, {k: Dim(n) for n, k in enumerate(kept)}), kept

    def invert(self) -> IndexMap | None:
        """The map from elements to the points that mean them, when it is proven unique.

        For the result ``g``: a codomain point ``m`` is valid for ``g`` exactly when a valid point
        ``o`` has ``f(o) = m``, and then ``g(m) = o``.  So ``reindex_reduce`` by ``f`` is
        ``reindex`` by ``g``, filled with the identity.  None when uniqueness is not proven.

        Example:
          >>> print(IndexMap.slice_((9,), (1,), (9,), (2,)).invert())
          {[9] -> [4]: ((d0 + 1)//2 - 1 | (d0 + 1)%2 == 0)}
          >>> print(IndexMap.broadcast((3,), (2, 3), (1,)).invert())
          None
        """
        solution = proofs.solve(self)
        if solution is None:
            return None
        dims = dict(enumerate(solution))
        there_and_back = (expr.substitute(dims).eq(Dim(j)) for j, expr in enumerate(self.exprs))
        conditions = (condition.substitute(dims) for condition in self.conditions)
        return IndexMap(self.codomain, self.domain, solution, (*conditions, *there_and_back))

    # ---- proofs: True means proven, False means not known -------------------------------------

    def in_bounds(
        self,
        load_bounds: LoadBounds | None = None,
        load_shapes: Mapping[int, Shape] | None = None,
    ) -> bool:
        """See :func:`functrax.core.index.proofs.in_bounds`."""
        return proofs.in_bounds(self, load_bounds, load_shapes)

    def total(
        self,
        load_bounds: LoadBounds | None = None,
        load_shapes: Mapping[int, Shape] | None = None,
    ) -> bool:
        """Whether every point is proven valid: no bounds check, no fill."""
        return proofs.total(self, load_bounds, load_shapes)

    def void(self) -> bool:
        """Whether it is proven that no point is valid, as in a window that sees padding alone.

        Example:
          >>> IndexMap.pad((0,), (2,), (3,)).void()
          True
        """
        if size_of(self.codomain) == 0:
            return True
        asked = (*self.conditions, *self.bounds_conditions())
        return any(decide(condition, self.domain) is False for condition in asked)

    def injective(self) -> bool:
        """Whether it is proven that no two valid points mean the same element."""
        return proofs.injective(self)

    def surjective(self) -> bool:
        """Whether it is proven that a valid point means each element."""
        if size_of(self.codomain) == 0:
            return True
        if size_of(self.domain) == 0:
            return False
        smaller, _ = self.drop_unused_dims()
        inverse = smaller.invert()
        return (inverse is not None and inverse.total()) or proofs.covers(smaller)

    def contiguous(self) -> bool:
        """Whether the address is proven to be a constant plus the row-major position."""
        return proofs.contiguous(self)

    # ---- recognition ----------------------------------------------------------------------------

    @property
    def is_identity(self) -> bool:
        """Whether every point means itself."""
        return specialisations.is_identity(self)

    @property
    def is_reshape(self) -> bool:
        """Whether every point means the element at its own row-major position, and all occur."""
        return specialisations.is_reshape(self)

    def as_transpose(self) -> Shape | None:
        """``perm``: domain dimension ``k`` is codomain dimension ``perm[k]``."""
        return specialisations.as_transpose(self)

    def as_broadcast(self) -> Shape | None:
        """``dims``: codomain dimension ``j`` is domain dimension ``dims[j]``, increasing."""
        return specialisations.as_broadcast(self)

    def as_slice(self) -> tuple[Shape, Shape] | None:
        """``(start, stride)`` per dimension of a slice inside the array."""
        return specialisations.as_slice(self)

    def as_reverse(self) -> Shape | None:
        """The axes that are reversed, when nothing else happens."""
        return specialisations.as_reverse(self)

    def as_pad(self) -> tuple[Shape, Shape, Shape] | None:
        """``(low, high, interior)`` of a padding."""
        return specialisations.as_pad(self)

    def describe(self) -> str:
        """The narrowest name for the map; see :func:`functrax.core.index.specialisations.describe`.

        Example:
          >>> IndexMap.transpose((2, 3), (1, 0)).describe()
          'transpose'
        """
        return specialisations.describe(self)

    # ---- meaning, in NumPy ---------------------------------------------------------------------

    def evaluate(self, loads: Sequence[npt.ArrayLike] = ()) -> tuple[tuple[Indices, ...], Valid]:
        """See :func:`functrax.core.index.in_numpy.evaluate`."""
        return in_numpy.evaluate(self, loads)

    def gather(
        self, array: npt.ArrayLike, loads: Sequence[npt.ArrayLike] = (), fill: object = 0
    ) -> Array:
        """``O[o] = array[f(o)]``; see :func:`functrax.core.index.in_numpy.gather`."""
        return in_numpy.gather(self, array, loads, fill)

    def scatter(
        self,
        values: npt.ArrayLike,
        out_shape: Shape,
        op: ScatterOp,
        identity: npt.ArrayLike,
        loads: Sequence[npt.ArrayLike] = (),
    ) -> Array:
        """``O[f(i)] op= values[i]``; see :func:`functrax.core.index.in_numpy.scatter`."""
        return in_numpy.scatter(self, values, out_shape, op, identity, loads)


def _check_axes(name: str, axes: Iterable[int], rank: int) -> Shape:
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
