"""Examples on the simulated GPU, at small sizes: they learn what they learn on the CPU.

By default two of them are trained, without their pictures; the slow tests run whole scripts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import functrax
from functrax.backends.cuda.choice import VARIABLE

pytest.importorskip("sklearn")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = str(Path(functrax.__file__).parents[1])


def numbers(output: str) -> list[float]:
    """What stands before and after the arrows of lines such as "loss 2.3 -> 0.1"."""
    pairs = re.findall(r"(-?\d+\.\d+) -> (-?\d+\.\d+)", output)
    assert pairs, output
    return [float(x) for pair in pairs for x in pair]


def output_of(name: str, *arguments: object, status: int = 0, **environment: str) -> str:
    """What a script prints."""
    path = os.pathsep.join(x for x in (PACKAGE, os.environ.get("PYTHONPATH")) if x)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, VARIABLE: "simulated", **environment},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def same_backend_afterwards() -> Iterator[None]:
    before = functrax.config.backend
    yield
    functrax.config.update("backend", before)


@pytest.mark.usefixtures("same_backend_afterwards")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("digits", ["--images", "80", "--epochs", "2"]),
        ("wgan_gp", ["--iterations", "3", "--batch", "4", "--narrow", "32"]),
    ],
)
def test_the_losses_are_those_of_the_cpu(
    name: str,
    arguments: list[str],
    load_example: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(VARIABLE, "simulated")
    example = load_example(name)
    for drawing in [x for x in vars(example) if x.startswith("plot_")]:
        monkeypatch.setattr(example, drawing, lambda *args: None)
    found = []
    for device in ("cuda", "cpu"):
        example.main([*arguments, "--out", str(tmp_path), "--device", device])
        found.append(numbers(capsys.readouterr().out))
    there, here = found
    assert there == pytest.approx(here, abs=2e-3)
    assert there[1] < there[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("digits", ["--images", 160, "--epochs", 2], 1),
        ("wgan_gp", ["--iterations", 6, "--batch", 4, "--narrow", 32], 0),
    ],
)
def test_whole_scripts_by_their_option(
    name: str, arguments: list[object], status: int, tmp_path: Path
) -> None:
    arguments = [*arguments, "--out", tmp_path, "--device"]
    there = numbers(output_of(name, *arguments, "cuda", status=status))
    here = numbers(output_of(name, *arguments, "cpu", status=status))
    assert there == pytest.approx(here, abs=2e-3)
    assert there[1] < there[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fixed_point", []),
        ("hessian_vector_products", ["--width", 3]),
        ("kdv", ["--steps", 1]),
        ("maml", ["--steps", 10]),
        ("rnn", ["--steps", 5]),
    ],
)
def test_other_examples_by_the_environment(
    name: str, arguments: list[object], tmp_path: Path
) -> None:
    draws = name != "hessian_vector_products"
    arguments = [*arguments, *(["--out", tmp_path] if draws else [])]
    there = numbers(output_of(name, *arguments, FUNCTRAX_BACKEND="cuda"))
    here = numbers(output_of(name, *arguments))
    assert there == pytest.approx(here, rel=1e-3, abs=2e-3)
