"""Matrices for tests of linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

both = pytest.mark.parametrize("is_complex", [False, True])


def random(*shape: int, seed: int = 0, is_complex: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if is_complex else x


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))
