"""Named tuples that nobody registered, as the states of optimizers are, in trees of arrays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, export
from functrax.export.tensors import read_tensors, write_tensors


class State(NamedTuple):
    mean: Any
    count: Any

    @property
    def twice(self) -> Any:
        return 2 * self.count


def test_they_come_back_with_their_fields(tmp_path: Path) -> None:
    path = tmp_path / "f"
    functrax.save_tree(path, {"opt": (State(jnp.ones(2), 3), State({"w": jnp.zeros(1)}, 4))})
    first, second = functrax.load_tree(path)["opt"]
    assert type(first).__name__ == "State" and first._fields == ("mean", "count")
    assert (first.count, second.count, second.mean["w"].shape) == (3, 4, (1,))
    again = functrax.load_tree(path)
    assert functrax.tree.structure(again) == functrax.tree.structure(functrax.load_tree(path))
    assert set(read_tensors(path.read_bytes())[0]) == {
        *("opt.0.mean", "opt.0.count", "opt.1.mean.w", "opt.1.count")
    }


def test_like_gives_the_class_that_was_saved(tmp_path: Path) -> None:
    tree = {"opt": (State(jnp.ones(2), 3), None)}
    functrax.save_tree(tmp_path / "f", tree)
    read = functrax.load_tree(tmp_path / "f", like=tree)["opt"][0]
    assert type(read) is State and read.twice == 6


def test_a_named_tuple_that_is_registered_is_kept_by_its_name(tmp_path: Path) -> None:
    Known = export.register_namedtuple_serialization(
        namedtuple("Known", "x y"), serialized_name="tests.Known"
    )
    functrax.save_tree(tmp_path / "f", Known(1, 2))
    assert type(functrax.load_tree(tmp_path / "f")) is Known


def test_empty_fields_and_fields_without_names(tmp_path: Path) -> None:
    Odd = namedtuple("Odd", ["def", "x"], rename=True)
    Empty = namedtuple("Empty", "")
    functrax.save_tree(tmp_path / "f", [Odd(1, 2), Empty()])
    odd, empty = functrax.load_tree(tmp_path / "f")
    assert (odd._fields, tuple(odd), type(empty).__name__, empty._fields) == (
        *(("_0", "x"), (1, 2), "Empty", ()),
    )


@pytest.mark.parametrize(
    "node",
    [
        ["State", [["x", 0], ["x", 0]]],
        ["State", [["x: print(1)", 0], ["y", 0]]],
        ["State", [["def", 0], ["y", 0]]],
        ["a b", [["x", 0], ["y", 0]]],
        ["State", [["\ufb01", 0], ["fi", 0]]],
        ["State", [[1, 0], ["y", 0]]],
        ["State", [["x", 0, 0], ["y", 0]]],
        ["State", {"x": 0, "y": 0}],
        [7, [["x", 0], ["y", 0]]],
        ["State"],
    ],
)
def test_damaged_names_of_fields_make_no_class(tmp_path: Path, node: Any) -> None:
    told = {"tree": {"namedtuple": node}, "leaves": ["x", "y"], "about": {}}
    arrays = {name: jnp.ones(1).__array__() for name in ("x", "y")}
    (tmp_path / "f").write_bytes(write_tensors(arrays, {"functrax.tree": json.dumps(told)}))
    with pytest.raises(errors.FileFormatError, match="does not say what a pytree is"):
        functrax.load_tree(tmp_path / "f")


def test_other_containers_name_what_registers_them(tmp_path: Path) -> None:
    class Box:
        def __init__(self, x: Any) -> None:
            self.x = x

    functrax.tree_util.register_pytree_node(Box, lambda b: ((b.x,), None), lambda _, x: Box(*x))
    tree = {"box": Box(jnp.ones(2))}
    with pytest.raises(errors.PyTreeError, match="not registered") as caught:
        functrax.save_tree(tmp_path / "f", tree)
    fix = caught.value.fix
    assert 'export.register_pytree_node_serialization(Box, serialized_name="Box", ...)' in fix
    assert "load_tree(path, like=tree)" in fix
    functrax.save_tree(tmp_path / "f", functrax.tree.leaves(tree))
    assert functrax.load_tree(tmp_path / "f", like=tree)["box"].x.shape == (2,)


def test_programs_know_named_tuples_by_registered_names_alone(tmp_path: Path) -> None:
    with pytest.raises(errors.PyTreeError, match="not registered") as caught:
        functrax.save(tmp_path / "f", lambda s: s.mean, State(1.0, 2.0))
    assert 'register_namedtuple_serialization(State, serialized_name="State")' in caught.value.fix


RESUME = """
import sys
import functrax
import jax, jax.numpy as jnp, numpy as np, optax

optimizer = optax.adamw(optax.linear_schedule(1e-1, 1e-3, 10))
x = jnp.asarray(np.random.RandomState(0).randn(8, 3), jnp.float32)

@jax.jit
def step(params, opt):
    slope = jax.grad(lambda p: jnp.mean((jnp.tanh(x @ p["w"]) + p["b"] - 1) ** 2))(params)
    updates, opt = optimizer.update(slope, opt, params)
    return optax.apply_updates(params, updates), opt

params = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}
state = params, optimizer.init(params)
for _ in range(3):
    state = step(*state)
functrax.save_tree(sys.argv[1], {"params": state[0], "opt": state[1]})
for like in (None, {"params": params, "opt": optimizer.init(params)}):
    read = functrax.load_tree(sys.argv[1], like=like)
    there, here = state, (read["params"], read["opt"])
    if like is not None:
        assert jax.tree.structure(there) == jax.tree.structure(here)
    for _ in range(3):
        there, here = step(*there), step(*here)
    for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(here), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
print("the same bits")
"""


@pytest.mark.skipif(find_spec("optax") is None, reason="pip install functrax[libraries]")
def test_the_state_of_an_optimizer_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    script = tmp_path / "resume.py"
    script.write_text(RESUME, encoding="utf-8")
    command = [sys.executable, "-m", "functrax.compat", str(script), str(tmp_path / "f")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "the same bits\n", done.stderr
