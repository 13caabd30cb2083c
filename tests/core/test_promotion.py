"""Promotion against JAX's recorded tables, the laws of a lattice, and the errors."""

from __future__ import annotations

import enum
import itertools
import json
import pathlib
from types import SimpleNamespace

import numpy as np
import pytest

from functrax.core.errors.typed import ArgumentError, DTypeError, FunctraxError
from functrax.core.options import contexts as config
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import (
    IntegerOverflowError,
    TypePromotionError,
    lattice_result_type,
    promote_types,
    python_scalar_dtype,
    result_type,
    typed_of,
)

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "promotion.json").read_text())
PYTHON = {"int": int, "float": float, "complex": complex}
TABLES = [f"{mode} {width}" for mode in ("standard", "strict") for width in ("x32", "x64")]


def typed(name):
    return dtypes.as_dtype(name.lstrip("~")), name.startswith("~")


def differences(rows, ours):
    """The entries of a recorded table that ``ours`` answers differently."""
    return [
        (a, b, want, ours(a, b))
        for a, row in rows.items()
        for b, want in zip(rows, row.split(), strict=True)
        if ours(a, b) != want
    ]


@pytest.fixture(params=TABLES)
def table(request):
    mode, width = request.param.split()
    with config.enable_x64(width == "x64"), config.numpy_dtype_promotion(mode):
        yield RECORDED["tables"][request.param]


def test_promote_types_is_jax_s(table):
    def ours(a, b):
        try:
            return promote_types(PYTHON.get(a, a), PYTHON.get(b, b)).name
        except TypePromotionError:
            return "error"

    assert len(table["promote_types"]) == 18
    assert differences(table["promote_types"], ours) == []


def test_results_and_their_weak_types_are_jax_s(table):
    def ours(a, b):
        try:
            dtype, weak = lattice_result_type(typed(a), typed(b))
        except TypePromotionError:
            return "error"
        return "~" * weak + dtype.name

    assert len(table["result"]) in (21, 29)
    assert differences(table["result"], ours) == []


@pytest.mark.parametrize("x64", [False, True])
def test_promotion_is_a_join(x64):
    with config.enable_x64(x64):
        assert all(promote_types(a, a) == a for a in dtypes.ALL)
        met = sorted(dtypes.ALL - dtypes.STORED, key=str)
        for a, b in itertools.combinations(met, 2):
            both = promote_types(a, b)
            assert promote_types(b, a) == both
            assert promote_types(both, a) == promote_types(both, b) == both
        joined = [(d, w) for d in met for w in (False, True)][::3]
        for triple in itertools.permutations(joined, 3):
            assert lattice_result_type(*triple) == lattice_result_type(*sorted(triple, key=str))


def test_the_switch_is_part_of_what_is_remembered():
    pair = (dtypes.uint32, dtypes.int32)
    assert promote_types(*pair) == dtypes.int32
    with config.enable_x64():
        assert promote_types(*pair) == dtypes.int64
        assert lattice_result_type(*[(d, False) for d in pair]) == (dtypes.int64, False)
    assert promote_types(*pair) == dtypes.int32


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ((1,), "int32"),
        ((True,), "bool"),
        ((None,), "float32"),
        ((1, 2.0, 3j), "complex64"),
        ((True, 1), "int32"),
        (("bfloat16", 3.5), "bfloat16"),
        (("int8", 3.5), "float32"),
        (("int8", int), "int8"),
        (("bool", bool), "bool"),
        (("float64",), "float32"),
        ((np.float64(2),), "float32"),
        ((np.zeros(2, np.int64), 1), "int32"),
        ((np.zeros(2, np.float16), np.float32(1)), "float32"),
        ((ShapedArray((2,), "int16"), ShapedArray((), "float32", True)), "float32"),
        ((ShapedArray((2,), "bfloat16"), ShapedArray((), "float32", True)), "bfloat16"),
        ((ShapedArray((2,), "float64"), np.float16), "float64"),
        ((ShapedArray((2,), "int16", True),), "int32"),
        ((SimpleNamespace(shape=(), dtype=np.dtype("float16")),), "float16"),
        ((2**40, "float32"), "float32"),
    ],
)
def test_result_type(args, want):
    assert result_type(*args) == dtypes.as_dtype(want)


def test_an_integer_enumeration_counts_as_an_integer():
    class Colour(enum.IntEnum):
        RED = 1

    assert result_type(Colour.RED, "int8") == dtypes.int8
    assert python_scalar_dtype(Colour.RED) == (dtypes.int32, True)


def test_weak_results_take_the_default_width():
    with config.enable_x64():
        assert result_type(1) == dtypes.int64
        assert result_type(1, 2.0) == dtypes.float64
        assert result_type("uint64", "int64") == dtypes.float64
        assert typed_of(2.0) == (dtypes.float64, True)
    assert typed_of(2.0) == (dtypes.float32, True)


def test_strict_promotion_names_the_dtypes_and_the_way_out():
    with (
        config.numpy_dtype_promotion("strict"),
        pytest.raises(TypePromotionError) as caught,
    ):
        result_type(ShapedArray((), "int32"), ShapedArray((), "float32"))
    text = str(caught.value)
    assert isinstance(caught.value, DTypeError)
    assert "strict" in text
    assert "float32, int32" in text
    assert "astype" in text
    assert "test_promotion.py" in text


def test_strict_promotion_lets_weak_types_in_where_they_fit():
    with config.numpy_dtype_promotion("strict"):
        assert result_type("int8", 3) == dtypes.int8
        assert result_type(3, 3.0) == dtypes.float32
        with pytest.raises(TypePromotionError, match="weak float"):
            result_type("int8", 3.0)


def test_float0_does_not_promote():
    assert lattice_result_type((dtypes.float0, False), (dtypes.float0, False))[0] is dtypes.float0
    with pytest.raises(TypePromotionError, match="float0"):
        promote_types(dtypes.float0, "float32")


@pytest.mark.parametrize("bad", ["text", [1, 2], object(), np.array(["a"]), np.zeros(2, object)])
def test_what_has_no_dtype_is_refused(bad):
    with pytest.raises(DTypeError, match="result_type: takes arrays, scalars and dtypes"):
        result_type(bad, 1)


def test_unhashable_specs_are_refused():
    with pytest.raises(DTypeError, match="promote_types"):
        promote_types([1], "int8")


def test_no_argument_is_refused():
    with pytest.raises(ArgumentError, match="at least one"):
        result_type()


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, (dtypes.bool_, False)),
        (3, (dtypes.int32, True)),
        (2**31 - 1, (dtypes.int32, True)),
        (-(2**31), (dtypes.int32, True)),
        (2.5, (dtypes.float32, True)),
        (1j, (dtypes.complex64, True)),
    ],
)
def test_python_scalars(value, want):
    assert python_scalar_dtype(value) == want


def test_python_integers_that_do_not_fit():
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(OverflowError, match="too large to convert to int32") as caught:
            python_scalar_dtype(value)
        assert isinstance(caught.value, FunctraxError)
        assert "enable_x64" in str(caught.value)
    with config.enable_x64():
        assert python_scalar_dtype(2**31) == (dtypes.int64, True)
        with pytest.raises(IntegerOverflowError, match="int64"):
            python_scalar_dtype(2**63)


def test_numpy_scalars_are_not_python_scalars():
    for value in (np.float64(1), "1", None):
        with pytest.raises(DTypeError, match="takes a Python scalar"):
            python_scalar_dtype(value)
