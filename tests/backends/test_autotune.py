"""The option ``autotune``: what it measures is remembered, and no bit of a result depends on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.backends.compilation import autotune, codegen
from functrax.backends.gemm.blocking import Plan
from functrax.backends.gemm.lower_contraction import contraction_kernels
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.targets import schedule_target, target
from functrax.core.options.config import Override
from functrax.core.records import replace
from tests.backends.test_contraction_kernels import Array, draw, group, run

FASTEST = partial(autotune.fastest, runs=codegen._runs)


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The plans that are measured, in a cache of its own; contractions of any size are."""
    found: list[str] = []
    seconds = autotune._seconds

    def noted(kernels: list[Kernel], runs: autotune.Runs) -> float:
        found.append(str(kernels[-1].tiling))
        return seconds(kernels, runs)

    monkeypatch.setattr(autotune, "_seconds", noted)
    monkeypatch.setattr(autotune, "target", lambda: replace(target(), program_ns=0))
    monkeypatch.setattr(autotune, "_known", {})
    monkeypatch.setattr(functrax.config.state, "compilation_cache_dir", str(tmp_path))
    return found


def convolution(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "matrices": (lambda x, y: x @ y, ((50, 700), (700, 60))),
    "windows": (convolution, ((2, 6, 17, 18), (9, 6, 3, 3))),
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_every_plan_gives_the_same_bits(
    case: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the plans that are measured, taken as the fastest one."""
    function, shapes = CASES[case]
    rng = np.random.default_rng(5)
    args = [draw(rng, shape, dtype) for shape in shapes]

    def total(*xs: Any) -> Any:
        return function(*(lax.convert_element_type(x, np.float32) for x in xs))

    want = run(total, *args)
    taken: list[int] = []

    def nth(n: int) -> Callable[..., float]:
        counted = iter(range(1000))
        return lambda kernels, runs: 0.0 if next(counted) == n else 1.0

    for n in range(0, 10, 3):
        monkeypatch.setattr(autotune, "_seconds", nth(n))
        monkeypatch.setattr(autotune, "_remembered", lambda key: None)
        with Override("autotune", "on"):
            got = run(total, *args)
        taken.append(n)
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    assert len(taken) == 4


def kernels(function: Callable[..., Any], *args: Array) -> list[Kernel]:
    inner = group(function, *args).eqns[0].params["jaxpr"]
    found = contraction_kernels(inner, "x", schedule_target(), pick=FASTEST)
    assert not isinstance(found, Refusal)
    return [x.kernel for x in found]


def test_choice_is_remembered(measured: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the process and on disk; another shape is another choice."""
    x = np.zeros((64, 96), np.float32)
    first = str(kernels(lambda x, y: x @ y, x, x.T)[-1].tiling)
    count = len(measured)
    assert count > 3 and first in measured
    assert str(kernels(lambda x, y: x @ y, x, x.T)[-1].tiling) == first
    monkeypatch.setattr(autotune, "_known", {})  # as in another process
    assert str(kernels(lambda x, y: x @ y, x, x.T)[-1].tiling) == first
    assert len(measured) == count
    kernels(lambda x, y: x @ y, x[:32], x.T)
    assert len(measured) > count


def test_damaged_choice_is_measured_again(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.zeros((64, 96), np.float32)
    monkeypatch.setattr(autotune, "_remembered", lambda key: "no plan")
    kernels(lambda x, y: x @ y, x, x.T)
    assert measured


def test_small_contractions_are_not_measured(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "target", target)
    x = np.zeros((64, 96), np.float32)
    kernels(lambda x, y: x @ y, x, x.T)
    assert not measured


def test_off_by_default(measured: list[str]) -> None:
    assert functrax.config.autotune == "off"
    x = np.ones((64, 96), np.float32)
    run(lambda x, y: x @ y, x, x.T.copy())
    assert not measured


def test_different_bits_are_not_candidates(measured: list[str]) -> None:
    """Plans with other blocks of steps are left out."""
    x = np.zeros((64, 96), np.float32)
    seen: list[Plan] = []

    def pick(kernel: Kernel, plans: list[Plan], make: Callable[[Plan], list[Kernel]]) -> Plan:
        others = [replace(plan, block=(kernel.inner[-1], 32)) for plan in plans]
        seen.append(FASTEST(kernel, [plans[0], *others], make))
        return seen[-1]

    inner = group(lambda x, y: x @ y, x, x.T).eqns[0].params["jaxpr"]
    contraction_kernels(inner, "x", schedule_target(), pick=pick)
    assert seen[0].block is None and not any("blocks" in text for text in measured)
