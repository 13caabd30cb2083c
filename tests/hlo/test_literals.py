"""Numbers of every dtype as HLO text: reading them back gives the same bits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from functrax.core.types import dtypes
from functrax.errors import UnavailableError
from functrax.transforms.hlo.computations.computation import Computation
from functrax.transforms.hlo.computations.literals import (
    dtype_text,
    has_dtype,
    literal_text,
    type_text,
)

WRITTEN = sorted(filter(has_dtype, dtypes.ALL), key=str)


def read(text: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The numbers of a literal, in order."""
    if dtypes.is_complex(dtype):
        pairs = re.findall(r"\(([^,]+), ([^)]+)\)", text)
        return np.array([complex(float(a), float(b)) for a, b in pairs], dtype)
    words = re.findall(r"[^{},\s]+", text)
    if dtype == dtypes.bool_:
        return np.array([{"0": False, "1": True}[word] for word in words], dtype)
    if dtypes.is_integer(dtype):
        return integers(map(int, words), dtype)
    return np.array(list(map(float, words))).astype(dtype)


def integers(values: Iterable[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.array(list(values), np.int64 if dtype in dtypes.SIGNED else np.uint64).astype(dtype)


def numbers(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Numbers of all sizes, the extreme ones among them."""
    rng = np.random.default_rng(3)
    if dtype == dtypes.bool_:
        return rng.integers(0, 2, 24).astype(dtype)
    if dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        drawn = [
            int(x * (int(info.max) - int(info.min))) + int(info.min) for x in rng.uniform(0, 1, 22)
        ]
        return integers([int(info.min), int(info.max), *drawn], dtype)
    if dtypes.is_complex(dtype):
        parts = numbers(dtypes.real_dtype(dtype))
        return (parts + 1j * np.roll(parts, 1)).astype(dtype)
    info = dtypes.finfo(dtype)
    ends = [float(info.max), float(info.min), float(info.smallest_subnormal), float(info.eps)]
    scales = 10.0 ** rng.uniform(-4, 4, 20)
    with np.errstate(over="ignore"):
        found = np.array([*ends, *(rng.standard_normal(20) * scales)]).astype(dtype)
    return found[np.isfinite(found.astype(np.float64))]


@pytest.mark.parametrize("dtype", WRITTEN, ids=str)
def test_numbers_are_read_back_to_the_bit(dtype) -> None:
    array = numbers(dtype)
    found = read(literal_text(array), dtype)
    assert found.tobytes() == array.tobytes()


def test_numbers_that_are_not_finite() -> None:
    array = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
    assert literal_text(array) == "{inf, -inf, nan, -0}"
    assert literal_text(np.array(complex(np.nan, -np.inf))) == "(nan, -inf)"


def test_shapes() -> None:
    assert literal_text(np.array(True)) == "true"
    assert literal_text(np.array([True, False])) == "{1, 0}"
    assert literal_text(np.arange(4).reshape(2, 1, 2)) == "{ { { 0, 1 } }, { { 2, 3 } } }"


@pytest.mark.parametrize("dtype", WRITTEN, ids=str)
def test_arrays_of_one_number_are_made_of_it(dtype) -> None:
    for shape in ((2, 3), (0, 3), (1,)):
        node = Computation("main", {}).constant(np.ones(shape, dtype))
        assert node.opcode == "broadcast"
        assert node.operands[0].shape == ()
        assert (node.shape, node.dtype) == (shape, dtype)


def test_equal_numbers_of_different_bits_are_no_repetition() -> None:
    node = Computation("main", {}).constant(np.array([0.0, -0.0]))
    assert node.opcode == "constant"
    assert node.text == "{0, -0}"


def test_names_of_types() -> None:
    names = "bool uint8 int64 bfloat16 float8_e4m3fn float4_e2m1fn int4 complex128"
    found = [dtype_text(dtypes.as_dtype(name)) for name in names.split()]
    assert found == ["pred", "u8", "s64", "bf16", "f8e4m3fn", "f4e2m1fn", "s4", "c128"]
    assert type_text(()) == "()"


def test_dtypes_that_xla_lacks() -> None:
    for dtype in (dtypes.float0, np.dtype("S3"), dtypes.as_dtype("float6_e2m3fn")):
        with pytest.raises(UnavailableError, match="no arrays of this dtype"):
            dtype_text(dtype)
