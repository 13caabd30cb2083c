"""The command that compares predicted and measured times, on made-up figures and one small row."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the package

from benchmarks import predictions  # noqa: E402
from benchmarks.predictions import Prediction  # noqa: E402
from functrax.backends.threads import thread_pool  # noqa: E402


def test_a_prediction_is_near_within_a_factor_of_two() -> None:
    times = [(50.0, 100.0), (200.0, 100.0), (49.0, 100.0), (201.0, 100.0)]
    found = [Prediction("row", "kernel", *pair) for pair in times]
    assert [x.is_near for x in found] == [True, True, False, False]
    assert str(found[2]).endswith("*") and not str(found[0]).endswith("*")


def test_the_summary_counts_by_classes_of_time() -> None:
    found = [Prediction("row", "kernel", 500.0, 500.0), Prediction("row", "kernel", 1e4, 5e6)]
    assert predictions.summary(found) == [
        "up to 1 us         1 of 1 kernels within 2x: 100.0%",
        "longer             0 of 1 kernels within 2x: 0.0%",
        "all                1 of 2 kernels within 2x: 50.0%",
    ]


def test_a_row_is_measured_on_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    threads = thread_pool.num_threads
    assert predictions.main(["--share", "0", "jnp.tanh(x)"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "one thread" in lines[0] and lines[2].split()[:2] == ["jnp.tanh(x)", "tanh"]
    assert thread_pool.num_threads == threads
