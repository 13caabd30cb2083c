"""A driver without a GPU: it executes PTX on the CPU, and looks for the faults that GPUs hide."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from functrax.backends.cuda.driver import Bytes, Driver, KernelUsage
from functrax.backends.cuda.simulator.launch import launch
from functrax.backends.cuda.simulator.memory import DeviceMemory
from functrax.backends.cuda.simulator.module import Module, PtxKernel


class SimulatedDriver(Driver):
    """A GPU that does what its PTX says, as slowly as it takes to check each access.

    Attributes:
      memory: of the GPU.
      seed: if it is not 0, the blocks of each kernel run in an order that is drawn with it.
    """

    name = "simulated GPU"
    capability = 80

    def __init__(self) -> None:
        self.memory = DeviceMemory()
        #: By their texts, as long as somebody has one of their kernels.
        self._modules: WeakValueDictionary[str, Module] = WeakValueDictionary()
        self.seed = 0

    def allocate(self, nbytes: int) -> int:
        return self.memory.allocate(nbytes)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def write(self, address: int, data: Bytes) -> None:
        self.memory.write(address, data)

    def read(self, address: int, data: Bytes) -> None:
        data[:] = np.frombuffer(self.memory.read(address, data.nbytes), np.uint8)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.memory.write(target, np.frombuffer(self.memory.read(source, nbytes), np.uint8))

    def synchronize(self) -> None:
        """Work is done when it is asked for."""

    def load(self, ptx: str, name: str) -> PtxKernel:
        module = self._modules.get(ptx)
        if module is None:
            module = self._modules[ptx] = Module(ptx)
        return module.kernels[name]

    def launch(
        self,
        kernel: PtxKernel,
        grid: int,
        block: int,
        addresses: Sequence[int],
        numbers: NDArray[np.int64],
    ) -> None:
        arguments = [*addresses, numbers]
        launch(kernel, (grid, 1, 1), (block, 1, 1), arguments, self.memory, seed=self.seed)

    def usage(self, kernel: PtxKernel, block: int) -> KernelUsage:
        return KernelUsage(kernel.shared_bytes)
