"""Names of dtypes, the x64 switch, predicates and limits."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.errors.typed import DTypeError
from functrax.core.options import contexts as config
from functrax.core.types import dtypes

ALL = sorted(dtypes.ALL, key=str)


def test_the_sets_partition_what_arrays_hold():
    parts = (dtypes.BOOL, dtypes.SIGNED, dtypes.UNSIGNED, dtypes.FLOATING, dtypes.COMPLEX)
    assert [len(part - dtypes.STORED) for part in parts] == [1, 4, 4, 4, 2]
    assert frozenset().union(*parts) == dtypes.ALL
    assert sum(map(len, parts)) == len(dtypes.ALL)
    assert len(dtypes.STORED) == (17 if hasattr(ml_dtypes, "int1") else 15)
    assert dtypes.float0 not in dtypes.ALL


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_way_to_name_a_dtype(dtype):
    scalar_type = SimpleNamespace(dtype=dtype)  # as functrax.numpy.float32 is
    for spec in (dtype, dtype.name, dtype.type, scalar_type):
        assert dtypes.as_dtype(spec) is dtype
    if dtype != dtypes.bfloat16 and dtype not in dtypes.STORED:
        assert dtypes.as_dtype(dtype.str) is dtype
        assert dtypes.as_dtype(dtype.newbyteorder()) is dtype


def test_other_names():
    assert dtypes.as_dtype(ml_dtypes.bfloat16) is dtypes.bfloat16
    assert dtypes.as_dtype(np.longlong) is dtypes.int64
    assert dtypes.as_dtype(dtypes.float0) is dtypes.float0
    assert dtypes.as_dtype("float0") is dtypes.float0
    assert dtypes.as_dtype("float") is dtypes.float64


def test_python_types_follow_the_switch():
    python = (bool, int, float, complex)
    narrow = [dtypes.bool_, dtypes.int32, dtypes.float32, dtypes.complex64]
    assert [dtypes.as_dtype(t) for t in python] == narrow
    with config.enable_x64():
        wide = [dtypes.bool_, dtypes.int64, dtypes.float64, dtypes.complex128]
        assert [dtypes.as_dtype(t) for t in python] == wide
    assert [dtypes.as_dtype(t) for t in python] == narrow


@pytest.mark.parametrize(
    "bad",
    [
        *(None, "bf16", "O", "S3", "M8[s]", "f4,f4", object, str, dict, np.longdouble, np.void),
        *(3, 2.5, [("a", int)], {}, np.zeros(3), np.float32(1)),
        np.floating,
    ],
    ids=repr,
)
def test_what_is_no_dtype_is_refused(bad):
    with pytest.raises(DTypeError) as caught:
        dtypes.as_dtype(bad)
    assert "bfloat16" in str(caught.value) or "pass its .dtype" in str(caught.value)


def test_canonicalize():
    narrowed = {
        dtypes.int64: dtypes.int32,
        dtypes.uint64: dtypes.uint32,
        dtypes.float64: dtypes.float32,
        dtypes.complex128: dtypes.complex64,
    }
    for dtype in (*ALL, dtypes.float0):
        assert dtypes.canonicalize_dtype(dtype) == narrowed.get(dtype, dtype)
    with config.enable_x64():
        assert all(dtypes.canonicalize_dtype(dtype) is dtype for dtype in ALL)


def test_predicates():
    for dtype in (*ALL, dtypes.float0):
        name = dtype.name.rstrip("0123456789abcdefmnuz_")
        kind = {"uint": "u", "int": "i", "float": "f", "bfloat": "f"}.get(name, dtype.kind)
        kind = "V" if dtype == dtypes.float0 else kind
        assert dtypes.is_bool(dtype) == (kind == "b")
        assert dtypes.is_integer(dtype) == (kind in "iu")
        assert dtypes.is_float(dtype) == (kind == "f")
        assert dtypes.is_complex(dtype) == (kind == "c")
        assert dtypes.is_inexact(dtype) == (kind in "fc")
        assert dtypes.tangent_dtype(dtype) is (dtype if kind in "fc" else dtypes.float0)


@pytest.mark.parametrize(
    ("dtype", "kind", "want"),
    [
        (dtypes.bfloat16, np.floating, True),
        (dtypes.bfloat16, np.inexact, True),
        (dtypes.bfloat16, np.number, True),
        (dtypes.bfloat16, np.generic, True),
        (dtypes.bfloat16, np.integer, False),
        (dtypes.bfloat16, np.complexfloating, False),
        ("float8_e4m3fn", np.floating, True),
        ("float8_e5m2", np.integer, False),
        ("int4", np.signedinteger, True),
        ("uint4", np.signedinteger, False),
        ("uint4", np.integer, True),
        ("int4", np.inexact, False),
        ("float32", np.floating, True),
        (np.uint8, np.unsignedinteger, True),
        (np.uint8, np.signedinteger, False),
        ("complex64", np.inexact, True),
        ("complex64", np.floating, False),
        (bool, np.number, False),
        (float, np.floating, True),
        (float, float, True),
        ("float64", float, True),
        ("float32", float, False),
        ("int8", "int8", True),
        (np.floating, np.inexact, True),
        (np.inexact, np.floating, False),
        (dtypes.float0, np.floating, False),
        (dtypes.float0, np.generic, True),
        (np.dtype("S3"), np.floating, False),
        (np.dtype("S3"), np.character, True),
        (np.generic, np.floating, False),
        (np.floating, "float32", False),
    ],
)
def test_issubdtype(dtype, kind, want):
    assert dtypes.issubdtype(dtype, kind) is want


def test_limits():
    assert float(dtypes.finfo("bfloat16").eps) == 2.0**-7
    assert float(dtypes.finfo("float16").max) == 65504.0
    assert float(dtypes.finfo(np.float64).eps) == 2.0**-52
    assert dtypes.finfo("complex64").bits == 32
    assert dtypes.finfo("float32").dtype == np.float32
    assert (dtypes.iinfo("int8").min, dtypes.iinfo("uint64").max) == (-128, 2**64 - 1)
    with pytest.raises(DTypeError, match="iinfo, for integers"):
        dtypes.finfo("int32")
    with pytest.raises(DTypeError, match="finfo, for floating point"):
        dtypes.iinfo("bfloat16")
    with pytest.raises(DTypeError, match="takes integer dtypes"):
        dtypes.iinfo(bool)


def test_widths_parts_and_python_types():
    assert [dtypes.itemsize_bits(d) for d in (dtypes.bool_, dtypes.bfloat16)] == [8, 16]
    assert dtypes.itemsize_bits(dtypes.float0) == 0
    assert dtypes.real_dtype(dtypes.complex64) is dtypes.float32
    assert dtypes.real_dtype(dtypes.complex128) is dtypes.float64
    assert dtypes.real_dtype(dtypes.int8) is dtypes.int8
    specs = ("bool", "uint8", "bfloat16", "complex128")
    found = [dtypes.scalar_type_of(dtypes.as_dtype(spec)) for spec in specs]
    assert found == [bool, int, float, complex]
    with pytest.raises(DTypeError, match="float0"):
        dtypes.scalar_type_of(dtypes.float0)


def test_limits_of_arrays() -> None:
    x = jnp.ones(2, "bfloat16")
    assert dtypes.finfo(x) == dtypes.finfo("bfloat16")
    assert dtypes.finfo(np.float32).eps == np.finfo(np.float32).eps
    assert dtypes.iinfo(np.ones(2, np.int8)).max == dtypes.iinfo(np.int8).max == 127
    assert functrax.jit(lambda x: x + jnp.finfo(x).eps)(np.float32(0)) == np.finfo("f4").eps
