"""Examples on the simulated GPU, at small sizes: they learn what they learn on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import functrax
from functrax.backends.cuda.choice import VARIABLE

pytest.importorskip("sklearn")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = str(Path(functrax.__file__).parents[1])


def numbers(name: str, *arguments: object, status: int = 0, **environment: str) -> list[float]:
    """What a script prints before and after the arrows of lines such as "loss 2.3 -> 0.1"."""
    path = os.pathsep.join(x for x in (PACKAGE, os.environ.get("PYTHONPATH")) if x)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, VARIABLE: "simulated", **environment},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == status, done.stdout + done.stderr
    pairs = re.findall(r"(-?\d+\.\d+) -> (-?\d+\.\d+)", done.stdout)
    assert pairs, done.stdout
    return [float(x) for pair in pairs for x in pair]


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("digits", ["--images", 160, "--epochs", 2], 1),
        ("wgan_gp", ["--iterations", 6, "--batch", 4, "--narrow", 32], 0),
    ],
)
def test_the_losses_are_those_of_the_cpu(
    name: str, arguments: list[object], status: int, tmp_path: Path
) -> None:
    arguments = [*arguments, "--out", tmp_path, "--device"]
    there = numbers(name, *arguments, "cuda", status=status)
    assert there == pytest.approx(numbers(name, *arguments, "cpu", status=status), abs=2e-3)
    assert there[1] < there[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fixed_point", []),
        ("hessian_vector_products", []),
        ("kdv", ["--steps", 4]),
        ("maml", ["--steps", 10]),
        ("rnn", ["--steps", 5]),
    ],
)
def test_other_examples_by_the_environment(
    name: str, arguments: list[object], tmp_path: Path
) -> None:
    draws = name != "hessian_vector_products"
    arguments = [*arguments, *(["--out", tmp_path] if draws else [])]
    there = numbers(name, *arguments, FUNCTRAX_BACKEND="cuda")
    assert there == pytest.approx(numbers(name, *arguments), rel=1e-3, abs=2e-3)
