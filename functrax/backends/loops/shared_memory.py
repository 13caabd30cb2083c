"""What the threads of a group do to memory that they share, between barriers.

Two threads must not touch one element without a barrier between, if one of them writes it, and
nobody may read what nobody wrote.

Start at :meth:`SharedMemory.access`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Instead of a thread: none, and several.
_NONE: Final = -1
_SEVERAL: Final = -2
_MEET: Final = "threads meet in shared memory without a barrier"
#: What is there before anything is written, as bytes.
_NOTHING: Final = 0x5B


class SharedMemory:
    """An array that the threads of a group share.

    Args:
      array: its elements.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self._written = np.zeros(len(array), bool)
        #: The threads that wrote and that read each element since the last barrier.
        self._writers = np.full(len(array), _NONE)
        self._readers = np.full(len(array), _NONE)
        #: The elements that were updated atomically since then.
        self._updated = np.zeros(len(array), bool)

    def begin(self) -> None:
        """Another group has it, which knows nothing of what is there."""
        self._array.view(np.uint8)[:] = 1 if self._array.dtype == np.bool_ else _NOTHING
        self._written[:] = False
        self.order()

    def order(self) -> None:
        """All threads meet: what they do from here on follows what they did before."""
        self._writers[:] = _NONE
        self._readers[:] = _NONE
        self._updated[:] = False

    def access(
        self, places: NDArray[Any], threads: NDArray[Any], writes: bool, atomic: bool = False
    ) -> str:
        """Note that threads read or write an element each; what is wrong with it, if anything.

        Atomic updates may meet one another, and nothing else.
        """
        if (atomic or not writes) and not self._written[places].all():
            return "shared memory is read that nobody wrote"
        if atomic:
            return self._update(places, threads)
        met = [self._writers, self._readers] if writes else [self._writers]
        if self._updated[places].any() or any(self._meets(x, places, threads) for x in met):
            return _MEET
        noted = self._writers if writes else self._readers
        alone = (noted[places] == _NONE) | (noted[places] == threads)
        noted[places] = np.where(alone, threads, _SEVERAL)
        several = noted[places] != threads  # others of these threads came to the same element
        if writes and several.any():
            return _MEET
        noted[places[several]] = _SEVERAL
        self._written[places] |= writes
        return ""

    def _update(self, places: NDArray[Any], threads: NDArray[Any]) -> str:
        if any(self._meets(x, places, threads) for x in (self._writers, self._readers)):
            return _MEET
        self._updated[places] = True
        return ""

    def _meets(self, noted: NDArray[Any], places: NDArray[Any], threads: NDArray[Any]) -> bool:
        """Whether another thread has been noted at an element."""
        return bool(np.any((noted[places] != _NONE) & (noted[places] != threads)))
