"""How and where operations outside of ``jit`` are recorded.

An operation is recorded for the device that is the default then, in strict mode or not.  Each such
pair is one :class:`Setting`, which C++ compares by address: what is recorded with another setting
is computed before it becomes an operand.
"""

from __future__ import annotations

from typing import Any, Final

from functrax.backends.device import Device, current_device
from functrax.backends.reference import nan_check
from functrax.core import native
from functrax.core.arrays.array import READ_AT_ONCE, ConcreteArray, Pending
from functrax.core.options.config import state as options


class Setting:
    """Where operations run that are recorded, and how.

    Args:
      device: what runs them.
      strict: whether it is in strict mode.

    Attributes:
      on_host: whether the device's arrays are in the memory of the host.
    """

    __slots__ = ("device", "on_host", "strict")

    def __init__(self, device: Device, strict: bool) -> None:
        self.device, self.strict = device, strict
        self.on_host = device.raw is None

    def takes(self, value: Any) -> bool:
        """Whether an operation with an operand, an array or a literal, may be recorded.

        Others are run at once: on arrays that are bound to a device, that another device has, and
        on memory that others may write to.
        """
        if type(value) is not ConcreteArray:
            return True
        raw = value._buffer
        if type(raw) is Pending:
            if raw.setting is self:
                return True
            raw = value.buffer
        return type(raw) not in READ_AT_ONCE or type(raw) is self.device.raw


_settings: Final[dict[tuple[Device, bool], Setting]] = {}


def current_setting() -> Setting | None:
    """The setting with which operations are recorded now; None where they run at once."""
    if options.eager != "lazy" or nan_check.enabled() or options.no_execution:
        return None
    device = current_device()
    if not device.is_recorded or (native.extension is None and device.raw is not None):
        return None
    key = device, options.strict
    found = _settings.get(key)
    return _settings.setdefault(key, Setting(*key)) if found is None else found
