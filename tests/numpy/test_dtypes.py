"""Dtypes of results against JAX's recorded ones, scalar types, and questions about dtypes."""

from __future__ import annotations

import json
import pathlib

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import enable_x64
from functrax.core.errors.typed import ArgumentError, FunctraxError

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "dtypes.json").read_text())
PYTHON = {"int": 3, "float": 2.5, "complex": 2j}
#: What JAX does by accident: it loses the weak type, or takes what it has no meaning for.
OURS_ALONE = {
    "angle": {"bfloat16": "bfloat16", "float16": "float16"},
}
SCALAR_TYPES = [
    "bool_",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def operand(name):
    return PYTHON[name] if name in PYTHON else jnp.asarray(1, name)


def answer(function, *args):
    try:
        out = function(*args)
    except (FunctraxError, OverflowError):
        return "error"
    return "~" * (out.weak_type and out.dtype != bool) + out.dtype.name


def agree(ours, theirs):
    """JAX drops weak types inside of a few functions; there ours may be weak."""
    return ours == theirs or ours == "~" + theirs


@pytest.mark.parametrize("name", RECORDED["unary"])
def test_dtypes_of_one_operand(name):
    expected = RECORDED["unary"][name].split()
    special = OURS_ALONE.get(name, {})
    for o, want in zip(RECORDED["operands"], expected, strict=True):
        assert agree(answer(getattr(jnp, name), operand(o)), special.get(o, want)), o


@pytest.mark.parametrize("name", RECORDED["binary"])
def test_dtypes_of_two_operands(name):
    def where(x, y):
        return jnp.where(True, x, y)

    function = where if name == "where" else getattr(jnp, name)
    names = RECORDED["operands"]
    for left, row in zip(names, RECORDED["binary"][name], strict=True):
        for right, want in zip(names, row.split(), strict=True):
            found = answer(function, operand(left), operand(right))
            assert agree(found, want), (left, right)


@pytest.mark.parametrize("name", RECORDED["reductions"])
def test_dtypes_of_reductions(name):
    arrays = [o for o in RECORDED["operands"] if o not in PYTHON]
    for o, want in zip(arrays, RECORDED["reductions"][name].split(), strict=True):
        assert answer(getattr(jnp, name), jnp.ones(2, o)) == want, o


@pytest.mark.parametrize("name", SCALAR_TYPES)
def test_scalar_types(name):
    scalar_type = getattr(jnp, name)
    numpy_type = ml_dtypes.bfloat16 if name == "bfloat16" else getattr(np, name)
    assert scalar_type == numpy_type
    assert numpy_type == scalar_type
    assert scalar_type == np.dtype(numpy_type)
    assert hash(scalar_type) == hash(numpy_type)
    assert np.dtype(scalar_type) == numpy_type
    assert isinstance(numpy_type(1), scalar_type)
    assert not isinstance("text", scalar_type)
    assert jnp.zeros(2, scalar_type).dtype == jnp.zeros(2, numpy_type).dtype
    assert repr(scalar_type) == f"<class 'functrax.numpy.{name.rstrip('_')}'>"
    with enable_x64():
        made = scalar_type(1)
        assert isinstance(made, functrax.Array)
        assert (made.dtype, made.weak_type, made.shape) == (scalar_type, False, ())


def test_scalar_types_make_arrays():
    assert jnp.float32([1, 2]).tolist() == [1, 2]
    assert jnp.int64(3).dtype == jnp.int32
    assert functrax.jit(jnp.bfloat16)(jnp.float32(1)).dtype == jnp.bfloat16
    assert jnp.int_ == np.int64
    assert jnp.float_ == np.float64
    assert jnp.bool is jnp.bool_
    assert {jnp.float32: 1}[np.float32] == 1
    assert jnp.dtype("float32") == np.float32
    assert jnp.dtype("bfloat16") == jnp.bfloat16


def test_kinds_of_dtypes():
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating)
    assert jnp.issubdtype(jnp.float32, jnp.inexact)
    assert jnp.issubdtype("int8", jnp.signedinteger)
    assert jnp.issubdtype(jnp.uint8, jnp.integer)
    assert jnp.issubdtype(jnp.ones(2).dtype, np.floating)
    assert jnp.issubdtype(jnp.float32, jnp.float32)
    assert not jnp.issubdtype(jnp.int32, jnp.floating)
    assert not jnp.issubdtype(jnp.float32, jnp.complexfloating)
    assert jnp.isdtype("float32", "real floating")
    assert jnp.isdtype(jnp.int8, ("integral", "bool"))
    assert jnp.isdtype(jnp.int8, jnp.int8)
    assert not jnp.isdtype(jnp.int8, "unsigned integer")
    with pytest.raises(ArgumentError, match="no such kind"):
        jnp.isdtype(jnp.int8, "floaty")
    assert jnp.finfo(jnp.bfloat16).bits == 16
    assert jnp.iinfo(jnp.int8).max == 127
    assert jnp.can_cast("int8", "int32")
    assert not jnp.can_cast("float32", "int32")
    assert jnp.promote_types("int32", "bfloat16") == jnp.bfloat16
    assert jnp.result_type(jnp.ones(2, jnp.int8), 1.5) == jnp.float32


def test_questions_about_values():
    x = jnp.ones((2, 3))
    assert (jnp.shape(x), jnp.ndim(x), jnp.size(x), jnp.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert (jnp.shape(3), jnp.ndim(np.ones(2)), jnp.size(2.5)) == ((), 1, 1)
    assert jnp.iscomplexobj(1j)
    assert jnp.iscomplexobj(jnp.array([1j]))
    assert jnp.isrealobj(x)
    assert jnp.isscalar(3)
    assert jnp.isscalar(jnp.array(3))
    assert not jnp.isscalar(x)
    assert functrax.jit(lambda v: v * jnp.ndim(v))(2.0) == 0
    for given, sizes in (([1, 2], (2,)), (None, ())):
        with pytest.warns(DeprecationWarning, match="requires ndarray or scalar"):
            assert jnp.shape(given) == sizes


@pytest.mark.parametrize("x64", [False, True])
def test_positions_and_traces_are_default_integers(x64):
    x = np.array([[1, 0], [3, 4]], np.int32)
    with enable_x64(x64):
        wanted = np.int64 if x64 else np.int32
        assert {y.dtype for y in jnp.nonzero(x)} == {np.dtype(wanted)}
        assert {y.dtype for y in functrax.jit(lambda x: jnp.nonzero(x, size=3))(x)} == {
            np.dtype(wanted)
        }
        assert jnp.flatnonzero(x, size=9).dtype == wanted
        assert jnp.where(x)[0].dtype == jnp.argwhere(x).dtype == wanted
        assert jnp.trace(x).dtype == wanted
        assert jnp.trace(x.astype(np.uint8)).dtype == np.dtype(f"uint{8 * wanted().itemsize}")


def test_gelu_of_a_number_has_a_dtype_of_its_own():
    assert not functrax.nn.gelu(1.0).weak_type


def test_constants():
    assert (jnp.pi, jnp.e, jnp.inf) == (np.pi, np.e, np.inf)
    assert np.isnan(jnp.nan)
    assert jnp.euler_gamma == np.euler_gamma
    assert jnp.newaxis is None
    assert jnp.ndarray is functrax.Array
    assert isinstance(jnp.ones(2), jnp.ndarray)


def test_every_function_is_documented():
    functions = {n: v for n, v in vars(jnp).items() if callable(v) and not n.startswith("_")}
    assert len(functions) > 200
    assert [n for n, v in functions.items() if not v.__doc__] == []
