"""``python -m functrax`` on programs in files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import export
from functrax.tool.command_line import main

W = np.sin(np.arange(12, dtype=np.float32)).reshape(4, 3)


def model(x: Any) -> Any:
    return jnp.tanh(x @ W).sum(0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    (b,) = export.symbolic_shape("b")
    functrax.save("model", model, np.ones((2, 4), np.float32))
    functrax.save("sizes", model, functrax.ShapeDtypeStruct((b, 4), np.float32))
    functrax.save("other", lambda x: model(x) * 2, np.ones((2, 4), np.float32))
    Path("text").write_text(str(functrax.make_jaxpr(model)(np.ones((2, 4), np.float32))))
    return tmp_path


def test_show(files: Path, capsys: Any) -> None:
    assert main(["show", "model"]) == 0
    shown = capsys.readouterr().out
    assert "# model(x: f32[2,4]) -> (f32[3])" in shown and "in model" in shown and '"W"' in shown
    assert main(["show", "sizes", "--no-source"]) == 0
    shown = capsys.readouterr().out
    assert "x: f32[b,4]" in shown and "f32[${b},4]" in shown
    assert main(["show", "sizes", "--size", "b=7"]) == 0
    assert "f32[7,4]" in capsys.readouterr().out
    assert main(["show", "text"]) == 0
    assert "f32[2,4]" in capsys.readouterr().out


def test_run(files: Path, capsys: Any) -> None:
    x = np.cos(np.arange(8, dtype=np.float32)).reshape(2, 4)
    np.save("x.npy", x)
    assert main(["run", "model", "x.npy", "--out", "out.npz"]) == 0
    want = functrax.jit(model)(x)
    np.testing.assert_array_equal(np.load("out.npz")["0"], want)
    assert "0: float32[3]" in capsys.readouterr().out
    functrax.save_tree("x.safetensors", [x])
    assert main(["run", "sizes", "x.safetensors", "--size", "b=2", "--out", "out.npz"]) == 0
    np.testing.assert_array_equal(np.load("out.npz")["0"], want)
    functrax.save("scaled", lambda x, by: x * by, jnp.float32(2), jnp.int32(1))
    assert main(["run", "scaled", "2.5", "3"]) == 0
    assert "7.5" in capsys.readouterr().out
    assert main(["run", "model"]) == 0  # on random numbers


def test_diff(files: Path, capsys: Any) -> None:
    assert main(["diff", "model", "model"]) == 0
    assert main(["diff", "model", "sizes", "--size", "b=2"]) == 0
    assert main(["diff", "model", "other"]) == 1
    assert "+" in capsys.readouterr().out


def test_check_and_explain(files: Path, capsys: Any) -> None:
    assert main(["check", "sizes", "--size", "b=3"]) == 0
    assert "agrees" in capsys.readouterr().out
    assert main(["explain", "model", "--html", "plan.html"]) == 0
    assert "kernels; cost" in capsys.readouterr().out
    assert "<svg" in Path("plan.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "sizes"], "--size NAME=N"),
        (["show", "sizes", "--size", "b"], "not a name and a number"),
        (["show", "sizes", "--size", "c=2"], "sizes with other names"),
        (["run", "model", "1", "2"], "another number of arguments"),
        (["run", "model", "word"], "neither a file nor a number"),
        (["show", "none"], "FileNotFoundError"),
        (["show", "x.bin"], "FileFormatError"),
    ],
)
def test_wrong_use(files: Path, capsys: Any, words: list[str], message: str) -> None:
    Path("x.bin").write_bytes(b"\x00" * 100)
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_as_a_module(files: Path) -> None:
    command = [sys.executable, "-m", "functrax", "show", "-"]
    environment = {"PYTHONPATH": str(Path(functrax.__file__).parents[1])}
    run = subprocess.run(
        command, input=Path("text").read_bytes(), capture_output=True, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert b"reduce_sum" in run.stdout


def test_aot(files: Path, capsys: Any) -> None:
    assert main(["aot", "sizes", "--size", "b=2", "--out", "out", "--name", "small"]) == 0
    written = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    assert {"small.o", "small.h", "small.hpp"} <= written
    header = Path("out/small.h").read_text()
    assert "const float *x" in header and "f32[2,4]" in header
    assert main(["aot", "sizes"]) == 2
    assert "--size NAME=N" in capsys.readouterr().err
