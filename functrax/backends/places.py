"""Which device an array was put on by name, and copies from one device to another.

An array that was put somewhere (``device_put``), or was computed of one that was, is *committed*:
programs that take it run there.  Its raw value is a :class:`Committed` one.  All others follow
the default device.  While the host's processor is the only device that programs have used, nobody
asks: :data:`known` says whether there is another.

Start at :class:`Committed`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.core.arrays import dlpack
from functrax.core.arrays.array import READ_AT_ONCE
from functrax.core.events.recorder import SpanContext, recorder
from functrax.core.types.aval import ShapedArray


class DevicesInUse:
    """Which devices are in use.

    Attributes:
      several: whether there is another one than the host's processor.
    """

    several = False


known: Final = DevicesInUse()


class Committed:
    """The raw value of an array that is bound to a device.

    Args:
      value: a raw value as the device keeps it.
      device: the device.
    """

    __slots__ = ("device", "value")

    def __init__(self, value: Any, device: Any) -> None:
        self.value, self.device = value, device

    def materialize(self) -> np.ndarray[Any, Any]:
        """The elements on the host."""
        value = self.value
        found: np.ndarray[Any, Any] = value if type(value) is np.ndarray else value.materialize()
        return found


READ_AT_ONCE.add(Committed)
dlpack.MEMORY[Committed] = lambda raw: dlpack.memory_of(raw.value)


def unbound(value: Any) -> Any:
    """A raw value without the device that it is bound to."""
    return value.value if type(value) is Committed else value


def transfer(value: Any, source: object, target: object) -> SpanContext:
    """The block in which an array is copied from one device to another, for the profiler.

    Args:
      value: the array, of either device.
      source: where it is.
      target: where it is copied to.
    """
    text = ShapedArray(tuple(value.shape), value.dtype).str_short()
    return recorder.span("transfer", f"{text} {source} -> {target}", bytes=value.nbytes)
