"""Generated programs that read through views: compiled values and gradients are the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
from functrax.core.options.config import Override
from tests.backends.random_views import random_views
from tests.thinning import one_in

#: Of the largest element.  A gradient that goes to the wrong element is farther off.
TOLERANCE = 1e-3


def reference(function: Any, x: np.ndarray) -> np.ndarray:
    with Override("backend", "interp"), functrax.enable_x64(x.dtype == np.float64):
        return np.asarray(functrax.jit(function)(x))


@pytest.mark.parametrize("block", one_in(10, range(100)))
def test_values_and_gradients(block: int) -> None:
    for seed in range(8 * block, 8 * block + 8):
        f, x, ct = random_views(seed)
        for function in (f, functrax.grad(lambda x, f=f, ct=ct: (f(x) * ct).sum())):
            found = np.asarray(functrax.jit(function)(x))
            wanted = reference(function, x)
            bound = TOLERANCE * max(1.0, np.abs(wanted).max())
            wrong = ~(np.abs(found - wanted) <= bound)
            if wrong.any():  # unless float32 alone decides which of two elements is the larger one
                wrong &= ~(np.abs(found - reference(function, x.astype(np.float64))) <= bound)
            assert not wrong.any(), f"seed {seed}: {wrong.sum()} of {wrong.size} elements"
