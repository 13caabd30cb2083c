"""Reindexes and reductions of random functions: moving, gathering, scattering, adding up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax import lax
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.tracing.primitive import literal
from functrax.core.types import dtypes
from tests.backends.random_values import EXACT, MAX_SIZE, Values, bind


class Moves(Values):
    """What moves elements."""

    def move(self, x: Any, bound: float) -> None:
        names = ("transpose", "reshape", "broadcast_in_dim", "rev", "slice", "pad", "concatenate")
        self.keep(getattr(self, f"_{self.pick(names)}")(x), bound)

    def _transpose(self, x: Any) -> Any:
        return bind("transpose", x, perm=tuple(map(int, self.rng.permutation(x.aval.ndim))))

    def _reshape(self, x: Any) -> Any:
        sizes, rest = [], x.aval.size
        if rest == 0:
            return bind("reshape", x, shape=(x.aval.size, 3))
        for _ in range(self.below(4)):
            n = self.pick([n for n in (1, 2, 3, 5, 7, 8, 13, 16, 31) if rest % n == 0])
            sizes.append(n)
            rest //= n
        return bind("reshape", x, shape=tuple(map(int, self.rng.permutation([*sizes, rest]))))

    def _broadcast_in_dim(self, x: Any) -> Any:
        shape = list(x.aval.shape)
        extra = [self.pick((1, 2, 3, 5, 16, 17)) for _ in range(self.below(3))]
        places = self.rng.permutation(len(shape) + len(extra))
        whole = [0] * len(places)
        for place, n in zip(places, [*shape, *extra], strict=True):
            whole[place] = self.pick((3, 16)) if n == 1 and self.chance(0.3) else n
        if math.prod(whole) > 3 * MAX_SIZE or len(whole) > 6:
            return x
        dims = tuple(int(d) for d in places[: len(shape)])
        return bind("broadcast_in_dim", x, shape=tuple(whole), dims=dims)

    def _rev(self, x: Any) -> Any:
        axes = tuple(d for d in range(x.aval.ndim) if self.chance(0.5))
        return bind("rev", x, axes=axes)

    def _slice(self, x: Any) -> Any:
        start, limit, strides = [], [], []
        for n in x.aval.shape:
            start.append(self.below(n // 2 + 1) if self.chance(0.5) else 0)
            limit.append(n - self.below(max((n - start[-1]) // 2, 1)) if self.chance(0.5) else n)
            strides.append(self.pick((1, 1, 1, 2, 3)))
        return bind("slice", x, start=tuple(start), limit=tuple(limit), strides=tuple(strides))

    def _pad(self, x: Any) -> Any:
        rank = x.aval.ndim
        if x.aval.size > MAX_SIZE:
            return x
        interior = tuple(self.pick((0, 0, 0, 1, 2)) for _ in range(rank))
        low, high = [], []
        for n, gap in zip(x.aval.shape, interior, strict=True):
            whole = n + max(n - 1, 0) * gap
            low.append(self.pick((0, 0, 1, 2, 5, -1, -2)))
            high.append(self.pick((0, 0, 1, 3, -1, -2)))
            if whole + low[-1] + high[-1] < 0:
                low[-1] = high[-1] = 1
        fill = self.number(x.aval.dtype)
        return bind("pad", x, low=tuple(low), high=tuple(high), interior=interior, fill=fill)

    def _concatenate(self, x: Any) -> Any:
        if not x.aval.ndim or x.aval.size > 2 * MAX_SIZE:
            return x
        axis = self.below(x.aval.ndim)
        parts = [x]
        for _ in range(1 + self.below(3)):
            y, _ = self.other(x)
            parts.append(y if y.aval.shape == x.aval.shape else x)
        if self.chance(0.4) and x.aval.shape[axis] > 1:
            limit = list(x.aval.shape)
            limit[axis] = 1
            rank = x.aval.ndim
            parts.append(
                bind("slice", x, start=(0,) * rank, limit=tuple(limit), strides=(1,) * rank)
            )
        return bind("concatenate", *parts, axis=axis)


class Reductions(Values):
    """What takes rows together."""

    def _reduced(self, x: Any, bound: float, axes: tuple[int, ...]) -> tuple[Any, float] | None:
        dtype, count = x.aval.dtype, math.prod(x.aval.shape[a] for a in axes)
        names = ["reduce_max", "reduce_min"]
        if self.kind != "bits" or dtype.kind in "iu":
            names += ["reduce_sum", "reduce_sum"]
        if dtype.kind in "iu":
            names.append("reduce_prod")
        if dtype.kind in "biu":
            names += ["reduce_and", "reduce_or", "reduce_xor"]
        if dtype == np.bool_:
            names = ["reduce_and", "reduce_or", "reduce_max", "reduce_min"]
        if dtype.kind == "c":
            names = ["reduce_sum"]
        if count == 0 and dtype.kind not in "bc":
            names = ["reduce_sum"] if self.kind != "bits" else ["reduce_max"]
        name = self.pick(names)
        larger = bound * max(count, 1) if name == "reduce_sum" else bound
        limit = EXACT.get(str(dtype), math.inf)
        if self.kind == "exact" and larger >= limit:
            if dtype.kind == "c":
                return None
            x = bind("clamp", literal(-1, dtype), x, literal(1, dtype))
            larger = count
        if self.kind == "exact" and larger >= limit:
            name, larger = "reduce_max", 1.0
        if self.kind == "exact" and count == 0 and name != "reduce_sum":
            return None
        return bind(name, x, axes=axes), larger

    def axes(self, x: Any) -> tuple[int, ...]:
        return tuple(d for d in range(x.aval.ndim) if self.chance(0.5)) or (
            (self.below(x.aval.ndim),) if x.aval.ndim else ()
        )

    def reduce(self, x: Any, bound: float) -> None:
        axes = self.axes(x)
        if axes and self.chance(0.25) and x.aval.dtype.kind != "c":
            if self.kind != "smooth" and x.aval.shape[axes[0]]:
                name = self.pick(("argmax", "argmin"))
                kind = self.pick((np.dtype("int32"), np.dtype("int16"), np.dtype("uint8")))
                if x.aval.shape[axes[0]] > np.iinfo(kind).max:
                    kind = np.dtype("int32")  # others hold no position past their range
                self.keep(bind(name, x, axis=axes[0], index_dtype=kind))
            return
        found = self._reduced(x, bound, axes)
        if found:
            self.keep(*found)

    def row(self, x: Any, bound: float) -> None:
        """A reduction that comes back to the shape of its operand (softmax, normalisation)."""
        axes = self.axes(x)
        kept = tuple(d for d in range(x.aval.ndim) if d not in axes)
        if x.aval.dtype.kind == "b":
            return
        found = self._reduced(x, bound, axes)
        if not found:
            return
        r, larger = found
        if self.chance(0.3):
            other = self._reduced(x, bound, axes)
            if other and other[0].aval.dtype == r.aval.dtype:
                r, larger = bind("add", r, other[0]), larger + other[1]
        if self.chance(0.3):
            self.keep(r, larger)
        back = bind("broadcast_in_dim", r, shape=x.aval.shape, dims=kept)
        out, total = bind("sub", x, back), bound + larger
        if self.kind == "smooth" and dtypes.is_float(x.aval.dtype):
            out = bind("tanh", out)
        self.keep(out, total)
        if self.chance(0.4) and (self.kind != "exact" or total < 100):
            second = self._reduced(out, total, axes)
            if second:
                self.keep(bind("broadcast_in_dim", second[0], shape=x.aval.shape, dims=kept),
                          second[1])  # fmt: skip

    def ordered(self, x: Any, bound: float) -> None:
        if not x.aval.ndim or x.aval.size > MAX_SIZE or x.aval.dtype.kind in "bc":
            return
        axis = self.below(x.aval.ndim)
        name = self.pick(("sort", "cumsum", "cummax"))
        if name == "sort":
            self.keep(lax.sort(x, dimension=axis), bound)
        elif name == "cummax":
            self.keep(bind("cummax", x, axis=axis, reverse=self.chance(0.3)), bound)
        elif self.kind != "bits" or x.aval.dtype.kind in "iu":
            larger = bound * max(x.aval.shape[axis], 1)
            if self.kind != "exact" or larger < EXACT.get(str(x.aval.dtype), math.inf):
                self.keep(bind("cumsum", x, axis=axis, reverse=self.chance(0.3)), larger)

    def product(self, x: Any, bound: float) -> None:
        """A contraction of one axis with another value."""
        dtype = x.aval.dtype
        if not x.aval.ndim or dtype.kind == "b" or x.aval.size > 2000 or self.kind == "bits":
            return
        k, n = x.aval.shape[-1], self.pick((1, 3, 8, 17))
        y, other = self.value()
        w = self.fit(y, (k, n), dtype)
        whole = (*x.aval.shape[:-1], n, k)
        rank = len(whole)
        larger = max(bound, 9.0) * max(other, 9.0) * k
        if self.kind == "exact" and larger >= EXACT.get(str(dtype), math.inf):
            return
        left = bind("broadcast_in_dim", x, shape=whole, dims=(*range(rank - 2), rank - 1))
        right = bind("broadcast_in_dim", w, shape=whole, dims=(rank - 1, rank - 2))
        self.keep(bind("reduce_sum", bind("mul", left, right), axes=(rank - 1,)), larger)


class IndexMaps(Values):
    """Maps that are computed or read, and what is gathered and scattered by them."""

    def indices(self, shape: tuple[int, ...]) -> Any:
        """An array of integers, many of them in range; negative and large ones too."""
        fit = [
            v[0] for v in self.values if v[0].aval.dtype.kind in "iu" and v[0].aval.shape == shape
        ]
        if fit and self.chance(0.7):
            return self.pick(fit)
        dtype = np.dtype(self.pick(("int32", "int32", "int8", "uint8")))
        number = bind("iota", shape=(*shape, 1), dtype=dtype, axis=self.below(len(shape) + 1))
        step = bind("mul", number, literal(self.pick((1, 3, 7)), dtype))
        moved = bind("sub", step, literal(self.below(3), dtype))
        return bind("reshape", moved, shape=shape)

    def gather_map(self, shape: tuple[int, ...]) -> tuple[IndexMap, tuple[int, ...]]:
        """A map that reads one index array, and the shape of the latter."""
        lead = tuple(self.pick((1, 2, 5, 16, 17, 33)) for _ in range(1 + self.below(2)))
        axis = self.below(len(shape))
        rest = [d for d in range(len(shape)) if d != axis]
        domain = (*lead, *(shape[d] for d in rest))
        load = Load(0, [Dim(k) for k in range(len(lead))])
        exprs: list[Any] = [None] * len(shape)
        exprs[axis] = load if self.chance(0.6) else load + self.pick((-1, 1, 2))
        for k, d in enumerate(rest):
            exprs[d] = Dim(len(lead) + k)
        return IndexMap(domain, shape, tuple(exprs)), lead

    def gather(self, x: Any, bound: float) -> None:
        if not x.aval.ndim or x.aval.size > MAX_SIZE:
            return
        gather_map, lead = self.gather_map(x.aval.shape)
        if math.prod(gather_map.domain) > 3 * MAX_SIZE:
            return
        fill = self.number(x.aval.dtype)
        self.keep(bind("reindex", x, self.indices(lead), map=gather_map, fill=fill), bound)

    def affine_map(self, shape: tuple[int, ...]) -> IndexMap:
        domain = list(shape)
        conditions: list[Any] = []
        exprs: list[Any] = []
        for k, n in enumerate(shape):
            i = Dim(k)
            kind = self.below(8)
            if kind == 0 and math.prod(domain) < MAX_SIZE:
                domain.append(self.pick((2, 3, 5)))
                exprs.append(i + Dim(len(domain) - 1) - 1)
            elif kind == 1:
                exprs.append(i // self.pick((2, 3)))
            elif kind == 2 and n:
                exprs.append((i * self.pick((2, 3, 5)) + 1) % n)
            elif kind == 3:
                exprs.append(n - 1 - i + self.pick((0, 0, 1, -1)))
            elif kind == 4:
                exprs.append(i * 2 - self.below(max(n, 1)))
            elif kind == 5 and k:
                exprs.append(i + Dim(k - 1) - self.below(4))
            else:
                exprs.append(i)
            if self.chance(0.1):
                conditions.append((i % 3).eq(self.below(3)))
        return IndexMap(tuple(domain), shape, tuple(exprs), tuple(conditions))

    def windows(self, x: Any, bound: float) -> None:
        if x.aval.ndim and x.aval.size:
            fill = self.number(x.aval.dtype)
            self.keep(bind("reindex", x, map=self.affine_map(x.aval.shape), fill=fill), bound)

    def segments(self, x: Any, bound: float) -> None:
        """A reindex_reduce of a value over the domain of a random map."""
        if not x.aval.ndim or x.aval.size == 0 or x.aval.dtype.kind == "c":
            return
        axis = self.below(x.aval.ndim)
        target = list(x.aval.shape)
        exprs: list[Any] = [Dim(k) for k in range(x.aval.ndim)]
        operands: list[Any] = []
        if self.chance(0.5):
            exprs[axis] = Load(0, [Dim(axis)])
            operands.append(self.indices((x.aval.shape[axis],)))
            target[axis] = self.pick((1, 3, 8))
        else:
            step = self.pick((2, 3))
            exprs[axis] = exprs[axis] // step + self.pick((0, 0, -1))
            target[axis] = max(target[axis] // step, 1)
        self.keep(*self.update("reindex_reduce", [x], operands,
                  IndexMap(x.aval.shape, tuple(target), tuple(exprs)), bound))  # fmt: skip

    def update(
        self, name: str, data: list[Any], operands: list[Any], where: IndexMap, bound: float
    ) -> tuple[Any, float]:
        dtype = data[0].aval.dtype
        ops = ["max", "min"]
        count = math.prod(where.domain)
        if dtype.kind in "iu" or (self.kind == "exact" and dtype != np.bool_):
            ops += ["add", "add", "mul"] if dtype.kind in "iu" else ["add", "add"]
        if self.kind == "smooth" and dtype.kind == "f":
            ops = ["add"]
        if name == "scatter":
            ops += ["set", "set"]
        op = self.pick(ops)
        if op == "add" and self.kind == "exact" and dtype.kind not in "iu":
            if bound * (count + 1) >= EXACT[str(dtype)]:
                op = "max"
        larger = bound * (count + 1) if op == "add" else bound
        out = bind(name, *data, *operands, map=where, op=op)
        if op in ("max", "min") and name == "reindex_reduce" and dtype.kind not in "biu":
            out = bind("clamp", literal(-9, dtype), out, literal(9, dtype))
            larger = 9.0
        return out, larger

    def scatter(self, x: Any, bound: float) -> None:
        if not x.aval.ndim or x.aval.size == 0 or x.aval.dtype.kind == "c":
            return
        where, lead = self.gather_map(x.aval.shape)
        if math.prod(where.domain) > 2 * MAX_SIZE:
            return
        y, other = self.value()
        updates = self.fit(y, where.domain, x.aval.dtype)
        self.keep(*self.update("scatter", [x, updates], [self.indices(lead)], where,
                  max(bound, other, 9.0)))  # fmt: skip
