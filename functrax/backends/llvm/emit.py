"""From a scheduled kernel to LLVM IR.

The text is written already vectorised, so LLVM needs no passes over it.  A kernel is a function

    void kernel(void** buffers, const int64_t* numbers, int64_t begin, int64_t end)

that does the units of work from ``begin`` to ``end``.  What depends on sizes (extents, strides,
offsets) is read from ``numbers``: kernels that differ in those only have the same text, and are
compiled once.  In front of the buffers stands whom long loops ask whether to go on.

This file writes the frame: the function, units of work, outer loops, rows and tiles.  Its parts,
each of which uses those before it: ``writer`` has the lines and what is known; ``loops`` the nests;
``memory``, ``tiles`` and ``loads`` the reads; ``nodes`` and ``math_calls`` the computations;
``stores`` the writes; ``stages`` reductions and carries; ``contraction`` the tiles of a sum of
products.

Start at :func:`emit_kernel`.
"""

from __future__ import annotations

from functrax.backends.kernels.ir import Kernel
from functrax.backends.llvm.instructions import definitions
from functrax.backends.llvm.loads import Loads
from functrax.backends.llvm.loops import Loops
from functrax.backends.llvm.memory import Memory, memory_type
from functrax.backends.llvm.nodes import Nodes
from functrax.backends.llvm.stages import Stages
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.tiles import Tiles
from functrax.backends.llvm.writer import NAME, Names, Writer
from functrax.core.records import record


@record
class Emitted:
    """A kernel as text.

    Args:
      text: LLVM IR of a module with one function, ``NAME``.
      numbers: the run-time arguments.
      calls: pairs ``(n, text)``: the argument ``n`` is the address of the function of a module.
    """

    text: str
    numbers: tuple[int, ...]
    calls: tuple[tuple[int, str], ...] = ()


def emit_kernel(kernel: Kernel, contract: bool = True) -> Emitted:
    """The LLVM IR of a scheduled kernel.

    Args:
      kernel: with a schedule.
      contract: whether reductions may round a product once with its sum.
    """
    return _Emitter(kernel, contract).run()


class _Emitter:
    """The parts, put together."""

    def __init__(self, kernel: Kernel, contract: bool) -> None:
        self.writer = Writer(kernel)
        memory = Memory(self.writer)
        self.loops = Loops(self.writer, memory)
        self.tiles = Tiles(self.writer, memory)
        loads = Loads(self.writer, memory, self.tiles)
        nodes = Nodes(self.writer, loads, contract)
        self.math = nodes.math
        self.stores = Stores(self.writer, memory, loads, nodes)
        self.stages = Stages(self.writer, self.loops, nodes, self.stores)
        self.memory = memory

    def run(self) -> Emitted:
        """The whole function: its frame around the lines of its loops."""
        w = self.writer
        k = w.kernel
        for n, operand in enumerate(k.operands):
            if operand.scratch:
                size = w.number(operand.size, ("scratch", n))
                element = memory_type(operand.dtype)
                w.header.append(f"  %b{n} = alloca {element}, i64 {size}, align 64")
                continue
            w.header.append(f"  %bp{n} = getelementptr ptr, ptr %buffers, i64 {n}")
            w.header.append(f"  %b{n} = load ptr, ptr %bp{n}")
        if k.tiling is not None:
            from functrax.backends.llvm.contraction import Contraction  # which few programs need

            Contraction(w, self.memory, self.loops, self.stores).units()
        elif k.shared is None:
            self.loops.nest(k.outer, [], self._row)
        else:
            self._units()
        body = w.levels[0].lines
        text = "\n".join([*w.header, *body])
        called = "\n".join(self.math.texts.values())
        fence = ["  fence seq_cst"] if self.stores.streams else []
        parts = [
            definitions(text + called),
            called,
            f"define void @{NAME}(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) nounwind {{",
            "entry:",
            text,
            *fence,
            "  ret void",
            *(["stopped:", *fence, "  ret void"] if w.looks else []),
            "}",
            *(["!0 = !{i32 1}"] if self.stores.streams else []),
            *(['!1 = !{!"branch_weights", i32 1, i32 100000}'] if w.looks else []),
        ]
        lines = "\n".join(p for p in parts if p) + "\n"
        return Emitted(lines, tuple(w.numbers), tuple(w.functions.items()))

    def _units(self) -> None:
        """The loop over units, which gives the shared dim its range."""
        w = self.writer
        grain = w.number(w.kernel.grain, "grain")
        w.open_loop("%begin", [])
        unit = w.loop_index()
        if w.kernel.unit is not None:
            w.define_dim(w.kernel.unit, unit)
        low = w.line(f"mul i64 {unit}, {grain}")
        high = w.line(f"add i64 {low}, {grain}")
        extent = w.extent(w.kernel.shared)
        below = w.line(f"icmp slt i64 {high}, {extent}")
        high = w.line(f"select i1 {below}, i64 {high}, i64 {extent}")
        assert w.kernel.shared is not None
        self.loops.ranges[w.kernel.shared] = (low, high)
        self.loops.nest(w.kernel.outer, [], self._row)
        w.close_loop("1", "%end", [])

    def _row(self, carried: Names) -> Names:
        """Everything inside the outer loops."""
        w = self.writer
        for stage in w.kernel.stages:
            self.stages.stage(stage)
        if w.kernel.tile is not None:
            self._tile()
        else:
            for store in w.kernel.rows:
                self.stores.store(store)
        return carried

    def _tile(self) -> None:
        """The stores for each of ``lanes`` points of the tile dim."""
        w = self.writer
        tile = w.kernel.tile
        assert tile is not None
        self.tiles.begin = index = w.known["dim", tile].name
        whole = w.kernel.extents[tile] % w.lanes == 0
        high = w.extent(tile)
        for k in range(w.lanes):
            w.open_level(w.levels[-1].block)
            self.tiles.lane = k
            here = w.line(f"add i64 {index}, {k}")
            w.define_dim(tile, here)
            label = f"tile{w.count()}"
            if not whole:
                inside = w.line(f"icmp slt i64 {here}, {high}")
                level = w.levels[-1]
                level.lines.append(f"  br i1 {inside}, label %{label}, label %{label}.end")
                level.lines.append(f"{label}:")
            for store in w.kernel.rows:
                self.stores.store(store)
            lines = w.close_level()
            outer = w.levels[-1]
            outer.lines.extend(lines)
            if not whole:
                outer.lines += [f"  br label %{label}.end", f"{label}.end:"]
                outer.block = f"{label}.end"
