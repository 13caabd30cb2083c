"""The rows for GPUs: what is written of figures, and that each row runs on the simulated one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import FRAMEWORKS, Measured, line_of, sampled, seconds_of
from benchmarks.gpu_rows import ROWS
from functrax.backends.cuda.choice import VARIABLE

ROOT = Path(__file__).parents[2]
MOVES = next(row for row in ROWS if row.name == "transpose")
DRAWS = next(row for row in ROWS if row.name == "random bits")
SCALAR = next(row for row in ROWS if row.name == "scalar step")


def answers(row, functrax, **peers):
    given = {"functrax": functrax, **peers}
    return {name: {row.name: given[name]} if name in given else {} for name in FRAMEWORKS}


def test_a_row_that_reaches_its_targets() -> None:
    bandwidth = MOVES.moved / 900e-6
    ours, theirs = Measured(1e-3, (1.0, 2.0)), Measured(1.5e-3, (1.0, 2.001))
    line, right = line_of(MOVES, answers(MOVES, ours, jax=theirs), bandwidth)
    assert right and line == "| transpose | 1000.0 | 90% | 1.50× |  |  | ✓ |"


def test_a_row_that_misses_them_says_which() -> None:
    bandwidth = MOVES.moved / 500e-6
    ours, theirs = Measured(1e-3, (1.0,)), Measured(0.8e-3, (1.0,))
    line, right = line_of(MOVES, answers(MOVES, ours, jax=theirs, torch=theirs), bandwidth)
    assert right and line.endswith("| missed: 85% of the copy, 1× jax, 1× torch |")
    line, _ = line_of(SCALAR, answers(SCALAR, Measured(9e-6, (1.0,))), bandwidth)
    assert line.endswith("| missed: 8 µs |")


def test_values_that_differ_have_no_figure() -> None:
    ours, theirs = Measured(1e-3, (1.0, 2.0)), Measured(1e-3, (1.0, 2.1))
    line, right = line_of(MOVES, answers(MOVES, ours, torch=theirs), 1e12)
    assert not right and "**differs**" in line
    # random bits are those of JAX, and not of PyTorch
    line, right = line_of(DRAWS, answers(DRAWS, ours, torch=Measured(2e-3, ())), 1e12)
    assert right and "2.00×" in line
    _, right = line_of(DRAWS, answers(DRAWS, ours, jax=theirs), 1e12)
    assert not right


def test_rows_that_fail_or_take_no_times() -> None:
    line, right = line_of(MOVES, answers(MOVES, Measured(error="ValueError: no")), None)
    assert not right and "ValueError: no" in line
    ours, theirs = Measured(None, (1.0,)), Measured(None, (1.0,))
    line, right = line_of(MOVES, answers(MOVES, ours, jax=theirs), None)
    assert right and line == "| transpose | ran | | agrees |  |  | |"
    line, right = line_of(MOVES, answers(MOVES, ours, jax=Measured(error="it crashed")), None)
    assert right and "failed" in line


def test_times_wait_for_the_last_call_or_for_each() -> None:
    waited: list[int] = []

    class Waits:
        def wait(self, y):
            waited.append(y)

    def f():
        return 1

    assert seconds_of(Waits(), SCALAR, f, []) > 0
    each = len(waited)
    waited.clear()
    assert seconds_of(Waits(), MOVES, f, []) > 0
    assert len(waited) < each


def test_samples_are_spread_over_all_results() -> None:
    long, short = np.arange(10_000.0), np.arange(3.0)
    found = sampled([long, short])
    assert found[-3:] == (0.0, 1.0, 2.0) and found[255] > 9_000 and len(found) == 259


@pytest.mark.slow
def test_every_row_runs_on_the_simulated_gpu() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--quick"],
        cwd=ROOT,
        env={**os.environ, VARIABLE: "simulated", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| ran |") == len(ROWS) and "No times were taken" in done.stdout


def checked(folder: Path, driver: str) -> tuple[int, str]:
    """The exit status of a quick check and its report, in an environment that needs no network."""
    environment, report = folder / "venv", folder / "report.md"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=300
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "checkout.pth").write_text(f"{ROOT}\n")
    stamp = subprocess.run(
        ["bash", "-c", "source scripts/environment.sh; install_stamp"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (environment / ".functrax-gpu").write_text(stamp.stdout)
    settings = {VARIABLE: driver, "FUNCTRAX_VENV": str(environment), "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", str(ROOT / "scripts/gpu_check.sh"), "--quick", str(report)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=1_200,
    )
    return done.returncode, report.read_text()


@pytest.mark.slow
def test_the_check_of_a_machine_with_a_gpu(tmp_path: Path) -> None:
    status, report = checked(tmp_path, "simulated")
    assert status == 0, report
    assert report.count("Passed in") == 3 and "**" not in report
    assert "| x + y | ran |" in report and " passed" in report


@pytest.mark.slow
def test_the_check_of_a_machine_without_one_ends_early_and_says_why(tmp_path: Path) -> None:
    status, report = checked(tmp_path, "unknown")
    assert status == 1 and "**Failed** with status 1" in report
    assert "unknown driver" in report and "Benchmarks" not in report
