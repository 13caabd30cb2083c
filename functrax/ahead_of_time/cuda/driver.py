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
from functrax.ahead_of_time.program_writer import Frame, LoopWriter, ProgramWriter
from functrax.ahead_of_time.writer import BufferAddress
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
from functrax.core.errors.source import SourceLine

#: Compilers of C take longer than in proportion for a long function, so one has at most so many
#: instructions of the outermost program.
_LONGEST: Final = 128


class CudaDriver(ProgramWriter):
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
        return BufferAddress("c->constants", self._constants.place(value))

    def write_steps(
        self, program: RuntimeProgram, frame: Frame, arena: BufferAddress, outermost: bool
    ) -> None:
        for n, x in enumerate(program.instructions):
            if outermost and self._written >= _LONGEST:
                self._end()
                self._begin()
            self._written += 1
            place = max(program.workspaces[n], 0)
            self._instruction(x, program.slots, frame, arena.plus(place))

    def write_copy(self, to: BufferAddress, source: BufferAddress, nbytes: int) -> None:
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
                self.known(x, slots, frame)

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


class _CLoop(LoopWriter):
    """A loop of C."""

    def __init__(
        self,
        driver: CudaDriver,
        x: LoopInstruction,
        slots: Sequence[Slot],
        frame: Frame,
        place: BufferAddress,
    ) -> None:
        super().__init__(driver, x, slots, frame, place)
        self._d, self._f, self._x = driver, driver.f, x
        self._slots, self._frame = slots, frame
        self._varying = [k for k in self.moving() if self.sizes[k]]

    def write(self) -> None:
        """The loop to its end."""
        self.enter()
        with self._f.block(""):
            if isinstance(self._x, WhileInstruction):
                self._while(self._x)
            else:
                self._scan(self._x)
            self.leave()

    def _variable(self, name: str, value: str) -> BufferAddress:
        variable = self._f.fresh(name)
        self._f.line(f"uint64_t {variable} = {value};")
        return BufferAddress(variable)

    def _while(self, x: WhileInstruction) -> None:
        f, d, frame = self._f, self._d, self._frame
        for k in self._varying:
            self.now[k] = self._variable("now", shown(self.now[k]))
        with f.block("for (;;)"):
            test = d.prepared(x.cond, self.arena, [frame[s] for s in x.cond_consts])
            test.update(zip(x.cond.inputs[len(x.cond_consts) :], self.now))
            d.inner(x.cond, test, self.arena, [self.cell])
            goes_on = f.fresh("goes_on")
            f.line(f"uint8_t {goes_on} = 0;")
            f.line(f"functrax_cuda_read(c, &{goes_on}, {shown(self.cell)}, 1u);")
            f.line(f"if (!{goes_on}) break;")
            targets = list(self.first)
            for k in self._varying:
                one, two = shown(self.first[k]), shown(self.second[k])
                targets[k] = self._variable("next", f"{self.now[k].base} == {one} ? {two} : {one}")
            body = d.prepared(x.body, self.arena, [frame[s] for s in x.body_consts])
            now = self.now
            self.step(body, targets)
            self.now = now
            for k in self._varying:
                f.line(f"{now[k].base} = {targets[k].base};")

    def _scan(self, x: ScanInstruction) -> None:
        """Run the body, such that the last time writes the carry to its place."""
        f, frame, slots, count = self._f, self._frame, self._slots, x.length
        if count == 0:
            return
        targets, others = list(self.first), list(self.first)
        for k in self._varying:
            now = self.now[k] = self._variable("now", shown(self.now[k]))
            ends = self.first[k], self.second[k]
            if count % 2:  # the first round writes the place of the result
                with f.block(f"if ({now.base} == {shown(ends[0])})"):
                    self._d.copy(ends[1], now, self.sizes[k])
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
            body = self._d.prepared(x.body, self.arena, [frame[s] for s in x.consts])
            body.update(zip(x.body.inputs[first_carry(x) + len(x.carry) :], rows))
            places = self.now
            self.step(body, [*targets, *rows[len(x.xs) :]])
            self.now = places
            for k in self._varying:
                here, next_, other = places[k].base, targets[k].base, others[k].base
                f.line(f"{here} = {next_};")
                f.line(f"{next_} = {other};")
                f.line(f"{other} = {here};")
