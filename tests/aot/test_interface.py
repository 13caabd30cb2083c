"""What users of ``functrax.aot`` see: names, errors, files, the header's numbers."""

from __future__ import annotations

import ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import ShapeDtypeStruct
from functrax.ahead_of_time import AheadOfTime
from functrax.ahead_of_time.arguments import identifier, named
from functrax.errors import ArgumentError, ReferenceUseError, UnavailableError
from tests.aot.building import need, run
from tests.aot.loading import Loaded, aligned, need_linker
from tests.aot.programs import loss, perceptron

VECTOR = ShapeDtypeStruct((3,), np.float32)


def twice(x: Any) -> Any:
    """A small program."""
    return x * 2


def test_names_of_arguments() -> None:
    made = functrax.aot(functrax.grad(loss), *perceptron())
    assert made.name == "loss"
    names = [(x.name, x.path, x.type_text) for x in made.arguments]
    assert names[:2] == [
        ("params_b1", "params['b1']", "f32[32]"),
        ("params_b2", "params['b2']", "f32[4]"),
    ]
    assert [x.name for x in made.arguments[4:]] == ["x", "y"]
    assert [x.name for x in made.results] == ["out_b1", "out_b2", "out_w1", "out_w2"]
    assert "params_w1:f32[16,32]" in repr(made)


def test_names_are_names_of_c() -> None:
    assert identifier("a['b'][0].c") == "a_b_0_c"
    assert [identifier(x) for x in ("int", "0", "é", "")] == ["_int", "_0", "x", "x"]
    assert [identifier(x) for x in ("NULL", "int8_t", "functrax_task")] == [
        "_NULL",
        "_int8_t",
        "_functrax_task",
    ]
    names = named(["x", "X", "Workspace", "x_2"], ["x"])
    assert names == ["x_2", "X_3", "Workspace_2", "x_2_2"]


def test_arguments_by_name() -> None:
    made = functrax.aot(lambda x, *, scale: x * scale, VECTOR, scale=VECTOR, name="f")
    assert [x.name for x in made.arguments] == ["x", "scale"]


@need_linker
def test_constants_and_static_arguments(tmp_path: Path) -> None:
    table = jnp.arange(3.0)
    jitted = functrax.jit(lambda x, n: x * table + n, static_argnums=1)
    program = Loaded(functrax.aot(jitted, VECTOR, 7, name="f"), tmp_path)
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(program(x)[0], x * np.arange(3) + 7)


@need_linker
def test_without_arguments(tmp_path: Path) -> None:
    program = Loaded(functrax.aot(lambda: jnp.arange(4), name="f"), tmp_path)
    np.testing.assert_array_equal(program()[0], np.arange(4))


@need_linker
def test_codes_of_errors(tmp_path: Path) -> None:
    square = ShapeDtypeStruct((64, 64), np.float32)
    made = functrax.aot(lambda x, y: x @ y @ x, square, square, name="f")
    program = Loaded(made, tmp_path)
    text: Any = getattr(program.library, f"{made.name}_error_text")
    text.restype = ctypes.c_char_p
    arrays = [np.zeros((64, 64), np.float32) for _ in range(3)]
    x, y, out = (a.ctypes.data for a in arrays)
    assert program.call([x, y], [out]) == 0
    for arguments, results, code, said in (
        ([x, None], [out], 1 | 1 << 8, "an argument is a null pointer"),
        ([x + 1, y], [out], 2, "the address of an argument"),
        ([x, y], [None], 3, "the place of a result is a null pointer"),
        ([x, y], [out + 2], 4, "the place of a result"),
    ):
        assert program.call(arguments, results) == code
        assert said in text(code).decode()
    assert made.workspace > 0
    program.workspace = program.workspace[1:]
    assert program.call([x, y], [out]) == 6
    assert text(99) == b"no such error"
    places = [(ctypes.c_void_p * n)(*some) for n, some in ((2, [x, y]), (1, [out]))]
    assert program.run(*places, None, None, None) == 5
    memory = aligned(made.workspace)
    sizes = (ctypes.c_int64 * 1)(64)
    assert program.run(*places, sizes, ctypes.c_void_p(memory.ctypes.data), None) == 7


@need_linker
def test_description(tmp_path: Path) -> None:
    made = functrax.aot(twice, VECTOR)
    program = Loaded(made, tmp_path)
    function: Any = program.library.twice_description
    function.restype = ctypes.c_char_p
    assert json.loads(function()) == {
        "arguments": [
            {
                "name": "x",
                "path": "x",
                "dtype": "float32",
                "shape": [3],
                "bytes": 12,
                "alignment": 4,
            }
        ],
        "results": [
            {
                "name": "out",
                "path": "out",
                "dtype": "float32",
                "shape": [3],
                "bytes": 12,
                "alignment": 4,
                "shares": 0,
            }
        ],
    }


