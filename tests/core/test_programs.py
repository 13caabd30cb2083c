"""Programs written by hand, run; and programs saved as text, run where their source is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax.backends.reference.reference_device
from functrax.core.arrays.array import from_numpy
from functrax.core.ir.jaxpr import ClosedJaxpr
from functrax.core.prims.arithmetic import add, mul, sub
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.syntax.parsing import parse, parse_jaxpr
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.stage import eval_jaxpr
from functrax.transforms.arguments.inspect_types import make_jaxpr
from functrax.transforms.differentiation.derivatives import grad
from functrax.transforms.staging.jit import jit


def run(text: str, *args: Any) -> list[np.ndarray]:
    outs = eval_jaxpr(parse_jaxpr(text), (), *map(from_numpy, args))
    return [np.asarray(concrete(out)) for out in outs]


def test_a_matrix_product_written_by_hand() -> None:
    text = """
        { lambda ; x:f32[2,3] w:f32[3,4]. let
            a:f32[2,3,4] = broadcast_in_dim[shape=(2, 3, 4), dims=(0, 1)] x
            b:f32[2,3,4] = broadcast_in_dim[shape=(2, 3, 4), dims=(1, 2)] w
            p:f32[2,3,4] = mul a b
            y:f32[2,4] = reduce_sum[axes=(1,)] p
          in (y,) }
    """
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3)).astype("f4"), rng.normal(size=(3, 4)).astype("f4")
    (y,) = run(text, x, w)
    np.testing.assert_allclose(y, x @ w, rtol=1e-6)


def test_calls_unused_results_and_literal_results() -> None:
    text = """
        { lambda ; x:i32[3]. let
            y:i32[3] _:i32[] = jit[jaxpr={ lambda ; x:i32[3]. let
                s:i32[] = reduce_sum[axes=(0,)] x
                y:i32[3] = sub x 1:i32[]
              in (y, s) }] x
          in (y, 2.5:f32[], x) }
    """
    y, half, x = run(text, np.int32([4, 5, 6]))
    assert y.tolist() == [3, 4, 5]
    assert half == 2.5
    assert x.tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("op", "expected"),
    [("add", [1.5, 2.5]), ("sub", [0.5, 1.5]), ("max", [1.0, 2.0]), ("lt", [False, False])],
)
def test_scalar_literals_stand_for_arrays(op: str, expected: list[Any]) -> None:
    out = "bool" if op == "lt" else "f32"
    text = f"{{ lambda ; x:f32[2]. let y:{out}[2] = {op} x 0.5:f32[] in (y,) }}"
    (y,) = run(text, np.float32([1, 2]))
    assert y.tolist() == expected


def test_programs_of_nothing() -> None:
    assert run("{ lambda ; . let in () }") == []
    assert run("{ lambda ; . let in (True:bool[],) }")[0].item() is True


def test_constants_are_part_of_the_text() -> None:
    closed = parse("""
        { lambda c:f32[3] ; x:f32[3]. let
            y:f32[3] = mul c x
          in (y,) }
        where
          c = (1.0, -2.0, inf)
    """)
    assert isinstance(closed, ClosedJaxpr)
    (y,) = eval_jaxpr(closed.jaxpr, closed.consts, from_numpy(np.float32([2, 2, 2])))
    assert np.asarray(y).tolist() == [2.0, -4.0, np.inf]


FRESH = """
import sys
import numpy as np
import functrax.backends.reference.reference_device
import functrax.core.prims.reduce
import functrax.transforms.staging.jit
from functrax.core.arrays.array import from_numpy
from functrax.core.syntax.parsing import parse
from functrax.core.tracing.stage import eval_jaxpr
closed = parse(open("gradient.txt").read())
with np.load("inputs.npz") as inputs:
    arrays = [from_numpy(inputs[name]) for name in ("w", "x")]
outs = eval_jaxpr(closed.jaxpr, closed.consts, *arrays)
np.save("outputs.npy", np.asarray(outs[0]))
assert not any("test_programs" in name for name in sys.modules)
"""


def test_a_saved_gradient_runs_in_another_process_without_its_source(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    target = from_numpy(rng.normal(size=(20, 4)).astype("f4"))  # a constant, larger than a line
    w, x = rng.normal(size=(5, 4)).astype("f4"), rng.normal(size=(20, 5)).astype("f4")

    @jit
    def predict(w: Any, x: Any) -> Any:
        size = (20, 5, 4)
        a = broadcast_in_dim(x, shape=size, dims=(0, 1))
        b = broadcast_in_dim(w, shape=size, dims=(1, 2))
        return reduce_sum(mul(a, b), axes=(1,))

    def loss(w: Any, x: Any) -> Any:
        error = sub(predict(w, x), target)
        return reduce_sum(mul(error, add(error, error)), axes=(0, 1))

    closed = make_jaxpr(grad(loss))(w, x)
    (tmp_path / "gradient.txt").write_text(str(closed))
    np.savez(tmp_path / "inputs.npz", w=w, x=x)
    subprocess.run([sys.executable, "-c", FRESH], cwd=tmp_path, check=True, env=environment())
    found = np.load(tmp_path / "outputs.npy")
    expected = np.asarray(grad(loss)(from_numpy(w), from_numpy(x)))
    assert found.tobytes() == expected.tobytes()
    np.testing.assert_allclose(found, 4 * x.T @ (x @ w - np.asarray(target)), rtol=1e-4)


def environment() -> dict[str, str]:
    """The environment of a process that imports the functrax under test."""
    root = str(Path(functrax.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def test_programs_of_the_same_operations_are_told_apart() -> None:
    text = """{{ lambda ; x:f32[3] y:f32[3]. let
        a:f32[3] = sub {} {}
        b:f32[3] = mul a {}
      in (b,) }}"""
    programs = [parse_jaxpr(text.format(*names)) for names in ("xyx", "yxx", "xyy", "xxx")]
    assert len({hash(p) for p in programs}) == 1
    assert len(set(programs)) == 4
    again = parse_jaxpr(str(programs[0]))
    assert again == programs[0] and hash(again) == hash(programs[0])
    assert len({*programs, again}) == 4
