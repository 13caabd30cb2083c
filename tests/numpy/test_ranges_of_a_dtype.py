"""``linspace`` and its kin of a dtype that the caller names."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp


@pytest.mark.parametrize("x64", [False, True])
def test_a_named_dtype_is_no_promotion(x64: bool) -> None:
    with functrax.enable_x64(x64), functrax.numpy_dtype_promotion("strict"):
        line = jnp.linspace(0, 3, 4, dtype="float32")
        powers = jnp.geomspace(1, 8, 4, dtype="float32")
    assert line.dtype == powers.dtype == np.float32
    np.testing.assert_array_equal(line, np.arange(4))
    np.testing.assert_allclose(powers, 2.0 ** np.arange(4), rtol=1e-6)
