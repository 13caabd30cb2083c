"""Measuring the kernels of a program while it runs.

The program runs once on the Python executor, which lets an observer look at each instruction; the
observer launches each kernel several times, on the arrays that it really gets, and takes the
median.  What it costs to call a kernel from Python is taken off.

Start at :func:`measured`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.executables.program import HostCall, Instruction, Launch, all_programs
from functrax.backends.kernels.ir import Kernel
from functrax.backends.runtime.executor import Executable, bound_kernel
from functrax.backends.threads import thread_pool
from functrax.core.options.config import flushes_subnormals
from functrax.explanation.record import Explanation, KernelFacts, Measurement
from functrax.explanation.running import device_executable

#: Launches of one instruction: at least, at most, and when the seconds have been spent.
_LEAST, _MOST, _SECONDS = 3, 25, 0.05
#: Launches that take fewer seconds are timed so many at a time.
_SHORT, _BATCH = 2e-5, 50
_LONGEST_TIMELINE: Final = 10_000
#: Machine code that looks at none of its arguments and does next to nothing.  A kernel of one unit
#: does all of its work for an empty range, too, so the call of one is timed with this.
_IDLE: Final = int(ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0)


def measured(explanation: Explanation, values: Sequence[Any]) -> Explanation:
    """The explanation with the time of each kernel.

    Args:
      explanation: of the program.
      values: a raw value for each input.
    """
    if explanation.compiled.target.warp:
        return _measured_on_device(explanation, values)
    stopwatch = _Stopwatch(explanation.kernels)
    Executable(explanation.program, stopwatch)(values)
    kernels = tuple(
        dataclasses.replace(k, measured=stopwatch.measurement(k)) for k in explanation.kernels
    )
    return dataclasses.replace(explanation, kernels=kernels, timeline=tuple(stopwatch.timeline))


def _measured_on_device(explanation: Explanation, values: Sequence[Any]) -> Explanation:
    """The same of a program of a GPU, which runs several times; each instruction is waited for."""
    executable = device_executable(explanation.compiled)
    executable(values)  # loads its kernels
    kernel_of = {id(x): k.number for k in explanation.kernels for x in k.instructions}
    programs = all_programs(explanation.program)
    times: dict[int, list[float]] = {}
    timeline: list[int] = []
    launched: Counter[int] = Counter()
    runs, begin = 0, time.perf_counter()
    while runs < _LEAST or (runs < _MOST and time.perf_counter() - begin < _SECONDS):
        _, events = executable.profile(values)
        runs += 1
        for number, place, start, end in events:
            x = programs[number].instructions[place]
            if id(x) in kernel_of:
                times.setdefault(id(x), []).append((end - start) / 1e9)
                if runs == 1:
                    launched[id(x)] += 1
                    timeline.append(kernel_of[id(x)])

    def measurement(kernel: KernelFacts) -> Measurement | None:
        known = [x for x in kernel.instructions if id(x) in times]
        if not known:
            return None
        return Measurement(
            sum(statistics.median(times[id(x)]) for x in known), launched[id(known[-1])]
        )

    kernels = tuple(dataclasses.replace(k, measured=measurement(k)) for k in explanation.kernels)
    shown = tuple(timeline[:_LONGEST_TIMELINE])
    return dataclasses.replace(explanation, kernels=kernels, timeline=shown)


class _Stopwatch:
    """Times instructions.

    Attributes:
      timeline: the numbers of the kernels, in the order in which they ran.
    """

    def __init__(self, kernels: Sequence[KernelFacts]) -> None:
        self._kernel = {id(x): k for k in kernels for x in k.instructions}
        self._times: dict[int, list[float]] = {}
        self._runs: dict[int, int] = {}
        self.timeline: list[int] = []

    def __call__(
        self,
        x: Instruction,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        run: Callable[[], None],
    ) -> None:
        kernel = self._kernel.get(id(x))
        if kernel is None:
            run()
            return
        self._runs[id(x)] = self._runs.get(id(x), 0) + 1
        times = self._times.setdefault(id(x), [])
        if len(times) < _MOST and not _has_effects(x, kernel):
            self._repeat(x, kernel, inputs, outputs, run, times)
        begin = time.perf_counter()
        run()
        if not times:
            times.append(time.perf_counter() - begin)
        if x is kernel.instructions[-1] and len(self.timeline) < _LONGEST_TIMELINE:
            self.timeline.append(kernel.number)

    def _repeat(
        self,
        x: Instruction,
        kernel: KernelFacts,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        run: Callable[[], None],
        times: list[float],
    ) -> None:
        """Run an instruction several times, and leave all arrays as they were."""
        changed = _changed(kernel, inputs, outputs)
        saved = [a.copy() for a in changed]
        once = _timed(x, [*inputs, *outputs], run)
        begin = time.perf_counter()
        while len(times) < _MOST:
            times.append(once())
            for array, before in zip(changed, saved):
                array[...] = before
            if len(times) >= _LEAST and time.perf_counter() - begin > _SECONDS:
                break

    def measurement(self, kernel: KernelFacts) -> Measurement | None:
        """The time of a kernel: of its instructions together."""
        known = [x for x in kernel.instructions if id(x) in self._times]
        if not known:
            return None
        total = sum(statistics.median(self._times[id(x)]) for x in known)
        return Measurement(total, self._runs[id(known[-1])])


def _changed(kernel: KernelFacts, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The arrays whose elements before a run matter to the run, and are changed by it."""
    updates = any(_updates(code.kernel) for code in kernel.codes)
    shared = any(np.may_share_memory(a, b) for a in inputs for b in outputs)
    return list(outputs) if updates or shared else []


def _updates(kernel: Kernel) -> bool:
    """Whether a kernel reads what it writes."""
    written = {x.buffer for x in kernel.stores() if not kernel.operands[x.buffer].scratch}
    read = {x.attr[0] for x in kernel.nodes() if x.op == "load"}
    return bool(written & read) or any(x.serial for x in kernel.stores())


def _has_effects(x: Instruction, kernel: KernelFacts) -> bool:
    """Whether an instruction does more than compute, so that it must run as often as it is told."""
    effects = any(e.primitive.has_side_effects(dict(e.params)) for e in kernel.eqns)
    return isinstance(x, HostCall) and effects


def _timed(x: Instruction, arrays: Sequence[Any], run: Callable[[], None]) -> Callable[[], float]:
    """A function that runs an instruction and returns how long it took."""
    clock = time.perf_counter
    if not isinstance(x, Launch):

        def timed() -> float:
            begin = clock()
            run()
            return clock() - begin

        return timed
    launch = x
    places = [a.ctypes.data for a in arrays]
    flushes = flushes_subnormals()
    kernel = bound_kernel(launch, places, flushes)
    idle = bound_kernel(dataclasses.replace(launch, function=_IDLE), places, flushes)

    def nothing(begin: int, end: int) -> None:
        idle(begin, end)

    def everything(begin: int, end: int) -> None:  # one more call, as in nothing
        kernel(begin, end)

    def launches(count: int) -> float:
        begin = clock()
        for _ in range(count):
            thread_pool.parallel_for(nothing, 1, 1, 0)
        middle = clock()
        for _ in range(count):
            thread_pool.parallel_for(everything, launch.units, launch.grain, launch.cost)
        return (clock() - middle - (middle - begin)) / count

    count = _BATCH if launches(1) < _SHORT else 1
    return lambda: max(launches(count), 0.0)
