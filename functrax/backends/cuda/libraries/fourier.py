"""Fourier transforms by cuFFT.

A plan is made once for each kind, lengths and number of transforms, and for each stream, and kept
as modules of kernels are.  It has no memory of its own for work: each call borrows it from the
GPU's pool, which gives it to others in the order of the stream.

A transform from complex to real numbers may overwrite its operand, which is copied before.

Start at :class:`FourierCall`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from functrax.backends.cuda.libraries.site import DeviceSite
from functrax.backends.cuda.libraries.table import (
    FORWARD,
    INVERSE,
    KINDS,
    LONG,
    LibraryError,
    LibraryTable,
)

#: A plan, and the bytes that it needs to work.
_Plan = tuple[int, int]


class FourierCall:
    """Transforms of dense arrays along their last axes; inverse ones are not scaled.

    Args:
      table: cuFFT.
      site: where it works.
      kind: ``"C2C"``, ``"R2C"``, ``"C2R"``, or ``"Z2Z"``, ``"D2Z"``, ``"Z2D"``.
      inverse: the direction.
      lengths: of the real array, or of the complex ones.
      batch: how many transforms there are.
    """

    def __init__(
        self,
        table: LibraryTable,
        site: DeviceSite,
        kind: str,
        inverse: bool,
        lengths: tuple[int, ...],
        batch: int,
    ) -> None:
        self._table, self._site = table, site
        self._kind, self._lengths, self._batch = kind, lengths, batch
        self._direction: tuple[int, ...] = ()
        if kind in ("C2C", "Z2Z"):
            self._direction = (INVERSE if inverse else FORWARD,)
        #: Bytes of an operand that is overwritten.
        self._copied = 0
        if kind in ("C2R", "Z2D"):
            half = lengths[-1] // 2 + 1
            item = 8 if kind == "C2R" else 16
            self._copied = batch * math.prod(lengths[:-1]) * half * item

    def __call__(self, addresses: Sequence[int]) -> list[Any]:
        """Ask for the transforms of one array, whose place is given, into another."""
        source, target = addresses
        plan, nbytes = self._site.once((self._kind, self._lengths, self._batch), self._made)
        memory = []
        if self._copied:
            memory.append(self._site.memory(self._copied))
            self._site.copy(memory[0].address, source, self._copied)
            source = memory[0].address
        if nbytes:
            memory.append(self._site.memory(nbytes))
            self._table("cufftSetWorkArea", plan, memory[-1].address)
        self._table(f"cufftExec{self._kind}", plan, source, target, *self._direction)
        return memory

    def _made(self) -> _Plan:
        plan, nbytes = ctypes.c_int(), ctypes.c_size_t()
        self._table("cufftCreate", ctypes.addressof(plan))
        rank, lengths = len(self._lengths), (LONG * len(self._lengths))(*self._lengths)
        dense: tuple[Any, ...] = (None, 1, 0)
        kind, place = KINDS[self._kind], ctypes.addressof(nbytes)
        at = ctypes.addressof(lengths)
        many = rank, at, *dense, *dense, kind, self._batch, place
        try:
            self._table("cufftSetAutoAllocation", plan, 0)
            self._table("cufftMakePlanMany64", plan, *many)
            self._table("cufftSetStream", plan, self._site.stream)
        except LibraryError:
            self._table("cufftDestroy", plan)
            raise
        return plan.value, nbytes.value
