"""A sum of products of complex numbers as a sum of products of real ones.

What enters is the program of a ``contraction`` group of complex numbers.  What leaves computes the
same from the same bytes: an array of complex numbers is one of real numbers with one more axis, of
size 2, which is the last one; and of the two sides of a product ``x * y``, with a *part* ``p`` of
``x`` and a part ``q`` of the result,

    result[q] = sum over p of x[p] * y[(p + q) mod 2] * (-1 if p = 1 and q = 0 else 1)

So it is again one sum of one product, with one more dim that is summed, and one more that the
result and one of its sides have.  The side ``x`` is read where it is; what is done to ``y`` is done
while it is packed, conjugation and signs among it.  All else is as for real numbers: layouts,
batches, windows, derivatives, threads.  Each product of complex numbers is four multiply-adds.

Start at :func:`in_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrax.backends.kernels.refusal import Refusal
from functrax.backends.kernels.values import is_update, reduced_axes
from functrax.core.index.expr import Condition, Dim, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import mul, neg, sub
from functrax.core.prims.convert import conj, convert_element_type
from functrax.core.prims.mapped import reindex, reindex_reduce
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import Reindex, Reindexing, iota
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: Size of the axis of parts: the real one and the imaginary one.
_PARTS = 2


def in_parts(jaxpr: Jaxpr) -> Jaxpr | Refusal:
    """The program of a contraction, with real numbers alone.

    Args:
      jaxpr: of a ``contraction`` group whose results are complex.

    Returns:
      A program whose complex inputs and results have one more axis, the last one, of size 2.  They
      are the same bytes.  Refused if it has other operations than views, conversions, signs and
      conjugation around one product.
    """
    found: Jaxpr | Refusal | None = jaxpr.memo.get("in parts")
    if found is None:
        found = jaxpr.memo["in parts"] = _in_parts(jaxpr)
    return found


def _in_parts(jaxpr: Jaxpr) -> Jaxpr | Refusal:
    made: dict[Atom, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
    center = _center(jaxpr, made)
    if isinstance(center, Refusal):
        return center
    refused = [_refusal_beneath(center.product, made)]
    refused += [_refusal_of(eqn, center) for eqn in jaxpr.eqns]
    refusal = next((found for found in refused if found is not None), None)
    return _Parts(jaxpr, center, made).program() if refusal is None else refusal


def _real(aval: ShapedArray) -> ShapedArray:
    """The type of the same bytes as real numbers."""
    if not dtypes.is_complex(aval.dtype):
        return aval
    return ShapedArray((*aval.shape, _PARTS), _real_dtype(aval.dtype))


def _real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtypes.float32 if dtype == dtypes.complex64 else dtypes.float64


class _Center(NamedTuple):
    """What is multiplied and added up: the product, the sum, and what is between them."""

    product: Eqn
    total: Eqn
    between: set[Eqn]


def _center(jaxpr: Jaxpr, made: Mapping[Atom, Eqn]) -> _Center | Refusal:
    sums = [e for e in jaxpr.eqns if is_update(e) or reduced_axes(e) is not None]
    if len(sums) != 1:
        return Refusal("a contraction has one sum")
    between: set[Eqn] = set()
    eqn = made.get(sums[0].invars[0])
    while eqn is not None and eqn.primitive is not mul:
        between.add(eqn)
        eqn = made.get(eqn.invars[0])
    if eqn is None:
        return Refusal("a sum of something else than a product")
    return _Center(eqn, sums[0], between)


def _refusal_of(eqn: Eqn, center: _Center) -> Refusal | None:
    """Why an equation cannot be written with parts, if it cannot."""
    primitive = eqn.primitive
    refusal = Refusal(f"{primitive.name} of complex numbers")
    if eqn is center.total:
        windows = primitive is reindex_reduce and len(eqn.invars) == 1
        return None if windows or primitive is reduce_sum else refusal
    if eqn is not center.product and not dtypes.is_complex(eqn.outvars[0].aval.dtype):
        return refusal if any(dtypes.is_complex(x.aval.dtype) for x in eqn.invars) else None
    fits = eqn is center.product or _is_view(eqn)
    if not fits and primitive not in (convert_element_type, neg, conj):
        return refusal
    numbers = any(isinstance(x, Literal) for x in eqn.invars)
    return Refusal("a product with a number") if numbers else None


def _is_view(eqn: Eqn) -> bool:
    """Whether an equation is a view of one array that is 0 where it reads nothing."""
    fill = eqn.params.get("fill")
    zero = fill is None or fill.val == 0
    return isinstance(eqn.primitive, Reindex) and len(eqn.invars) == 1 and zero


def _refusal_beneath(product: Eqn, made: Mapping[Atom, Eqn]) -> Refusal | None:
    """Why it is not known which dims the operands of the product depend on."""
    for x in product.invars:
        while x in made:
            eqn = made[x]
            if isinstance(eqn.primitive, Reindexing) and not _is_view(eqn):
                return Refusal(f"{eqn.primitive.name} of complex numbers")
            x = eqn.invars[0]
    return None


class _Parts:
    """Writes the program anew.

    A complex value beneath the product has one more axis, that of its parts; from the product to
    the sum there are two, ``p`` and ``q``; after the sum one.

    Attributes:
      eqns: what was written so far.
      env: for each value the one in its place.
    """

    def __init__(self, jaxpr: Jaxpr, center: _Center, made: Mapping[Atom, Eqn]) -> None:
        self.jaxpr = jaxpr
        self.eqns: list[Eqn] = []
        self.defs = made
        self.product, self.total, self.between = center
        self.env: dict[Atom, Var] = {}

    def program(self) -> Jaxpr:
        """The new program."""
        inputs = [Var(_real(v.aval)) for v in self.jaxpr.invars]
        self.env.update(zip(self.jaxpr.invars, inputs, strict=True))
        for eqn in self.jaxpr.eqns:
            (out,) = eqn.outvars
            if eqn is self.product:
                self.env[out] = self._product(eqn)
            elif eqn is self.total:
                self.env[out] = self._sum(eqn)
            else:
                self.env[out] = self._around(eqn, 2 if eqn in self.between else 1)
        results = [self.env[v] for v in self.jaxpr.outvars]
        return Jaxpr((), inputs, results, self.eqns, self.jaxpr.name)

    def _new(self, primitive: Any, operands: Sequence[Atom], like: Eqn, **params: Any) -> Var:
        out = Var(primitive.infer(tuple([x.aval for x in operands]), params))
        self.eqns.append(Eqn(primitive, operands, (out,), params, like.source))
        return out

    def _viewed(
        self,
        x: Atom,
        shape: tuple[int, ...],
        exprs: Sequence[IndexExpr],
        like: Eqn,
        conditions: Sequence[Condition] = (),
    ) -> Var:
        """A value read at other points, 0 where there is none."""
        index_map = IndexMap(shape, x.aval.shape, tuple(exprs), tuple(conditions))
        fill = Literal(0, ShapedArray((), x.aval.dtype))
        return self._new(reindex, (x,), like, map=index_map, fill=fill)

    # ---- the product and its sum ----------------------------------------------------------------

    def _product(self, eqn: Eqn) -> Var:
        """The products of parts: at the points of the space, for each ``p`` and ``q``."""
        shape = eqn.outvars[0].aval.shape
        rank = len(shape)
        dims = [Dim(k) for k in range(rank)]
        p, q = Dim(rank), Dim(rank + 1)
        sides = [self.env[x] for x in eqn.invars]
        if self._read_in_vectors(eqn) == 0:
            sides.reverse()
        whole = (*shape, _PARTS, _PARTS)
        left = self._viewed(sides[0], whole, (*dims, p), eqn)
        right = self._viewed(sides[1], whole, (*dims, (p + q) % 2), eqn)
        return self._new(mul, (left, self._new(mul, (right, self._signs(whole, eqn)), eqn)), eqn)

    def _signs(self, shape: tuple[int, ...], like: Eqn) -> Var:
        """-1 for the product of two imaginary parts, else 1: ``1 - 2p(1 - q)``."""
        dtype = _real_dtype(self.product.outvars[0].aval.dtype)
        one, two = (Literal(n, ShapedArray((), dtype)) for n in (1, 2))
        rank = len(shape)
        p, q = (
            self._new(iota, (), like, shape=shape, dtype=dtype, axis=axis)
            for axis in (rank - 2, rank - 1)
        )
        twice = self._new(
            mul, (two, self._new(mul, (p, self._new(sub, (one, q), like)), like)), like
        )
        return self._new(sub, (one, twice), like)

    def _read_in_vectors(self, eqn: Eqn) -> int:
        """The operand whose neighbours are neighbours in the result, too: it has its parts."""
        rank = len(eqn.outvars[0].aval.shape)
        used = [self._used(x, rank) for x in eqn.invars]
        own = [used[0] - used[1], used[1] - used[0]]
        out = self._dims_of_result()
        for dims in reversed(out):
            for k in (1, 0):
                if dims and dims <= own[k]:
                    return k
        return 1

    def _used(self, x: Atom, rank: int) -> frozenset[int]:
        """The dims of the space that an operand of the product depends on."""
        exprs: Sequence[IndexExpr] = [Dim(k) for k in range(rank)]
        while x in self.defs:
            eqn = self.defs[x]
            if isinstance(eqn.primitive, Reindexing):
                dims = dict(enumerate(exprs))
                exprs = [e.substitute(dims) for e in self._map_of(eqn).exprs]
            x = eqn.invars[0]
        sizes = x.aval.shape
        return frozenset(
            d for e, size in zip(exprs, sizes, strict=True) if size > 1 for d in e.used_dims()
        )

    def _dims_of_result(self) -> list[frozenset[int]]:
        """For each axis of the sum's result the dims of its operand that it depends on."""
        shape = self.total.invars[0].aval.shape
        axes = reduced_axes(self.total)
        if axes is None:
            return [e.used_dims() for e in self.total.params["map"].exprs]
        return [frozenset((d,)) for d, n in enumerate(shape) if d not in axes and n > 1]

    def _sum(self, eqn: Eqn) -> Var:
        x = self.env[eqn.invars[0]]
        rank = len(x.aval.shape) - 2
        if eqn.primitive is reduce_sum:
            return self._new(reduce_sum, (x,), eqn, axes=(*eqn.params["axes"], rank))
        old: IndexMap = eqn.params["map"]
        index_map = IndexMap(
            (*old.domain, _PARTS, _PARTS),
            (*old.codomain, _PARTS),
            (*old.exprs, Dim(rank + 1)),
            old.conditions,
        )
        return self._new(reindex_reduce, (x,), eqn, map=index_map, op=eqn.params["op"])

    # ---- what is around them --------------------------------------------------------------------

    def _around(self, eqn: Eqn, more: int) -> Var:
        """An equation whose result has so many more axes, if it is complex."""
        primitive, (out,) = eqn.primitive, eqn.outvars
        if not dtypes.is_complex(out.aval.dtype):
            operands = [self.env.get(x, x) for x in eqn.invars]
            return self._new(primitive, operands, eqn, **eqn.params)
        if isinstance(primitive, Reindexing):
            return self._view(eqn, more)
        x = self.env[eqn.invars[0]]
        if primitive is convert_element_type:
            dtype = _real_dtype(out.aval.dtype)
            if x.aval.dtype != dtype:
                x = self._new(convert_element_type, (x,), eqn, dtype=dtype, weak_type=False)
            if dtypes.is_complex(eqn.invars[0].aval.dtype):
                return x
            return self._with_zeros(x, eqn)
        if primitive is neg:
            return self._new(neg, (x,), eqn)
        return self._conjugate(x, eqn, len(out.aval.shape) + more - 1)

    def _map_of(self, eqn: Eqn) -> IndexMap:
        """The map of a view of one array."""
        found: IndexMap = eqn.primitive.index_map(eqn.invars[0].aval, **eqn.params)  # type: ignore[attr-defined]
        return found

    def _view(self, eqn: Eqn, more: int) -> Var:
        old = self._map_of(eqn)
        rank = len(old.domain)
        parts = [Dim(rank + k) for k in range(more)]
        shape = (*old.domain, *(_PARTS for _ in parts))
        x = self.env[eqn.invars[0]]
        return self._viewed(x, shape, (*old.exprs, *parts), eqn, old.conditions)

    def _with_zeros(self, x: Var, like: Eqn) -> Var:
        """A real value as a complex one."""
        shape = x.aval.shape
        dims = [Dim(k) for k in range(len(shape))]
        return self._viewed(x, (*shape, _PARTS), dims, like, (Dim(len(shape)).eq(0),))

    def _conjugate(self, x: Var, like: Eqn, axis: int) -> Var:
        """The imaginary parts, which an axis counts, with the other sign: times ``1 - 2k``."""
        shape, dtype = x.aval.shape, x.aval.dtype
        one, two = (Literal(n, ShapedArray((), dtype)) for n in (1, 2))
        part = self._new(iota, (), like, shape=shape, dtype=dtype, axis=axis)
        signs = self._new(sub, (one, self._new(mul, (two, part), like)), like)
        return self._new(mul, (x, signs), like)
