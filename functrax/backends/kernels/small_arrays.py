"""Small arrays as rows of lanes: the values of a program whose arrays fit in registers.

What enters: equations over arrays whose last axis is no longer than a few vectors.  What leaves:
for each row of an array, its last axis, one scalar expression whose lanes are the elements.

An array is known by the *numbers* of its elements, an array of integers of its shape.  What only
moves elements (transpose, slice, pad, concatenate, …) moves numbers, by its own NumPy reference,
and costs nothing by itself.  Numbers are resolved when a row of them is computed with
(:meth:`SmallArrays.row`): by a load, by a permutation of the lanes of a row that is there, by a
choice between several, or by one lane that is given to all.  Arrays of several rows are computed
in whatever arrangement they are asked for: a sum along the last axis asks for columns, so that it
adds up vectors.

Start at :meth:`SmallArrays.run`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import load
from functrax.backends.kernels.refusal import Refusal, refuse
from functrax.backends.kernels.steps import FEW_ELEMENTS
from functrax.backends.kernels.values import MOST_VALUES, number, reduced_axes
from functrax.backends.reference import strided
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.prims.lowered_reductions import Carried, Reduction
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindexing, iota
from functrax.core.prims.slicing import concatenate
from functrax.core.records import record
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types.aval import ShapedArray

#: The dim of the lanes.
LANE: Final = Dim(0)
Numbers: TypeAlias = "np.ndarray[Any, Any]"


@record(eq=False)
class RowMemory:
    """An array in memory: element ``k`` of a buffer lies at ``base + k``."""

    aval: ShapedArray
    buffer: int
    base: IndexExpr


@record(eq=False)
class Rows:
    """An array that has been computed: an expression for each row."""

    aval: ShapedArray
    rows: tuple[Scalar, ...]


@record(eq=False)
class Computed:
    """A result of an elementwise equation, computed where it is asked for."""

    aval: ShapedArray
    eqn: Eqn
    operands: tuple[Numbers | Scalar, ...]
    result: int


Source: TypeAlias = RowMemory | Rows | Computed


class SmallArrays:
    """The arrays of a program.

    Args:
      builder: makes the expressions.
      lanes: how many a row has; the elements of shorter rows come first, the rest is arbitrary.
    """

    def __init__(self, builder: Builder, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self._sources: list[Source] = []
        self._starts: list[int] = []
        self._end = 0
        self._rows: dict[bytes, Scalar] = {}

    # ---- arrays -------------------------------------------------------------------------------

    def add(self, source: Source) -> Numbers:
        """The numbers of the elements of a new array."""
        shape = source.aval.shape
        size = math.prod(shape)
        self._sources.append(source)
        self._starts.append(self._end)
        found = np.arange(self._end, self._end + size, dtype=np.int64).reshape(shape)
        self._end += size
        return found

    def run(self, eqns: Sequence[Eqn], env: dict[Atom, Numbers]) -> None:
        """Compute equations in order; ``env`` has the numbers of what they use, and gets theirs.

        There is none that :func:`refusal_of` refuses.
        """
        for eqn in eqns:
            if isinstance(eqn.primitive, Elementwise):
                self._elementwise(eqn, env)
            elif reduced_axes(eqn) is not None:
                env[eqn.outvars[0]] = self._reduced(eqn, self.numbers(eqn.invars[0], env))
            else:
                env[eqn.outvars[0]] = self._reindexed(eqn, env)

    def numbers(self, x: Atom, env: dict[Atom, Numbers]) -> Numbers:
        """The numbers of a value's elements."""
        if isinstance(x, Literal):
            return self.add(Rows(x.aval, (number(self.builder, x),)))
        return env[x]

    def rows(self, numbers: Numbers) -> list[Scalar]:
        """The rows of an array; of one without axes its number."""
        n = numbers.shape[-1] if numbers.ndim else 1
        return [self.row(part) for part in numbers.reshape(-1, n)]

    # ---- equations ----------------------------------------------------------------------------

    def _elementwise(self, eqn: Eqn, env: dict[Atom, Numbers]) -> None:
        operands = tuple(
            number(self.builder, x) if isinstance(x, Literal) else env[x] for x in eqn.invars
        )
        for k, v in enumerate(eqn.outvars):
            found = self.add(Computed(v.aval, eqn, operands, k))
            if math.prod(v.aval.shape[:-1]) == 1:  # one row: it is permuted, not computed again
                found = self.add(Rows(v.aval, tuple(self.rows(found))))
            env[v] = found

    def _reindexed(self, eqn: Eqn, env: dict[Atom, Numbers]) -> Numbers:
        primitive, params = eqn.primitive, dict(eqn.params)
        if primitive is iota:
            return self._constants(eqn.outvars[0].aval, eqn.primitive.reference(**params))
        if "fill" in params:
            fill = int(self.numbers(params["fill"], env))
            params["fill"] = Literal(np.int64(fill), ShapedArray((), np.int64))
        operands = [self.numbers(x, env) for x in eqn.invars]
        if primitive is reindex:
            out = strided.reindex(operands[0], [], params["map"], params["fill"])
        else:
            out = eqn.primitive.reference(*operands, **params)
        return np.asarray(out, np.int64)

    def _constants(self, aval: ShapedArray, values: Any) -> Numbers:
        n = aval.shape[-1]
        lines = np.ascontiguousarray(values).reshape(-1, n)
        return self.add(Rows(aval, tuple(self._lanes(line, aval.dtype) for line in lines)))

    def _lanes(self, values: Any, dtype: Any) -> Scalar:
        """Numbers, one for each of the first lanes."""
        rest = [values[0]] * (self.lanes - len(values))
        every = np.asarray([*values, *rest], dtype)
        parts = (every.real, every.imag) if every.dtype.kind == "c" else (every,)
        b = self.builder
        return b.whole(tuple([b.node("lanes", p.dtype, (), tuple(p.tolist())) for p in parts]))

    def _permuted(self, x: Scalar, table: Sequence[int]) -> Scalar:
        """The lanes of a row in another order."""
        return self._by_parts(x, "permute", tuple(table))

    def _by_parts(self, x: Scalar, op: str, attr: Any) -> Scalar:
        b = self.builder
        return b.whole(
            tuple([p if p.op == "const" else b.node(op, p.dtype, (p,), attr) for p in b.parts(x)])
        )

    # ---- reductions ---------------------------------------------------------------------------

    def _reduced(self, eqn: Eqn, numbers: Numbers) -> Numbers:
        axes = reduced_axes(eqn)
        assert axes is not None
        how = eqn.primitive.reduction(eqn.invars[0].aval, **eqn.params)  # type: ignore[attr-defined]
        out = eqn.outvars[0].aval
        kept = [d for d in range(numbers.ndim) if d not in axes]
        moved = np.transpose(numbers, (*kept, *axes))
        n = out.shape[-1] if out.shape else 1
        moved = moved.reshape(-1, n, math.prod(numbers.shape[d] for d in axes))
        finish = self._across if _is_across(eqn, axes) else self._down
        return self.add(Rows(out, tuple(finish(how, part) for part in moved)))

    def _down(self, how: Reduction, numbers: Numbers) -> Scalar:
        """A reduction along the last axis of ``numbers``, whose first one is lanes."""
        b = self.builder
        parts: list[Carried] = []
        most = target().sum_cycles if how.commutative else numbers.shape[1]
        for k in range(numbers.shape[1]):
            new = how.start(b, self.row(numbers[:, k]), b.const(k, how.place))
            if k < most:
                parts.append(new)
            else:
                parts[k % most] = how.combine(b, parts[k % most], new)
        while len(parts) > 1:
            pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
            parts = [how.combine(b, *p) if len(p) == 2 else p[0] for p in pairs]
        return how.finish(b, parts[0])

    def _across(self, how: Reduction, numbers: Numbers) -> Scalar:
        """A reduction of one row, by halves."""
        b, numbers = self.builder, numbers[0]
        n = len(numbers)
        place = self._lanes(range(n), how.place)
        total = how.start(b, self.row(numbers), place)
        inside = self.valid(n)
        if inside is not None:
            pairs = zip(total, how.empty(b), strict=True)
            total = tuple(b.select(inside, x, start) for x, start in pairs)
        half = self.lanes // 2
        while half:
            table = (*range(half, 2 * half), *range(half, self.lanes))
            other = tuple(self._permuted(x, table) for x in total)
            total = how.combine(b, total, other)
            half //= 2
        return how.finish(b, tuple(self.lane(x, 0) for x in total))

    # ---- rows ---------------------------------------------------------------------------------

    def row(self, numbers: Numbers) -> Scalar:
        """An expression whose lanes are elements; a scalar where all are the same one."""
        key = numbers.tobytes()
        found = self._rows.get(key)
        if found is None:
            if len(self._rows) > MOST_VALUES:
                refuse("too many rows in a step")
            found = self._rows[key] = self._row(np.ascontiguousarray(numbers))
        return found

    def valid(self, n: int) -> Scalar | None:
        """A bool of the first ``n`` lanes; None for all."""
        if n == self.lanes:
            return None
        return self._lanes([True] * n + [False] * (self.lanes - n), np.bool_)

    def lane(self, x: Scalar, k: int) -> Scalar:
        """One lane of a row."""
        b = self.builder
        parts = b.parts(x)
        return b.whole(
            tuple([p if p.op == "const" else b.node("lane", p.dtype, (p,), k) for p in parts])
        )

    def _row(self, numbers: Numbers) -> Scalar:
        which = np.searchsorted(self._starts, numbers, side="right") - 1
        value = None
        for n, (k, lanes) in enumerate(self._pieces(which, numbers)):
            if n >= FEW_ELEMENTS:
                refuse("a row of too many pieces")
            flat = numbers - self._starts[k]
            inside = np.zeros(len(numbers), bool)
            inside[lanes] = True
            part = self._piece(self._sources[k], np.where(inside, flat, flat[lanes[0]]), lanes)
            if value is None:
                value = part
            else:
                chosen = [*inside, *[False] * (self.lanes - len(inside))]
                value = self.builder.select(self._lanes(chosen, np.bool_), part, value)
        assert value is not None
        return value

    def _pieces(self, which: Numbers, numbers: Numbers) -> list[tuple[int, Numbers]]:
        """Sources, and the lanes that come from one row of theirs, or are computed together."""
        pieces = []
        for k in dict.fromkeys(which.tolist()):
            source, lanes = self._sources[k], np.flatnonzero(which == k)
            flat = numbers[lanes] - self._starts[k]
            whole = len(lanes) == len(numbers) and len(set(np.diff(flat).tolist())) <= 1
            if isinstance(source, Computed) or (isinstance(source, RowMemory) and whole):
                pieces.append((k, lanes))
                continue
            row = flat // (source.aval.shape[-1] if source.aval.shape else 1)
            pieces += [(k, lanes[row == r]) for r in dict.fromkeys(row.tolist())]
        return pieces

    def _piece(self, source: Source, flat: Numbers, lanes: Numbers) -> Scalar:
        """A row of one source; only some lanes matter."""
        if isinstance(source, Computed):
            return self._computed(source, flat)
        if isinstance(source, RowMemory) and len(lanes) == len(flat):
            steps = set(np.diff(flat).tolist())
            if len(steps) <= 1:
                return self._load(source, int(flat[0]), steps.pop() if steps else 0, len(flat))
        n = source.aval.shape[-1] if source.aval.shape else 1
        r = int(flat[lanes[0]]) // n
        if isinstance(source, Rows):
            row = source.rows[r]
        else:
            row = self._load(source, r * n, int(n > 1), n)
        table = flat - r * n
        if (table == table[0]).all():
            return self.lane(row, int(table[0])) if source.aval.shape else row
        identity = np.arange(len(table))
        if (table[lanes] == identity[lanes]).all():
            return row
        rest = range(len(table), self.lanes)
        return self._permuted(row, (*table.tolist(), *rest))

    def _computed(self, source: Computed, flat: Numbers) -> Scalar:
        args = [
            x if isinstance(x, Scalar) else self.row(x.reshape(-1)[flat]) for x in source.operands
        ]
        primitive = source.eqn.primitive
        out = primitive.lower(self.builder, *args, **source.eqn.params)
        result: Scalar = out[source.result] if primitive.multiple_results else out
        return result

    def _load(self, source: RowMemory, first: int, step: int, n: int) -> Scalar:
        address = source.base + first
        inside = None
        if step:
            address = address + LANE * step
            inside = self.valid(n)
        return load(self.builder, source.aval.dtype, source.buffer, (address, None), inside)


