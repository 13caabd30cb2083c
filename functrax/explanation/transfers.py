"""Which arguments of a call are copied to the device that it runs on.

Start at :func:`transfers_of`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from functrax.backends.device import Device, device_on, place_of
from functrax.backends.places import unbound
from functrax.core.arrays.array import ConcreteArray
from functrax.core.pytree.operations import keystr, tree_flatten_with_path
from functrax.core.tracing.inputs import as_value, is_valid_argument
from functrax.explanation.record import Transfer


def transfers_of(
    args: Sequence[Any], kwargs: dict[str, Any], device: Device, measure: bool
) -> tuple[Transfer, ...]:
    """The copies that a call makes before it runs.

    Args:
      args: the arguments that are not static, or types that stand for them, which are nowhere.
      kwargs: the same by name.
      device: where the call runs.
      measure: whether to make each copy, and time it.
    """
    found = []
    for path, leaf in tree_flatten_with_path((tuple(args), kwargs))[0]:
        value = as_value(leaf) if is_valid_argument(leaf) else None
        if type(value) is not ConcreteArray:
            continue
        source = place_of(value) if type(leaf) is ConcreteArray else device_on("cpu")
        if source.platform == device.platform:
            continue
        seconds = _time(value, device) if measure else None
        found.append(Transfer(keystr(path), value.aval, str(source), str(device), seconds))
    return tuple(found)


def _time(value: ConcreteArray, device: Device) -> float:
    raw = unbound(value.buffer)
    begin = time.perf_counter()
    device.hold(raw)
    return time.perf_counter() - begin
