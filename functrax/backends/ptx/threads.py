"""Statements of a thread of a GPU: its unit of the grid, its part of a group's loops, and what the
threads of a group put together.

A group is one thread, a part of a *warp* of 32 threads that run in step, a warp, or a whole *block*
of several warps.  Threads of a warp give each other values by shuffles; warps of a block by shared
memory, with barriers around.  The order in which values are put together depends on the group's
size alone.  Loops of groups are in ``group_loops``, running results in ``group_scans``.

Start at :class:`ThreadStatements`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from functrax.backends.kernels.ir import Store
from functrax.backends.llvm.addresses import memory_type
from functrax.backends.llvm.nodes import Nodes
from functrax.backends.llvm.statements import Statements, Write
from functrax.backends.llvm.templates import llvm_type
from functrax.backends.llvm.writer import Writer
from functrax.backends.loops import tree
from functrax.backends.ptx.group_loops import GroupStatements
from functrax.backends.ptx.group_scans import GroupScans
from functrax.backends.ptx.wide_loops import aligned_in
from functrax.backends.targets import target
from functrax.backends.targets.nvptx import WARP
from functrax.core.prims.lowered_reductions import Reduction
from functrax.core.scalars.scalar import Scalar

_SREG: Final = "llvm.nvvm.read.ptx.sreg"
_BARRIER: Final = "call void @llvm.nvvm.barrier0()"


class ThreadWriter(Writer):
    """The text of what one thread does."""

    def __init__(self, kernel: tree.Function) -> None:
        super().__init__(kernel)
        #: Definitions of shared memory.
        self.shared: list[str] = []
        self._registers: set[str] = set()

    def look(self) -> None:
        """A kernel of a GPU is not interrupted."""

    def register(self, name: str) -> str:
        """A special register: ``tid``, ``ntid`` or ``ctaid``, along the first axis."""
        if name not in self._registers:
            self._registers.add(name)
            self.header.append(f"  %{name} = call i32 @{_SREG}.{name}.x()")
        return f"%{name}"

    def number(self, value: int, key: Any) -> str:
        """A run-time argument; but places in shared memory are part of the code."""
        if type(key) is tuple and key[0] in ("const", "stride"):
            if self.kernel.operands[key[1]].shared:
                return str(value)
        return super().number(value, key)

    def of_thread(self, name: str) -> str:
        """A number of a thread: in its warp, ``lane``; of its warp, ``warp``; in its group,
        ``member``.  And ``mates``: which lanes of the warp are of its group, as bits.
        """
        group = self.kernel.group
        if name == "member" and group >= WARP:
            return self.of_thread("lane") if group == WARP else self.register("tid")
        if name == "mates" and group >= WARP:
            return "-1"
        if name not in self._registers:
            self._registers.add(name)
            tid = self.register("tid")
            if name == "mates":
                first = self.fresh()
                self.header.append(f"  {first} = and i32 {tid}, {WARP - group}")
                how = f"shl i32 {(1 << group) - 1}, {first}"
            else:
                how = {
                    "member": f"and i32 {tid}, {group - 1}",
                    "lane": f"and i32 {tid}, {WARP - 1}",
                    "warp": f"lshr i32 {tid}, {WARP.bit_length() - 1}",
                }[name]
            self.header.append(f"  %{name} = {how}")
        return f"%{name}"

    def unit(self) -> str:
        """The number of the thread's unit."""
        block = self.line(f"zext i32 {self.register('ctaid')} to i64")
        group = self.kernel.group
        if group > WARP:
            return block
        size = self.line(f"zext i32 {self.register('ntid')} to i64")
        first = self.line(f"mul nuw nsw i64 {block}, {size}")
        thread = self.line(f"zext i32 {self.register('tid')} to i64")
        thread = self.line(f"add nuw nsw i64 {first}, {thread}")
        if group == 1:
            return thread
        return self.line(f"lshr i64 {thread}, {group.bit_length() - 1}")

    def shared_array(self, element: str, count: int) -> str:
        """The name of an array in the memory that the threads of a block share."""
        name = f"@{self.kernel.name}.shared{len(self.shared)}"
        self.shared.append(
            f"{name} = internal addrspace(3) global [{count} x {element}] undef, align 16"
        )
        return name


