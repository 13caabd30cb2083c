"""Programs without Python give the bits of ``jit`` on this machine, and the reference's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import aot
from tests.aot.loading import Loaded, need_linker
from tests.aot.programs import PROGRAMS, compiled_results, reference_results
from tests.aot.test_random_programs import Threads, same_bits


def leaves(tree: Any) -> list[Any]:
    """The arrays of a pytree."""
    return functrax.tree.leaves(tree)


@need_linker
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_of_jit_and_values_of_the_reference(name: str, tmp_path: Path) -> None:
    function, arguments = PROGRAMS[name]
    args = arguments()
    program = Loaded(aot(function, *args, name=name), tmp_path)
    wanted = compiled_results(function, args)
    for threads in (None, Threads(0)):  # the workspace of the first call is as it left it
        same_bits(program(*leaves(args), threads=threads), wanted)
    if name == "tiny":  # the reference does not flush subnormals
        return
    for found, x in zip(program(*leaves(args)), reference_results(function, args), strict=True):
        rtol = 2e-4 if x.itemsize > 2 else 2e-2
        np.testing.assert_allclose(found.astype(x.dtype), x, rtol=rtol, atol=1e-5)
