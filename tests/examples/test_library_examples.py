"""The examples that use libraries written for JAX, where these are installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.examples.test_examples import assert_picture, change, run as run_example

LIBRARIES = ("numpyro", "diffrax", "equinox", "optax")
pytestmark = pytest.mark.skipif(
    not all(map(find_spec, LIBRARIES)), reason="pip install functrax[libraries]"
)


def run(name: str, *arguments: object) -> CompletedProcess[str]:
    """As they stand these are programs for JAX; the libraries warn."""
    return run_example(name, *arguments, warnings="default", by=("-m", "functrax.compat"))


def test_eight_schools(tmp_path: Path) -> None:
    done = run("eight_schools.py", "--samples", 400, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(.+?) +(-?[\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.M)
    assert len(rows) == 10
    for _, mean, deviation, number, ratio in rows:
        assert float(number) > 100 and abs(float(ratio) - 1) < 0.05
        assert 0 < float(deviation) < 10 and -2 < float(mean) < 12
    assert_picture(tmp_path / "eight_schools.png")


def test_neural_ode(tmp_path: Path) -> None:
    done = run("neural_ode.py", "--steps", 150, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    before, after = change(done.stdout, "loss")
    assert after < before / 50
    assert_picture(tmp_path / "neural_ode.png")
