"""float0, the dtype of derivatives of integers: NumPy's arrays, equal to one another."""

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp

FLOAT0 = functrax.dtypes.float0


def test_derivatives_of_integers_are_numpy_arrays_of_float0() -> None:
    found = functrax.grad(lambda x: jnp.sum(x + 0.0), allow_int=True)(np.ones((2, 4), int))
    assert isinstance(found, np.ndarray) and found.dtype == FLOAT0
    np.testing.assert_array_equal(found.reshape(4, 2), np.zeros((4, 2), FLOAT0))


def test_values_of_float0_are_equal() -> None:
    gradient = functrax.grad(lambda x, i: x[i], argnums=(0, 1), allow_int=True)
    found = functrax.jit(gradient)(jnp.ones(2), 1)[1]
    assert found == np.zeros((), FLOAT0) and np.zeros((), FLOAT0) == found
    differs = found != np.zeros((), FLOAT0)
    assert not differs


@pytest.mark.parametrize("make", [jnp.zeros, jnp.ones, jnp.empty])
def test_arrays_of_float0_can_be_made(make: object) -> None:
    made = make((2,), FLOAT0)  # type: ignore[operator]
    assert made.dtype == FLOAT0 and made.shape == (2,)
    assert jnp.zeros_like(made).dtype == FLOAT0


@pytest.mark.parametrize("operate", [lambda x: x + 1.0, lambda x: x == 1, lambda x: -x * 2.0])
def test_nothing_is_computed_with_float0(operate: object) -> None:
    x = functrax.jit(lambda: np.zeros((), FLOAT0))()
    with pytest.raises(TypeError, match="float0"):
        operate(x)  # type: ignore[operator]
