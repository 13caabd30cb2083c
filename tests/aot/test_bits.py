"""Programs without Python give the bits of ``jit``, in this process and on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import aot
from tests.aot.loading import Loaded, need_linker
from tests.aot.programs import PROGRAMS


def leaves(tree: Any) -> list[Any]:
    """The arrays of a pytree."""
    return functrax.tree.leaves(tree)


@need_linker
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_of_jit(name: str, tmp_path: Path) -> None:
    function, arguments = PROGRAMS[name]
    args = arguments()
    program = Loaded(aot(function, *args, name=name), tmp_path)
    wanted = leaves(functrax.jit(function)(*args))
    for _ in range(2):  # the workspace of the first call is as it left it
        for found, x in zip(program(*leaves(args)), wanted, strict=True):
            x = np.asarray(x)
            assert (found.shape, found.dtype) == (x.shape, x.dtype)
            assert found.tobytes() == x.tobytes()
