"""The table of linear algebra: its programs, and how a row is measured."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
from benchmarks import linear_algebra
from benchmarks.linear_algebra import FUNCTIONS, Calls, Row


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_batch_is_its_matrices_one_by_one(name):
    operands = linear_algebra.operands(4, 3, "float32")
    several = functrax.tree_util.tree_leaves(
        linear_algebra.program(functrax, Row(name, 4, 3, False))(*operands)
    )
    single = linear_algebra.program(functrax, Row(name, 4, 1, False))
    for k in range(3):
        values = functrax.tree_util.tree_leaves(single(*(x[k] for x in operands)))
        for one, all_of_them in zip(values, several, strict=True):
            np.testing.assert_allclose(np.abs(one), np.abs(all_of_them[k]), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_by_both_matrices(name):
    call = linear_algebra.program(functrax, Row(name, 4, 1, True))
    a, x, b = linear_algebra.operands(4, 1, "float32")
    found = call(a, x, b)
    assert [g.shape for g in found] == [a.shape, x.shape]
    assert any(np.abs(g).max() > 0 for g in found)


def test_a_row_is_timed():
    calls = Calls(functrax, Row("solve", 4, 1, False), "float32")
    (solution,) = calls.values
    _, x, b = linear_algebra.operands(4, 1, "float32")
    np.testing.assert_allclose(solution, np.abs(np.linalg.solve(x, b)), rtol=1e-4)
    assert 0 < calls.sample() < 1e6
