"""Transformations of transformations, against finite differences of NumPy functions."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from tests.thinning import one_in
from tests.transforms.numeric import (
    FUNCTIONS,
    POINT,
    TRANSFORMS,
    forward_over_custom_vjp,
)

PAIRS = list(itertools.product(TRANSFORMS, repeat=2))
TRIPLES = random.Random(0).sample(list(itertools.product(TRANSFORMS, repeat=3)), 150)


def nest(names: tuple[str, ...], function: Any, side: int) -> Any:
    """The function under the transformations, the first innermost; side 1 is NumPy's."""
    result = (lambda x: function(jnp, x)) if side == 0 else (lambda x: function(np, x))
    for name in names:
        result = TRANSFORMS[name][side](result)
    return result


def check(names: tuple[str, ...], function: Any) -> None:
    with functrax.enable_x64():
        x = jnp.asarray(POINT)
        transformed = nest(names, function, 0)
        if forward_over_custom_vjp(names):
            with pytest.raises(functrax.errors.DifferentiationError, match="custom_vjp"):
                transformed(x)
            return
        got = transformed(x)
        wanted = nest(names, function, 1)(POINT)
        assert got.dtype == np.float64
        assert got.shape == wanted.shape
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-4)
        jitted = functrax.jit(nest(names, function, 0))(x)
        np.testing.assert_allclose(np.asarray(jitted), np.asarray(got), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("names", one_in(3, PAIRS), ids="-".join)
def test_pairs(names: tuple[str, ...]) -> None:
    for function in FUNCTIONS:
        check(names, function)


@pytest.mark.parametrize("names", one_in(3, TRIPLES), ids="-".join)
def test_triples(names: tuple[str, ...]) -> None:
    for function in random.Random("-".join(names)).sample(FUNCTIONS, 2):
        check(names, function)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_oracle_agrees_with_numpy(function: Any) -> None:
    with functrax.enable_x64():
        got = function(jnp, jnp.asarray(POINT))
        np.testing.assert_allclose(np.asarray(got), function(np, POINT), rtol=1e-14)
