"""Calling Python functions from compiled programs: what both executors do around the call.

An instruction :class:`~functrax.backends.executables.program.HostCall` enters; :func:`adapter`
makes a function of two lists, the views of the inputs (read only) and of the outputs, which calls
the instruction's function and sees that the outputs are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.backends.executables.program import HostCall
from functrax.core.errors.typed import ArgumentError
from functrax.core.types.aval import ShapedArray


def adapter(x: HostCall) -> Callable[[Sequence[Any], Sequence[Any]], None]:
    """The function that an executor calls for ``x``."""
    function = x.function

    def call(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        with np.errstate(all="ignore"):
            if x.into:
                function(*inputs, *outputs)
                return
            results = function(*inputs)
        if len(outputs) == 1 and not isinstance(results, (list, tuple)):
            results = (results,)
        _fill(x, results or (), outputs)

    return call


def _fill(x: HostCall, results: Sequence[Any], outputs: Sequence[Any]) -> None:
    if len(results) != len(outputs):
        raise ArgumentError(
            f"{x.name}: the function returned a wrong number of arrays",
            got=str(len(results)),
            fix=str(len(outputs)),
        )
    for result, output in zip(results, outputs):
        array = np.asarray(result)
        if array.shape != output.shape or array.dtype != output.dtype:
            raise ArgumentError(
                f"{x.name}: the function returned an array of another type",
                got=f"{array.dtype}{list(array.shape)}",
                fix=ShapedArray(output.shape, output.dtype).str_short(),
            )
        output[...] = array
