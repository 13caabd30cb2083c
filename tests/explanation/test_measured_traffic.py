"""The bytes that ``explain`` predicts of a kernel, against those that a simulated memory moves.

``tests/models/test_traffic.py`` counts what the loops of a kernel mention.  Here the machine code
itself runs, in valgrind's callgrind, which simulates caches.  Each kernel begins with empty ones,
so a line of 64 bytes that it misses in the last level must come from memory, or, if it is written
first, goes there.  Slow, and only where valgrind is installed; five minutes on two cores::

    pytest -m slow tests/explanation/test_measured_traffic.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from functrax.backends.targets import target
from functrax.backends.targets.x86_64 import KINDS

ROOT = Path(__file__).parents[2]
#: Code for it needs no masked loads, which callgrind does not count.
CPU = "x86-64-v2"
LINE = 64
#: A first level like that of many processors, and a last one that holds what a kernel reads again:
#: so each line counts once, unless the code comes back to it very late.
CACHES = ("--D1=49152,12,64", "--LL=33554432,16,64")
#: By what share the bytes of a kernel may differ from those predicted.
TOLERANCE = 0.1
#: And by how many lines of each array, whose first and last line may be used in part; and of all
#: else: arguments, tables of constants, and the stack.
ENDS, REST = 2, 12

GROUPS = {
    "point-wise": ("tanh", "ratio_iou", "ratio_iou, gradient", "transpose", "pad, concatenate",
                   "rows of a slice", "cumsum", "embedding", "embedding, gradient"),
    "reductions": ("sums", "softmax", "layer norm", "layer norm, gradient", "batch norm",
                   "batch norm, gradient"),
    "contractions": ("product", "products with gelu", "convolution", "convolution, gradient",
                     "four meta-operators"),
    "attention": ("attention", "attention, gradient"),
    "WGAN-GP": ("WGAN-GP",),
}  # fmt: skip


def events(dump: str) -> tuple[str, Mapping[str, int]]:
    """The label of a dump of callgrind, and how often each event happened."""
    label = re.search(r"^desc: Trigger: Client Request: (.*)$", dump, re.MULTILINE)
    names = re.search(r"^events: (.*)$", dump, re.MULTILINE)
    totals = re.search(r"^totals: (.*)$", dump, re.MULTILINE)
    assert label is not None and names is not None and totals is not None, dump[:1000]
    return label[1], dict(zip(names[1].split(), map(int, totals[1].split()), strict=True))


def probed(names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """What the probe says of each kernel, with the lines that it missed."""
    command = [
        "valgrind", "--tool=callgrind", "--cache-sim=yes", "--instr-atstart=no", *CACHES,
        f"--callgrind-out-file={folder}/dump",
        sys.executable, "-m", "tests.explanation.traffic_probe", *names,
    ]  # fmt: skip
    environment = {
        **os.environ,
        "FUNCTRAX_CPU": CPU,
        "FUNCTRAX_NUM_THREADS": "1",
        "FUNCTRAX_CACHE_DIR": str(folder / "cache"),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    missed = dict(events(path.read_text()) for path in folder.glob("dump.*"))
    kernels = [json.loads(line) for line in done.stdout.splitlines()]
    return [{**k, "missed": missed[k["label"]]} for k in kernels]


def moved(kernel: Mapping[str, Any]) -> int:
    """Bytes of the lines that must come or go."""
    return LINE * int(kernel["missed"]["DLmr"] + kernel["missed"]["DLmw"])


def predicted(kernel: Mapping[str, Any]) -> int:
    """Bytes that ``explain`` says; what is written where the kernel has read is there already."""
    said = kernel["read"] + kernel["written"] + kernel["staged"] - kernel["in_place"]
    return int(said)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.skipif(not KINDS[CPU] <= target().flags, reason=f"this processor is no {CPU}")
@pytest.mark.parametrize("group", GROUPS)
def test_predicted_bytes_are_moved(group: str, tmp_path: Path) -> None:
    kernels = probed(GROUPS[group], tmp_path)
    assert {k["label"].split("/")[0] for k in kernels} == set(GROUPS[group])
    wrong = {
        f"{k['label']} {k['kernel']}": (predicted(k), moved(k))
        for k in kernels
        if abs(moved(k) - predicted(k)) > TOLERANCE * predicted(k) + slack(k)
    }
    assert not wrong
    said, seen = sum(map(predicted, kernels)), sum(map(moved, kernels))
    assert abs(seen - said) <= TOLERANCE / 2 * said, (said, seen)


def slack(kernel: Mapping[str, Any]) -> int:
    """Bytes that a kernel may move beyond or below the share."""
    return LINE * (ENDS * int(kernel["arrays"]) + REST)


def test_dumps_are_read() -> None:
    """The form of callgrind's files, which other versions may write otherwise."""
    dump = """# callgrind format
desc: Trigger: Client Request: softmax/0
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: 0
totals: 900 80 70 6 50 40 3 20 10
"""
    label, found = events(dump)
    assert (label, found["DLmr"], found["DLmw"]) == ("softmax/0", 20, 10)
    facts = {"read": 1200, "written": 700, "staged": 64, "in_place": 44, "missed": found}
    assert (moved(facts), predicted(facts)) == (1920, 1920)
