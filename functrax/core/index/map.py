"""Index maps as data: which element of an array each point of an iteration space means.

What enters: shapes and integer expressions (:mod:`functrax.core.index.expr`).  What leaves: a
frozen, hashable :class:`IndexMap` that the reindex primitives carry as a parameter::

    reindex[f]:             O[o]    =  I[f(o)]   or fill, where the point o is not valid
    reindex_reduce[op, f]:  O[f(i)] op= I[i]     for the valid points i

A point is **valid** when every condition holds, every index is inside the codomain, and every
index array that is read is read inside its bounds.  Division is floor division.

Start at :class:`IndexMap`: the algebra first (compose, invert, batch), then proofs and NumPy
semantics, which live in :mod:`functrax.core.index.proofs` and :mod:`functrax.core.index.in_numpy`.
Constructors for the specialisations are in :mod:`functrax.core.index.map_constructors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from functrax.core.errors.typed import ShapeError
from functrax.core.index import in_numpy, proofs, specialisations
from functrax.core.index.bounds import LoadBounds, bounds, decide
from functrax.core.index.expr import Condition, Dim, Index, IndexExpr, Load
from functrax.core.index.in_numpy import Array, Indices, ScatterOp, Valid
from functrax.core.index.map_constructors import Constructors, check_axes
from functrax.core.index.map_form import Shape, size_of
from functrax.core.records import record

if TYPE_CHECKING:
    import numpy.typing as npt


@record
class IndexMap(Constructors):
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
        axes = check_axes("permute_domain", perm, len(self.domain))
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
