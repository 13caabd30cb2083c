"""Programs that the examples call give the same bits in a process that has no examples.

    python -m pytest -m slow -s tests/export/test_examples.py

Each example runs at the size of its test; ``example_programs.py`` keeps its programs with their
arguments and results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.export.elsewhere import loaded_elsewhere
from tests.export.example_programs import found_in

ROOT = Path(__file__).parents[2]
#: The arguments that make examples small.
SIZES: Final[dict[str, tuple[str, ...]]] = {
    "wgan_gp": ("--quick",),
    "ising": ("--size", "16", "--sweeps", "50"),
    "kdv": ("--steps", "40"),
    "langevin": ("--chains", "200", "--steps", "60"),
    "lattice_boltzmann": ("--steps", "800", "--height", "36"),
    "lorenz": ("--trajectories", "2", "--time", "5", "--rounds", "50"),
    "maml": ("--steps", "150"),
    "ppo": ("--updates", "30"),
    "rnn": ("--steps", "120"),
    "neural_ode": ("--steps", "30"),
    "eight_schools": ("--samples", "50"),
}
#: What examples load data with, and draw.
PACKAGES: Final = ("sklearn", "tqdm", "matplotlib")
#: Programs for JAX, by libraries that need not be there.
LIBRARIES: Final = {"eight_schools": ("numpyro",), "neural_ode": ("optax", "diffrax", "equinox")}
#: equinox raises errors from Python, which a file cannot hold, unless it is told to give NaN.
VARIABLES: Final = {"neural_ode": {"EQX_ON_ERROR": "nan"}}
#: An autodiff of its own, which does not call functrax.
_WITHOUT: Final = ("00_from_scratch",)
#: What the run must see at least, so that it is not about nothing.
LEAST: Final = 60
EXAMPLES: Final = sorted(x.stem for x in (ROOT / "examples").glob("*.py") if x.stem not in _WITHOUT)


def compared(name: str, folder: Path) -> tuple[int, dict[str, str]]:
    """How many programs of an example gave the same bits elsewhere, and what was refused."""
    path = ROOT / "examples" / f"{name}.py"
    how = "compat" if name in LIBRARIES else "plain"
    draws = "--out" in path.read_text(encoding="utf-8")
    words = [*SIZES.get(name, ()), *(["--out", str(folder / "drawn")] if draws else [])]
    module = "tests.export.example_programs"
    run = subprocess.run(
        [sys.executable, "-m", module, how, str(folder), str(path), *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **VARIABLES.get(name, {})},
    )
    assert run.returncode == 0, (run.stdout[-2000:], run.stderr[-4000:])
    found = found_in(folder)[name]
    count = loaded_elsewhere(folder)
    assert count == len(found.kept)
    return count, found.refused


def test_the_smallest_example(tmp_path: Path) -> None:
    count, refused = compared("custom_rules", tmp_path)
    assert count >= 2 and not refused


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, PACKAGES)), reason="pip install functrax[test]")
def test_every_example(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for name in EXAMPLES:
        if not all(map(find_spec, LIBRARIES.get(name, ()))):
            print(name, "needs", *LIBRARIES[name])
            continue
        folder = tmp_path / name
        folder.mkdir()
        counts[name], refused = compared(name, folder)
        print(name, counts[name], "programs,", len(refused), "refused", *refused.values())
    assert counts.total() >= LEAST, counts
