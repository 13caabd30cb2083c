"""The driver of a GPU: a program's instructions as functions of C.

A :class:`~functrax.backends.executables.program.RuntimeProgram` for a GPU enters; functions leave
that ask CUDA's driver for what ``backends/cuda/run.py`` asks for, by ``functrax_cuda.h``.  Loops
and branches are those of C, and the programs inside them are written where they run: the host reads
what decides.  An error stays in the call, and what comes after it does nothing.

Start at :meth:`CudaDriver.whole`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from functrax.ahead_of_time.cuda.constants import DeviceConstants
from functrax.ahead_of_time.cuda.kernels import DeviceKernels
from functrax.ahead_of_time.cuda.writer import CText, comment, shown
from functrax.ahead_of_time.writer import BufferAddress
from functrax.backends.executables.memory_plan import workspace
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
from functrax.backends.executables.program_inputs import adapter
from functrax.core.errors.source import SourceLine

#: Addresses of a program's slots.
Frame = dict[int, BufferAddress]

#: Compilers of C take longer than in proportion for a long function, so one has at most so many
#: instructions of the outermost program.
_LONGEST: Final = 128


class CudaDriver:
    """Writes the function that runs a program, ``functrax_run``, which calls its parts in order.

    Args:
      kernels: that it launches.
      constants: that it reads.
      lines: the user's line of each instruction.
    """

    def __init__(
        self,
        kernels: DeviceKernels,
        constants: DeviceConstants,
        lines: Mapping[Instruction, SourceLine],
    ) -> None:
        self._kernels, self._constants, self._lines = kernels, constants, lines
        self._parts: list[str] = []
        self._written = 0
        self._begin()

    def whole(self, program: RuntimeProgram, values: Sequence[np.ndarray[Any, Any]]) -> None:
        """Write all that runs a program.

        Args:
          program: the outermost one.
          values: its first inputs; the others are arguments.
        """
        arguments = len(program.inputs) - len(values)
        inputs = [self.constant(x) for x in values]
        inputs += [BufferAddress(f"c->arguments[{n}]") for n in range(arguments)]
        outputs = [BufferAddress(f"c->results[{n}]") for n in range(len(program.outputs))]
        arena = BufferAddress("c->workspace")
        frame = self.prepared(program, arena, inputs)
        self.inner(program, frame, arena, outputs, outermost=True)
        self._end()

    def definitions(self) -> list[str]:
        """The texts of the functions."""
        f = CText("static void functrax_run(functrax_cuda_call *c)")
        for n in range(len(self._parts)):
            f.line(f"functrax_part_{n}(c);")
        return [*self._parts, f.text()]

    def _begin(self) -> None:
        """Begin the next part."""
        self.f = CText(f"static void functrax_part_{len(self._parts)}(functrax_cuda_call *c)")
        self.f.line("(void)c;")
        self._written = 0

    def _end(self) -> None:
        self._parts.append(self.f.text())

    # ---- programs -------------------------------------------------------------------------------

    def constant(self, value: np.ndarray[Any, Any]) -> BufferAddress:
        """Where a constant is."""
        return BufferAddress("c->constants", self._constants.place(value))

    def prepared(
        self, program: RuntimeProgram, arena: BufferAddress, inputs: Sequence[BufferAddress]
    ) -> Frame:
        """The addresses of what stays where it is, and of the first inputs."""
        frame: Frame = {}
        for n, slot in enumerate(program.slots):
            if slot.value is not None:
                frame[n] = self.constant(slot.value)
            elif slot.offset >= 0:
                frame[n] = arena.plus(slot.offset)
        frame.update(zip(program.inputs, inputs))
        return frame

    def inner(
        self,
        program: RuntimeProgram,
        frame: Frame,
        arena: BufferAddress,
        to: Sequence[BufferAddress],
        outermost: bool = False,
    ) -> None:
        """Run a program whose inputs have got their addresses; its results go to some addresses."""
        slots = program.slots
        for n, slot in enumerate(program.outputs):
            if slots[slot].kind == "output" and slots[slot].number == n:
                frame[slot] = to[n]
        for n, slot_ in enumerate(slots):
            if slot_.shares >= 0:
                frame[n] = frame[slot_.shares]
        for n, x in enumerate(program.instructions):
            if outermost and self._written >= _LONGEST:
                self._end()
                self._begin()
            self._written += 1
            self._instruction(x, slots, frame, arena.plus(max(program.workspaces[n], 0)))
        for n, slot in enumerate(program.outputs):
            self.copy(to[n], frame[slot], slots[slot].nbytes)

    def copy(self, to: BufferAddress, source: BufferAddress, nbytes: int) -> None:
        """Copy bytes, which are at another place or at the same."""
        if to != source and nbytes:
            self.f.line(f"functrax_cuda_copy(c, {shown(to)}, {shown(source)}, {nbytes}u);")

    def _instruction(
        self, x: Instruction, slots: Sequence[Slot], frame: Frame, place: BufferAddress
    ) -> None:
        line = self._lines.get(x)
        if line is not None:
            where = f"{os.path.basename(line.file)}:{line.line}"
            self.f.line(comment(f"{where} in {line.function}"))
        match x:
            case Launch():
                self._launch(x, frame)
            case CopyInstruction():
                self.copy(frame[x.target], frame[x.source], slots[x.source].nbytes)
            case CondInstruction():
                self._cond(x, slots, frame, place)
            case WhileInstruction() | ScanInstruction():
                _CLoop(self, x, slots, frame, place).write()
            case HostCall():
                self._known(x, slots, frame)

    def _known(self, x: HostCall, slots: Sequence[Slot], frame: Frame) -> None:
        """What a function of Python makes of arrays without elements and of constants."""
        inputs, outputs = (
            [np.empty(slots[n].shape, slots[n].dtype) for n in some]
            for some in (x.inputs, x.outputs)
        )
        given = [y if (z := slots[n].value) is None else z for n, y in zip(x.inputs, inputs)]
        adapter(x)(given, outputs)
        for n, value in zip(x.outputs, outputs, strict=True):
            self.copy(frame[n], self.constant(value), value.nbytes)

    def _launch(self, x: Launch, frame: Frame) -> None:
        if not x.units:
            return
        kernel = self._kernels.used(x)
        begins = x.begins or (0,) * (len(x.inputs) + len(x.outputs))
        places = [frame[s].plus(b) for s, b in zip((*x.inputs, *x.outputs), begins, strict=True)]
        with self.f.block(""):
            self.f.line(f"const uint64_t places[] = {{{', '.join(map(shown, places)) or '0'}}};")
            given = f"places, {len(places)}, {kernel.numbers}"
            self.f.line(f"functrax_cuda_launch(c, {kernel.number}, {kernel.grid}u, {given});")

    # ---- branches -------------------------------------------------------------------------------

    def _cond(
        self, x: CondInstruction, slots: Sequence[Slot], frame: Frame, place: BufferAddress
    ) -> None:
        f, dtype, last = self.f, slots[x.index].dtype, len(x.branches) - 1
        unsigned = dtype.kind in "bu"
        index = f.fresh("index")
        f.line(f"{'u' if unsigned else ''}int{8 * dtype.itemsize}_t {index} = 0;")
        f.line(f"functrax_cuda_read(c, &{index}, {shown(frame[x.index])}, sizeof {index});")
        chosen = f"{index} > {last} ? {last} : (int){index}"
        if not unsigned:
            chosen = f"{index} < 0 ? 0 : {chosen}"
        with f.block(f"switch ({chosen})"):
            for n, branch in enumerate(x.branches):
                with f.block(f"case {n}:" if n < last else "default:"):
                    inside = self.prepared(branch, place, [frame[s] for s in x.operands])
                    self.inner(branch, inside, place, [frame[s] for s in x.outputs])
                    f.line("break;")


class _CLoop:
    """A loop: where the parts of its carry are, and where they go next; see ``executor.py``."""

    def __init__(
        self,
        driver: CudaDriver,
        x: LoopInstruction,
        slots: Sequence[Slot],
        frame: Frame,
        place: BufferAddress,
    ) -> None:
        self._d, self._f, self._x = driver, driver.f, x
        self._slots, self._frame = slots, frame
        space = workspace(x, slots)
        self._sizes = [slots[s].nbytes for s in x.carry]
        self._arena = place.plus(space.arena)
        self._cell = place.plus(max(space.cell, 0))
        self._first = [frame[s] for s in x.outputs[: len(x.carry)]]
        self._second = [
            a if second < 0 else place.plus(second)
            for a, second in zip(self._first, space.carry, strict=True)
        ]
        self._now = [frame[s] for s in x.carry]
        #: The parts of the carry that are at different places in turn.
        self._moving = [k for k, second in enumerate(space.carry) if second >= 0 and self._sizes[k]]

    def write(self) -> None:
        """The loop to its end."""
        for k, place in enumerate(self._first):
            if k not in self._moving:
                self._move(k, place)
        with self._f.block(""):
            if isinstance(self._x, WhileInstruction):
                self._while(self._x)
            else:
                self._scan(self._x)
            for k, place in enumerate(self._first):
                self._move(k, place)

    def _move(self, k: int, target: BufferAddress) -> None:
        self._d.copy(target, self._now[k], self._sizes[k])
        self._now[k] = target

    def _variable(self, name: str, value: str) -> BufferAddress:
        variable = self._f.fresh(name)
        self._f.line(f"uint64_t {variable} = {value};")
        return BufferAddress(variable)

    def _while(self, x: WhileInstruction) -> None:
        f, d, frame = self._f, self._d, self._frame
        for k in self._moving:
            self._now[k] = self._variable("now", shown(self._now[k]))
        with f.block("for (;;)"):
            test = d.prepared(x.cond, self._arena, [frame[s] for s in x.cond_consts])
            test.update(zip(x.cond.inputs[len(x.cond_consts) :], self._now))
            d.inner(x.cond, test, self._arena, [self._cell])
            goes_on = f.fresh("goes_on")
            f.line(f"uint8_t {goes_on} = 0;")
            f.line(f"functrax_cuda_read(c, &{goes_on}, {shown(self._cell)}, 1u);")
            f.line(f"if (!{goes_on}) break;")
            targets = list(self._first)
            for k in self._moving:
                one, two = shown(self._first[k]), shown(self._second[k])
                targets[k] = self._variable("next", f"{self._now[k].base} == {one} ? {two} : {one}")
            self._step([frame[s] for s in x.body_consts], targets, [])
            for k in self._moving:
                f.line(f"{self._now[k].base} = {targets[k].base};")

    def _scan(self, x: ScanInstruction) -> None:
        """Run the body, such that the last time writes the carry to its place."""
        f, frame, slots, count = self._f, self._frame, self._slots, x.length
        if count == 0:
            return
        targets, others = list(self._first), list(self._first)
        for k in self._moving:
            now = self._now[k] = self._variable("now", shown(self._now[k]))
            ends = self._first[k], self._second[k]
            if count % 2:  # the first round writes the place of the result
                with f.block(f"if ({now.base} == {shown(ends[0])})"):
                    self._d.copy(ends[1], now, self._sizes[k])
                    f.line(f"{now.base} = {shown(ends[1])};")
            one, two = ends if count % 2 else ends[::-1]
            targets[k] = self._variable("next", shown(one))
            others[k] = self._variable("other", shown(two))
        t = f.fresh("t")
        with f.block(f"for (uint64_t {t} = 0; {t} < {count}u; ++{t})"):
            element = f"({count - 1}u - {t})" if x.reverse else t
            rows = []
            for s in (*x.xs, *x.outputs[len(x.carry) :]):
                size = slots[s].nbytes // count
                start = frame[s]
                rows.append(
                    BufferAddress(f"{start.base} + {element} * {size}u", start.offset)
                    if size
                    else start
                )
            self._step([frame[s] for s in x.consts], targets, rows)
            for k in self._moving:
                now_, next_, other = self._now[k].base, targets[k].base, others[k].base
                f.line(f"{now_} = {next_};")
                f.line(f"{next_} = {other};")
                f.line(f"{other} = {now_};")

    def _step(
        self,
        consts: list[BufferAddress],
        targets: list[BufferAddress],
        rows: list[BufferAddress],
    ) -> None:
        """A round: ``rows`` are elements of what is scanned, then of the stacked results."""
        x, body = self._x, self._x.body
        inside = self._d.prepared(body, self._arena, consts)
        given = [*self._now, *rows]
        inside.update(zip(body.inputs[first_carry(x) :], given))
        scanned = len(body.inputs) - first_carry(x) - len(x.carry)
        self._d.inner(body, inside, self._arena, [*targets, *rows[scanned:]])
