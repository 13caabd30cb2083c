"""Runs of programs on a GPU: the twin of ``native/cuda_executable.cpp`` and ``cuda_run.cpp``.

Programs are those of the CPU's executor, of which :class:`DeviceRun` is a kind: slots are addresses
of the device, kernels are launched there, NVIDIA's libraries are asked for what they have
(``libraries/``), and what the host computes (functions of NumPy) gets copies of its operands.

Start at :class:`DeviceExecutable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.cuda.array import DeviceArray
from functrax.backends.cuda.gpu import Gpu
from functrax.backends.cuda.graph_work import launch_places
from functrax.backends.cuda.graphs import GraphUse, made_parts
from functrax.backends.cuda.libraries.opened import on_device
from functrax.backends.executables.program import (
    HostCall,
    Instruction,
    RuntimeProgram,
    Slot,
    all_programs,
)
from functrax.backends.executables.program_inputs import adapter, dense_array, input_count_error
from functrax.backends.ptx.code import DeviceCode
from functrax.backends.runtime.executor import (
    Frame,
    Observer,
    ProgramRun,
    RecordedExecutable,
    workspace_of,
)
from functrax.core.events.recorder import Event

Array = np.ndarray[Any, Any]


class DeviceExecutable(RecordedExecutable):
    """A program for a GPU; while it is recorded, each instruction is waited for.

    Args:
      program: the program.
      gpu: that it runs on.
      observer: looks at each instruction, those of loops and branches included.
    """

    def __init__(self, program: RuntimeProgram, gpu: Gpu, observer: Observer | None = None) -> None:
        self.program, self.gpu, self.observer = program, gpu, observer
        #: Constants of the program and of those inside it, on the device.
        self.constants: dict[int, DeviceArray] = {}
        #: What asks libraries for host calls, where one has them.
        calls = [
            x for p in all_programs(program) for x in p.instructions if isinstance(x, HostCall)
        ]
        self.on_device = {x: on_device(x, gpu, DeviceArray) for x in calls}
        #: Parts that may be graphs, of the program and of those inside it.
        self.parts = made_parts(program, gpu)

    def graphs(self) -> list[GraphUse]:
        """What became of the parts that may be graphs."""
        numbers = {p: n for n, p in enumerate(all_programs(self.program))}
        return sorted(x.use(numbers[p]) for p, parts in self.parts.items() for x in parts)

    def _run(
        self, values: Sequence[Any], donated: Sequence[int], events: list[Event] | None
    ) -> list[Any]:
        with self.gpu.lock:
            return self._run_alone(values, donated, events)

    def _run_alone(
        self, values: Sequence[Any], donated: Sequence[int], events: list[Event] | None
    ) -> list[Any]:
        program, gpu = self.program, self.gpu
        if len(values) != len(program.inputs):
            raise input_count_error(program.name, len(program.inputs), len(values))
        frame: Frame = [0] * len(program.slots)
        inputs = [
            self._on_device(value, program.slots[place])
            for place, value in zip(program.inputs, values, strict=True)
        ]
        for place, array in zip(program.inputs, inputs, strict=True):
            frame[place] = array.address
        gpu.begin(program)
        results: list[DeviceArray] = []
        new: list[DeviceArray] = []
        for number, place in enumerate(program.outputs):
            slot = program.slots[place]
            if slot.kind == "input":
                results.append(inputs[slot.number])
            elif slot.kind == "const":
                results.append(self.constant(slot))
            elif slot.number != number:
                results.append(results[slot.number])
            else:
                results.append(DeviceArray(gpu, slot.shape, slot.dtype))
                new.append(results[-1])
                frame[place] = results[-1].address
        arena = gpu.allocate(program.arena, "temporaries")[0] if program.arena else None
        run = DeviceRun(self, (arena, inputs, results), events)
        run.prepare(program, frame, arena.address if arena else 0)
        run.program(program, frame)
        mark = gpu.mark()
        for x in new:
            x.mark = mark
        for number in donated:
            if not any(x is inputs[number] for x in results):
                inputs[number].delete()
        return [*results]

    def _on_device(self, value: Any, slot: Slot) -> DeviceArray:
        if type(value) is DeviceArray and value.gpu is self.gpu:
            if (value.shape, value.dtype) == (slot.shape, slot.dtype):
                return value
        return DeviceArray.of(self.gpu, dense_array(value, slot.number, slot.shape, slot.dtype))

    def constant(self, slot: Slot) -> DeviceArray:
        """A constant on the device, where it is copied to once."""
        assert slot.value is not None
        found = self.constants.get(id(slot))
        if found is None:
            found = self.constants[id(slot)] = DeviceArray.of(self.gpu, slot.value)
        return found


class DeviceRun(ProgramRun):
    """One run of a program on a device."""

    __slots__ = ("_gpu", "_of")

    def __init__(
        self, executable: DeviceExecutable, owner: Any, events: list[Event] | None
    ) -> None:
        super().__init__(owner, executable.program, events, executable.observer)
        self._of = executable
        self._gpu = executable.gpu

    def constant(self, slot: Slot) -> int:
        return self._of.constant(slot).address

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if target != source and nbytes:
            self._gpu.copy(target, source, nbytes)

    def number(self, address: int, dtype: np.dtype[Any]) -> Any:
        return self._read(address, (), dtype)[()]

    def launches(self, run: Sequence[Any], frame: Frame) -> None:
        for x in run:
            if not x.units:
                continue
            code: DeviceCode = x.owner
            places = launch_places(x, frame)
            numbers = np.asarray(x.params or (0,), np.int64)
            kernel = self._gpu.load(code.ptx, code.name)
            self._gpu.launch(kernel, code.grid(x.units), code.block, places, numbers)

    def instructions(self, program: RuntimeProgram, frame: Frame) -> None:
        parts = self._of.parts.get(program)
        if parts is None or self._events is not None or self._observer is not None:
            super().instructions(program, frame)
            return
        next_ = 0
        for x in parts:
            begin, end = x.part
            self._some(program, frame, range(next_, begin))
            next_ = end if x.ask(self.constant, self._gpu, program, frame) else begin
        self._some(program, frame, range(next_, len(program.instructions)))

    def _some(self, program: RuntimeProgram, frame: Frame, numbers: range) -> None:
        for n in numbers:
            place = workspace_of(program, frame, n)
            self._instruction(program.instructions[n], program.slots, frame, place)

    def _instruction(self, x: Instruction, slots: Sequence[Slot], frame: Frame, place: int) -> None:
        super()._instruction(x, slots, frame, place)
        if self._events is not None:  # who looks at the time wants it to be done
            self._gpu.synchronize()

    def _observed(
        self, observer: Observer, x: Instruction, slots: Sequence[Slot], frame: Frame, place: int
    ) -> None:
        """Let somebody look at an instruction, who gets copies of what it reads and writes."""
        inputs = [self._read(frame[s], slots[s].shape, slots[s].dtype) for s in x.inputs]
        outputs = [np.empty(slots[s].shape, slots[s].dtype) for s in x.outputs]

        def run() -> None:
            self._instruction(x, slots, frame, place)
            for s, array in zip(x.outputs, outputs, strict=True):
                array[...] = self._read(frame[s], array.shape, array.dtype)

        observer(x, inputs, outputs, run)

    def host_call(self, x: HostCall, slots: Sequence[Slot], frame: Frame) -> None:
        ask = self._of.on_device[x]
        if ask is not None:
            memory = ask([frame[s] for s in (*x.inputs, *x.outputs)])
            self._gpu.next_mark()  # after which others may have the memory
            if memory is not None:
                return
        inputs = [self._read(frame[s], slots[s].shape, slots[s].dtype) for s in x.inputs]
        outputs = [np.empty(slots[s].shape, slots[s].dtype) for s in x.outputs]
        adapter(x)(inputs, outputs)
        for s, array in zip(x.outputs, outputs, strict=True):
            if array.nbytes:
                self._gpu.put(frame[s], array.reshape(-1).view(np.uint8))

    def _read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        host = np.empty(shape, dtype)
        if host.nbytes:
            self._gpu.download(address, host.reshape(-1).view(np.uint8), self._gpu.position())
        return host
