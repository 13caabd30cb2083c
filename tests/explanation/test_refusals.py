"""``functrax.explain`` says of what is not one kernel why it is none."""

import re

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax

X = np.ones((8, 100), np.float32)


@pytest.fixture(autouse=True)
def compiled():
    with functrax.backend("llvm"):
        yield


def sorting(x):
    return lax.scan(lambda carry, row: (jnp.sort(carry) + row, None), jnp.zeros(100), x)[0]


def test_loops_are_listed_with_the_reason():
    found = functrax.explain(sorting)(X)
    ((eqn, refusal),) = found.compiled.refused
    assert (eqn.primitive.name, refusal.reason) == ("scan", "sort inside a kernel")
    assert re.search(r"why it is not one kernel +line\n-+\nscan +sort inside a kernel", str(found))


def test_nothing_is_listed_where_all_are_kernels():
    found = functrax.explain(lambda x: (x / x.sum(1, keepdims=True)).sum(0))(X)
    assert not found.compiled.refused
    assert "in parts or by a call" not in str(found)
