"""The driver of a GPU, as far as functrax uses it: memory, modules and launches.

Start at :class:`Driver`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from functrax.core.records import record

Bytes: TypeAlias = NDArray[np.uint8]


@record
class KernelUsage:
    """What a kernel takes of a multiprocessor.

    Args:
      shared: bytes that a block shares.
      registers: of a thread; None where nobody has assembled the kernel.
      local: bytes of memory that a thread has of its own, spilled registers among them; None as
        before.
      occupancy: the share of a multiprocessor's threads that can be there at once; None as before.
    """

    shared: int
    registers: int | None = None
    local: int | None = None
    occupancy: float | None = None


class Driver(ABC):
    """A GPU and its memory; addresses are integers.

    Attributes:
      name: of the GPU.
      capability: its compute capability, 80 for 8.0.
    """

    name: str
    capability: int

    @abstractmethod
    def allocate(self, nbytes: int) -> int:
        """The address of new memory.

        Raises:
          MemoryError: there is not as much.
        """

    @abstractmethod
    def free(self, address: int) -> None:
        """Give memory back, after the work that was asked for before."""

    @abstractmethod
    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes of the host to the device."""

    @abstractmethod
    def read(self, address: int, data: Bytes) -> None:
        """Copy bytes of the device to the host, after the work that was asked for before."""

    @abstractmethod
    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes from one place of the device to another."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the work that was asked for before is done."""

    @abstractmethod
    def load(self, ptx: str, name: str) -> Any:
        """A kernel of a module, ready to be launched."""

    @abstractmethod
    def launch(
        self,
        kernel: Any,
        grid: int,
        block: int,
        addresses: Sequence[int],
        numbers: NDArray[np.int64],
    ) -> None:
        """Run a kernel over a grid of blocks.

        Args:
          kernel: what :meth:`load` gave.
          grid: how many blocks.
          block: how many threads each has.
          addresses: of the arrays.
          numbers: the run-time arguments.
        """

    @abstractmethod
    def usage(self, kernel: Any, block: int) -> KernelUsage:
        """What a kernel takes of a multiprocessor, as far as it is known.

        Args:
          kernel: what :meth:`load` gave.
          block: how many threads a block has.
        """
