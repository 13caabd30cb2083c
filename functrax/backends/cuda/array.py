"""Arrays in the memory of a GPU: the Python twin of ``native/cuda_array.cpp``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.cuda.gpu import Gpu, GpuBlock
from functrax.backends.executables.program_inputs import deleted_error
from functrax.core.types.aval import ShapedArray


class _Adopted:
    """Memory of another library."""

    def __init__(self, address: int, owner: Any) -> None:
        self.address, self.owner = address, owner


class DeviceArray:
    """A dense, row-major array in the memory of a device, with any content.

    Args:
      gpu: whose memory it is in.
      shape: its shape.
      dtype: its dtype.
    """

    __slots__ = ("__weakref__", "_block", "_deleted", "_host", "dtype", "gpu", "mark", "shape")

    def __init__(self, gpu: Gpu, shape: Sequence[int], dtype: Any) -> None:
        self.gpu, self.shape = gpu, tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        #: After which mark the elements are there; of a new one, when the memory is free.
        self.mark = 0
        self._block: GpuBlock | _Adopted | None = None
        self._deleted = False
        self._host: np.ndarray[Any, Any] | None = None
        if self.nbytes:
            self._block, self.mark = gpu.allocate(self.nbytes, self.label)
            gpu.arrays.add(self)

    @classmethod
    def of(cls, gpu: Gpu, value: np.ndarray[Any, Any]) -> DeviceArray:
        """A copy of an array of the host."""
        with gpu.lock:
            array = cls(gpu, value.shape, value.dtype)
            if value.nbytes:
                dense = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
                array.mark = gpu.upload(array.address, dense, array.mark)
        return array

    @classmethod
    def adopt(
        cls, gpu: Gpu, shape: Sequence[int], dtype: Any, address: int, owner: Any
    ) -> DeviceArray:
        """An array in memory of another library, which ``owner`` keeps.

        What that library asked for on the default stream is done before what comes next here.
        """
        with gpu.lock:
            array = cls(gpu, (0,), dtype)
            array.shape = tuple(shape)
            array._block = _Adopted(address, owner) if array.nbytes else None
            array.mark = gpu.next_mark()
        return array

    def copy(self) -> DeviceArray:
        """The same elements in memory of their own."""
        with self.gpu.lock:
            made = type(self)(self.gpu, self.shape, self.dtype)
            if self.nbytes:
                self.gpu.copy(made.address, self.address, self.nbytes)
                made.mark = self.gpu.position()
        return made

    @property
    def label(self) -> str:
        """The type, for messages."""
        return ShapedArray(self.shape, self.dtype).str_short()

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def address(self) -> int:
        """Where the first element is, on the device; 0 if there are none.

        Raises:
          DonatedBufferError: the memory was given away.
        """
        if self._deleted:
            raise deleted_error(self.shape, self.dtype)
        return self._block.address if self._block else 0

    @property
    def deleted(self) -> bool:
        """Whether the memory was given away."""
        return self._deleted

    def wait(self) -> None:
        """Wait until the elements are there."""
        self.gpu.wait(self.mark)

    def is_ready(self) -> bool:
        """Whether the elements are there."""
        return self.gpu.is_done(self.mark)

    def materialize(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array, which are copied the first time."""
        address = self.address
        if self._host is None:
            host = np.empty(self.shape, self.dtype)
            if host.nbytes:
                with self.gpu.lock:
                    self.gpu.download(address, host.reshape(-1).view(np.uint8), self.mark)
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
        self._deleted = True
        self._block = self._host = None

    def __repr__(self) -> str:
        place = "deleted" if self.deleted else f"{self.address:#x}"
        return f"DeviceArray({self.dtype}{list(self.shape)}, {place})"
