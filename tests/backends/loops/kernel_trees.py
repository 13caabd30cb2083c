"""The kernels of programs, and what their trees, texts and machine code do with the same arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from ml_dtypes import finfo

from functrax.backends.compilation import codegen
from functrax.backends.kernels.ir import Kernel, Operand
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.llvm import emit
from functrax.backends.loops.build import build
from functrax.backends.loops.interpret import EndlessError, interpret
from functrax.backends.loops.parse import parse
from functrax.backends.loops.rewrites.apply import parse_rewrite, rewritten
from functrax.backends.loops.text import text
from functrax.backends.loops.tree import Function
from functrax.backends.loops.tree_verifier import verify
from functrax.backends.machine_code.kernel_jit import request

#: The interpreter takes some microseconds for each operation.
MOST_WORK = 12_000
#: And a ``while`` loop need not end for any numbers.
MOST_STEPS = 400
#: What the order of a sum changes, in units in the last place of its largest element.
ORDER = 400


class Kernels:
    """The kernels that are emitted while a test runs, each form once.

    Attributes:
      found: kernels with their schedules, the trees that are emitted, and their machine code.
      rewrites: how many were checked.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[Any, tuple[Kernel, Function, emit.Emitted]] = {}
        self.rewrites = 0
        made = codegen._kernel_code

        def noting(kernel: Kernel, tree: Function) -> codegen.KernelCode:
            code = made(kernel, tree)
            emitted = code.emitted
            self.found.setdefault((emitted.text, emitted.numbers), (kernel, tree, emitted))
            return code

        monkeypatch.setattr(codegen, "_kernel_code", noting)

    def check(self) -> int:
        """Check all kernels; how many were run."""
        return sum([self.check_one(*x) for x in self.found.values()])

    def check_one(self, kernel: Kernel, tree: Function, emitted: emit.Emitted) -> bool:
        """Check a kernel's trees, from the plain one on: each reads back, is verified, and says
        what the one before does; and the last one what the machine code does.

        Returns:
          Whether it was run, which takes too long for large ones and where a loop does not end.
        """
        trees: list[Function] = []
        schedule = kernel.schedule
        assert all(parse_rewrite(str(x)) == x for x in schedule if x.kind != "tile")
        rewritten(build(kernel), schedule, look=trees.append)
        self.rewrites += len(schedule)
        texts = []
        for step in trees:
            texts.append(text(step))
            again = parse(texts[-1])
            assert text(again) == texts[-1]
            verify(step)
            verify(again)
        aliased = any(x.alias is not None for x in kernel.operands)
        if aliased or kernel.points * max(kernel.work, 1) > MOST_WORK:
            return False
        rng = np.random.default_rng(kernel.points)
        promised = any(store.independent for store in kernel.stores())
        given = [_numbers(x, rng, promised) for x in kernel.operands]
        results = []
        for written in texts:
            arrays = [_aligned(x) for x in given]
            try:
                interpret(parse(written), arrays, EXPANSIONS, MOST_STEPS)
            except EndlessError:
                return False
            results.append(arrays)
        theirs = [_aligned(x) for x in given]
        run(emitted, tree.units, theirs)
        sums = ORDER if kernel.tiling is not None else 0  # in tiles, whose products are fused
        for n, operand in enumerate(kernel.operands):
            if operand.written and not operand.scratch:
                _compare(results[-1][n], theirs[n], texts[-1], sums)
                for before, after, written in zip(results, results[1:], texts[1:]):
                    _compare(before[n], after[n], written, ORDER if kernel.inner else 0)
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


def _numbers(operand: Operand, rng: np.random.Generator, promised: bool) -> Any:
    """Numbers for an operand; indices are different ones where that is promised of them."""
    dtype, size = operand.dtype, operand.size
    if promised and dtype.kind in "iu":
        return rng.permutation(size).astype(dtype)
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


def _compare(ours: Any, theirs: Any, written: str, most: int = 0) -> None:
    """The same bits, but for the payloads of NaN; or close, where sums have another order."""
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    if most and ours.dtype.kind not in "biu":
        eps = float(finfo(ours.real.dtype).eps)
        scale = np.abs(np.nan_to_num(ours, posinf=0, neginf=0)).max(initial=1)
        with np.errstate(all="ignore"):
            same |= np.abs(ours - theirs) <= most * eps * scale
    assert same.all(), f"{ours[~same][:3]} and {theirs[~same][:3]}\n{written}"
