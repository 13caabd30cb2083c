"""Arrays that come from Python to a compiled program, and what is said if they are wrong.

The executors look at NumPy arrays and Buffers themselves where these are dense and of the right
type.  Anything else goes through :func:`dense_array`: what leaves is an array that they can use, or
an error.  For a :class:`~functrax.backends.executables.program.HostCall`, :func:`adapter` makes a
function of two lists, the views of the inputs (read only) and of the outputs, which calls the
instruction's function and sees that the outputs are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, DonatedBufferError, InterruptedProgramError
from functrax.core.types.aval import ShapedArray

if TYPE_CHECKING:
    from functrax.backends.executables.program import HostCall


def dense_array(
    value: Any, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """``value`` as a dense row-major array whose elements are aligned.

    Raises:
      ArgumentError: if its shape or dtype is not that of input ``number``.
    """
    if hasattr(value, "materialize"):
        value = value.materialize()
    array = np.asarray(value, dtype) if type(value) in (bool, int, float, complex) else value
    array = np.asarray(array)
    if array.shape != shape or array.dtype != dtype:
        raise ArgumentError(
            f"a compiled program got another array than it was made for, as input {number}",
            got=f"{array.dtype}{list(array.shape)}",
            fix=ShapedArray(shape, dtype).str_short(),
        )
    return np.require(array, requirements=["C", "A"])


def input_count_error(name: str, expected: int, got: int) -> ArgumentError:
    """The error of calling the program ``name`` with ``got`` values."""
    return ArgumentError(
        f"the compiled program {name} was called with a wrong number of inputs",
        got=str(got),
        fix=f"one value for each of the {expected} inputs",
    )


def deleted_error(shape: Any, dtype: Any) -> DonatedBufferError:
    """The error of looking at a buffer whose memory was given away."""
    return DonatedBufferError(
        "a buffer was used after it was deleted or donated",
        got=f"{dtype}{list(shape)}",
        fix="use the result of the call that it was donated to, or do not donate it",
    )


def interrupted_error(shape: Any, dtype: Any) -> InterruptedProgramError:
    """The error of looking at a buffer whose program was stopped while Python went on."""
    return InterruptedProgramError(
        "an array has no value, for the program that makes it was interrupted or found no memory",
        got=f"{dtype}{list(shape)}",
        fix="call the function again",
    )


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
