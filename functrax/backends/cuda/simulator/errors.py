"""What the simulator raises: errors of the text, of a launch, and faults of running kernels."""

from __future__ import annotations


class PtxError(ValueError):
    """PTX text that is wrong, or that the simulator does not know.

    Attributes:
      line: the line of the text, from 1; 0 if the error has none.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"PTX line {line}: {message}" if line else message)
        self.line = line


class MemoryLimitError(MemoryError):
    """An allocation would pass the limit of a device's memory."""


class LaunchError(RuntimeError):
    """A launch that a driver refuses: a wrong grid, block, argument or amount of shared memory."""


class KernelFault(RuntimeError):  # noqa: N818 - it is the kernel that has a fault
    """A fault of a running kernel.

    Attributes:
      kernel: the kernel's name.
      line: the line of the PTX text, from 1.
      source: file and line of the program, from ``.loc``; empty if there is none.
      instruction: the instruction's text.
      block, thread: who did it, as (x, y, z); the first if there are several.
      address: the address in its state space, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str = "",
        line: int = 0,
        source: str = "",
        instruction: str = "",
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
        address: int | None = None,
    ) -> None:
        where = f"kernel {kernel!r}, PTX line {line}: {instruction}"
        lines = [message, f"  in {where}"]
        if source:
            lines.append(f"  at {source}")
        if thread is not None:
            lines.append(f"  by thread {thread} of block {block}")
        if address is not None:
            lines.append(f"  at address {address:#x}")
        super().__init__("\n".join(lines))
        self.kernel, self.line, self.source, self.instruction = kernel, line, source, instruction
        self.block, self.thread, self.address = block, thread, address


class OutOfBounds(KernelFault):
    """An access outside of every allocation, or past the end of one."""


class SharedOutOfBounds(OutOfBounds):
    """An access outside of the block's declared shared memory."""


class LocalOutOfBounds(OutOfBounds):
    """An access outside of the thread's local memory."""


class ReadOnlyWrite(KernelFault):
    """A write to constant memory or to parameters."""


class Misaligned(KernelFault):
    """An address that is no multiple of the size of the access."""


class UseAfterFree(KernelFault):
    """An access to memory that was freed."""


class UninitializedRead(KernelFault):
    """A read of bytes that nobody wrote."""


class UninitializedRegister(KernelFault):
    """A read of a register that this thread did not write."""


class DataRace(KernelFault):
    """Two threads access a byte with no barrier between, and one of them by a plain write."""


class DivergentBarrier(KernelFault):
    """Not all threads of a block reach a barrier, or they reach different ones."""


class DivergentWarp(KernelFault):
    """Threads that an instruction's mask names do not take part, or one takes part unnamed."""


class Trap(KernelFault):
    """The kernel ran ``trap``."""


class EndlessLoop(KernelFault):
    """A launch, or a loop of a graph, took more steps than its limit."""


class ConditionFault(RuntimeError):  # noqa: N818
    """A condition that a graph reads and nobody has set, or one that is not the graph's."""
