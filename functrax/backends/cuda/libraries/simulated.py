"""Libraries without a GPU: NumPy computes what is asked for, on the memory of a simulated one.

They offer the same C functions as NVIDIA's, as callbacks.  What is asked for waits in the queues of
the simulated driver as its kernels do: it is checked for accesses of memory that was freed, that
nobody wrote or that lies beyond an allocation, and for others that use it at the same time.  What
NVIDIA's may do to memory these do: a transform to real numbers overwrites its operand, and the
memory for work has other content afterwards.

Start at :class:`SimulatedLibraries`.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from functrax.backends.cuda.libraries.simulated_matrices import REST, SimulatedMatrices
from functrax.backends.cuda.libraries.table import (
    FORWARD,
    INVERSE,
    KINDS,
    LONG,
    SIGNATURES,
    SUCCESS,
    LibraryTable,
    prototype,
)
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulated_graphs import put
from functrax.backends.libraries.device_calls import TITLES

Array = np.ndarray[Any, Any]

#: Names of functions that are one for several types: of cuFFT, or of cuSOLVER and cuBLAS.
_NAME_OF_ONE: Final = re.compile(r"cufftExec(\w+)|(?:cusolverDn|cublas)([SDCZ])([a-z]\w+)")
_INVALID_PLAN: Final = 1
_INVALID_TYPE: Final = 3
_INVALID_VALUE: Final = 4
_EXEC_FAILED: Final = 6
_INVALID_SIZE: Final = 8
_NO_WORKSPACE: Final = 13
#: Of each kind of transform the types of an operand and of a result.
_TYPES: Final[dict[str, tuple[Any, Any]]] = {
    "C2C": (np.complex64, np.complex64),
    "R2C": (np.float32, np.complex64),
    "C2R": (np.complex64, np.float32),
    "Z2Z": (np.complex128, np.complex128),
    "D2Z": (np.float64, np.complex128),
    "Z2D": (np.complex128, np.float64),
}


@dataclass
class SimulatedPlan:
    """A plan of cuFFT."""

    kind: str = ""
    lengths: tuple[int, ...] = ()
    batch: int = 0
    stream: int = 0
    allocates: bool = True
    work: int = 0
    work_bytes: int = 0


class SimulatedLibraries(SimulatedMatrices):
    """The libraries of a simulated driver.

    Args:
      driver: whose memory and streams they use.

    Attributes:
      absent: libraries that are not there.
      statuses: functions that return a status, and do nothing.
      calls: how often each function was called.
      plans: those of cuFFT, by their handles.
    """

    def __init__(self, driver: SimulatedDriver) -> None:
        self.absent: set[str] = set()
        self.statuses: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.plans: dict[int, SimulatedPlan] = {}
        self._numbers = itertools.count(1)
        super().__init__(driver)

    def open(self, name: str) -> LibraryTable | str:
        """The functions of a library; why there are none."""
        if name in self.absent:
            return f"{TITLES[name]} cannot be opened: a simulated one is absent"
        functions = {f: self._callback(name, f) for f in SIGNATURES[name]}
        return LibraryTable(name, functions, f"{TITLES[name]} (simulated)", self)

    def _callback(self, library: str, name: str) -> Any:
        """A C function, of a method whose first argument is a kind or a letter in its name."""
        method: Callable[..., int | None] | None = getattr(self, f"_{name}", None)
        given: tuple[str, ...] = ()
        if method is None:
            found = _NAME_OF_ONE.fullmatch(name)
            assert found is not None, name
            method, given = getattr(self, f"_{found[3] or 'execute'}"), (found[1] or found[2],)

        def call(*arguments: Any) -> int:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name in self.statuses:
                return self.statuses[name]
            before = self.driver.fault
            status = self.driver.done(method, (*given, *arguments))
            return status if self.driver.fault is before else _EXEC_FAILED

        return prototype(library, name)(call)

    # ---- cuFFT --------------------------------------------------------------------------------

    def _cufftCreate(self, out: int) -> None:
        handle = next(self._numbers)
        self.plans[handle] = SimulatedPlan()
        put(out, ctypes.c_int, handle)

    def _cufftDestroy(self, handle: int) -> int:
        return SUCCESS if self.plans.pop(handle, None) else _INVALID_PLAN

    def _cufftSetAutoAllocation(self, handle: int, allocates: int) -> None:
        self.plans[handle].allocates = bool(allocates)

    def _cufftMakePlanMany64(self, handle: int, rank: int, at: int, *rest: int) -> int:
        in_embed, _, _, out_embed, _, _, kind, batch, out = rest
        plan = self.plans[handle]
        names = [name for name, number in KINDS.items() if number == kind]
        if not names:
            return _INVALID_TYPE
        if plan.kind or plan.allocates or in_embed or out_embed:
            return _INVALID_VALUE  # what functrax does not ask for is not simulated
        if not 1 <= rank <= 3 or batch < 1:
            return _INVALID_SIZE
        lengths = tuple((LONG * rank).from_address(at))
        if min(lengths) < 1:
            return _INVALID_SIZE
        plan.kind, plan.lengths, plan.batch = names[0], lengths, batch
        operand, _ = _TYPES[plan.kind]
        # NVIDIA's take none for short powers of small primes
        is_short = len(lengths) == 1 and lengths[0] <= 64
        plan.work_bytes = 0 if is_short else batch * math.prod(lengths) * operand().itemsize
        put(out, ctypes.c_size_t, plan.work_bytes)
        return SUCCESS

    def _cufftSetStream(self, handle: int, stream: int) -> None:
        self.plans[handle].stream = stream

    def _cufftSetWorkArea(self, handle: int, place: int) -> None:
        self.plans[handle].work = place

    def _execute(self, kind: str, handle: int, source: int, target: int, direction: int = 0) -> int:
        plan = self.plans.get(handle)
        if plan is None or plan.kind != kind:
            return _INVALID_PLAN
        if plan.work_bytes and not plan.work:
            return _NO_WORKSPACE
        if (kind in ("C2C", "Z2Z")) is not (direction in (FORWARD, INVERSE)):
            return _INVALID_VALUE
        operand, result = _TYPES[kind]
        half = (*plan.lengths[:-1], plan.lengths[-1] // 2 + 1)
        given = half if kind in ("C2R", "Z2D") else plan.lengths
        axes = tuple(range(-len(plan.lengths), 0))

        def compute(x: Array) -> Array:
            x = x.reshape(plan.batch, *given)
            out: Array
            if kind in ("R2C", "D2Z"):
                out = np.fft.rfftn(x, axes=axes)
            elif kind in ("C2R", "Z2D"):
                assert _is_half_of_real(x, plan.lengths), "cuFFT assumes it"
                out = np.fft.irfftn(x, s=plan.lengths, axes=axes, norm="forward")
            elif direction == FORWARD:
                out = np.fft.fftn(x, axes=axes)
            else:
                out = np.fft.ifftn(x, axes=axes, norm="forward")
            return np.asarray(out, result)

        nbytes = plan.batch * math.prod(given) * operand().itemsize
        spoiled = [(plan.work, plan.work_bytes)] if plan.work_bytes else []
        if kind in ("C2R", "Z2D"):
            spoiled.append((source, nbytes))
        self._ask(plan.stream, f"cuFFT {kind}", (source, nbytes, operand), target, compute, spoiled)
        return SUCCESS

    def _ask(
        self,
        stream: int,
        name: str,
        operand: tuple[int, int, Any],
        target: int,
        compute: Callable[[Array], Array],
        spoiled: Sequence[tuple[int, int]],
    ) -> None:
        """Ask a stream for work: it reads the operand, and writes the result and more memory."""
        driver = self.driver
        place, nbytes, dtype = operand
        first = driver.start(place)
        written = {driver.start(x) for x in (target, *[x for x, _ in spoiled])}

        def work() -> tuple[set[int], set[int]]:
            with np.errstate(all="ignore"):
                out = compute(driver.memory.read(place, nbytes).view(dtype))
            for start, count in spoiled:
                driver.memory.write(start, np.full(count, REST, np.uint8))
            driver.memory.write(target, out)
            return {first}, written

        driver.queues.ask(driver.of_handle(stream), name, work, frozenset((first, *written)))


def _is_half_of_real(x: Array, lengths: tuple[int, ...]) -> bool:
    """Whether elements that stand for their own conjugates are real, as of a real array."""
    edges = x[..., [0, -1]] if lengths[-1] % 2 == 0 else x[..., :1]
    axes = tuple(range(1, x.ndim - 1))
    turned = np.roll(np.flip(edges, axes), 1, axes) if axes else edges
    return bool(np.allclose(edges, turned.conj(), rtol=1e-4, atol=1e-4, equal_nan=True))
