"""Random programs give on the simulated GPU what they give on the CPU and the reference device.

The slow tests compare 500 programs of each kind; ``random_programs.py`` runs as many as are wanted.
"""

from __future__ import annotations

import pytest

from functrax.backends.cuda import choice
from tests.backends.cuda.random_programs import KINDS, compare_devices, wrong_seeds
from tests.backends.random_checks import check_seed

FEW, MANY, PART = 4, 500, 50


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choice.VARIABLE, "simulated")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(FEW))
def test_a_random_program(kind: str, seed: int) -> None:
    check_seed(seed, kind, compare_devices)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", range(0, MANY, PART))
def test_many_random_programs(kind: str, start: int) -> None:
    _, wrong = wrong_seeds(kind, range(start, start + PART))
    assert not wrong
