"""Indices are computed in 64 bits where 32 are too few, tested with 8 bits in the place of 32.

With the limit at 128 arrays of some hundred elements are what arrays of more than 2^31 are with the
real one: every kernel has to tell which of its numbers and offsets need the wide integers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import functrax
from functrax.backends.kernels import indices
from functrax.core.options.config import Override
from tests.backends.random_chains import random_chain
from tests.thinning import one_in


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """8 bits for what is below 128; no program of other tests, and none for them."""
    monkeypatch.setattr(indices, "NARROW", np.dtype(np.int8))
    monkeypatch.setattr(indices, "LIMIT", 128)
    functrax.clear_caches()
    with Override("cache", False), Override("plans", False):
        yield
    functrax.clear_caches()


@pytest.mark.parametrize("block", one_in(10, range(50)))
def test_chains_of_views(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        f, x = random_chain(seed)
        found = np.asarray(functrax.jit(f)(x))
        with Override("backend", "interp"):
            wanted = np.asarray(functrax.jit(lambda x, f=f: f(x))(x))
        np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}")
        assert found.dtype == wanted.dtype
