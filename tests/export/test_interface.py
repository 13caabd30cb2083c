"""``functrax.export`` as ``jax.export`` has it, and the errors of wrong use."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import ShapeDtypeStruct, errors, export, random


def _export(function: Any, *args: Any, **kwargs: Any) -> export.Exported:
    return export.export(functrax.jit(function))(*args, **kwargs)


def test_attributes() -> None:
    def scaled(x: Any, *, by: Any) -> Any:
        return {"y": x * by}

    exported = _export(scaled, jnp.ones((2, 3)), by=jnp.float32(2))
    assert exported.fun_name == "scaled"
    assert [a.str_short() for a in exported.in_avals] == ["f32[2,3]", "f32[]"]
    assert [a.str_short() for a in exported.out_avals] == ["f32[2,3]"]
    assert exported.in_tree == functrax.tree.structure(((0,), {"by": 0}))
    assert exported.out_tree == functrax.tree.structure({"y": 0})
    assert exported.platforms == ("cpu",) == (export.default_export_platform(),)
    assert exported.nr_devices == 1 and exported.ordered_effects == ()
    assert exported.module_kept_var_idx == (0, 1) and not exported.uses_global_constants
    np.testing.assert_array_equal(exported.call(jnp.ones((2, 3)), by=3.0)["y"], 3 * np.ones((2, 3)))


def test_wrong_arguments() -> None:
    exported = _export(lambda x, y: x + y["a"], jnp.ones(3), {"a": jnp.ones(3)})
    good = {"a": np.ones(3, np.float32)}
    with pytest.raises(ValueError, match="must have the same pytree structure"):
        exported.call(np.ones(3, np.float32))
    with pytest.raises(ValueError, match=r"Shape mismatch for args\[0\].shape\[0\]"):
        exported.call(np.ones(4, np.float32), good)
    with pytest.raises(ValueError, match=r"Rank mismatch for args\[1\]\['a'\]"):
        exported.call(np.ones(3, np.float32), {"a": np.float32(1)})
    with pytest.raises(ValueError, match=r"Dtype mismatch for args\[0\](.|\n)*i32\[3\]"):
        exported.call(np.ones(3, np.int32), good)
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        export.export(lambda x: x)(1.0)  # type: ignore[arg-type]


def test_platforms() -> None:
    made = export.export(functrax.jit(jnp.sin), platforms=("cuda",))(jnp.ones(3))
    with pytest.raises(ValueError, match=r"was exported for platforms '\('cuda',\)'"):
        made.call(jnp.ones(3))
    unchecked = export.export(
        functrax.jit(jnp.sin),
        platforms=("cuda",),
        disabled_checks=[export.DisabledSafetyCheck.platform()],
    )(jnp.ones(3))
    np.testing.assert_array_equal(unchecked.call(jnp.zeros(3)), np.zeros(3))
    with pytest.raises(ValueError, match="no platform"):
        export.export(functrax.jit(jnp.sin), platforms=())


def test_static_arguments_are_part_of_the_program() -> None:
    powers = functrax.jit(lambda x, n: x**n, static_argnums=1)
    exported = export.deserialize(export.export(powers)(jnp.float32(2), 3).serialize())
    assert float(exported.call(2.0)) == 8.0


def test_wide_dtypes() -> None:
    with functrax.enable_x64():
        exported = _export(lambda x: x * 2, jnp.ones(3, jnp.float64))
    with pytest.raises(ValueError, match="enable_x64"):
        exported.call(np.ones(3))
    with functrax.enable_x64():
        assert exported.call(np.ones(3)).dtype == np.float64


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_typed_keys(tmp_path: Path, impl: str) -> None:
    key = random.key(3, impl=impl)
    functrax.save(tmp_path / "f", lambda key: (random.normal(key, (3,)), random.split(key)), key)
    numbers, keys = functrax.load(tmp_path / "f")(key)
    np.testing.assert_array_equal(numbers, random.normal(key, (3,)))
    assert keys.dtype == key.dtype and keys.shape == (2,)


Point = collections.namedtuple("Point", "x y")
export.register_namedtuple_serialization(Point, serialized_name="tests.Point")


class Scale:
    def __init__(self, value: Any, unit: str) -> None:
        self.value, self.unit = value, unit


functrax.tree_util.register_pytree_node(
    Scale, lambda s: ((s.value,), s.unit), lambda unit, values: Scale(*values, unit)
)


def test_containers() -> None:
    def f(point: Any) -> Any:
        return [Point(point.y, None), collections.OrderedDict(b=point.x, a=point.y)]

    made = export.deserialize(_export(f, Point(1.0, 2.0)).serialize()).call(Point(1.0, 2.0))
    assert type(made[0]) is Point and made[0].y is None and list(made[1]) == ["b", "a"]
    unregistered = _export(lambda s: s.value, Scale(1.0, "m"))
    with pytest.raises(ValueError, match=r"register_pytree_node_serialization(.|\n)*Scale"):
        unregistered.serialize()


def test_registrations() -> None:
    class Own:
        pass

    with pytest.raises(ValueError, match="not registered as a pytree node"):
        export.register_pytree_node_serialization(
            Own, serialized_name="own", serialize_auxdata=bytes, deserialize_auxdata=bytes
        )
    with pytest.raises(ValueError, match="Duplicate serialization registration"):
        export.register_namedtuple_serialization(Point, serialized_name="another")
    with pytest.raises(ValueError, match="no named tuple"):
        export.register_namedtuple_serialization(dict, serialized_name="dict")


def test_a_container_of_the_users_that_is_registered_where_it_is_read(tmp_path: Path) -> None:
    class Pair:
        def __init__(self, x: Any, y: Any, name: str) -> None:
            self.x, self.y, self.name = x, y, name

    functrax.tree_util.register_pytree_node(
        Pair, lambda p: ((p.x, p.y), p.name), lambda name, xy: Pair(*xy, name)
    )
    export.register_pytree_node_serialization(
        Pair,
        serialized_name="tests.Pair",
        serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode,
    )
    functrax.save_tree(tmp_path / "pair", {"p": Pair(jnp.ones(2), 3, "name")})
    read = functrax.load_tree(tmp_path / "pair")["p"]
    assert (read.y, read.name) == (3, "name")
    other = functrax.load_tree(tmp_path / "pair", like={"p": (0, 0)})
    assert other["p"][1] == 3


def test_a_function_without_a_module(tmp_path: Path) -> None:
    def double(x: Any) -> Any:
        return 2 * x

    double.__module__ = None  # as `exec` and some libraries leave it
    functrax.save(tmp_path / "f", double, 1.0)
    assert functrax.load(tmp_path / "f")(3.0) == 6
    with pytest.raises(errors.ArgumentError, match="must be the result of `jit`"):
        export.export(double)


def test_a_missing_folder_is_told_by_the_path_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "none" / "f"
    for write in (lambda: functrax.save(path, jnp.sin, 1.0), lambda: functrax.save_tree(path, 1)):
        with pytest.raises(FileNotFoundError) as caught:
            write()
        assert caught.value.filename == str(path) and str(path) + "'" in str(caught.value)
    with pytest.raises(IsADirectoryError) as caught:
        functrax.save_tree(tmp_path, 1)
    assert caught.value.filename == str(tmp_path) and not list(tmp_path.iterdir())


def test_saving_is_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f"
    functrax.save(path, lambda x: x + 1, 1.0)
    before = path.read_bytes()
    with pytest.raises(errors.UnavailableError):
        functrax.save(path, lambda x: functrax.pure_callback(lambda v: v, x, x), jnp.ones(2))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["f"]
    with pytest.raises(FileNotFoundError):
        functrax.save(tmp_path / "none" / "f", lambda x: x, 1.0)
    with pytest.raises(FileNotFoundError):
        functrax.load(tmp_path / "none")


def test_specs_are_enough() -> None:
    exported = _export(jnp.cumsum, ShapeDtypeStruct((4,), "int32"))
    np.testing.assert_array_equal(exported(np.ones(4, np.int32)), [1, 2, 3, 4])
