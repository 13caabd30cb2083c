"""Arrays in the memory of a GPU."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.cuda.driver import Driver
from functrax.backends.executables.program_inputs import deleted_error
from functrax.core.errors.typed import OutOfDeviceMemory
from functrax.core.types.aval import ShapedArray


class Allocation:
    """Memory of a device, which is given back when nobody has it any more.

    Args:
      driver: of the device.
      nbytes: how much.
      label: what it is for.

    Raises:
      OutOfDeviceMemory: there is not as much.
    """

    def __init__(self, driver: Driver, nbytes: int, label: str) -> None:
        self.nbytes, self.label = nbytes, label
        try:
            self.address = driver.allocate(max(nbytes, 1))
        except MemoryError as error:
            largest = sorted(_live, key=lambda x: -x.nbytes)[:3]
            held = ", ".join([f"{x.label} ({x.nbytes:,} bytes)" for x in largest]) or "none"
            raise OutOfDeviceMemory(
                f"no memory on {driver.name} for {label}: {error}",
                got=f"{nbytes:,} bytes; the largest arrays that are there: {held}",
                fix="keep fewer arrays, donate arguments, or use a smaller batch",
            ) from error
        weakref.finalize(self, driver.free, self.address)
        _live.add(self)


class AdoptedMemory:
    """Memory of another library's array.

    Args:
      address: where it is.
      owner: what keeps it.
    """

    def __init__(self, address: int, owner: Any) -> None:
        self.address, self.owner = address, owner


_live: weakref.WeakSet[Allocation] = weakref.WeakSet()


def memory_stats() -> dict[str, int]:
    """What the device's memory is used for, by the names that JAX has."""
    sizes = [x.nbytes for x in _live]
    return {
        "bytes_in_use": sum(sizes),
        "num_allocs": len(sizes),
        "largest_alloc_size": max(sizes, default=0),
    }


class DeviceArray:
    """A dense, row-major array in the memory of a device.

    Args:
      driver: of the device.
      shape: its shape.
      dtype: its dtype.
      memory: where it is; new memory, with any content, where it is omitted.
    """

    __slots__ = ("_host", "_memory", "driver", "dtype", "shape")

    def __init__(
        self,
        driver: Driver,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        memory: Allocation | AdoptedMemory | None = None,
    ) -> None:
        self.driver, self.shape, self.dtype = driver, tuple(shape), dtype
        self._memory: Allocation | AdoptedMemory | None = memory
        if memory is None:
            label = ShapedArray(self.shape, dtype).str_short()
            self._memory = Allocation(driver, self.nbytes, label)
        self._host: np.ndarray[Any, Any] | None = None

    @classmethod
    def of(cls, driver: Driver, value: np.ndarray[Any, Any]) -> DeviceArray:
        """A copy of an array of the host."""
        array = cls(driver, value.shape, value.dtype)
        if value.nbytes:
            dense = np.ascontiguousarray(value)
            driver.write(array.address, dense.reshape(-1).view(np.uint8))
        return array

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def memory(self) -> Allocation | AdoptedMemory:
        """Where the elements are.

        Raises:
          DonatedBufferError: the memory was given away.
        """
        if self._memory is None:
            raise deleted_error(self.shape, self.dtype)
        return self._memory

    @property
    def address(self) -> int:
        """Where the first element is, on the device."""
        return self.memory.address

    @property
    def deleted(self) -> bool:
        """Whether the memory was given away."""
        return self._memory is None

    def materialize(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array, which are copied the first time."""
        address = self.address
        if self._host is None:
            host = np.empty(self.shape, self.dtype)
            if host.nbytes:
                self.driver.read(address, host.reshape(-1).view(np.uint8))
            host.flags.writeable = False
            self._host = host
        return self._host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self.materialize()
        if copy or (dtype is not None and np.dtype(dtype) != value.dtype):
            return np.array(value, dtype=dtype)
        return value

    def delete(self) -> None:
        """Give the memory up; looking at the elements is an error from now on."""
        self._memory = None
        self._host = None

    def __repr__(self) -> str:
        place = "deleted" if self.deleted else f"{self.address:#x}"
        return f"DeviceArray({self.dtype}{list(self.shape)}, {place})"
