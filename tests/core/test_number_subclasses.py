"""Numbers of subclasses of Python's are arguments and results as the numbers are."""

from __future__ import annotations

import enum

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax


class Kind(enum.IntEnum):
    """Members are integers."""

    OTHER = 3


def test_members_of_int_enums() -> None:
    for got in (
        jnp.asarray(Kind.OTHER),
        functrax.jit(lambda x: x)(Kind.OTHER),
        functrax.jit(lambda: Kind.OTHER)(),
    ):
        assert (int(got), got.dtype) == (3, np.int32)
    assert int(functrax.vmap(lambda x: x + Kind.OTHER)(jnp.arange(2))[1]) == 4


def test_integers_larger_than_any_dtype_become_floats() -> None:
    assert float(lax.convert_element_type(2**100, "float32")) == 2.0**100


def test_jacobians_at_python_numbers_are_weak() -> None:
    for jacobian in (functrax.jacfwd, functrax.jacrev):
        assert jacobian(lambda x: x)(1.0).weak_type
        assert not jacobian(lambda x: x)(jnp.ones(2)).weak_type
