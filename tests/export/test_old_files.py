"""Files of every format that there has been are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import functrax
from functrax import nn
from functrax.export.archive import VERSION

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_programs(version: int) -> None:
    loaded = functrax.load(FILES / f"program_{version}.functrax")
    w = np.sin(np.arange(12, dtype=np.float32)).reshape(4, 3)
    scale = np.float32([1.5, 2.5, -1])
    assert sorted(loaded.constants) == ["params['scale']", "params['w']"]
    for rows in (2, 5):
        x = np.cos(np.arange(4 * rows, dtype=np.float32)).reshape(rows, 4)
        found = loaded(x, shift=np.float32(0.5))
        want = np.asarray(nn.relu(x @ w)) * scale + np.float32(0.5)
        np.testing.assert_allclose(found["y"], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["top"], want.argmax(1))


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_trees(version: int) -> None:
    tree = functrax.load_tree(FILES / f"tree_{version}.safetensors")
    assert tree["steps"] == 3 and tree["rest"][0] is None
    assert tree["rest"][1][0].dtype.name == "int4"
    np.testing.assert_array_equal(tree["params"]["scale"], np.float32([1.5, 2.5, -1]))
    key = functrax.random.key(7)
    assert tree["key"].dtype == key.dtype
    np.testing.assert_array_equal(
        functrax.random.normal(tree["key"], (3,)), functrax.random.normal(key, (3,))
    )
