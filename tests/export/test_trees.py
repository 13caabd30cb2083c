"""Trees of arrays in files: everything comes back as it was."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, random
from functrax.core.types import dtypes
from functrax.export.tensors import read_tensors, write_tensors

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "int4", "uint4"),
]


def _same(x: Any, y: Any) -> None:
    assert type(x) is type(y)
    if isinstance(x, (bool, int, float, complex)):
        assert x == y
        return
    assert x.dtype == y.dtype and x.shape == y.shape
    if hasattr(x, "words"):
        x, y = x.words, y.words
    assert x.weak_type == y.weak_type
    assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_every_kind_of_leaf_and_container(tmp_path: Path) -> None:
    with functrax.enable_x64():
        arrays = {
            name: jnp.asarray(np.arange(6).reshape(2, 3).astype(dtypes.as_dtype(name)))
            for name in DTYPES
        }
        tree = {
            "arrays": arrays,
            "empty": [jnp.zeros((0, 3)), (), {}, None],
            "scalars": (jnp.float32(2.5), 7, -1.5, True, 2 - 1j, jnp.asarray(3) * 1),
            "key": (random.key(3), random.split(random.key(4, impl="rbg"))),
            "ordered": collections.OrderedDict(b=jnp.ones(1), a=jnp.zeros(2)),
            "odd names": {'a.b/c "d"': jnp.ones(2), "": jnp.ones(1)},
            "numbers": {1: jnp.ones(1), 2: jnp.zeros(1)},
            "pairs": {(1, "x"): jnp.ones(1), (1, "y"): jnp.zeros(1)},
        }
        functrax.save_tree(tmp_path / "tree", tree)
        read = functrax.load_tree(tmp_path / "tree")
        assert functrax.tree.structure(read) == functrax.tree.structure(tree)
        functrax.tree.map(_same, read, tree)


def test_names_of_arrays(tmp_path: Path) -> None:
    functrax.save_tree(tmp_path / "f", {"layers": [{"w": jnp.ones(2)}], "layers.0": {"w": 1}})
    arrays, metadata = read_tensors((tmp_path / "f").read_bytes())
    assert list(arrays) == ["layers.0.w", "layers.0.w (2)"]
    assert json.loads(metadata["functrax.tree"])["tree"] == {
        "dict": [["layers", {"list": [{"dict": [["w", 0]]}]}], ["layers.0", {"dict": [["w", 0]]}]]
    }


def test_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(write_tensors({"w": np.ones((2, 2), np.float32)}))
    found = functrax.load_tree(tmp_path / "f")
    np.testing.assert_array_equal(found["w"], np.ones((2, 2)))
    assert functrax.load_tree(tmp_path / "f", like=(0,))[0].shape == (2, 2)
    with pytest.raises(ValueError, match="another number of leaves"):
        functrax.load_tree(tmp_path / "f", like=(0, 0))


def test_the_package_safetensors_reads_and_writes_the_same(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = {
        name: np.arange(6).reshape(2, 3).astype(name)
        for name in ("bool", "int8", "int64", "uint16", "float16", "float32", "float64")
    }
    theirs = safetensors.load(write_tensors(arrays, {"about": "this"}))
    ours, _ = read_tensors(safetensors.save(arrays))
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)
        assert theirs[name].dtype == array.dtype == ours[name].dtype


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("text", "a leaf that is no array"),
        (2**70, "more than 64 bits"),
        (object(), "a leaf that is no array"),
    ],
)
def test_what_is_no_array(tmp_path: Path, leaf: Any, message: str) -> None:
    with pytest.raises(errors.PyTreeError, match=message):
        functrax.save_tree(tmp_path / "f", {"x": leaf})
    assert not (tmp_path / "f").exists()


def test_each_kind_of_file_names_the_function_that_reads_it(tmp_path: Path) -> None:
    functrax.save_tree(tmp_path / "tree", {"w": jnp.ones(2)})
    functrax.save(tmp_path / "program", jnp.sin, jnp.ones(2))
    with pytest.raises(errors.FileFormatError, match="a tree of arrays") as caught:
        functrax.load(tmp_path / "tree")
    assert caught.value.fix == "functrax.load_tree(path)"
    with pytest.raises(errors.FileFormatError, match="a function") as caught:
        functrax.load_tree(tmp_path / "program")
    assert caught.value.fix == "functrax.load(path)"


def test_a_tree_is_no_function_to_save(tmp_path: Path) -> None:
    with pytest.raises(errors.ArgumentError, match=r"^save: ") as caught:
        functrax.save(tmp_path / "f", {"w": jnp.ones(1000)})
    assert "functrax.save_tree" in caught.value.fix and len(caught.value.got) < 200
    assert not list(tmp_path.iterdir())


def test_the_path_of_a_missing_file_is_told(tmp_path: Path) -> None:
    for load in (functrax.load, functrax.load_tree):
        with pytest.raises(FileNotFoundError, match="no such tree"):
            load(tmp_path / "no such tree")
