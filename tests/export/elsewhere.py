"""Programs in files beside arrays, loaded and run by a process that has none of their sources.

Start at :func:`keep` and :func:`loaded_elsewhere`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import functrax
from functrax.core.options.config import state as options

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
here = [m for m in sys.modules if m == "tests" or m.startswith("tests.")]
assert not here and not any("examples" in p for p in sys.path), (here, sys.path)
print(count)
"""


def keep(path: Path, args: Sequence[Any], outs: Sequence[Any]) -> None:
    """Keep the arguments and the results of a program beside its file."""
    arrays = {f"arg{n}": _plain(x) for n, x in enumerate(args)}
    arrays |= {f"out{n}": _plain(x) for n, x in enumerate(outs)}
    arrays["x64"] = np.array(options.enable_x64)
    np.savez(f"{path}.npz", **arrays)  # type: ignore[arg-type]


def _plain(x: Any) -> np.ndarray[Any, Any]:
    """An array that ``npz`` holds: bytes, where NumPy has no such dtype."""
    array = np.asarray(x)
    return array if array.dtype.kind in "biufc" else array.view(f"V{array.dtype.itemsize}")


def loaded_elsewhere(folder: Path) -> int:
    """How many programs of a folder gave the same bits in a process that knows functrax alone."""
    command = [sys.executable, "-c", _LOADER, str(folder)]
    place = str(Path(functrax.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": place}
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)