def refusal_of(eqn: Eqn) -> Refusal | None:
    """Why an equation cannot be done with rows of lanes, if it cannot."""
    primitive, axes = eqn.primitive, reduced_axes(eqn)
    if isinstance(primitive, Elementwise):
        return None
    if axes is not None and isinstance(primitive, ReindexReduce):
        how = primitive.reduction(eqn.invars[0].aval, **eqn.params)
        starts = how.identity is not None or not _is_across(eqn, axes)
        return None if starts else Refusal(f"{how.name} has no identity")
    if not isinstance(primitive, Reindexing):
        return Refusal(f"{primitive.name} of small arrays")
    known = primitive in (iota, concatenate) or len(eqn.invars) == 1
    return None if known else Refusal("indices that a step computes")


def _is_across(eqn: Eqn, axes: Sequence[int]) -> bool:
    """Whether a reduction takes in one row, whose lanes are put together."""
    out = eqn.outvars[0].aval
    return len(axes) == 1 and (out.shape[-1] if out.shape else 1) == 1


def row_lanes(avals: Sequence[ShapedArray]) -> int:
    """How many lanes hold the longest row of some arrays: a power of two."""
    longest = max((a.shape[-1] for a in avals if a.shape), default=1)
    return 1 << (longest - 1).bit_length()
