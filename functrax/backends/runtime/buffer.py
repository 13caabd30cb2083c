"""Arrays in memory of the pool: the Python twin of ``backends/native/buffer.cpp``.

A shape and a dtype enter; a :class:`Buffer` leaves, which is dense, row-major and, for all but the
executor that fills it, immutable.  NumPy sees its elements without a copy: a view keeps the memory
alive, not the buffer, so that whether somebody still looks at the memory can be told by counting.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.executables.program_inputs import deleted_error
from functrax.backends.runtime.pool import ALIGNMENT, Block, pool

_nothing: Final = np.empty(2 * ALIGNMENT, np.uint8)
#: Where arrays without elements lie.
NOWHERE: Final = -(-_nothing.ctypes.data // ALIGNMENT) * ALIGNMENT


class _Bytes:
    """Shows memory to NumPy, and keeps its owner alive as long as NumPy's array is."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, address: int, nbytes: int, readonly: bool, owner: Any) -> None:
        self.__array_interface__ = {
            "data": (address, readonly),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }
        self._owner = owner


def view_memory(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: Any, *, readonly: bool = True
) -> np.ndarray[Any, Any]:
    """An array that lies at an address, in memory that ``owner`` keeps alive."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes == 0:
        array = np.empty(shape, dtype)
        array.flags.writeable = not readonly
        return array
    return np.asarray(_Bytes(address, nbytes, readonly, owner)).view(dtype).reshape(shape)


class Buffer:
    """An array in memory of the pool.

    Args:
      shape: its shape.
      dtype: its dtype.
      block: the memory; new memory, with any content, where it is omitted.
    """

    __slots__ = ("_block", "_deleted", "dtype", "shape")

    def __init__(self, shape: Sequence[int], dtype: Any, block: Block | None = None) -> None:
        self.shape = tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._deleted = False
        self._block = block
        if min(self.shape, default=0) < 0:
            raise ValueError("Buffer: a shape has sizes that are not negative")
        if block is None and self.nbytes:
            self._block = pool.allocate(self.nbytes)

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def address(self) -> int:
        """Where the first element lies."""
        self._check()
        return NOWHERE if self._block is None else self._block.address

    @property
    def deleted(self) -> bool:
        """Whether the memory was given away."""
        return self._deleted

    def materialize(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array, without a copy."""
        return view_memory(self.address, self.shape, self.dtype, self._block)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self.materialize()
        if copy or (dtype is not None and np.dtype(dtype) != value.dtype):
            return np.array(value, dtype=dtype)
        return value

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.materialize().data)

    def delete(self) -> None:
        """Give the memory up; looking at the elements is an error from now on."""
        self._block = None
        self._deleted = True

    def take_block(self) -> Block | None:
        """Give the memory away, if no view of it is alive; None if one is."""
        block = self._block
        if block is None or block_references(block) > _LONELY:
            return None
        self.delete()
        return block

    def _check(self) -> None:
        if self._deleted:
            raise deleted_error(self.shape, self.dtype)

    def __repr__(self) -> str:
        place = "deleted" if self._deleted else f"{self.address:#x}"
        return f"Buffer({self.dtype}{list(self.shape)}, {place})"


def block_references(block: Any) -> int:
    """How often a block is referred to, counted in the same way each time."""
    return sys.getrefcount(block)


def _references_of_one() -> int:
    """The count of something with one owner, while a local variable holds it too."""
    owner = [object()]
    local = owner[0]
    return block_references(local)


_LONELY: Final = _references_of_one()