class ThreadNodes(Nodes):
    """Writes the computations of a thread."""

    writer: ThreadWriter
    #: Which thread of the warp has its turn.
    turn = ""

    def _compute(self, node: Scalar) -> None:
        if node.op == "together":
            self._together(node)
        elif node.op == "aligned":
            self._aligned(node)
        elif node.op == "turn":
            found = self.shuffled(node.args[0], "idx", self.turn)
            w = self.writer
            w.same(node, w.operand(found), len(w.levels) - 1)
        elif node.op == "first":
            w = self.writer
            w.know(id(node), w.line(f"icmp eq i32 {w.of_thread('member')}, 0", 0), False, 0)
        else:
            super()._compute(node)

    def _aligned(self, node: Scalar) -> None:
        w, together = self.writer, "0"
        for buffer in node.attr:
            place = w.line(f"ptrtoint ptr %b{buffer} to i64", 0)
            together = w.line(f"or i64 {together}, {place}", 0)
        low = w.line(f"and i64 {together}, {target().access_bytes - 1}", 0)
        w.know(id(node), w.line(f"icmp eq i64 {low}, 0", 0), False, 0)

    # ---- what threads put together --------------------------------------------------------------

    def _together(self, node: Scalar) -> None:
        """Know the values that a node and its siblings are: what all threads of the group have."""
        w = self.writer
        how, _ = node.attr
        group = w.kernel.group
        values = self._by_halves(how, list(node.args), min(group, WARP))
        if group > WARP:
            values = self._by_halves(how, self.of_warps(values, 0), group // WARP)
        level = len(w.levels) - 1
        for n, x in enumerate(values):
            sibling = w.builder.node("together", x.dtype, node.args, (how, n))
            w.know(id(sibling), w.operand(x).name, False, level)

    def _by_halves(self, how: Reduction, values: list[Scalar], count: int) -> list[Scalar]:
        """What neighbouring lanes have, so many, put together."""
        distance = 1
        while distance < count:
            others = [self.shuffled(x, "bfly", str(distance)) for x in values]
            values = self.combined(how, values, others)
            distance *= 2
        return values

    def combined(self, how: Reduction, left: list[Scalar], right: list[Scalar]) -> list[Scalar]:
        """Two sets of numbers, put together and computed."""
        found = how.combine(self.writer.builder, tuple(left), tuple(right))
        for x in found:
            self.value(x)
        return list(found)

    def of_warps(self, values: Sequence[Scalar], lane: int) -> list[Scalar]:
        """What a lane of each warp of the block has: of the warp with the number of the own lane;
        lanes beyond the last warp have it again from the first one on.
        """
        w, warps = self.writer, self.writer.kernel.group // WARP
        arrays = [w.shared_array(memory_type(x.dtype), warps) for x in values]
        gives = w.line(f"icmp eq i32 {w.of_thread('lane')}, {lane}")
        label = w.open_branch()
        for x, array in zip(values, arrays, strict=True):
            element, level = memory_type(x.dtype), len(w.levels) - 1
            name = self.loads.memory.to_memory(w.operand(x).name, x.dtype, 1, level)
            place = self._place(array, element, warps, w.of_thread("warp"))
            w.do(f"store {element} {name}, ptr addrspace(3) {place}")
        w.close_branch(label, gives)
        w.do(_BARRIER)
        warp = w.line(f"and i32 {w.of_thread('lane')}, {warps - 1}")
        found = []
        for x, array in zip(values, arrays, strict=True):
            element = memory_type(x.dtype)
            name = w.line(
                f"load {element}, ptr addrspace(3) {self._place(array, element, warps, warp)}"
            )
            found.append(self.leaf(x.dtype, self._from_memory(name, x.dtype, len(w.levels) - 1)))
        w.do(_BARRIER)
        return found

    def _from_memory(self, name: str, dtype: np.dtype[Any], level: int) -> str:
        return self.loads.memory.from_memory(name, dtype, False, level)

    def _place(self, array: str, element: str, count: int, index: str) -> str:
        text = f"getelementptr [{count} x {element}], ptr addrspace(3) {array}, i32 0, i32 {index}"
        return self.writer.line(text)

    def leaf(self, dtype: np.dtype[Any], name: str) -> Scalar:
        """A leaf that stands for a value of this thread, here."""
        w = self.writer
        leaf = w.builder.node("acc", dtype, (), ("thread", w.count()))
        w.know(id(leaf), name, False, len(w.levels) - 1)
        return leaf

    def shuffled(self, x: Scalar, kind: str, by: str) -> Scalar:
        """What another thread of the group and the warp has: ``bfly``, whose number differs in
        these bits; ``up``, which is so many before, if one is; ``idx``, which has this number.
        """
        w, dtype = self.writer, x.dtype
        name = w.operand(x).name
        type_ = llvm_type(dtype, 1)
        bits = 8 * dtype.itemsize if dtype != np.bool_ else 1
        if dtype.kind == "f" and dtype.itemsize > 2:
            name = w.line(f"bitcast {type_} {name} to i{bits}")
        segment = WARP - min(w.kernel.group, WARP)
        bounds = segment << 8 | (0 if kind == "up" else WARP - 1)
        words = []
        for k in range(-(-bits // 32)):
            word = name
            if bits > 32:
                word = w.line(f"lshr i{bits} {name}, {32 * k}") if k else name
                word = w.line(f"trunc i{bits} {word} to i32")
            elif bits < 32:
                word = w.line(f"zext i{bits} {name} to i32")
            given = f"i32 {w.of_thread('mates')}, i32 {word}, i32 {by}, i32 {bounds}"
            words.append(w.line(f"call i32 @llvm.nvvm.shfl.sync.{kind}.i32({given})"))
        name = words[0]
        if bits > 32:
            low, high = (w.line(f"zext i32 {word} to i64") for word in words)
            high = w.line(f"shl i64 {high}, 32")
            name = w.line(f"or i64 {low}, {high}")
        elif bits < 32:
            name = w.line(f"trunc i32 {name} to i{bits}")
        if dtype.kind == "f" and dtype.itemsize > 2:
            name = w.line(f"bitcast i{bits} {name} to {type_}")
        return self.leaf(dtype, name)


class ThreadStatements(GroupStatements):
    """Writes what a thread does of a kernel."""

    def _shared_loop(self, loop: tree.Loop) -> None:
        if loop.kind == "grid":
            self._unit(loop)
        elif loop.kind == "group":
            self._group_loop(loop)
        elif loop.kind == "wide":
            self.wide.write(loop)
        elif loop.kind == "member":
            member = self.writer.of_thread("member")
            self.writer.define_dim(loop.dim, self.writer.line(f"zext i32 {member} to i64"))
            self.of_members = True
            self.write(loop.body)
            self.of_members = False
        else:
            self._loop(loop)

    def _unit(self, loop: tree.Loop) -> None:
        """What is done for the thread's unit; a thread that there is none for does nothing at all.

        Not even what is the same for all units: it may read what another thread writes.
        """
        w = self.writer
        end = self._name(loop.end)
        unit = w.unit()
        inside = w.line(f"icmp slt i64 {unit}, {end}")
        outermost = w.levels[-1]
        outermost.lines += [f"  br i1 {inside}, label %unit, label %end", "unit:"]
        outermost.block = "unit"
        w.define_dim(loop.dim, unit)
        self.write(loop.body)
        outermost.lines += ["  br label %end", "end:"]

    def _together_running(self, running: tree.Running) -> None:
        if self.of_members or self.in_step == len(self.writer.levels) - 1:
            GroupScans(self.nodes).running(running.scan, running.last, self.of_members)
        else:
            self._running(running)

    def _if_or_turns(self, s: tree.If) -> None:
        wide = self.wide
        if s.in_turn:
            self._in_turn(s)
        elif s.condition.op == "tail" and all(id(x) in wide.rows for x in s.body):
            self.write(s.body)  # written at once, and only where the tail is
        else:
            before = wide.aligned
            wide.aligned = before | aligned_in(s.condition)
            self._branch(s.condition, s.body)
            wide.aligned = before
            self._branch(s.condition, s.otherwise, negated=True)

    def _store(self, store: Store) -> None:
        if id(store) in self.wide.rows:
            self.wide.put(store)
        else:
            self.stores.store(store)

    WRITTEN: ClassVar[dict[type, Write]] = {
        **Statements.WRITTEN,
        tree.If: _if_or_turns,
        tree.Loop: _shared_loop,
        tree.Running: _together_running,
        Store: _store,
        tree.Barrier: lambda self, _: self.writer.do(_BARRIER),
    }
