"""The driver: a program's instructions as one function of LLVM IR.

A :class:`~functrax.backends.executables.program.RuntimeProgram` enters, whose launches own texts of
kernels; the text of a function leaves that does what ``backends/runtime/executor.py`` does with it.
Loops and branches are blocks, and the programs inside them are written where they run.  Arrays
between kernels lie in a workspace that the caller gives.

Start at :meth:`Driver.whole`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from functrax.ahead_of_time.constants import Constants
from functrax.ahead_of_time.debug_lines import DebugLines
from functrax.ahead_of_time.kernel_functions import KernelFunctions
from functrax.ahead_of_time.program_writer import Frame, LoopWriter, ProgramWriter
from functrax.ahead_of_time.run_functions import RunFunctions
from functrax.ahead_of_time.sizes.numbers import SizeTable
from functrax.ahead_of_time.writer import BufferAddress, FunctionText
from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
    LoopInstruction,
    RuntimeProgram,
    ScanInstruction,
    Slot,
    WhileInstruction,
    first_carry,
)
from functrax.backends.targets import Target
from functrax.core.errors.source import SourceLine
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: LLVM's time grows faster than a function's length, so a function has at most so many launches of
#: the outermost program.
_LONGEST: Final = 128
_PARAMETERS: Final = "ptr %arguments, ptr %results, ptr %workspace, ptr %threads, ptr %table"


class Driver(ProgramWriter):
    """Writes the function that runs a program, ``@run``, which calls its parts in order.

    Args:
      name: of the program.
      kernels: the functions of the module.
      constants: its constants.
      target: what it is for.
      lines: the user's line of each instruction.
      debug: writes them down.
      run: the name of the function that is written.
      table: the numbers that follow from sizes; None if there are none.
    """

    def __init__(
        self,
        name: str,
        kernels: KernelFunctions,
        constants: Constants,
        target: Target,
        lines: Mapping[Instruction, SourceLine],
        debug: DebugLines,
        run: str = "@run",
        table: SizeTable | None = None,
    ) -> None:
        self._name, self.constants = name, constants
        self._run, self._table = run, table
        self._lines, self._debug = lines, debug
        self._runs = RunFunctions(kernels, constants, lines, run, table)
        self._wake_ns = target.wake_ns
        self._parts: list[str] = []
        self._begin()

    def whole(self, program: RuntimeProgram, values: Sequence[np.ndarray[Any, Any]]) -> None:
        """Write all that runs a program.

        Args:
          program: the outermost one.
          values: its first inputs; the others are arguments.
        """
        inputs, outputs = (
            [BufferAddress(array, 8 * n, loads=True) for n in range(count)]
            for array, count in (
                ("%arguments", len(program.inputs) - len(values)),
                ("%results", len(program.outputs)),
            )
        )
        arena = BufferAddress("%workspace")
        constants = [self.constant(x) for x in values]
        frame = self.prepared(program, arena, [*constants, *inputs])
        self.inner(program, frame, arena, outputs, outermost=True)
        self._end()

    def definitions(self) -> list[str]:
        """The texts of the functions."""
        calls = [f"  call void {self._run}.{n}({_PARAMETERS})" for n in range(len(self._parts))]
        head = f"define internal void {self._run}({_PARAMETERS}) nounwind {{"
        return [
            *self._runs.definitions(),
            *self._parts,
            "\n".join([head, *calls, "  ret void", "}"]),
        ]

    def _begin(self) -> None:
        """Begin the next part."""
        self._mark = self._debug.function(self._name, None)
        head = f"define internal void {self._run}.{len(self._parts)}({_PARAMETERS}) nounwind"
        noted = head if self._mark is None else f"{head} !dbg {self._mark.function}"
        self.f = FunctionText(noted, self._table)
        self._launched = self._addresses = 0  # launches, and how many addresses one has at most
        self._buffers = self.f.fresh()

    def _end(self) -> None:
        """End the part."""
        self.f.reserve(self._buffers, f"[{self._addresses} x ptr]")
        self.f.line(f"ret void{self.f.place}")
        self._parts.append(self.f.text())

    # ---- programs -------------------------------------------------------------------------------

    def constant(self, value: np.ndarray[Any, Any]) -> BufferAddress:
        return BufferAddress(self.constants.array(value))

    def write_steps(
        self, program: RuntimeProgram, frame: Frame, arena: BufferAddress, outermost: bool
    ) -> None:
        for step in program.steps:
            if outermost and self._launched >= _LONGEST:
                self._end()
                self._begin()
            run = program.instructions[step.start : step.stop]
            place = max(program.workspaces[step.start], 0)
            self._at(self._lines.get(run[0]))
            if len(run) > 1:
                self._launches([x for x in run if isinstance(x, Launch)], frame)
            else:
                self._instruction(run[0], program.slots, frame, arena, place)

    def write_copy(self, to: BufferAddress, source: BufferAddress, nbytes: int) -> None:
        places = f"ptr {self.f.at(to)}, ptr {self.f.at(source)}"
        self.f.call(f"@copy({places}, i64 {self.f.number(nbytes)})")

    def _at(self, line: SourceLine | None) -> None:
        if self._mark is not None:
            self.f.place = f", !dbg {self._debug.place(self._mark, line)}"

    def _instruction(
        self, x: Instruction, slots: Sequence[Slot], frame: Frame, arena: BufferAddress, place: int
    ) -> None:
        match x:
            case Launch():
                self._launches([x], frame)
            case CopyInstruction():
                self.copy(frame[x.target], frame[x.source], slots[x.source].nbytes)
            case CondInstruction():
                self._cond(x, slots, frame, arena.plus(place))
            case WhileInstruction() | ScanInstruction():
                _Loop(self, x, slots, frame, arena.plus(place)).write()
            case HostCall():
                self.known(x, slots, frame)

    # ---- launches -------------------------------------------------------------------------------

    def _launches(self, run: Sequence[Launch], frame: Frame) -> None:
        """Launches whose units threads may share at once."""
        run = [x for x in run if x.units > 0]
        first, places = 0, list[int]()
        for x in run:
            self._store(first, "null")
            for n, slot in enumerate((*x.inputs, *x.outputs)):
                begin = x.begins[n] if x.begins else 0
                self._store(first + 1 + n, self.f.at(frame[slot], begin))
            places.append(first + 1)
            first += 1 + len(x.inputs) + len(x.outputs)
        self._addresses = max(self._addresses, first)
        self._launched += len(run)
        cost = sum(max(x.cost, 1) for x in run)
        if not run:
            return
        if len(run) == 1:
            (x,) = run
            function, numbers = self._runs.launched(x, self.f)
            units, grain = x.units, x.grain
        else:
            function, numbers = self._runs.together(run, [8 * (n - 1) for n in places])
            units, grain = cost, 1
        buffers = self.f.offset(self._buffers, 8)
        given = f"ptr {buffers}, ptr {numbers}, "
        if is_symbolic_dim(cost) or is_symbolic_dim(units):
            self._shared(function, given, units, grain, cost)
        elif cost < self._wake_ns or units <= grain:
            self.f.call(f"{function}({given}i64 0, i64 {units})")
        else:
            rest = f"i64 {units}, i64 {grain}, i64 {cost}"
            self.f.call(f"@shared(ptr %threads, ptr {function}, {given}{rest})")

    def _shared(self, function: str, given: str, units: int, grain: int, cost: int) -> None:
        """A launch of which sizes say whether threads share it."""
        f = self.f
        many, long, some = f.number(units), f.number(cost), f.number(grain)
        pays = f.value(f"icmp sge i64 {long}, {self._wake_ns}")
        parts = f.value(f"icmp sgt i64 {many}, {some}")
        both = f.value(f"and i1 {pays}, {parts}")
        threads = f.value(f"select i1 {both}, ptr %threads, ptr null")
        f.call(f"@shared(ptr {threads}, ptr {function}, {given}i64 {many}, i64 {some}, i64 {long})")

    def _store(self, n: int, address: str) -> None:
        self.f.line(f"store ptr {address}, ptr {self.f.offset(self._buffers, 8 * n)}")

    # ---- branches -------------------------------------------------------------------------------

    def _cond(
        self, x: CondInstruction, slots: Sequence[Slot], frame: Frame, place: BufferAddress
    ) -> None:
        f, dtype = self.f, slots[x.index].dtype
        bits = 8 * dtype.itemsize
        index = f.value(f"load i{bits}, ptr {f.at(frame[x.index])}")
        if bits < 64:
            index = f.value(f"{'zext' if dtype.kind in 'bu' else 'sext'} i{bits} {index} to i64")
        last = len(x.branches) - 1
        kind = "u" if dtype.kind in "bu" else "s"
        if kind == "s":
            index = f.value(f"call i64 @llvm.smax.i64(i64 {index}, i64 0)")
        index = f.value(f"call i64 @llvm.{kind}min.i64(i64 {index}, i64 {last})")
        blocks, after = [f.label() for _ in x.branches], f.label()
        cases = " ".join(f"i64 {n}, label %{block}" for n, block in enumerate(blocks[:-1]))
        f.line(f"switch i64 {index}, label %{blocks[-1]} [ {cases} ]")
        for branch, block in zip(x.branches, blocks, strict=True):
            f.begin(block)
            inside = self.prepared(branch, place, [frame[s] for s in x.operands])
            self.inner(branch, inside, place, [frame[s] for s in x.outputs])
            f.go(after)
        f.begin(after)


class _Loop(LoopWriter):
    """A loop as blocks."""

    def __init__(
        self,
        driver: Driver,
        x: LoopInstruction,
        slots: Sequence[Slot],
        frame: Frame,
        place: BufferAddress,
    ) -> None:
        super().__init__(driver, x, slots, frame, place)
        self._d, self._f, self._x = driver, driver.f, x
        self._slots, self._frame = slots, frame

    def write(self) -> None:
        """The loop to its end."""
        self.enter()
        if isinstance(self._x, WhileInstruction):
            self._while(self._x)
        else:
            self._scan(self._x)
        self.leave()

    def _while(self, x: WhileInstruction) -> None:
        f, d, frame = self._f, self._d, self._frame
        test = d.prepared(x.cond, self.arena, [frame[s] for s in x.cond_consts])
        body = d.prepared(x.body, self.arena, [frame[s] for s in x.body_consts])
        moving = self.moving()
        first = {k: f.at(self.now[k]) for k in moving}
        before, head, inside, after = f.block, f.label(), f.label(), f.label()
        f.go(head)
        f.begin(head)
        phis = {k: f.open_phi(first[k], before) for k in moving}
        for k, (name, _) in phis.items():
            self.now[k] = BufferAddress(name)
        carried = list(self.now)
        test.update(zip(x.cond.inputs[len(x.cond_consts) :], self.now))
        d.inner(x.cond, test, self.arena, [self.cell])
        goes_on = f.value(f"load i8, ptr {f.at(self.cell)}")
        more = f.value(f"icmp ne i8 {goes_on}, 0")
        f.branch(more, inside, after)
        f.begin(inside)
        targets = list(self.first)
        for k, (name, _) in phis.items():
            one, two = f.at(self.first[k]), f.at(self.second[k])
            same = f.value(f"icmp eq ptr {name}, {one}")
            targets[k] = BufferAddress(f.value(f"select i1 {same}, ptr {two}, ptr {one}"))
        self.step(body, targets)
        for k, (_, number) in phis.items():
            f.close_phi(number, targets[k].base)
        f.go(head)
        f.begin(after)
        self.now = carried

    def _scan(self, x: ScanInstruction) -> None:
        """Run the body, such that the last time writes the carry to its place."""
        f, d, frame, slots, count = self._f, self._d, self._frame, self._slots, x.length
        if count == 0:
            return
        body = d.prepared(x.body, self.arena, [frame[s] for s in x.consts])
        moving = self.moving()
        if count % 2:
            for k in moving:
                self._leave_first(k)
        ends = [self.first, self.second] if count % 2 else [self.second, self.first]
        starts = [{k: f.at(some[k]) for k in moving} for some in (self.now, *ends)]
        before, head, after = f.block, f.label(), f.label()
        f.go(head)
        f.begin(head)
        t, counted = f.open_phi("0", before, "i64")
        now, following, other = (
            {k: f.open_phi(value, before) for k, value in some.items()} for some in starts
        )
        targets = list(self.first)
        for k in moving:
            self.now[k], targets[k] = BufferAddress(now[k][0]), BufferAddress(following[k][0])
        element = f.value(f"sub i64 {count - 1}, {t}") if x.reverse else t
        rows = []
        for s in (*x.xs, *x.outputs[len(x.carry) :]):
            size = slots[s].nbytes // count
            place = f.value(f"mul i64 {element}, {f.number(size)}")
            rows.append(BufferAddress(f.offset(f.at(frame[s]), place)) if size else frame[s])
        body.update(zip(x.body.inputs[first_carry(x) + len(x.carry) :], rows))
        self.step(body, [*targets, *rows[len(x.xs) :]])
        next_ = f.value(f"add i64 {t}, 1")
        more = f.value(f"icmp slt i64 {next_}, {count}")
        f.close_phi(counted, next_)
        for k in moving:
            f.close_phi(now[k][1], following[k][0])
            f.close_phi(following[k][1], other[k][0])
            f.close_phi(other[k][1], following[k][0])
        f.branch(more, head, after)
        f.begin(after)

    def _leave_first(self, k: int) -> None:
        """A part of the carry leaves the place of its result, which the first round writes."""
        f, source = self._f, f"ptr {self._f.at(self.now[k])}"
        second = f"ptr {f.at(self.second[k])}"
        same = f.value(f"icmp eq {source}, {f.at(self.first[k])}")
        with f.when(same):
            self._d.copy(self.second[k], self.now[k], self.sizes[k])
        self.now[k] = BufferAddress(f.value(f"select i1 {same}, {second}, {source}"))
