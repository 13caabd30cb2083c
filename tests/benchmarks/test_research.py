"""The research programs: each is traced, and its results have JAX's shapes and dtypes.

``python -m benchmarks --only functrax,jax`` compares their values.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import functrax

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks/ is no part of the package

from benchmarks.workload import Workload  # noqa: E402
from benchmarks.workloads import research  # noqa: E402

ROWS = pytest.mark.parametrize("row", research.ROWS, ids=lambda row: row.name)


def types(library: Any, row: Workload) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each result."""
    assert row.text is not None
    arguments = library.device_put(row.inputs())
    results = library.eval_shape(row.text(library), *arguments)
    return [(x.shape, str(x.dtype)) for x in library.tree_util.tree_leaves(results)]


@pytest.mark.jax
@ROWS
def test_a_program_has_the_types_that_it_has_in_jax(row: Workload) -> None:
    jax = pytest.importorskip("jax")
    found = types(functrax, row)
    assert len(found) > 0
    assert found == types(jax, row)
