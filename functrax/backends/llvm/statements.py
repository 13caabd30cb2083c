"""The statements of a tree: loops, what they carry, and what is done in them.

Each loop is a level (``writer``); a value that it carries is a phi of it.

Start at :meth:`Statements.write`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Store
from functrax.backends.llvm.addresses import Memory, memory_type
from functrax.backends.llvm.nodes import Nodes
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.templates import llvm_type
from functrax.backends.llvm.tile_rows import Tiles
from functrax.backends.llvm.writer import Names, Writer
from functrax.backends.loops import tree
from functrax.core.scalars.scalar import Scalar

#: Writes one statement, with what writes all of them.
Write: TypeAlias = "Callable[[Any, Any], None]"


class Statements:
    """Writes the body of a function."""

    def __init__(
        self, writer: Writer, memory: Memory, tiles: Tiles, nodes: Nodes, stores: Stores
    ) -> None:
        #: Whether a matrix unit multiplies, which is configured before and released in the end.
        self.on_unit = False
        self.writer = writer
        self.memory = memory
        self.tiles = tiles
        self.nodes = nodes
        self.stores = stores

    def write(self, body: tree.Body) -> None:
        """Write statements into the innermost level."""
        for statement in body:
            self.WRITTEN[type(statement)](self, statement)

    # ---- loops ----------------------------------------------------------------------------------

    def _loop(self, loop: tree.Loop) -> None:
        w = self.writer
        low, high = self._name(loop.begin), self._name(loop.end)
        names = w.open_loop(low, self._first(loop.carries))
        w.define_dim(loop.dim, w.loop_index())
        is_vector = loop.kind == "vector"
        before = w.masked
        if is_vector:
            w.vector_level, w.masked = len(w.levels) - 1, loop.masked
            if loop.masked:
                w.define_tail(loop.dim, w.loop_index(), high)
        self._know([c.acc for c in loop.carries], loop.carries, names)
        self.write(loop.body)
        new = self._new(loop.carries)
        if is_vector:
            w.vector_level, w.masked = -1, before
        step = str(loop.step) if loop.by is None else self._name(loop.by)
        names = w.close_loop(step, high, new, loop.maybe_empty)
        self._know([c.result for c in loop.carries], loop.carries, names)

    def _while(self, loop: tree.While) -> None:
        w = self.writer
        names = w.open_loop("0", self._first(loop.carries))
        w.define_dim(loop.dim, w.loop_index())
        self._know([c.acc for c in loop.carries], loop.carries, names)
        w.leave_unless(self.nodes.value(loop.condition).name)
        self.write(loop.body)
        w.close_loop("1", None, self._new(loop.carries))
        self._know([c.result for c in loop.carries], loop.carries, names)

    def _bind(self, bind: tree.Bind) -> None:
        w = self.writer
        names = [name for _, name in self._first(bind.carries)]
        index = self._name(bind.index)
        inside = None if bind.inside is None else self._name(bind.inside)
        label = w.open_branch() if inside is not None else w.open_level(w.levels[-1].block)
        w.define_dim(bind.dim, index)
        before = w.vector_level
        if bind.vector:
            w.vector_level = len(w.levels) - 1
        self._know([c.acc for c in bind.carries], bind.carries, names)
        self.write(bind.body)
        new = self._new(bind.carries)
        w.vector_level = before
        if inside is not None:
            w.close_branch(label, inside)
        else:
            w.join_level()
        self._know([c.result for c in bind.carries], bind.carries, new)

    def _if(self, s: tree.If) -> None:
        self._branch(s.condition, s.body)
        self._branch(s.condition, s.otherwise, negated=True)

    def _branch(self, condition: Scalar, body: tree.Body, negated: bool = False) -> None:
        """Statements that are done where a bool holds, or where it does not."""
        holds = self.nodes.value(condition).name
        if body:
            label = self.writer.open_branch()
            self.write(body)
            self.writer.close_branch(label, holds, negated)

    def _tile_call(self, s: tree.TileSum | tree.TurnTile) -> None:
        from functrax.backends.llvm.tile_calls import TileCalls  # which few programs need

        calls = TileCalls(self.writer, self.memory, self.nodes)
        if isinstance(s, tree.TurnTile):
            calls.turn(s)
            return
        self.on_unit |= s.on_unit
        calls.sums(s)

    def _tile(self, tile: tree.Tile) -> None:
        self.tiles.begin = self.writer.known["dim", tile.corner].name
        for lane, point in enumerate(tile.points):
            self.tiles.lane = lane
            self._bind(point)

    # ---- what they carry ------------------------------------------------------------------------

    def _name(self, x: Scalar) -> str:
        return self.nodes.value(x).name

    def _first(self, carries: Sequence[tree.Carried]) -> list[tuple[str, str]]:
        """The types and first values of what is carried."""
        for c in carries:
            self.nodes.value(c.first)
        return [
            (llvm_type(c.first.dtype, c.lanes), self.writer.in_lanes(c.first, c.lanes))
            for c in carries
        ]

    def _know(
        self, leaves: Sequence[Scalar], carries: Sequence[tree.Carried], names: Names
    ) -> None:
        level = len(self.writer.levels) - 1
        for leaf, c, name in zip(leaves, carries, names, strict=True):
            self.writer.know(id(leaf), name, c.lanes > 1, level, c.lanes)

    def _new(self, carries: Sequence[tree.Carried]) -> Names:
        for c in carries:
            self.nodes.value(c.new)
        return [self.writer.in_lanes(c.new, c.lanes) for c in carries]

    # ---- others ---------------------------------------------------------------------------------

    def _let(self, let: tree.Let) -> None:
        for value in let.values:
            self.nodes.value(value)
        for name, value in zip(let.names, let.values):
            self.writer.same(name, self.writer.operand(value), len(self.writer.levels) - 1)

    def _running(self, running: tree.Running) -> None:
        w = self.writer
        if w.vector_level == len(w.levels) - 1:
            self.nodes.lanes.running(running.scan, running.last)
            return
        for node, leaf in zip(running.scan.results, running.last, strict=True):
            w.same(leaf, self.nodes.value(node), len(w.levels) - 1)

    def _prefetch(self, prefetch: tree.Prefetch) -> None:
        w, level = self.writer, len(self.writer.levels) - 1
        dtype = w.kernel.operands[prefetch.buffer].dtype
        pointer = self.memory.pointer(prefetch.buffer, prefetch.address).name
        if prefetch.dim is not None:
            step = coefficient(prefetch.address, prefetch.dim)
            number = w.number(step, ("stride", prefetch.buffer, prefetch.dim, step))
            element = memory_type(dtype)
            pointer = w.line(f"getelementptr {element}, ptr {pointer}, i64 {number}", level)
        count = w.lanes if prefetch.count is None else prefetch.count
        self.memory.prefetch_lines(pointer, count * dtype.itemsize, level, prefetch.write)

    #: How each kind of statement is written.
    WRITTEN: ClassVar[dict[type, Write]] = {
        tree.Loop: _loop,
        tree.While: _while,
        tree.Bind: _bind,
        tree.If: _if,
        tree.Tile: _tile,
        tree.TileSum: _tile_call,
        tree.TurnTile: _tile_call,
        tree.Let: _let,
        tree.Running: _running,
        tree.Prefetch: _prefetch,
        tree.Poll: lambda self, _: self.writer.look(),
        Store: lambda self, s: self.stores.store(s),
    }
