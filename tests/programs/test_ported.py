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
from functrax.core import dtypes
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
