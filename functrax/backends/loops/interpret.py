"""What a tree computes, statement by statement, in NumPy.

Arrays enter and are written to.  Lanes of a vector are an array; all else is a number at a time, in
the order of the loops, one unit after the other.  The threads of a loop over the members of a group
are lanes, too; what they do to the memory that they share is watched (``shared_memory.py``).  What
must not matter is made conspicuous: lanes that are masked out and values where a guard is false are
read as what no program expects.

Start at :func:`interpret`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from functrax.backends.kernels.evaluate import NO_EXPANSIONS, Expansion, value_of
from functrax.backends.kernels.ir import Reduce, Store
from functrax.backends.kernels.tiling import Reading
from functrax.backends.loops.bodies import Visitor
from functrax.backends.loops.shared_memory import SharedMemory
from functrax.backends.loops.tree import (
    Barrier,
    Bind,
    Body,
    Carried,
    Function,
    If,
    Let,
    Loop,
    Place,
    Running,
    Tile,
    TileSum,
    TurnTile,
    While,
)
from functrax.core.errors.typed import VerificationError
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.prims.lowered_reductions import Reduction
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar
from functrax.core.types import dtypes

Array = NDArray[Any]
#: What is read where nothing is to be read, as bytes.
_NOTHING: Final = 0x5B


class EndlessError(Exception):
    """A ``while`` loop that has not ended after as many steps as it may take."""


def interpret(
    function: Function,
    arrays: Sequence[Array],
    expansions: Mapping[str, Expansion] = NO_EXPANSIONS,
    most_steps: int | None = None,
) -> None:
    """Do what a tree says with arrays.

    Args:
      function: the tree.
      arrays: for each operand the elements in one axis; those that are written are changed, and
        scratch is there, too.
      expansions: what to put in the place of functions of ``MATH``, by name.
      most_steps: how many steps a ``while`` loop may take; None for any number.

    Raises:
      VerificationError: an element is read or written that is not in its array, or a value is used
        that is not there.
      EndlessError: a ``while`` loop takes more steps.
    """
    with np.errstate(all="ignore"):
        _Interpreter(function, arrays, expansions, most_steps).statements(function.body)


class _Interpreter(Visitor):
    def __init__(
        self,
        function: Function,
        arrays: Sequence[Array],
        expansions: Mapping[str, Expansion],
        most_steps: int | None,
    ) -> None:
        self.function, self.arrays, self.expansions = function, arrays, expansions
        self.most_steps = most_steps
        self.indices: dict[int, Array] = {}
        #: What has been computed, by open body: it stays as it is until the body ends.
        self.known: list[dict[Scalar, Array]] = [{}]
        self.tail: Array | None = None
        #: The lanes of the innermost loop.
        self.lanes = 1
        #: The threads of a group, where they do something each.
        self.members: Array | None = None
        self.shared = {n: SharedMemory(x) for n, x in enumerate(arrays) if self._is_shared(n)}

    def _is_shared(self, buffer: int) -> bool:
        operands = self.function.operands
        return buffer < len(operands) and operands[buffer].shared

    # ---- values ---------------------------------------------------------------------------------

    def value(self, root: Scalar) -> Array:
        """The value of an expression here."""
        stack = [root]
        while stack:
            node = stack[-1]
            if self._find(node) is not None:
                stack.pop()
                continue
            missing = [x for x in node.args if self._find(x) is None]
            if missing:
                stack += missing
                continue
            stack.pop()
            operands = [self._known(x) for x in node.args]
            self.known[-1][node] = value_of(node, operands, self._leaf, self.expansions)
        return self._known(root)

    def _find(self, node: Scalar) -> Array | None:
        return next((k[node] for k in reversed(self.known) if node in k), None)

    def _known(self, node: Scalar) -> Array:
        found = self._find(node)
        assert found is not None
        return found

    def _leaf(self, node: Scalar, *operands: Array) -> Array:
        attr, dtype = node.attr, node.dtype
        if node.op == "load":
            return self._load(node, operands)
        if node.op == "dim":
            return np.asarray(self.indices[attr].astype(dtype))
        if node.op == "int":
            return np.asarray(attr, dtype)
        if node.op == "given":
            return np.asarray(attr, f"i{dtype.itemsize}").view(dtype)
        if node.op == "number":
            return np.asarray(attr[1], dtype)
        if node.op == "units":
            return np.asarray(0 if attr == "begin" else self.function.units, dtype)
        if node.op == "line":  # which depends on where the array is: any index does
            return operands[0]
        if node.op == "tail" and self.tail is not None:
            return self.tail
        if node.op == "lanes":
            return np.asarray(attr, dtype)
        if node.op == "permute":
            return np.asarray(operands[0][..., list(attr)]) if operands[0].ndim else operands[0]
        if node.op == "lane":
            return np.asarray(operands[0][attr]) if operands[0].ndim else operands[0]
        if node.op == "dot":
            return _product_added(attr, np.zeros((), dtype), *operands).astype(dtype)
        if node.op in ("first", "aligned"):  # one thread does the steps of all
            return np.asarray(True)
        if node.op in ("together", "turn"):
            return np.asarray(operands[0 if attr is None else attr[1]])
        if node.op == "across":
            how, n, lanes = attr
            shape = np.broadcast_shapes(*[x.shape for x in operands]) or (self.function.lanes,)
            values = [np.broadcast_to(x, shape) for x in operands]
            return np.asarray(self._across(how, values, lanes)[n])
        raise self._wrong("a value is used that is not there", repr(node))

    def _across(self, how: Reduction, values: Sequence[Array], lanes: int) -> Sequence[Array]:
        while values[0].shape[0] > lanes:
            half = values[0].shape[0] // 2
            sides = [x[:half] for x in values], [x[half:] for x in values]
            values = self._combined(how, *sides)
        return values if lanes > 1 else [x[0] for x in values]

    def _combined(
        self, how: Reduction, left: Sequence[Array], right: Sequence[Array]
    ) -> list[Array]:
        b = self.function.builder
        sides: list[tuple[Scalar, ...]] = []
        here: dict[Scalar, Array] = {}
        for side, values in (("left", left), ("right", right)):
            leaves = [b.node("acc", x.dtype, (), (side, n)) for n, x in enumerate(values)]
            here.update(zip(leaves, values))
            sides.append(tuple(leaves))
        self.known.append(here)
        found = [self.value(x) for x in how.combine(b, *sides)]
        self.known.pop()
        return found

    # ---- memory ---------------------------------------------------------------------------------

    def _place(self, address: IndexExpr, offset: Array | None) -> Array:
        place: Array = np.asarray(address.const)
        for atom, coef in address.terms:
            assert isinstance(atom, Dim)
            place = place + self.indices[atom.number] * coef
        return place if offset is None else place + offset.astype(np.int64)

    def _touched(self, guard: Array | None, place: Array) -> Array:
        """Where an element is touched: inside the guard and, in a vector loop, its end."""
        found = np.ones(place.shape, bool) if guard is None else np.asarray(guard)
        if self.members is not None:
            found = np.broadcast_to(found, self.members.shape)
        if self.tail is not None and (place.ndim or found.ndim):
            found = found & self.tail
        return np.broadcast_to(found, np.broadcast_shapes(found.shape, place.shape))

    def _check(self, buffer: int, place: Array, touched: Array) -> None:
        place = np.broadcast_to(place, touched.shape)[touched]
        if place.size and not (place.min() >= 0 and place.max() < len(self.arrays[buffer])):
            got = f"b{buffer}[{place.min()}:{place.max() + 1}] of {len(self.arrays[buffer])}"
            raise self._wrong("an element that is not in its array", got)

    def _watch(
        self, buffer: int, place: Array, touched: Array, *, writes: bool, atomic: bool = False
    ) -> None:
        """Look whether threads meet in the memory that they share."""
        if buffer not in self.shared:
            return
        if self.members is None:
            raise self._wrong("shared memory is used where threads do not act each", f"b{buffer}")
        places = np.broadcast_to(place, touched.shape)[touched]
        fault = self.shared[buffer].access(places, self.members[touched], writes, atomic)
        if fault:
            raise self._wrong(fault, f"b{buffer}")

    def _wrong(self, what: str, got: str) -> VerificationError:
        return VerificationError(
            f"kernel {self.function.name}: {what}",
            got=got,
            fix="report this: the compiler made a wrong kernel",
        )

    def _load(self, node: Scalar, operands: Sequence[Array]) -> Array:
        buffer, address, has_offset, has_guard = node.attr
        place = self._place(address, operands[0] if has_offset else None)
        touched = self._touched(operands[-1] if has_guard else None, place)
        self._check(buffer, place, touched)
        self._watch(buffer, place, touched, writes=False)
        raw = np.full(max(touched.size, 1) * node.dtype.itemsize, _NOTHING, np.uint8)
        if node.dtype == np.bool_:
            raw[:] = 1
        found = raw.view(node.dtype)[: touched.size].reshape(touched.shape)
        found[touched] = self.arrays[buffer][np.broadcast_to(place, touched.shape)[touched]]
        return found

    def visit_Store(self, s: Store) -> None:
        if s.guard is not None and s.guard.is_constant and not s.guard.attr:
            return
        value = self.value(s.value)
        offset = None if s.offset is None else self.value(s.offset)
        guard = None if s.guard is None else self.value(s.guard)
        place = self._place(s.address, offset)
        touched = self._touched(guard, place)
        self._check(s.buffer, place, touched)
        self._watch(s.buffer, place, touched, writes=True, atomic=s.atomic)
        array = self.arrays[s.buffer]
        places = np.broadcast_to(place, touched.shape)[touched]
        values = np.broadcast_to(value, touched.shape)[touched]
        if s.atomic:  # several threads may update one element
            for n in range(len(places)):
                array[places[n]] = self._updated(s, array[places[n]], values[n])
        else:
            array[places] = self._updated(s, array[places], values)

    def _updated(self, s: Store, old: Array, values: Array) -> Array:
        """What elements become."""
        if s.combine is None:
            return values
        parts = [self._parts(x) for x in (old, values)]
        new = self._combined(s.combine, *parts)
        return new[0] if len(new) == 1 else (new[0] + 1j * new[1]).astype(old.dtype)

    def _parts(self, x: Array) -> list[Array]:
        return [x.real.copy(), x.imag.copy()] if x.dtype.kind == "c" else [x]

    # ---- loops ----------------------------------------------------------------------------------

    def _step(self, carries: Sequence[Carried], values: list[Array], body: Body) -> list[Array]:
        """One step, from what is carried to what is carried on."""
        self.known.append({c.acc: x for c, x in zip(carries, values, strict=True)})
        self.statements(body)
        values = [self._in_lanes(self.value(c.new), c.lanes) for c in carries]
        self.known.pop()
        return values

    def _in_lanes(self, x: Array, lanes: int) -> Array:
        return x if lanes == 1 else np.broadcast_to(x, (lanes,))

    def _first(self, carries: Sequence[Carried]) -> list[Array]:
        return [self._in_lanes(self.value(c.first), c.lanes) for c in carries]

    def _results(self, carries: Sequence[Carried], values: list[Array]) -> None:
        for c, x in zip(carries, values, strict=True):
            self.known[-1][c.result] = x

    def _member_steps(self, s: Loop) -> None:
        """The steps of all threads at once."""
        for memory in self.shared.values():
            memory.begin()
        self.members = self.indices[s.dim] = np.arange(self.function.group)
        self._step((), [], s.body)
        self.members = None

    def visit_Barrier(self, s: Barrier) -> None:
        if self.members is None or self.tail is not None:
            raise self._wrong("a barrier that not all threads of a group come to", str(s))
        for memory in self.shared.values():
            memory.order()

    def _where(self, condition: Array, body: Body) -> None:
        """Do statements where threads find a bool true."""
        before = self.tail
        self.tail = condition if before is None else before & condition
        self.known.append({})
        if self.tail.any():
            self.statements(body)
        self.known.pop()
        self.tail = before

    def visit_Loop(self, s: Loop) -> None:
        if s.kind == "member":
            return self._member_steps(s)
        values = self._first(s.carries)
        before, lanes = self.tail, self.lanes
        self.lanes = self.function.lanes if s.kind == "vector" else 1
        low, high = int(self.value(s.begin)), int(self.value(s.end))
        if s.kind == "group" and s.masked:
            self.tail = np.asarray(True)  # one thread takes the steps of all
        step = 1 if s.kind == "group" else s.step  # neighbouring points, one after the other
        for index in range(low, high, step):
            if s.kind == "vector":
                points = np.arange(index, index + self.lanes)
                self.indices[s.dim] = points
                self.tail = points < high if s.masked else None
            else:
                self.indices[s.dim] = np.asarray(index)
            values = self._step(s.carries, values, s.body)
        self.tail, self.lanes = before, lanes
        self._results(s.carries, values)

    def visit_While(self, s: While) -> None:
        values, step = self._first(s.carries), 0
        while True:
            self.indices[s.dim] = np.asarray(step)
            self.known.append({c.acc: x for c, x in zip(s.carries, values, strict=True)})
            holds = self.value(s.condition)
            self.known.pop()
            if not holds:
                break
            if step == self.most_steps:
                raise EndlessError(f"kernel {self.function.name}: a loop of {step} steps")
            values = self._step(s.carries, values, s.body)
            step += 1
        self._results(s.carries, values)

    def visit_Bind(self, s: Bind) -> None:
        values = self._first(s.carries)
        if s.inside is not None:
            inside = self.value(s.inside)
            if inside.ndim:  # of threads some
                return self._where(inside, (replace(s, inside=None),))
            if not inside:
                return
        index = self.value(s.index)
        before = self.indices.get(s.dim)
        self.indices[s.dim] = index + np.arange(self.function.lanes) if s.vector else index
        values = self._step(s.carries, values, s.body)
        if before is not None:
            self.indices[s.dim] = before
        self._results(s.carries, values)

    def visit_Tile(self, s: Tile) -> None:
        self.statements(s.points)

    def visit_If(self, s: If) -> None:
        condition = self.value(s.condition)
        if condition.ndim:  # of threads some
            self._where(condition, s.body)
            self._where(~condition, s.otherwise)
            return
        self.known.append({})
        self.statements(s.body if condition else s.otherwise)
        self.known.pop()

    # ---- contractions ---------------------------------------------------------------------------

    def _rows(self, place: Place, rows: int, columns: int) -> Array:
        """The numbers of the elements of some rows."""
        offset = None if place.offset is None else self.value(place.offset)
        first = self._place(place.address, offset)
        pitch = int(self.value(place.pitch)) // self.arrays[place.buffer].itemsize
        return np.asarray(first + np.arange(rows)[:, None] * pitch + np.arange(columns))

    def _chosen(self, s: TileSum | TurnTile) -> Place:
        if s.whole is None or s.instead is None or self.value(s.whole):
            return s.to
        return s.instead

    def visit_TileSum(self, s: TileSum) -> None:
        to, columns = self._chosen(s), s.width * s.lanes
        places = self._rows(to, s.height, columns)
        self._check(to.buffer, places, np.ones(places.shape, bool))
        inside = min(columns, self.function.extents[s.columns]) if not s.right.packed else columns
        total = np.zeros((s.height, columns), s.dtype)
        length = int(self.value(s.length))
        begin = 0 if s.begun is None else int(self.indices[s.begun])
        ranges = [range(begin, begin + length)]
        ranges += [range(self.function.extents[d]) for d in s.loops[1:]]
        before = dict(self.indices)
        down, across = np.arange(s.height) * s.left.step, np.arange(inside)
        for point in itertools.product(*ranges):
            self.indices.update((d, np.asarray(n)) for d, n in zip(s.loops, point, strict=True))
            left = self._side(s.left, down)[:, None]
            right = self._side(s.right, across)
            total[:, :inside] = _product_added(s.dot, total[:, :inside], left, right)
        self.indices = before
        if int(self.value(s.more)):
            total = self.arrays[to.buffer][places] + total
        self.arrays[to.buffer][places] = total

    def _side(self, side: Reading, steps: Array) -> Array:
        places = self._place(side.address, None) + steps
        self._check(side.buffer, places, np.ones(places.shape, bool))
        return np.asarray(self.arrays[side.buffer][places])

    def visit_TurnTile(self, s: TurnTile) -> None:
        height, width = int(self.value(s.height)), int(self.value(s.width))
        tile = self.arrays[s.tile.buffer][self._rows(s.tile, height, width)]
        to = self._chosen(s)
        places = self._rows(to, width, height)
        self._check(to.buffer, places, np.ones(places.shape, bool))
        self.arrays[to.buffer][places] = tile.T

    # ---- others ---------------------------------------------------------------------------------

    def visit_Let(self, s: Let) -> None:
        values = [self.value(x) for x in s.values]
        for name, value in zip(s.names, values):
            self.known[-1][name] = value

    def visit_Reduce(self, s: Reduce) -> None:
        values = [self.value(x) for x in s.values]
        empty = [self.value(x) for x in s.how.empty(self.function.builder)]
        if self.tail is not None and self.lanes > 1:  # lanes beyond the end add nothing
            values = [np.where(self.tail, x, e) for x, e in zip(values, empty, strict=True)]
        before = [self.value(x) for x in s.accs]
        if before[0].ndim and before[0].shape < values[0].shape:  # lanes may be added up first
            values = list(self._across(s.how, values, before[0].shape[0]))
        for leaf, x in zip(s.results, self._combined(s.how, before, values), strict=True):
            self.known[-1][leaf] = x

    def visit_Running(self, s: Running) -> None:
        scan, lanes = s.scan, self.lanes if self.members is None else self.function.group
        if self.members is not None and self.tail is not None:
            raise self._wrong("running results that not all threads of a group come to", str(s))
        values = [self._in_lanes(self.value(x), lanes) for x in scan.values]
        b, distance = self.function.builder, 1
        while distance < lanes:
            empty = [self.value(x) for x in scan.how.empty(b)]
            moved = [
                np.concatenate([np.full(distance, e), x[:-distance]])
                for e, x in zip(empty, values, strict=True)
            ]
            values = self._combined(scan.how, moved, values)
            distance *= 2
        before = [self._in_lanes(self.value(x), lanes) for x in scan.accs]
        values = self._combined(scan.how, before, values)
        for node, leaf, x in zip(scan.results, s.last, values, strict=True):
            self.known[-1][node] = x
            self.known[-1][leaf] = np.broadcast_to(x[-1], (lanes,)) if lanes > 1 else x


def _product_added(dot: tuple[str, ...], total: Array, left: Array, right: Array) -> Array:
    """Sums with one product more each, or with those of the numbers in two words."""
    if not dot:
        exact = np.float64 if total.dtype == np.float32 else total.dtype
        return np.asarray(total + left.astype(exact) * right.astype(exact))
    _, *names = dot
    sides = []
    for words, name in zip((left, right), names, strict=True):
        numbers = np.array(words, order="C")[..., None].view(dtypes.as_dtype(name))
        sides.append(numbers.astype(np.float64 if total.dtype.kind == "f" else np.int64))
    return np.asarray(total + (sides[0] * sides[1]).sum(-1))
