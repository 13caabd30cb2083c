"""The kernels of programs, and what their trees, texts and machine code do with the same arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from functrax.backends import codegen
from functrax.backends.kernels.ir import Kernel, Operand
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.llvm import emit
from functrax.backends.llvm.jit import request
from functrax.backends.loops.build import build
from functrax.backends.loops.interpret import interpret
from functrax.backends.loops.parse import parse
from functrax.backends.loops.text import text
from functrax.backends.loops.tree import Function
from functrax.backends.loops.verify import verify

#: The interpreter takes some microseconds for each operation.
MOST_WORK = 12_000


class Kernels:
    """The kernels that are emitted while a test runs, each form once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[Any, tuple[Kernel, emit.Emitted, bool]] = {}

        def noting(
            kernel: Kernel, contract: bool = True, tree: Function | None = None
        ) -> emit.Emitted:
            emitted = emit.emit_kernel(kernel, contract, tree)
            if kernel.tiling is None:
                self.found.setdefault((emitted.text, emitted.numbers), (kernel, emitted, contract))
            return emitted

        monkeypatch.setattr(codegen, "emit_kernel", noting)

    def check(self) -> int:
        """Check all kernels; how many were run."""
        return sum([check(*x) for x in self.found.values()])


def check(kernel: Kernel, emitted: emit.Emitted, contract: bool) -> bool:
    """Check a kernel's tree: it reads back, is verified, and says what the machine code does.

    Returns:
      Whether it was run, which takes too long for large ones.
    """
    tree = build(kernel, contract)
    written = text(tree)
    again = parse(written)
    assert text(again) == written
    verify(tree)
    verify(again)
    aliased = any(x.alias is not None for x in kernel.operands)
    if aliased or kernel.points * max(kernel.work, 1) > MOST_WORK:
        return False
    rng = np.random.default_rng(kernel.points)
    given = [_numbers(x, rng) for x in kernel.operands]
    ours, theirs = [[_aligned(x) for x in given] for _ in range(2)]
    interpret(again, ours, EXPANSIONS)
    run(emitted, kernel.units, theirs)
    for x, y, operand in zip(ours, theirs, kernel.operands, strict=True):
        if operand.written and not operand.scratch:
            _compare(x, y, written)
    return True


def run(emitted: emit.Emitted, units: int, arrays: list[Any]) -> None:
    """Run the machine code of a kernel on arrays."""
    codes = [
        request(text, "kernel").compiled for text in (emitted.text, *dict(emitted.calls).values())
    ]
    numbers = list(emitted.numbers)
    for (place, _), code in zip(emitted.calls, codes[1:], strict=True):
        numbers[place] = code.address
    nobody = [None]  # who asks whether the kernel is to end stands in front of the arrays
    buffers = (ctypes.c_void_p * (len(arrays) + 1))(*nobody, *[x.ctypes.data for x in arrays])
    given = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = ctypes.CFUNCTYPE(None, *types)(codes[0].address)
    function(
        ctypes.addressof(buffers) + ctypes.sizeof(ctypes.c_void_p),
        ctypes.addressof(given),
        0,
        units,
    )


def _numbers(operand: Operand, rng: np.random.Generator) -> Any:
    dtype, size = operand.dtype, operand.size
    if dtype.kind in "biu":  # which may be indices
        return rng.integers(0, 2 if dtype.kind == "b" else 5, size).astype(dtype)
    x = rng.normal(size=size)
    return (x + 1j * rng.normal(size=size) if dtype.kind == "c" else x).astype(dtype)


def _aligned(x: Any) -> Any:
    """A copy that begins at a cache line, with room after it."""
    raw = np.zeros(x.nbytes + 128, np.uint8)
    first = -raw.ctypes.data % 64
    out = raw[first : first + x.nbytes].view(x.dtype)
    out[:] = x
    return out


def _compare(ours: Any, theirs: Any, written: str) -> None:
    """The same bits, but for the payloads of NaN."""
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    assert same.all(), f"{ours[~same][:3]} and {theirs[~same][:3]}\n{written}"
