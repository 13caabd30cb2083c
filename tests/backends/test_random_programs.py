"""Compiled random programs give what the reference device gives.

The default run compares a few programs of each kind (``random_functions.py`` says what the kinds
are).  The slow one compares ``MANY`` of each, 2,400 in all, derivatives up to the second order
among them; it takes about ten minutes on two cores.
"""

from __future__ import annotations

import pytest

from tests.backends.random_checks import check_seed

FEW, MANY = 14, 800
KINDS = ("exact", "bits", "smooth")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(FEW))
def test_random_program(kind: str, seed: int) -> None:
    check_seed(seed, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", range(FEW, MANY, 50))
def test_many_random_programs(kind: str, start: int) -> None:
    wrong = {}
    for seed in range(start, min(start + 50, MANY)):
        try:
            check_seed(seed, kind)
        except AssertionError as error:
            wrong[seed] = str(error)
    assert not wrong
