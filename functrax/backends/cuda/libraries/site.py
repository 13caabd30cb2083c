"""Where a library works: a GPU's stream and memory, as either twin of the runtime has them.

Start at :class:`DeviceSite`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from functrax.backends.cuda import failures

_T = TypeVar("_T")


class DeviceSite:
    """The place of a library's calls.

    Args:
      gpu: whose memory it is.
      array: the class of arrays in it.
      made: what libraries have made for the GPUs of a driver, which this adds to.

    Attributes:
      stream: the driver's handle of the stream that computes.
    """

    def __init__(self, gpu: Any, array: Callable[..., Any], made: dict[Hashable, Any]) -> None:
        self._gpu, self._array, self._made = gpu, array, made
        self.stream: int = gpu.stream

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What is made for this stream when it is first asked for."""
        found: _T | None = self._made.get((self.stream, key))
        if found is None:
            found = self._made[self.stream, key] = make()
        return found

    def memory(self, nbytes: int) -> Any:
        """Memory with any content, as an array.

        It goes back to the GPU's pool with the last reference to it, and others get it in the order
        of the stream.
        """
        return self._array(self._gpu, (nbytes,), np.uint8)

    def addresses(self, first: int, apart: int, count: int) -> Any:
        """Memory with the addresses of arrays that lie one after the other, as an array."""
        places = np.arange(count, dtype=np.uint64) * np.uint64(apart) + np.uint64(first)
        memory = self.memory(places.nbytes)
        self._ask("cuMemcpyHtoDAsync_v2", memory.address, places.ctypes.data, places.nbytes)
        return memory

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Ask for a copy from one place of the device to another."""
        self._ask("cuMemcpyDtoDAsync_v2", target, source, nbytes)

    def _ask(self, name: str, target: int, source: int, nbytes: int) -> None:
        error = self._gpu.table(name, target, source, nbytes, self.stream)
        if error:
            raise failures.failure(self._gpu.table, self._gpu.name, name, error, ())
