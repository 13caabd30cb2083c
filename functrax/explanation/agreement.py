"""Whether results agree with those of the reference device, as closely as they must.

Integers and truth values must be equal; floats may differ by a few units in the last place, and
NaNs and infinities must stand at the same places.  Where an element differs by more, the program's
own *noise* decides (:mod:`functrax.explanation.noise`): it is run several times with every rounded
operation off by what rounding can do to it, and the spread of the results is what rounding can do
to them.  An element that is farther off than a multiple of that is wrong.

Start at :class:`Judge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import numpy as np

from functrax.backends.reference.reference_device import ReferenceProgram
from functrax.backends.runtime.subnormals import in_mode
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import Override, flushes_subnormals
from functrax.core.records import record
from functrax.core.types import dtypes
from functrax.explanation.noise import NOISE, Array, noisy_results, raw

#: Units in the last place that are never too many.
ULPS: Final = 8
#: Runs with noise: at first, and where elements would be wrong by these.
_RUNS: Final = (4, 32)


@record
class Mismatch:
    """The worst element of a result that is wrong.

    Args:
      result: the number of the result.
      index: of the element.
      got: its value.
      wanted: the reference's.
      count: how many elements of the result are wrong.
      size: of how many.
    """

    result: int
    index: tuple[int, ...]
    got: Any
    wanted: Any
    count: int
    size: int

    def __str__(self) -> str:
        where = f"result {self.result}" + (f" at index {self.index}" if self.index else "")
        return f"{where}: {self.got} for {self.wanted}; {self.count} of {self.size} elements differ"


class Judge:
    """Compares results with those of a program on the reference device.

    Args:
      jaxpr: the program, without constants.
      values: a NumPy array for each input.
    """

    def __init__(self, jaxpr: Jaxpr, values: Sequence[Any]) -> None:
        self.jaxpr = jaxpr
        self.values = list(values)
        self.largest = 0.0  # units in the last place by which results differed
        self._noise: list[Array] = []
        self._runs = 0

    @cached_property
    def wanted(self) -> list[Array]:
        """The results of the reference device."""
        return run_reference(self.jaxpr, self.values)

    def noise(self, runs: int) -> list[Array]:
        """For each element of the results what rounding can do to it, from so many runs.

        Few runs may all happen to come out alike in some of many elements.
        """
        while self._runs < runs:
            random = np.random.default_rng(self._runs)
            with _reference_device():
                noisy = in_mode(
                    flushes_subnormals(), noisy_results, self.jaxpr, self.values, random
                )
            apart = [_distance(x, w) for x, w in zip(noisy, self.wanted, strict=True)]
            self._noise = [np.maximum(s, d) for s, d in zip(self._noise or apart, apart)]
            self._runs += 1
        return self._noise

    def mismatch(self, results: Sequence[Any]) -> Mismatch | None:
        """The first result that is wrong, or None."""
        for k, (result, wanted) in enumerate(zip(results, self.wanted, strict=True)):
            got = np.asarray(result)
            assert got.shape == wanted.shape and got.dtype == wanted.dtype, "results have its types"
            if got.dtype == dtypes.float0 or not got.size:
                continue
            found = self._compare(k, got, wanted)
            if found is not None:
                return found
        return None

    def _compare(self, k: int, got: Array, wanted: Array) -> Mismatch | None:
        distance = _distance(got, wanted)
        unit = _unit(wanted)
        with np.errstate(all="ignore"):
            wrong = ~(distance <= ULPS * unit)
            close = (
                distance[np.isfinite(distance)]
                / np.broadcast_to(unit, distance.shape)[np.isfinite(distance)]
            )
        for runs in _RUNS:
            if wrong.any():
                wrong &= ~(distance <= NOISE * self.noise(runs)[k])
        if not wrong.any():
            if close.size and dtypes.is_inexact(wanted.dtype):
                self.largest = max(self.largest, float(close.max()))
            return None
        worst = np.where(wrong, np.where(np.isnan(distance), np.inf, distance), -1.0)
        index = tuple(int(i) for i in np.unravel_index(int(worst.argmax()), worst.shape))
        return Mismatch(k, index, got[index], wanted[index], int(wrong.sum()), wrong.size)


def run_reference(jaxpr: Jaxpr, values: Sequence[Any]) -> list[Array]:
    """The results of a program on the reference device, with subnormal numbers as programs do."""
    with _reference_device():
        results = in_mode(flushes_subnormals(), ReferenceProgram(jaxpr), list(values))
    return [np.asarray(raw(x)) for x in results]


@contextmanager
def _reference_device() -> Iterator[None]:
    """Programs inside programs run there too, and nothing looks for NaNs."""
    with (
        Override("backend", "interp"),
        Override("debug_nans", False),
        Override("debug_infs", False),
        np.errstate(all="ignore"),
    ):
        yield


def _distance(got: Any, wanted: Array) -> Array:
    """How far elements are apart: 0 where both are NaN or the same infinity, NaN where one is."""
    x = np.asarray(raw(got))
    if not dtypes.is_inexact(wanted.dtype):
        return np.asarray(x != wanted, np.float64)
    wide = np.complex128 if dtypes.is_complex(wanted.dtype) else np.float64
    a, b = x.astype(wide), wanted.astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b))
    return np.asarray(apart)


def _unit(wanted: Array) -> Array:
    """One unit in the last place of each element, never less than the smallest normal number's.

    Where subnormal numbers are flushed, it is never less than that number.
    """
    if not dtypes.is_inexact(wanted.dtype):
        return np.zeros(wanted.shape)
    info = dtypes.finfo(wanted.dtype)
    wide = np.complex128 if dtypes.is_complex(wanted.dtype) else np.float64
    with np.errstate(all="ignore"):
        size = np.abs(wanted.astype(wide))
        size = np.where(np.isfinite(size), size, 0.0)
    least = float(info.tiny) * (1 if flushes_subnormals() else float(info.eps))
    return np.asarray(np.maximum(size * float(info.eps), least))
