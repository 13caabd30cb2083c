"""Products of rows that are looked up: multiplied where there are fewer of them.

A network on a graph multiplies what it looks up for each edge, and adds up, for each node, what was
multiplied for its edges.  Looking up rows, and adding up rows by their numbers, changes places with
a product with something that does not depend on the rows:

- ``table[i] @ w`` is ``(table @ w)[i]``;
- ``table[i].T @ d`` is ``table.T @ s`` where ``s`` has the sums of the rows of ``d`` by ``i``;
- the sums of the rows of ``d @ w.T`` by ``i`` are ``s @ w.T``.

With fewer rows in the table than are looked up these are as many products less.  Where operands are
concatenated, the product is one of each part.  It pays if the products take longer than what goes
through memory instead.  Rows that nobody looks up have no part in the sums of the second and the
third; they are set to 0, so that an infinity in one of them is not multiplied by 0.

Sums are added up in another order, so strict mode leaves them.  Start at :func:`gathers`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from functrax.backends.cost import about, memory_ns, products_ns
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import EFFORT, Rewrites
from functrax.backends.targets import target
from functrax.core.errors.source import SourceLine
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul, select_n
from functrax.core.prims.comparisons import gt
from functrax.core.prims.mapped import reindex, reindex_reduce
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, transpose
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


@record
class _Factor:
    """A factor of a product: an array, each dim of which is one of the product's.

    Args:
      source: the array.
      dims: of each of its dims the product's.
    """

    source: Var
    dims: tuple[int, ...]


@record
class _Product:
    """A sum of products of two factors.

    Args:
      shape: over what it is.
      axes: along which it is added up.
      factors: both.
      source: the user's line.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    factors: tuple[_Factor, _Factor]
    source: SourceLine | None

    @property
    def kept(self) -> list[int]:
        """The dims of the result."""
        return [d for d in range(len(self.shape)) if d not in self.axes]


@record
class _Lookup:
    """An array of rows of a table.

    Args:
      table: the table, or what the rows are added up to.
      index: the numbers of the rows.
      row: the dim of the table that they number.
      at: of each dim of ``index`` the array's.
      rest: of each dim of the table the array's; -1 for ``row``.
    """

    table: ShapedArray
    index: Atom
    row: int
    at: tuple[int, ...]
    rest: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return self.table.shape[self.row]


