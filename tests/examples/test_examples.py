"""Every example runs as a script, learns what it says, and writes its pictures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import functrax

pytest.importorskip("sklearn")
pytest.importorskip("tqdm")
image = pytest.importorskip("matplotlib.image")

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(
    name: str, *arguments: object, warnings: str = "error", by: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """The finished script, in a process whose warnings are errors; ``by``: what runs it."""
    package = str(Path(functrax.__file__).parents[1])
    found = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([package, found] if found else [package]),
        "OPENBLAS_NUM_THREADS": "1",  # small matrices: more threads wait for each other
    }
    command = [sys.executable, "-W", warnings, *by, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)


def change(output: str, name: str) -> tuple[float, float]:
    """What stands before and after the arrow of a line such as "loss 2.3 -> 0.1"."""
    match = re.search(name + r":? (-?\d+\.\d+) -> (-?\d+\.\d+)", output)
    assert match, f"{name!r} is not in: {output}"
    return float(match[1]), float(match[2])


def assert_picture(path: Path) -> None:
    pixels = np.asarray(image.imread(path))[..., :3]
    assert min(pixels.shape[:2]) > 200
    assert pixels.std() > 0.05
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50


def test_from_scratch() -> None:
    done = run("00_from_scratch.py")
    assert done.returncode == 0, done.stderr
    before, after = change(done.stdout, "mean squared error")
    assert after < before / 1000
    assert "equations of Elementwise, Reindex, ReindexSum." in done.stdout


def test_from_scratch_is_short() -> None:
    lines = (EXAMPLES / "00_from_scratch.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 400


def test_digits_reaches_its_accuracy(tmp_path: Path) -> None:
    done = run("digits.py", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    match = re.search(r"test accuracy ([\d.]+)%", done.stdout)
    assert match and float(match[1]) >= 97
    before, after = change(done.stdout, "loss")
    assert after < before / 10
    assert re.search(r"loss \d+ equations, with gradients \d+", done.stdout)
    assert_picture(tmp_path / "digits_loss.png")
    assert_picture(tmp_path / "digits_predictions.png")


def test_digits_fails_below_its_accuracy(tmp_path: Path) -> None:
    done = run("digits.py", "--epochs", 1, "--out", tmp_path)
    assert done.returncode == 1, done.stderr
    assert "required: 97%" in done.stdout


def test_wgan_gp_trains_its_critic(tmp_path: Path) -> None:
    done = run("wgan_gp.py", "--quick", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    before, after = change(done.stdout, "distance")
    assert after > before + 1
    before, after = change(done.stdout, "critic loss")
    assert after < before - 1
    assert_picture(tmp_path / "wgan_gp_samples.png")
    assert_picture(tmp_path / "wgan_gp_curves.png")


@pytest.mark.parametrize(
    ("name", "arguments", "falls", "pictures"),
    [
        ("fixed_point", [], 5, 1),
        ("gaussian_process", [], None, 1),
        ("hessian_vector_products", [], 100, 0),
        ("ising", ["--size", 16, "--sweeps", 50], None, 1),
        ("kdv", ["--steps", 40], 1e4, 1),
        ("langevin", ["--chains", 200, "--steps", 60], None, 1),
        ("lattice_boltzmann", ["--steps", 800, "--height", 36], None, 1),
        ("lorenz", ["--trajectories", 2, "--time", 5, "--rounds", 50], None, 1),
        ("maml", ["--steps", 150], 1.3, 1),
        ("ppo", ["--updates", 30], None, 1),
        ("rnn", ["--steps", 120], 10, 1),
    ],
)
def test_a_script(
    name: str, arguments: list[object], falls: float | None, pictures: int, tmp_path: Path
) -> None:
    """Runs without a warning, makes its loss fall by a factor, and draws its picture."""
    out = ["--out", tmp_path] if pictures else []
    done = run(f"{name}.py", *arguments, *out)
    assert done.returncode == 0, done.stderr
    if falls is not None:
        before, after = change(done.stdout, "residual" if name == "fixed_point" else "loss")
        assert after < before / falls
    for path in [tmp_path / f"{name}.png"] * pictures:
        assert_picture(path)


@pytest.mark.parametrize("name", ["autodiff_tour", "per_example_gradients", "custom_rules"])
def test_a_script_without_pictures(name: str) -> None:
    done = run(f"{name}.py")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 5


def test_the_readme_names_every_example() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"[{path.name}]({path.name})" in readme
