"""Bits and bytes, joining by indexing, trimming, and small inquiries, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import agree, check

BITS = np.random.default_rng(1).integers(0, 2, (3, 11)).astype("i4")
BYTES = np.random.default_rng(2).integers(0, 256, (2, 3)).astype("u1")
V, W = np.array([1, 2], "i4"), np.array([3.5, 4], "f4")


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_bits(axis: int | None, bitorder: Any) -> None:
    check("packbits", BITS, axis=axis, bitorder=bitorder)
    check("packbits", BITS > 0, axis=axis, bitorder=bitorder)
    for count in (None, 5, 30, -3):
        check("unpackbits", BYTES, axis=axis, bitorder=bitorder, count=count)


def test_joining_by_indexing() -> None:
    agree(jnp.r_[1:4, 0, W], np.r_[1:4, 0, W])
    agree(jnp.r_[0:1:3j], np.r_[0:1:3j])
    agree(jnp.r_["0,2", V, W], np.r_["0,2", V, W])
    agree(jnp.r_["1,2,0", V, W], np.r_["1,2,0", V, W])
    agree(jnp.r_["1,3,1", V, W], np.r_["1,3,1", V, W])
    agree(jnp.c_[V, W, W], np.c_[V, W, W])
    agree(jnp.c_[1:4], np.c_[1:4])
    assert jnp.r_["c", 1:3].shape == (2, 1) and jnp.r_["r", 1:3].shape == (1, 2)
    agree(functrax.jit(lambda x: jnp.c_[x, 2 * x])(W), np.c_[W, 2 * W])
    assert jnp.s_[1:3, ...] == np.s_[1:3, ...] and jnp.index_exp[2] == (2,)
    with pytest.raises(errors.ArgumentError, match="string"):
        jnp.r_["x", V]
    with pytest.raises(errors.ArgumentError, match="something to join"):
        jnp.r_["0,2"]


@pytest.mark.parametrize("trim", ["fb", "f", "b"])
@pytest.mark.parametrize("values", [[0, 1, 0, 2, 0, 0], [0, 0], [], [3]])
def test_trim_zeros(trim: Any, values: list[int]) -> None:
    x = np.array(values, "i4")
    agree(jnp.trim_zeros(x, trim), np.trim_zeros(x, trim))


def test_trim_zeros_of_matrices() -> None:
    x = jnp.array([[0, 0, 0], [0, 2, 0]])
    assert jnp.trim_zeros(x).tolist() == [[2]]
    assert jnp.trim_zeros(x, axis=1).tolist() == [[0], [2]]
    with pytest.raises(errors.ConcretizationError, match="traced"):
        functrax.jit(jnp.trim_zeros)(x)


def test_errors_and_iterable() -> None:
    with pytest.raises(errors.DTypeError, match="packbits"):
        jnp.packbits(W)
    with pytest.raises(errors.DTypeError, match="bytes"):
        jnp.unpackbits(V)
    with pytest.raises(errors.ArgumentError, match="order"):
        jnp.packbits(V, bitorder="middle")
    assert jnp.iterable([1]) and not jnp.iterable(3)


def test_text() -> None:
    with jnp.printoptions(precision=2):
        assert jnp.get_printoptions()["precision"] == 2
        assert jnp.array_str(jnp.float32([3.14159])) == "[3.14]"
    assert jnp.array_repr(jnp.asarray(W)) == repr(W)
