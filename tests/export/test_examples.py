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

import functrax
from tests.export.example_programs import found_in

ROOT = Path(__file__).parents[2]
#: The arguments of each example, where it has its own size without; and packages that it needs.
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
#: Programs for JAX, by libraries that need not be there.
LIBRARIES: Final = {"eight_schools": ("numpyro",), "neural_ode": ("optax", "diffrax", "equinox")}
#: Those of the text of the smallest autodiff, which does not use functrax's own ``jit``.
_WITHOUT: Final = ("00_from_scratch",)
#: What the run must see at least, so that it is not about nothing.
LEAST: Final = 100
#: Loads each file of a folder, runs it, and compares every bit.
_LOADER: Final = """
import glob, sys
import numpy as np
import functrax
count = 0
for path in sorted(glob.glob(sys.argv[1] + "/*.functrax")):
    kept = np.load(path + ".npz")
    program = functrax.load(path)
    args = [kept[f"arg{n}"].view(a.dtype) for n, a in enumerate(program.in_avals)]
    with functrax.enable_x64(bool(kept["x64"])):
        found = functrax.tree.leaves(program(*args))
    assert len(found) == sum(k.startswith("out") for k in kept), path
    for n, x in enumerate(map(np.asarray, found)):
        y = kept[f"out{n}"]
        assert x.dtype.itemsize == y.dtype.itemsize and x.shape == y.shape, (path, x, y)
        assert x.tobytes() == y.tobytes(), (path, n, x, y)
    count += 1
here = [m for m in sys.modules if m.startswith("tests")]
assert not here and not any("examples" in p for p in sys.path), (here, sys.path)
print(count)
"""
EXAMPLES: Final = sorted(x.stem for x in (ROOT / "examples").glob("*.py") if x.stem not in _WITHOUT)


def _process(*command: str, folder: Path, places: list[Path]) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    run = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert run.returncode == 0, (run.stdout[-2000:], run.stderr[-4000:])
    return run.stdout


def compared(name: str, folder: Path) -> tuple[int, dict[str, str]]:
    """How many programs of an example gave the same bits elsewhere, and what was refused."""
    place = Path(functrax.__file__).parents[1]
    path = ROOT / "examples" / f"{name}.py"
    draws = "--out" in path.read_text(encoding="utf-8")
    words = [*SIZES.get(name, ()), *(["--out", str(folder / "drawn")] if draws else [])]
    how = "compat" if name in LIBRARIES else "plain"
    command = ["-m", "tests.export.example_programs", how, str(folder), str(path), *words]
    others = [Path(x) for x in os.environ.get("PYTHONPATH", "").split(os.pathsep) if x]
    _process(*command, folder=folder, places=[place, ROOT, *others])
    found = found_in(folder)[name]
    count = int(_process("-c", _LOADER, str(folder), folder=folder, places=[place]))
    assert count == len(found.kept)
    return count, found.refused


def test_the_smallest_example(tmp_path: Path) -> None:
    count, refused = compared("custom_rules", tmp_path)
    assert count >= 2 and not refused


@pytest.mark.slow
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
