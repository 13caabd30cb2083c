"""Programs at the edges of what the compiler does, each compared with the reference device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_checks import compare, traced

import functrax.numpy as jnp
from functrax import lax
from functrax.core.array import from_numpy


def check(function: Callable[..., Any], *args: Any, kind: str = "exact") -> None:
    """Compare a function on both backends; it returns one value or a list."""

    def flat(*xs: Any) -> list[Any]:
        out = function(*xs)
        return list(out) if isinstance(out, list | tuple) else [out]

    arrays = [from_numpy(np.asarray(x)) for x in args]
    compare(*traced(flat, arrays), kind, np.random.default_rng(0))


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)


def test_a_scan_of_no_steps_returns_what_it_was_given() -> None:
    check(lambda x: lax.scan(lambda c, _: (c + 1, None), x, None, length=0)[0], numbers(37))


def test_a_fori_loop_of_no_steps() -> None:
    check(lambda x: lax.fori_loop(3, 1, lambda i, c: c * 2 + i, x), numbers(37))


def test_a_truth_value_beside_lanes() -> None:
    """A loop's scalar truth value is stored where its other results are vectors."""

    def loop(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: (c[0] + i, ~c[1]), (x, y))

    check(loop, numbers(40), np.asarray(True))


@pytest.mark.parametrize("dtype", [np.complex64, np.float32])
def test_complex_numbers_in_a_loop(dtype: Any) -> None:
    check(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.conj(c) + c, x), numbers(5, dtype=dtype))


def test_no_elements_in_a_loop() -> None:
    def step(c: Any, _: Any) -> Any:
        return c + jnp.sum(jnp.zeros((0,), c.dtype)), None

    check(lambda x: lax.scan(step, x, None, length=3)[0], numbers(4))
