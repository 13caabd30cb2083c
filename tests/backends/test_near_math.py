"""Functions of float32 by the instructions of GPUs that give powers of two and the like nearly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
from functrax.backends.kernels import evaluate as evaluation
from functrax.backends.kernels.evaluate import evaluate
from functrax.backends.kernels.math import EXPANSIONS, near
from functrax.backends.targets import making_for
from functrax.backends.targets.nvptx import target_of
from functrax.core.options.config import Override
from functrax.core.scalars.scalar import Builder
from tests.backends.cuda.compared import kernels
from tests.backends.math_oracles import errors_in_ulp, exact, operands_of

NEAR = sorted(EXPANSIONS.keys() & vars(near))
_DOCS = Path(__file__).parents[2] / "docs/math.md"
_ON_GPUS = _DOCS.read_text(encoding="utf-8").partition("## GPUs")[2].partition("\n## ")[0]
_BOUNDS = re.compile(r"^\| `(\w+)` \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \| [\d.]+ \| all \|$", re.M)
#: What an instruction may be off by, of its result; log2 absolutely.
MOST = 2.0**-22.5


def _values(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    b = Builder()
    with making_for(target_of(90)), np.errstate(all="ignore"):
        made = EXPANSIONS[name](b, b.node("argument", x.dtype))
        return evaluate([made], lambda _: x)[0]


def _normal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.abs(x) >= 2.0**-126


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("name", NEAR)
def test_errors(name: str, off: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each instruction errs by the most that NVIDIA says, to either side."""

    def erring(function: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        value = np.asarray(function(x.astype(np.float64)))
        moved = value + off * MOST if function is np.log2 else value * (1 + off * MOST)
        return moved.astype(np.float32)

    monkeypatch.setattr(evaluation, "_nearly", erring)
    (x,) = operands_of(name, np.float32, 20_000, 3)
    x = x[_normal(x) | (x == 0)]
    want, got = exact(name, x), _values(name, x)
    errors = errors_in_ulp(name, (x,), got, want)
    errors[~(_normal(want) | (want == 0))] = 0  # which are flushed
    k, bounds = int(errors.argmax()), {f: row for f, *row in _BOUNDS.findall(_ON_GPUS)}
    limit = float(bounds[name][0 if not off else 1])
    assert errors[k] <= limit, f"{name}({x[k]!r}) = {got[k]!r}, not {want[k]!r}: {errors[k]}"


@pytest.mark.parametrize("name", NEAR)
def test_edges(name: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 200, -200], np.float32)
    want = np.asarray(exact(name, x), np.float64)
    want = np.where(np.abs(want) < 2.0**-126, np.copysign(0, want), want)
    want = np.where(np.abs(want) > 3.5e38, np.copysign(np.inf, want), want)
    np.testing.assert_allclose(_values(name, x), want.astype(np.float32), 1e-6, 0)


def test_where_they_are_used() -> None:
    x = np.ones(8, np.float32)
    (kernel,) = kernels(functrax.numpy.exp, x)
    assert "ex2.approx.ftz.f32" in kernel.assembly
    with Override("strict", True):
        (kernel,) = kernels(functrax.numpy.exp, x)
        assert "approx" not in kernel.assembly
    with functrax.enable_x64():
        (kernel,) = kernels(functrax.numpy.exp, x.astype(np.float64))
        assert "approx" not in kernel.assembly
