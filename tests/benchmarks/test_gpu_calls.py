"""The measurement of what calls on a GPU cost the host."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
from benchmarks import gpu_calls
from functrax.backends.cuda.runtime import NATIVE

pytestmark = pytest.mark.skipif(NATIVE is None, reason="the empty driver is in C++")


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCTRAX_CUDA_DRIVER", "simulated")


def test_chains_have_as_many_kernels_as_they_say() -> None:
    with functrax.backend("cuda"):
        for launches in (1, 10):
            x = np.zeros(4, np.float32)
            assert gpu_calls.counted_launches(gpu_calls.chain(launches), x) == launches


def test_a_call_is_measured_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    few = gpu_calls.seconds
    monkeypatch.setattr(gpu_calls, "seconds", lambda call: few(call, times=5, rounds=2))
    count, cost = gpu_calls.measure(3)
    assert count == 3 and cost > 0
