"""What is raised when a GPU or its driver fails.

The driver reports a failed kernel late, and not which one it was.  So what runs programs remembers
which it has asked for, and names those that were not seen to end.

Start at :func:`failure`.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.backends.compilation.compiler import record_of
from functrax.backends.compilation.provenance import Members
from functrax.backends.cuda import driver as api
from functrax.backends.cuda.driver import Table
from functrax.backends.executables.program import Launch, RuntimeProgram, all_programs
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import DeviceError, OutOfDeviceMemory
from functrax.core.options.config import state as options

#: A kernel's name, and the user's line that it computes.
_Kernel = tuple[str, "SourceLine | None"]
_SAME_CALL = "where the same call fails again, look at the kernels with functrax.explain"


def no_memory(
    name: str, what: str, nbytes: int, arrays: Sequence[tuple[str, int]], said: str
) -> OutOfDeviceMemory:
    """The error of too little memory.

    Args:
      name: of the GPU.
      what: what memory was wanted for.
      nbytes: how much.
      arrays: names and sizes of those that are there.
      said: what the driver said.
    """
    largest = sorted(arrays, key=lambda x: -x[1])[:3]
    held = ", ".join([f"{label} ({size:,} bytes)" for label, size in largest]) or "none"
    return OutOfDeviceMemory(
        f"no memory on {name} for {what}: {said}",
        got=f"{nbytes:,} bytes; the largest arrays that are there: {held}",
        fix="keep fewer arrays, donate arguments, or use a smaller batch",
    )


def failure(
    table: Table, name: str, function: str, error: int, programs: Sequence[RuntimeProgram]
) -> DeviceError:
    """The error of a function of the driver that failed.

    Args:
      table: the driver.
      name: of the GPU.
      function: that failed.
      error: the error's number.
      programs: that were asked for and not seen to end, in order.
    """
    cause = table.cause()
    said = f"{function}: {table.error_text(error)} (error {error} of the driver)"
    kernels = [x for program in dict.fromkeys(programs) for x in _kernels(program)]
    named = getattr(cause, "kernel", "")
    kernels = [x for x in kernels if x[0] == named] or kernels
    if error < api.NOT_READY or not kernels:
        made = DeviceError(f"{name} failed", got=said, fix=_SAME_CALL)
    elif len(kernels) == 1:
        (kernel, line) = kernels[0]
        made = DeviceError(f"{name}: kernel {kernel} failed", got=said, fix=_SAME_CALL, where=line)
    else:
        listed = "\n".join(f"{kernel}  {line or ''}".rstrip() for kernel, line in kernels)
        made = DeviceError(
            f"{name}: one of {len(kernels)} kernels failed",
            got=f"{said}\n{listed}",
            fix=_SAME_CALL,
            where=kernels[0][1],
        )
    made.__cause__ = cause
    return made


def too_long(name: str, programs: Sequence[RuntimeProgram]) -> DeviceError:
    """The error of a wait that took longer than the option ``device_timeout`` allows."""
    kernels = [x for program in dict.fromkeys(programs) for x in _kernels(program)]
    return DeviceError(
        f"{name} did not answer for {options.device_timeout} seconds",
        got="waiting for " + (", ".join(kernel for kernel, _ in kernels) or "copies"),
        fix="look for a loop that does not end, or raise the option device_timeout",
        where=kernels[0][1] if len(kernels) == 1 else None,
    )


def time_limit() -> int:
    """The most seconds to wait; 0 if there is no limit."""
    return int(options.device_timeout)


def _kernels(program: RuntimeProgram) -> list[_Kernel]:
    """The kernels of a program."""
    compiled = record_of(program)
    lines: dict[Launch, SourceLine | None] = {}
    if compiled is not None:
        members = Members(compiled.stages)
        for work in compiled.works:
            sources = [e.source for e in members.of(work.eqn) if e.source is not None]
            line = sources[0] if sources else None
            lines |= {x: line for x in work.instructions if isinstance(x, Launch)}
    return [
        (x.owner.name, lines.get(x))
        for inner in all_programs(program)
        for x in inner.instructions
        if isinstance(x, Launch)
    ]
