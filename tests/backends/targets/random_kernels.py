"""Random programs and contractions, compiled for a target and compared with their definitions.

``python -m tests.backends.targets.random_kernels PROGRAMS CONTRACTIONS`` checks so many seeds with
kernels of the target that ``FUNCTRAX_CPU`` says, or of this machine.  With the command of a server
(``kernel_server.c``) behind them, kernels are made for AArch64, whatever this machine is, and the
server runs them: it gets the code that :func:`~functrax.backends.machine_code.object_loader.link`
makes, and with each launch the memory that the launch reads and writes.  The last line of what this
prints is the number of kernels.
"""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from functrax.backends import targets
from functrax.backends.executables.program import Launch, Slot
from functrax.backends.machine_code import object_loader
from functrax.backends.machine_code.kernel_jit import Machine, machine
from functrax.backends.runtime import executor
from functrax.core.records import replace
from tests.backends import contraction_checks, random_checks
from tests.backends.machines import processor

PAGE = 4096


class Server:
    """A process that runs kernels.

    Args:
      command: starts it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = threading.Lock()
        self.functions: set[int] = set()

    def load(self, image: object_loader.Image) -> int:
        """The address of a function, there."""
        assert not image.calls, image.calls
        with self._lock:
            self._send(b"L", struct.pack("<2q", len(image.data), image.entry), image.data)
            (address,) = struct.unpack("<q", self._receive(8))
        self.functions.add(address)
        return int(address)

    def run(self, x: Launch, buffers: Sequence[tuple[int, int]], begin: int, end: int) -> None:
        """Run a part of a launch on buffers, which are addresses and sizes here."""
        regions = merged(buffers)
        counts = (len(regions), len(buffers), len(x.params))
        parts = [b"R", struct.pack("<6q", x.function, begin, end, *counts)]
        with self._lock:  # other threads write other parts of the same memory
            for start, size in regions:
                parts += [struct.pack("<2q", size, start % 64), ctypes.string_at(start, size)]
            for address, _ in buffers:
                n = max(k for k, (start, _) in enumerate(regions) if start <= address)
                parts.append(struct.pack("<2q", n, address - regions[n][0]))
            parts.append(struct.pack(f"<{len(x.params)}q", *x.params))
            self._send(*parts)
            for start, size in regions:
                ctypes.memmove(start, self._receive(size), size)

    def _send(self, *parts: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join(parts))
        self._process.stdin.flush()

    def _receive(self, size: int) -> bytes:
        assert self._process.stdout is not None
        found = self._process.stdout.read(size)
        assert len(found) == size, f"the server ended: {self._process.wait()}"
        return found


def merged(buffers: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The memory of buffers: begins and sizes of regions apart from one another, in order."""
    regions: list[tuple[int, int]] = []
    for start, size in sorted(buffers):
        if regions and start < sum(regions[-1]):
            first, length = regions[-1]
            regions[-1] = first, max(length, start + size - first)
        else:
            regions.append((start, size))
    return regions


class Loaded:
    """Code in the memory of a server."""

    def __init__(self, server: Server, data: bytes) -> None:
        image = object_loader.link(data, targets.target().dialect.machine, PAGE)
        self.address, self.size = server.load(image), len(image.data)


def serve(server: Server) -> None:
    """Let a server run all kernels of this process, whose executor is the one in Python."""
    slots: list[Sequence[Slot]] = []
    here, program = executor.bound_kernel, executor.ProgramRun.program

    def bound_kernel(x: Launch, places: Sequence[int], flushes: bool) -> Callable[[int, int], None]:
        if x.function not in server.functions:  # of a library
            return here(x, places, flushes)
        sizes = [slots[-1][n].nbytes for n in (*x.inputs, *x.outputs)]
        buffers = list(zip(places, sizes, strict=True))
        return lambda begin, end: server.run(x, buffers, begin, end)

    def noting(self: Any, run: Any, frame: Any) -> None:
        slots.append(run.slots)
        try:
            program(self, run, frame)
        finally:
            slots.pop()

    for owner, name, value in (
        (executor, "bound_kernel", bound_kernel),
        (executor.ProgramRun, "program", noting),
        (object_loader, "load", lambda data: Loaded(server, data)),
    ):
        setattr(owner, name, value)


def main(programs: int, contractions: int, *command: str) -> None:
    """Check seeds; print how many kernels there were."""
    if command:
        aarch64 = processor("aarch64", identity="AArch64, emulated")
        emulated = replace(aarch64, cpu="generic", triple="aarch64-unknown-linux-gnu")
        targets.host = lambda: emulated
        serve(Server(command))
    for seed in range(programs):
        for kind in ("exact", "bits", "smooth"):
            random_checks.check_seed(seed, kind)
    for seed in range(contractions):
        contraction_checks.check_seed(seed)
    made: Machine = machine()
    print(targets.target().name)
    print(made.count)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