def gathers(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with products on the side of lookups where there are fewer rows."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: gathers(inner, rewrites))
    if not any(_looks_up(eqn) for eqn in eqns):
        return with_eqns(jaxpr, eqns)
    return with_eqns(jaxpr, _Work(jaxpr, eqns, rewrites).done())


def _looks_up(eqn: Eqn) -> bool:
    return eqn.primitive in (reindex, reindex_reduce) and bool(eqn.params["map"].num_loads)


class _Work:
    """The work on one program.

    Attributes:
      made: the equation that makes a value.
      uses: how often a value is used.
      out: the equations so far.
    """

    def __init__(self, jaxpr: Jaxpr, eqns: Sequence[Eqn], rewrites: Rewrites) -> None:
        self.eqns = eqns
        self.rewrites = rewrites
        self.made: dict[Atom, Eqn] = {v: eqn for eqn in eqns for v in eqn.outvars}
        self.uses = Counter(jaxpr.outvars)
        for eqn in eqns:
            self.uses.update(eqn.invars)
        self.out: list[Eqn] = []

    def done(self) -> list[Eqn]:
        """The equations, some of them rewritten."""
        for eqn in self.eqns:
            if eqn.primitive is reduce_sum:
                found = self._of_lookups(eqn)
            elif eqn.primitive is reindex_reduce and eqn.params["op"] == "add":
                found = self._of_sums(eqn)
            else:
                found = None
            if found is None:
                self.out.append(eqn)
                continue
            last = self.out.pop()  # which made the result
            assert last.outvars[0] is found
            self.out.append(Eqn(last.primitive, last.invars, eqn.outvars, last.params, last.source))
        return self.out

    # ---- what is there --------------------------------------------------------------------------

    def _product(self, x: Atom) -> _Product | None:
        """The sum of products that a value is."""
        eqn = self.made.get(x)
        if eqn is None or eqn.primitive is not reduce_sum:
            return None
        times = self.made.get(eqn.invars[0])
        if times is None or times.primitive is not mul:
            return None
        if times.outvars[0].aval.dtype not in (dtypes.float32, dtypes.float64):
            return None  # sums of narrower ones would be rounded between
        factors = [self._factor(x) for x in times.invars]
        if factors[0] is None or factors[1] is None:
            return None
        shape, axes = times.outvars[0].aval.shape, eqn.params["axes"]
        return _Product(shape, tuple(axes), (factors[0], factors[1]), eqn.source)

    def _factor(self, x: Atom) -> _Factor | None:
        """A factor of a product by what it repeats and turns."""
        dims = tuple(range(x.aval.ndim))
        eqn = self.made.get(x)
        if eqn is not None and eqn.primitive is broadcast_in_dim:
            source, to = eqn.invars[0], eqn.params["dims"]
            if source.aval.shape == tuple([eqn.params["shape"][d] for d in to]):
                x, dims = source, tuple(to)
                eqn = self.made.get(x)
        if eqn is not None and eqn.primitive is transpose:
            x, perm = eqn.invars[0], eqn.params["perm"]
            dims = tuple([dims[perm.index(k)] for k in range(len(perm))])
        return _Factor(x, dims) if isinstance(x, Var) else None

    def _lookup(self, x: Var) -> tuple[_Lookup, Var, float] | None:
        """The lookup that an array is, the table, and what it has where there is no such row."""
        eqn = self.made.get(x)
        if eqn is None or eqn.primitive is not reindex or len(eqn.invars) != 2:
            return None
        table, index = eqn.invars
        fill = float(eqn.params["fill"].val)
        found = _lookup_of(eqn.params["map"], table.aval, index)
        if found is None or not isinstance(table, Var) or not (fill == 0 or math.isnan(fill)):
            return None
        return found, table, fill

    # ---- products of lookups --------------------------------------------------------------------

    def _of_lookups(self, eqn: Eqn) -> Var | None:
        """A sum of products of rows that are looked up; None if it is to stay as it is."""
        product = self._product(eqn.outvars[0])
        if product is None:
            return None
        for k in (0, 1):
            x, y = product.factors[k], product.factors[1 - k]
            parts = self._parts(product, x, y)
            if parts is None:
                continue
            places = [self._pays(part) for part in parts]
            if not any(places) or not self.rewrites.allow("a product of rows looked up", eqn):
                continue
            made = [self._written(p, pays) for p, pays in zip(parts, places, strict=True)]
            if len(made) == 1:
                return made[0]
            joined = self.made[x.source].params["axis"]
            if x.dims[joined] in product.axes:
                total = made[0]
                for more in made[1:]:
                    total = self._eqn(add, (total, more), total.aval, product.source)
                return total
            axis = product.kept.index(x.dims[joined])
            return self._eqn(concatenate, made, eqn.outvars[0].aval, product.source, axis=axis)
        return None

    def _parts(self, product: _Product, x: _Factor, y: _Factor) -> list[_Product] | None:
        """The product, with the factor that may be a lookup first; one for each part of it."""
        eqn = self.made.get(x.source)
        if eqn is None or eqn.primitive is not concatenate:
            return [_Product(product.shape, product.axes, (x, y), product.source)]
        axis = eqn.params["axis"]
        dim, begin, parts = x.dims[axis], 0, []
        if len(eqn.invars) > EFFORT or not all(isinstance(v, Var) for v in eqn.invars):
            return None
        if dim in y.dims and dim not in product.axes:
            return None
        if not any(self._lookup(v) for v in eqn.invars if isinstance(v, Var)):
            return None
        for v in eqn.invars:
            assert isinstance(v, Var)
            end = begin + v.aval.shape[axis]
            shape = tuple([end - begin if d == dim else n for d, n in enumerate(product.shape)])
            factors = (_Factor(v, x.dims), self._cut(y, dim, begin, end, product.source))
            parts.append(_Product(shape, product.axes, factors, product.source))
            begin = end
        return parts

    def _cut(
        self, x: _Factor, dim: int, begin: int, end: int, source: SourceLine | None
    ) -> _Factor:
        """A part of a factor along a dim of the product."""
        if dim not in x.dims:
            return x
        axis, shape = x.dims.index(dim), x.source.aval.shape
        bounds = [(begin, end) if k == axis else (0, n) for k, n in enumerate(shape)]
        return _Factor(self._slice(x.source, bounds, source), x.dims)

    def _slice(self, x: Var, bounds: Sequence[tuple[int, int]], source: SourceLine | None) -> Var:
        start, limit = (tuple(ends) for ends in zip(*bounds, strict=True))
        aval = x.aval.update(shape=tuple([b - a for a, b in bounds]))
        params = {"start": start, "limit": limit, "strides": (1,) * len(bounds)}
        return self._eqn(slice_, (x,), aval, source, **params)

    def _pays(self, product: _Product) -> bool:
        """Whether the first factor is a lookup, and fewer products save time."""
        x, y = product.factors
        found = self._lookup(x.source)
        if found is None:
            return False
        lookup, _, fill = found
        places = [x.dims[k] for k in lookup.at]
        if not places:
            return False  # a single row
        before = y.source.aval if places[0] in product.axes else _result(product)
        if places[0] in product.axes:  # what is not looked up takes no part, so it has to be 0
            fits = fill == 0 and all(d in product.axes and d in y.dims for d in places)
        else:
            fits = all(d not in product.axes and d not in y.dims for d in places)
        return fits and _saves(product, places, lookup.rows, before)

    def _written(self, product: _Product, pays: bool) -> Var:
        """The equations of a product whose first factor may be a lookup."""
        if not pays:
            return self._multiplied(product)
        x, y = product.factors
        found = self._lookup(x.source)
        assert found is not None
        lookup, table, fill = found
        places = [x.dims[k] for k in lookup.at]
        # The dims of the product on the other side: the row, then those that are no lookup's.
        other = [d for d in range(len(product.shape)) if d not in places]
        new = {d: n + 1 for n, d in enumerate(other)}
        shape = (lookup.rows, *[product.shape[d] for d in other])
        dims = tuple([0 if k < 0 else new[x.dims[k]] for k in lookup.rest])
        if places[0] in product.axes:
            order = [y.dims.index(d) for d in places]
            sums = self._added_up(y.source, lookup, order, product.source)
            rest = [k for k in range(len(y.dims)) if k not in order]
            right = _Factor(sums, (0, *[new[y.dims[k]] for k in rest]))
            left = _Factor(self._only_looked_up(table, lookup, product.source), dims)
            axes = (0, *[new[d] for d in product.axes if d not in places])
            return self._multiplied(_Product(shape, axes, (left, right), product.source))
        right = _Factor(y.source, tuple([new[d] for d in y.dims]))
        axes = tuple([new[d] for d in product.axes])
        rows = self._multiplied(
            _Product(shape, axes, (_Factor(table, dims), right), product.source)
        )
        at = {d: n for n, d in enumerate(product.kept)}
        row = Load(0, [Dim(at[d]) for d in places])
        kept = [Dim(at[d]) for d in other if d not in product.axes]
        aval = _result(product)
        index_map = IndexMap(aval.shape, rows.aval.shape, (row, *kept))
        filled = Literal(fill, aval.update(shape=()))
        return self._eqn(
            reindex, (rows, lookup.index), aval, product.source, map=index_map, fill=filled
        )

    # ---- sums of products by row ----------------------------------------------------------------

    def _of_sums(self, eqn: Eqn) -> Var | None:
        """Products that are added up by row: added up before; None if they are to stay."""
        if len(eqn.invars) != 2:
            return None
        x, index = eqn.invars
        lookup = _lookup_of(eqn.params["map"], eqn.outvars[0].aval, index)
        cut = self.made.get(x)
        if cut is None or cut.primitive is not slice_ or set(cut.params["strides"] or (1,)) != {1}:
            cut = None
        whole = x if cut is None else cut.invars[0]
        product = self._product(whole)
        if lookup is None or product is None or self.uses[x] != 1:
            return None
        if self.uses[whole] != 1 and (cut is None or not self._is_only_cut(whole)):
            return None
        places = [product.kept[k] for k in lookup.at]
        first = [f for f in product.factors if all(d in f.dims for d in places)]
        others = [f for f in product.factors if not any(d in f.dims for d in places)]
        if len(first) != 1 or len(others) != 1:
            return None
        if not _saves(product, places, lookup.rows, first[0].source.aval):
            return None
        if not self.rewrites.allow("products added up by row", eqn):
            return None
        if cut is not None:
            ends = zip(cut.params["start"], cut.params["limit"], strict=True)
            product = self._of_part(product, list(ends), (first[0], others[0]))
            first, others = [product.factors[0]], [product.factors[1]]
        return self._summed_before(eqn, lookup, product, places)

    def _is_only_cut(self, whole: Atom) -> bool:
        """Whether all that uses a value are parts that are added up by row."""
        cuts = [e for e in self.eqns if whole in e.invars]
        parts = [e.outvars[0] for e in cuts if e.primitive is slice_]
        summed = {e.invars[0] for e in self.eqns if e.primitive is reindex_reduce}
        return len(parts) == self.uses[whole] and all(v in summed for v in parts)

    def _of_part(
        self, product: _Product, bounds: list[tuple[int, int]], factors: tuple[_Factor, _Factor]
    ) -> _Product:
        """The product of which the result is a part of another one's."""
        shape, (x, y) = list(product.shape), factors
        for d, (begin, end) in zip(product.kept, bounds, strict=True):
            if end - begin != shape[d]:
                x = self._cut(x, d, begin, end, product.source)
                y = self._cut(y, d, begin, end, product.source)
                shape[d] = end - begin
        return _Product(tuple(shape), product.axes, (x, y), product.source)

    def _summed_before(
        self, eqn: Eqn, lookup: _Lookup, product: _Product, places: list[int]
    ) -> Var:
        x, y = product.factors
        order = [x.dims.index(d) for d in places]
        sums = self._added_up(x.source, lookup, order, eqn.source)
        other = [d for d in range(len(product.shape)) if d not in places]
        new = {d: n + 1 for n, d in enumerate(other)}
        rest = [k for k in range(len(x.dims)) if k not in order]
        left = _Factor(sums, (0, *[new[x.dims[k]] for k in rest]))
        right = _Factor(y.source, tuple([new[d] for d in y.dims]))
        shape = (lookup.rows, *[product.shape[d] for d in other])
        axes = tuple([new[d] for d in product.axes])
        found = self._multiplied(_Product(shape, axes, (left, right), product.source))
        # Now the row comes first, then the kept dims in order; the table has them in its own.
        kept = [d for d in product.kept if d not in places]
        perm = [0 if k < 0 else 1 + kept.index(product.kept[k]) for k in lookup.rest]
        if perm != sorted(perm):
            aval = found.aval.update(shape=tuple([found.aval.shape[k] for k in perm]))
            found = self._eqn(transpose, (found,), aval, eqn.source, perm=tuple(perm))
        return self._only_looked_up(found, lookup, eqn.source)

    # ---- equations ------------------------------------------------------------------------------

    def _eqn(
        self,
        primitive: Primitive,
        operands: Sequence[Atom],
        aval: ShapedArray,
        source: SourceLine | None,
        **params: object,
    ) -> Var:
        v = Var(aval)
        self.out.append(Eqn(primitive, tuple(operands), (v,), params, source))
        return v

    def _spread(
        self, x: Atom, shape: tuple[int, ...], dims: Sequence[int], source: SourceLine | None
    ) -> Var:
        aval = x.aval.update(shape=shape)
        return self._eqn(broadcast_in_dim, (x,), aval, source, shape=shape, dims=tuple(dims))

    def _multiplied(self, product: _Product) -> Var:
        spread = [self._spread(f.source, product.shape, f.dims, product.source)
                  for f in product.factors]  # fmt: skip
        times = self._eqn(mul, spread, spread[0].aval, product.source)
        aval = _result(product)
        return self._eqn(reduce_sum, (times,), aval, product.source, axes=product.axes)

    def _added_up(
        self, x: Var, lookup: _Lookup, order: list[int], source: SourceLine | None
    ) -> Var:
        """The sums of the rows of an array by their numbers, which come first."""
        rest = [k for k in range(x.aval.ndim) if k not in order]
        shape = (lookup.rows, *[x.aval.shape[k] for k in rest])
        row = Load(0, [Dim(k) for k in order])
        index_map = IndexMap(x.aval.shape, shape, (row, *[Dim(k) for k in rest]))
        aval = x.aval.update(shape=shape)
        return self._eqn(reindex_reduce, (x, lookup.index), aval, source, map=index_map, op="add")

    def _only_looked_up(self, x: Var, lookup: _Lookup, source: SourceLine | None) -> Var:
        """The rows of a table that are looked up; 0 in place of the others."""
        numbers = lookup.index.aval
        counts = ShapedArray(numbers.shape, np.dtype(np.int32))
        ones = self._spread(Literal(1, counts.update(shape=())), numbers.shape, (), source)
        index_map = IndexMap(
            numbers.shape, (lookup.rows,), (Load(0, [Dim(k) for k in range(numbers.ndim)]),)
        )
        count = self._eqn(
            reindex_reduce, (ones, lookup.index), counts.update(shape=(lookup.rows,)), source,
            map=index_map, op="add",
        )  # fmt: skip
        some = self._eqn(
            gt,
            (count, Literal(0, counts.update(shape=()))),
            ShapedArray(count.aval.shape, np.dtype(np.bool_)),
            source,
        )
        chosen = self._spread(some, x.aval.shape, (lookup.row,), source)
        zero = Literal(0, x.aval.update(shape=()))
        return self._eqn(select_n, (chosen, zero, x), x.aval, source)


def _lookup_of(index_map: IndexMap, table: ShapedArray, index: Atom) -> _Lookup | None:
    """The lookup that a map is: one dim by numbers in an array, the others as they are."""
    exprs, domain = index_map.exprs, index_map.domain
    loads = [k for k, e in enumerate(exprs) if isinstance(e, Load)]
    if index_map.conditions or index_map.num_loads != 1 or len(loads) != 1:
        return None
    (row,), load = loads, exprs[loads[0]]
    assert isinstance(load, Load)
    at = [e.number for e in load.indices if isinstance(e, Dim)]
    rest = [e.number if isinstance(e, Dim) else -1 for e in exprs]
    if len(at) != len(load.indices) or rest.count(-1) != 1:
        return None
    if sorted([*at, *[d for d in rest if d >= 0]]) != list(range(len(domain))):
        return None
    whole = all(d < 0 or domain[d] == n for d, n in zip(rest, index_map.codomain, strict=True))
    if not whole or tuple([domain[d] for d in at]) != index.aval.shape:
        return None
    return _Lookup(table, index, row, tuple(at), tuple(rest))


def _result(product: _Product) -> ShapedArray:
    aval = product.factors[0].source.aval
    return ShapedArray(tuple([product.shape[d] for d in product.kept]), aval.dtype)


def _saves(product: _Product, places: list[int], rows: int, moved: ShapedArray) -> bool:
    """Whether the products that are not made take longer than to move an array once more."""
    shape, machine = product.shape, target()
    other = about(tuple([n for d, n in enumerate(shape) if d not in places]))
    fewer = about(tuple([shape[d] for d in places])) - about((rows,))
    saved = products_ns(fewer * other, moved.dtype.itemsize, machine)
    cost = memory_ns(2 * about(moved.shape) * moved.dtype.itemsize, machine)
    return fewer > 0 and saved > cost + EFFORT * machine.kernel_ns
