"""Programs that were compiled ahead of time, called from a test by ctypes.

Start at :class:`Loaded`.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from functrax.ahead_of_time import AheadOfTime

need_linker = pytest.mark.skipif(
    shutil.which("ld") is None and shutil.which("ld.lld") is None, reason="there is no linker"
)


def aligned(nbytes: int, alignment: int = 64) -> np.ndarray[Any, Any]:
    """Memory that begins at a multiple of the alignment, full of what nobody should read."""
    memory = np.full(nbytes + alignment, 0xA5, np.uint8)
    begin = -memory.ctypes.data % alignment
    return memory[begin : begin + nbytes]


class Loaded:
    """A program in this process.

    Args:
      made: the program.
      folder: where its library is written.
    """

    def __init__(self, made: AheadOfTime, folder: Path) -> None:
        self.made = made
        path, *_ = made.write(folder, kind="shared")
        self.library = ctypes.CDLL(path)
        self.run: Any = getattr(self.library, f"{made.name}_call")
        self.workspace = aligned(made.workspace)

    def call(self, arguments: Sequence[Any], results: Sequence[Any], threads: Any = None) -> int:
        """What a call of addresses returns; ``threads`` is a ``functrax_threads``."""
        both = [(ctypes.c_void_p * len(some))(*some) for some in (arguments, results)]
        place = self.workspace.ctypes.data if self.made.workspace else None
        given = None if threads is None else ctypes.byref(threads)
        return int(self.run(*both, None, ctypes.c_void_p(place), given))

    def __call__(self, *leaves: Any, threads: Any = None) -> list[np.ndarray[Any, Any]]:
        """The results of arrays, which are the leaves of the arguments."""
        assert len(leaves) == len(self.made.arguments)
        given = [
            np.require(x, x_.dtype, ["C", "A"])
            for x, x_ in zip(map(np.asarray, leaves), self.made.arguments, strict=True)
        ]
        assert [x.shape for x in given] == [x.shape for x in self.made.arguments]
        results = [aligned(x.nbytes, 64).view(x.dtype).reshape(x.shape) for x in self.made.results]
        places = [[x.ctypes.data for x in some] for some in (given, results)]
        code = self.call(*places, threads)
        assert code == 0, code
        return results
