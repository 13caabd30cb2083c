"""Programs written for JAX give JAX's numbers, dtypes and weak types with functrax imported.

The programs stand in ``models.py``; ``data/record_models.py`` recorded what JAX makes of them.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax.core.errors.typed import ConcretizationError
from functrax.core.types import dtypes
from tests.programs.models import PROGRAMS

_RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "models.json").read_text())
_TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def _elements(x: Any) -> Any:
    """The elements, or weighted sums of them, as they were recorded."""
    values = np.asarray(x)
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64).ravel()
    if wide.size > 12:
        wide = np.cos(np.outer(np.arange(4), np.arange(wide.size))) @ wide
    return np.stack([wide.real, wide.imag]) if wide.dtype.kind == "c" else wide


@pytest.mark.parametrize("name", _RECORDED)
def test_numbers_and_types(name: str) -> None:
    found = fx.tree.leaves(PROGRAMS[name]())
    assert len(found) == len(_RECORDED[name])
    for k, (x, (dtype, weak, shape, numbers)) in enumerate(zip(found, _RECORDED[name])):
        is_bool = x.dtype == dtypes.bool_  # JAX has weak booleans, to which nothing gives way
        assert (x.dtype.name, is_bool or x.weak_type, list(x.shape)) == (
            dtype, is_bool or weak, shape,
        ), k  # fmt: skip
        scale = max(1.0, np.max(np.abs(np.nan_to_num(numbers, posinf=0.0, neginf=0.0)), initial=0))
        exact = dtype not in _TOLERANCE
        bound = 0.0 if exact else _TOLERANCE[dtype] * scale
        np.testing.assert_allclose(_elements(x), numbers, rtol=0, atol=bound, err_msg=str(k))


def test_every_program_was_recorded() -> None:
    assert set(PROGRAMS) == set(_RECORDED)


def test_known_values_can_be_read_inside_a_derivative() -> None:
    assert fx.grad(lambda x: x.item() * x)(2.0) == 2.0
    with pytest.raises(ConcretizationError, match="scalar"):
        fx.jit(fx.grad(lambda x: x.item() * x))(2.0)


@pytest.mark.parametrize(
    "number, dtype", [(300, "uint8"), (-1, "uint32"), ([1, [300]][1], "int8"), (1e10, "int32")]
)
def test_numbers_that_a_dtype_cannot_hold(number: Any, dtype: str) -> None:
    with pytest.raises(OverflowError, match="out of bounds"):
        jnp.array(number, dtype)


def test_fill_values_wrap() -> None:
    assert jnp.full(2, 300, jnp.uint8).tolist() == [44, 44]
    assert jnp.full_like(jnp.zeros(2, jnp.uint32), 2**32 - 1).tolist() == [2**32 - 1] * 2


def test_not_a_number_is_no_integer() -> None:
    with pytest.raises(ValueError, match="NaN has no value of int32"):
        jnp.array([0, float("nan")], jnp.int32)


def test_half_precision_products_are_exact_at_any_size() -> None:
    # (1 + 2**-7)**2 is 1 + 2**-6 when rounded to bfloat16; the rest would be lost.
    a, b = 1 + 2**-7, 1 + 2**-6
    x, y = (jnp.array(v, jnp.bfloat16) for v in ([[a, 1.0]], [[a], [-b]]))
    for product in (x @ y, jnp.einsum("ij,jk->ik", x, y), fx.lax.dot(x, y)):
        assert product.dtype == jnp.bfloat16
        assert product[0, 0] == 2.0**-14