def test_refused_operations() -> None:
    for function in (
        lambda x: jnp.sort(x),
        lambda x: jnp.linalg.solve(jnp.outer(x, x), x),
        lambda x: functrax.pure_callback(lambda y: y, VECTOR, x),
    ):
        with pytest.raises(UnavailableError, match=r"(?s)aot: .*test_interface\.py:\d+ in"):
            _ = functrax.aot(function, VECTOR).llvm


@need_linker
def test_exported_programs(tmp_path: Path) -> None:
    exported = functrax.export.export(functrax.jit(twice))(VECTOR)
    program = Loaded(functrax.aot(exported.call, VECTOR, name="f"), tmp_path)
    np.testing.assert_array_equal(program(np.float32([1, 2, 3]))[0], [2, 4, 6])


def test_a_callback_without_results_is_refused() -> None:
    def shows(x: Any) -> Any:
        functrax.debug.print("{}", x)
        return x

    with pytest.raises(UnavailableError, match="debug_callback"):
        _ = functrax.aot(shows, VECTOR).object


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="a function of C"):
        functrax.aot(twice, VECTOR, name="no name")
    with pytest.raises(ArgumentError, match=r"(?s)C library.*try   name='sin_program'"):
        functrax.aot(jnp.sin, VECTOR)
    with pytest.raises(ArgumentError, match=r"(?s)'pdp-11'.*one of .*aarch64"):
        functrax.aot(twice, VECTOR, target="pdp-11")
    with pytest.raises(ArgumentError, match="one of 'object', 'static', 'shared'"):
        functrax.aot(twice, VECTOR).write(tmp_path, kind="dll")
    with pytest.raises(ArgumentError, match="being traced"):
        functrax.jit(lambda x: functrax.aot(lambda y: x + y, VECTOR) and x)(1.0)


@need_linker
def test_references(tmp_path: Path) -> None:
    ref = functrax.new_ref(jnp.ones(3))

    def adds(x: Any) -> Any:
        ref[...] += x
        return x

    with pytest.raises(ReferenceUseError):
        functrax.aot(adds, VECTOR)
    program = Loaded(functrax.aot(lambda x: ref[...] + x, VECTOR, name="f"), tmp_path)
    np.testing.assert_array_equal(program(np.float32([1, 2, 3]))[0], [2, 3, 4])


def test_no_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UnavailableError, match=r"(?s)linker.*kind='static'"):
        functrax.aot(twice, VECTOR).write(tmp_path, kind="shared")


def test_equal_programs_are_equal_files() -> None:
    first, second = (functrax.aot(functrax.grad(loss), *perceptron()) for _ in range(2))
    assert first.object == second.object
    assert first.header == second.header


def test_object_of_a_gradient_is_small() -> None:
    made = functrax.aot(functrax.value_and_grad(loss), *perceptron(256, 64))
    assert len(made.object) <= 100_000


@need("nm")
def test_symbols(tmp_path: Path) -> None:
    made = functrax.aot(functrax.value_and_grad(loss), *perceptron(), name="slopes")
    code, *_ = made.write(tmp_path)
    lines = [line.split() for line in run("nm", code).splitlines()]
    assert {x[-1] for x in lines if x[-2] == "T"} == set(made.symbols)
    assert {x[-1] for x in lines if x[-2] == "U"} <= {"memcpy", "memmove", "memset"}
    assert not [x for x in lines if x[-2] in "BbDdCc" and not x[-1].startswith(".Lconstant")]


@need("objdump")
def test_lines_of_the_user(tmp_path: Path) -> None:
    code, *_ = functrax.aot(functrax.grad(loss), *perceptron()).write(tmp_path)
    shown = run("objdump", "--dwarf=decodedline", code)
    assert "programs.py" in shown
    code, *_ = functrax.aot(functrax.grad(loss), *perceptron(), debug=False).write(tmp_path)
    assert "programs.py" not in run("objdump", "--dwarf=decodedline", code)


def test_text_of_the_program() -> None:
    made: AheadOfTime = functrax.aot(twice, VECTOR)
    assert "mul" in made.program
    assert made.for_target(None) is made
    assert "int twice(\n    const float *x,\n    float *out,\n" in made.header
