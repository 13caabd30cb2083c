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


def test_like_pairs_leaves_by_their_paths(tmp_path: Path) -> None:
    path = tmp_path / "f"
    State = collections.namedtuple("State", "weight a_bias")
    functrax.save_tree(path, {"a_bias": jnp.ones(2), "weight": jnp.zeros((2, 2)), "n": {"s": 3}})
    read = functrax.load_tree(path, like={"n": {"s": 0}, "weight": 0, "a_bias": 0})
    assert (read["a_bias"].shape, read["weight"].shape, read["n"]["s"]) == ((2,), (2, 2), 3)
    with pytest.raises(errors.PyTreeError, match="different paths") as caught:
        functrax.load_tree(path, like={"a_bias": 0, "w": 0, "n": {"s": 0}})
    assert caught.value.got == "the file has no w; like has no weight"
    with pytest.raises(errors.PyTreeError, match="different paths") as caught:
        functrax.load_tree(path, like={"a_bias": 0, "weight": 0})
    assert caught.value.got == "like has no n.s"
    functrax.save_tree(path, {"a_bias": jnp.ones(2), "weight": jnp.zeros((2, 2))})
    other = functrax.load_tree(path, like=State(weight=0, a_bias=0))
    assert (type(other), other.weight.shape, other.a_bias.shape) == (State, (2, 2), (2,))


def test_like_pairs_files_of_others_by_their_names(tmp_path: Path) -> None:
    arrays = {"net.0.weight": np.ones((2, 3)), "net.0.bias": np.ones(2), "scale": np.ones(())}
    (tmp_path / "f").write_bytes(write_tensors(arrays))
    named = functrax.load_tree(tmp_path / "f")
    assert {name: x.shape for name, x in named.items()} == {n: x.shape for n, x in arrays.items()}
    like = {"net": [{"bias": 0, "weight": 0}], "scale": 0}
    read = functrax.load_tree(tmp_path / "f", like=like)
    assert read["net"][0]["weight"].shape == (2, 3) and read["net"][0]["bias"].shape == (2,)
    assert [x.shape for x in functrax.load_tree(tmp_path / "f", like=[0, 0, 0])] == [
        (2, 3), (2,), ()
    ]  # fmt: skip


def test_a_list_of_leaves_has_no_names_and_goes_by_position(tmp_path: Path) -> None:
    tree = {"b": (jnp.ones(2), 1.5), "a": [jnp.zeros(3)]}
    functrax.save_tree(tmp_path / "f", functrax.tree.leaves(tree))
    read = functrax.load_tree(tmp_path / "f", like=tree)
    functrax.tree.map(_same, read, tree)
    with pytest.raises(errors.PyTreeError, match="another type") as caught:
        functrax.load_tree(tmp_path / "f", like={**tree, "a": [jnp.zeros(2)]})
    assert caught.value.got == "a.0: float32[3] in the file, float32[2] in like"


@pytest.mark.parametrize(
    ("leaf", "fits"),
    [
        (jnp.zeros(2, "float16"), True),
        (np.zeros(2), True),
        (functrax.ShapeDtypeStruct((2,), "bfloat16"), True),
        ("anything", True),
        (jnp.zeros(2, int), False),
        (functrax.ShapeDtypeStruct((2,), "complex64"), False),
        (functrax.ShapeDtypeStruct((2, 1), "float32"), False),
        (random.split(random.key(0)), False),
    ],
)
def test_like_says_shapes_and_kinds_of_dtypes(tmp_path: Path, leaf: Any, fits: bool) -> None:
    functrax.save_tree(tmp_path / "f", {"x": jnp.ones(2)})
    if fits:
        assert functrax.load_tree(tmp_path / "f", like={"x": leaf})["x"].dtype == jnp.float32
        return
    with pytest.raises(errors.PyTreeError, match="another type") as caught:
        functrax.load_tree(tmp_path / "f", like={"x": leaf})
    assert caught.value.got.startswith("x: float32[2] in the file, ")


def test_like_knows_typed_keys_and_numbers(tmp_path: Path) -> None:
    tree = {"key": random.split(random.key(3)), "steps": 7}
    functrax.save_tree(tmp_path / "f", tree)
    functrax.tree.map(_same, functrax.load_tree(tmp_path / "f", like=tree), tree)
    assert functrax.load_tree(tmp_path / "f", like={**tree, "steps": jnp.int32(0)})["steps"] == 7
    with pytest.raises(errors.PyTreeError, match="another type"):
        functrax.load_tree(tmp_path / "f", like={**tree, "steps": jnp.float32(0)})
    with pytest.raises(errors.PyTreeError, match="another type"):
        functrax.load_tree(tmp_path / "f", like={**tree, "key": random.key(3)})


def test_two_leaves_of_one_path_need_the_structure_that_was_saved(tmp_path: Path) -> None:
    tree = collections.OrderedDict({"a": {"b": jnp.ones(2)}, "a.b": jnp.zeros(2)})
    functrax.save_tree(tmp_path / "f", tree)
    functrax.tree.map(_same, functrax.load_tree(tmp_path / "f", like=tree), tree)
    turned = collections.OrderedDict({"a.b": 0, "a": {"b": 0}})
    with pytest.raises(errors.PyTreeError, match="one path"):
        functrax.load_tree(tmp_path / "f", like=turned)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        *(("float64", "float32"), ("int64", "int32"), ("uint64", "uint32")),
        ("complex128", "complex64"),
    ],
)
def test_arrays_are_narrow_where_x64_is_off(tmp_path: Path, wide: str, narrow: str) -> None:
    array = np.arange(3).astype(wide)
    functrax.save_tree(tmp_path / "f", [array, array[:0]])
    for x, y in zip(functrax.load_tree(tmp_path / "f"), (array, array[:0]), strict=True):
        assert x.dtype == narrow
        np.testing.assert_array_equal(x, y)
    with functrax.enable_x64():
        assert functrax.load_tree(tmp_path / "f")[0].dtype == wide


def test_integers_that_32_bits_do_not_hold_are_not_wrapped(tmp_path: Path) -> None:
    functrax.save_tree(tmp_path / "f", {"n": np.array([1, 2**40])})
    with pytest.raises(OverflowError, match="x64 is off") as caught:
        functrax.load_tree(tmp_path / "f")
    assert "n: int64 from 1 to 1099511627776" in str(caught.value)
    with functrax.enable_x64():
        assert int(functrax.load_tree(tmp_path / "f")["n"][1]) == 2**40
