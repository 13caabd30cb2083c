"""Avals: one object per value, unchangeable, and readable back from text."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from functrax.core.errors.typed import DTypeError, ImmutableError, ParseError, ShapeError
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray, dtype_from_short_name, short_dtype_name

ALL = sorted(dtypes.ALL, key=str)
avals = st.builds(
    ShapedArray,
    st.lists(st.integers(0, 10**12), max_size=5).map(tuple),
    st.sampled_from([*ALL, dtypes.float0]),
    st.booleans(),
)


def test_equal_avals_are_one_object():
    aval = ShapedArray((3, 4), dtypes.float32)
    assert ShapedArray([3, 4], "float32") is aval
    assert ShapedArray((np.int64(3), 4), np.float32, False) is aval
    assert ShapedArray(shape=(3, 4), dtype=np.dtype("=f4"), weak_type=False) is aval
    others = [((4, 3), "float32"), ((3, 4), "float16"), ((3, 4), "float32", True), ((12,), "f4")]
    assert len({aval, *(ShapedArray(*other) for other in others)}) == 5


def test_avals_made_by_many_threads_are_one_object():
    made = []
    start = threading.Barrier(8)

    def work():
        start.wait()
        made.extend(ShapedArray((987, size), "int8") for size in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 400
    assert len(set(map(id, made))) == 50


def test_copies_and_pickles_are_the_same_object():
    aval = ShapedArray((2, 0), "bfloat16", True)
    assert copy.deepcopy(aval) is aval
    assert copy.copy(aval) is aval
    assert pickle.loads(pickle.dumps(aval)) is aval


def test_sizes():
    aval = ShapedArray((3, 4), "float16")
    assert (aval.ndim, aval.size, aval.nbytes) == (2, 12, 24)
    assert (ShapedArray((), "complex128").size, ShapedArray((), "complex128").nbytes) == (1, 16)
    assert ShapedArray((3, 0), "int8").size == 0
    assert ShapedArray((3,), dtypes.float0).nbytes == 0
    assert all(type(size) is int for size in ShapedArray((np.int32(5), 6), "int8").shape)


def test_nothing_can_be_assigned():
    aval = ShapedArray((3,), "float32")
    for name in ("shape", "dtype", "weak_type", "size", "novel"):
        with pytest.raises(ImmutableError, match="update"):
            setattr(aval, name, 1)
    with pytest.raises(ImmutableError):
        del aval.shape
    assert aval.shape == (3,)


def test_update_and_strip_weak_type():
    aval = ShapedArray((3,), "float32", True)
    assert aval.update(shape=(4, 5)) is ShapedArray((4, 5), "float32", True)
    assert aval.update(shape=()) is ShapedArray((), "float32", True)
    assert aval.update(dtype="int8") is ShapedArray((3,), "int8", True)
    assert aval.update(weak_type=False) is aval.strip_weak_type() is ShapedArray((3,), "float32")
    assert aval.update() is aval


def test_text():
    assert ShapedArray((3, 4), "float32").str_short() == "f32[3,4]"
    assert ShapedArray((), "bool").str_short() == "bool[]"
    assert ShapedArray((), "float32", True).str_short() == "~f32[]"
    assert repr(ShapedArray((3, 4), "float32")) == "ShapedArray(float32[3,4])"
    assert repr(ShapedArray((), "int32", True)) == "ShapedArray(int32[], weak_type=True)"
    assert repr(ShapedArray((2,), dtypes.float0)) == "ShapedArray(float0[2])"


@settings(deadline=None, derandomize=True, database=None)
@given(avals)
def test_text_reads_back(aval):
    assert ShapedArray.from_short(aval.str_short()) is aval


@pytest.mark.parametrize(
    "text", ["", "f32", "f32[", "f32[3,]", "f32[-1]", "f32[a]", "q8[3]", "f32[3]~", "f32[٣]", "[]"]
)
def test_text_of_another_form_is_refused(text):
    with pytest.raises(ParseError, match="not an aval"):
        ShapedArray.from_short(text)


def test_bad_shapes_are_refused():
    for shape in (3, None, (3.5,), ("3",)):
        with pytest.raises(ShapeError, match="sequence of integers"):
            ShapedArray(shape, "float32")
    with pytest.raises(ShapeError, match="negative"):
        ShapedArray((3, -1), "float32")


def test_bad_dtypes_are_refused():
    for dtype in ("f33", None, object, np.dtype("S3")):
        with pytest.raises(DTypeError):
            ShapedArray((3,), dtype)


def test_short_names_are_a_bijection():
    names = {short_dtype_name(dtype) for dtype in (*ALL, dtypes.float0)}
    want = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 float0"
    stored = {short_dtype_name(dtype) for dtype in dtypes.STORED}
    assert names - stored == set(want.split())
    assert stored >= {"i2", "u4", "f8_e4m3fn", "f4_e2m1fn"}
    for dtype in (*ALL, dtypes.float0):
        assert dtype_from_short_name(short_dtype_name(dtype)) is dtype
    with pytest.raises(DTypeError, match="bf16"):
        dtype_from_short_name("f8")
    with pytest.raises(DTypeError, match="dtype: not one that arrays can have"):
        short_dtype_name(np.dtype("S3"))
