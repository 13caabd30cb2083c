"""Functions that are programs promote nothing: they run where promotion is forbidden."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.lax import programs

X, Y, Z = (np.float32([0.5, 1.5, 9.0]), np.float32([2.0, 3.0, 4.0]), np.float32([0.1, 0.5, 0.9]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lax.bessel_i0e, (X,)),
        (lax.bessel_i1e, (X,)),
        (lax.igamma, (Y, X)),
        (lax.igammac, (Y, X)),
        (lax.igamma_grad_a, (Y, X)),
        (lax.random_gamma_grad, (Y, X)),
        (lax.betainc, (X, Y, Z)),
        (lax.polygamma, (Y, X)),
        (lax.zeta, (Y, X)),
    ],
)
def test_without_promotion(function, operands, dtype):
    with functrax.enable_x64(dtype == "float64"):
        given = [functrax.numpy.asarray(x, dtype) for x in operands]
        programs.written.cache_clear()  # else they were traced where promotion is allowed
        with functrax.numpy_dtype_promotion("strict"):
            found = functrax.jit(lambda *x: function(*x))(*given)
        programs.written.cache_clear()
        wanted = functrax.jit(function)(*given)
    assert found.dtype == wanted.dtype == given[0].dtype
    np.testing.assert_array_equal(found.astype("float32"), wanted.astype("float32"))
