"""Contractions of any kind, and their first and second derivatives, against their definition.

``random_contractions.py`` makes the cases and states the bound.  The default run takes each case
once, some in every order of derivative; the slow one takes ``MANY`` in all orders, which takes
about five minutes on two cores::

    pytest -m slow tests/backends/test_random_contractions.py
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.contraction_checks import ORDERS, check_seed
from tests.backends.random_contractions import contraction, exactly, integers, is_inexact, sums

FEW, MANY = 100, 2100
#: Cases that found something: windows of padding alone, operands without elements, integers that
#: 16 bits do not hold, gradients computed at many places that have no element, panels that are
#: mostly filled up.
FOUND = (105, 418, 966, 1029, 1090, 1155, 1195, 1339, 1446, 1595, 1667, 2003)


@pytest.mark.parametrize("start", range(0, FEW, 10))
def test_random_contractions(start: int) -> None:
    for seed in range(start, start + 10):
        check_seed(seed, (ORDERS[seed // 4 % 4],))


@pytest.mark.parametrize("seed", FOUND)
def test_contraction_that_was_wrong(seed: int) -> None:
    check_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, MANY, 100))
def test_many_random_contractions(start: int) -> None:
    wrong = []
    for seed in range(start, start + 100):
        try:
            check_seed(seed)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong


def test_definition_is_that_of_numpy() -> None:
    """The lists of terms give what NumPy's einsum gives."""
    for seed in range(1, 200, 4):
        case = contraction(seed)
        text = case.text.split()[1]
        x, w = (a.astype(np.int64 if a.dtype.name == "bool" else a.dtype) for a in (case.x, case.w))
        if is_inexact(case.result):
            wide = np.complex128 if case.result.kind == "c" else np.float64
            want = np.einsum(text, x.astype(wide), w.astype(wide))
            got = sums(case, "out", {"x": exactly(case.x), "w": exactly(case.w)}, case.result)
            np.testing.assert_allclose(got.value, want, 1e-9, 1e-9)
        elif case.result.name != "bool":
            want = np.einsum(text, x.astype(case.result), w.astype(case.result))
            np.testing.assert_array_equal(integers(case), want)
