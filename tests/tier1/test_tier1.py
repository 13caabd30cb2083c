"""Every name of tier 1 gives what NumPy, SciPy or an independent formula gives; derivatives too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tier1.known_differences import DIFFERENCES
from tests.tier1.sample import check_batched, check_derivatives, check_value, differentiable
from tests.tier1.tables import SAMPLES, tier1


def test_every_name_of_tier_1_has_samples() -> None:
    missing = [name for name in tier1() if not SAMPLES.get(name)]
    assert not missing, f"no samples in tests/tier1 for {missing}"


def test_only_names_of_tier_1_have_samples() -> None:
    assert not set(SAMPLES) - set(tier1())


def test_known_differences_are_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "differences_from_jax.md").read_text("utf-8")
    for name in DIFFERENCES:
        assert f"| `{name.removeprefix('jax.')}` |" in page


@pytest.mark.parametrize("name", SAMPLES)
def test_values(name: str) -> None:
    for sample in SAMPLES[name]:
        check_value(sample)


DIFFERENTIABLE = [name for name in SAMPLES if [*differentiable(SAMPLES[name])]]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str) -> None:
    for sample in differentiable(SAMPLES[name]):
        check_derivatives(sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_batched_and_compiled(name: str) -> None:
    check_batched(next(iter(differentiable(SAMPLES[name]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_all_batched_and_compiled(name: str) -> None:
    for sample in differentiable(SAMPLES[name]):
        check_batched(sample)
