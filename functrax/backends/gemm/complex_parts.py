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

from collections.abc import Sequence
from typing import Any

from functrax.backends.gemm.reduction_domains import sum_of_product
from functrax.backends.kernels.refusal import Refusal
from functrax.core.index.expr import Condition, Dim, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import mul, neg, sub
from functrax.core.prims.convert import conj, convert_element_type
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import Reindex, Reindexing, iota, map_of
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
    found = sum_of_product(jaxpr)
    if isinstance(found, Refusal):
        return found
    product, total = found
    refused = (_refusal_of(eqn, product) for eqn in jaxpr.eqns if eqn is not total)
    refusal = next((reason for reason in refused if reason is not None), None)
    return _Parts(jaxpr, product, total).program() if refusal is None else refusal


def _real(aval: ShapedArray) -> ShapedArray:
    """The type of the same bytes as real numbers."""
    if not dtypes.is_complex(aval.dtype):
        return aval
    return ShapedArray((*aval.shape, _PARTS), dtypes.real_dtype(aval.dtype))


def _refusal_of(eqn: Eqn, product: Eqn) -> Refusal | None:
    """Why an equation cannot be written with parts, if it cannot."""
    primitive = eqn.primitive
    is_reindexing = isinstance(primitive, Reindexing)
    refusal = Refusal(f"{primitive.name} of complex numbers")
    if is_reindexing and not _is_view(eqn):
        return refusal
    if eqn is not product and not dtypes.is_complex(eqn.outvars[0].aval.dtype):
        return refusal if any(dtypes.is_complex(x.aval.dtype) for x in eqn.invars) else None
    if not (eqn is product or is_reindexing or primitive in (convert_element_type, neg, conj)):
        return refusal
    numbers = any(isinstance(x, Literal) for x in eqn.invars)
    return Refusal("a product with a number") if numbers else None


def _is_view(eqn: Eqn) -> bool:
    """Whether an equation is a view of one array that is 0 where it reads nothing."""
    fill = eqn.params.get("fill")
    zero = fill is None or fill.val == 0
    return isinstance(eqn.primitive, Reindex) and len(eqn.invars) == 1 and zero


class _Parts:
    """Writes the program anew.

    A complex value has one more axis, that of its parts; the product has two, ``p`` and ``q``.

    Attributes:
      eqns: what was written so far.
      env: for each value the one in its place.
    """

    def __init__(self, jaxpr: Jaxpr, product: Eqn, total: Eqn) -> None:
        self.jaxpr = jaxpr
        self.eqns: list[Eqn] = []
        self.defs: dict[Atom, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
        self.product, self.total = product, total
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
                self.env[out] = self._around(eqn)
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
        if self._reads_first_in_vectors(eqn):
            sides.reverse()
        whole = (*shape, _PARTS, _PARTS)
        left = self._viewed(sides[0], whole, (*dims, p), eqn)
        right = self._viewed(sides[1], whole, (*dims, (p + q) % 2), eqn)
        return self._new(mul, (left, self._new(mul, (right, self._signs(whole, eqn)), eqn)), eqn)

    def _signs(self, shape: tuple[int, ...], like: Eqn) -> Var:
        """-1 for the product of two imaginary parts, ``p(1 - q)`` of them, else 1."""
        dtype = dtypes.real_dtype(self.product.outvars[0].aval.dtype)
        p, q = [self._part(shape, dtype, axis, like) for axis in (-2, -1)]
        real = self._new(sub, (Literal(1, ShapedArray((), dtype)), q), like)
        return self._sign(self._new(mul, (p, real), like), like)

    def _part(self, shape: tuple[int, ...], dtype: Any, axis: int, like: Eqn) -> Var:
        """The number of a part along an axis: 1 of imaginary ones."""
        return self._new(iota, (), like, shape=shape, dtype=dtype, axis=len(shape) + axis)

    def _sign(self, negative: Var, like: Eqn) -> Var:
        """-1 where a value is 1, and 1 where it is 0."""
        one, two = [Literal(n, ShapedArray((), negative.aval.dtype)) for n in (1, 2)]
        return self._new(sub, (one, self._new(mul, (two, negative), like)), like)

    def _reads_first_in_vectors(self, eqn: Eqn) -> bool:
        """Whether the first operand's neighbours are neighbours in the result, whose parts it has
        then, and not the second one's.
        """
        rank = len(eqn.outvars[0].aval.shape)
        first, second = [self._used(x, rank) for x in eqn.invars]
        shape, axes = self.total.invars[0].aval.shape, self.total.params["axes"]
        for d in reversed(range(rank)):
            if d not in axes and shape[d] > 1 and (d in first) != (d in second):
                return d in first
        return False

    def _used(self, x: Atom, rank: int) -> frozenset[int]:
        """The dims of the space that an operand of the product depends on."""
        exprs: Sequence[IndexExpr] = [Dim(k) for k in range(rank)]
        while x in self.defs:
            eqn = self.defs[x]
            if isinstance(eqn.primitive, Reindexing):
                dims = dict(enumerate(exprs))
                exprs = [e.substitute(dims) for e in map_of(eqn).exprs]
            x = eqn.invars[0]
        sizes = x.aval.shape
        return frozenset(
            d for e, size in zip(exprs, sizes, strict=True) if size > 1 for d in e.used_dims()
        )

    def _sum(self, eqn: Eqn) -> Var:
        x = self.env[eqn.invars[0]]
        rank = len(x.aval.shape) - 2
        return self._new(reduce_sum, (x,), eqn, axes=(*eqn.params["axes"], rank))

    # ---- what is around them --------------------------------------------------------------------

    def _around(self, eqn: Eqn) -> Var:
        """An equation whose result has one more axis, if it is complex."""
        primitive, (out,) = eqn.primitive, eqn.outvars
        if not dtypes.is_complex(out.aval.dtype):
            operands = [self.env.get(x, x) for x in eqn.invars]
            return self._new(primitive, operands, eqn, **eqn.params)
        if isinstance(primitive, Reindexing):
            return self._view(eqn)
        x = self.env[eqn.invars[0]]
        if primitive is convert_element_type:
            dtype = dtypes.real_dtype(out.aval.dtype)
            if x.aval.dtype != dtype:
                x = self._new(convert_element_type, (x,), eqn, dtype=dtype, weak_type=False)
            if dtypes.is_complex(eqn.invars[0].aval.dtype):
                return x
            return self._with_zeros(x, eqn)
        if primitive is neg:
            return self._new(neg, (x,), eqn)
        imaginary = self._part(x.aval.shape, x.aval.dtype, -1, eqn)
        return self._new(mul, (x, self._sign(imaginary, eqn)), eqn)

    def _view(self, eqn: Eqn) -> Var:
        old = map_of(eqn)
        shape, part = (*old.domain, _PARTS), Dim(len(old.domain))
        return self._viewed(self.env[eqn.invars[0]], shape, (*old.exprs, part), eqn, old.conditions)

    def _with_zeros(self, x: Var, like: Eqn) -> Var:
        """A real value as a complex one."""
        shape = x.aval.shape
        dims = [Dim(k) for k in range(len(shape))]
        return self._viewed(x, (*shape, _PARTS), dims, like, (Dim(len(shape)).eq(0),))
