"""What users give as arrays: C++ and its Python twin give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import functrax
from functrax.core.tracing import inputs
from functrax.core.tracing.inputs import as_value

GIVEN: dict[str, Callable[[], Any]] = {
    "ints": lambda: np.arange(6, dtype=np.int32),
    "a matrix": lambda: np.ones((2, 3), np.float32),
    "by columns": lambda: np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "every second": lambda: np.arange(6, dtype=np.int32)[::2],
    "backwards": lambda: np.arange(3, dtype=np.int32)[::-1],
    "a scalar array": lambda: np.array(2.0, np.float32),
    "no elements": lambda: np.zeros((0, 3), np.int8),
    "truth values": lambda: np.array([True, False]),
    "64 bits": lambda: np.arange(3.0),
    "64-bit ints": lambda: np.arange(3),
    "128 bits": lambda: np.arange(3) * 1j,
    "bfloat16": lambda: np.ones(3, ml_dtypes.bfloat16),
    "other byte order": lambda: np.arange(3, dtype=">i4"),
    "not aligned": lambda: np.zeros(13, np.uint8)[1:].view(np.float32),
    "read only": lambda: np.broadcast_to(np.float32(3), (2, 2)),
    "a scalar": lambda: np.float32(1),
    "a number": lambda: 2.5,
    "a subclass": lambda: np.ones((2, 2), np.float32).view(np.matrix),
}


def seen(x: Any) -> Any:
    value = np.asarray(x)
    return x.aval, value.tobytes(), value.strides, type(x.buffer)


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_the_same_as_in_python(name: str) -> None:
    given = GIVEN[name]()
    for _ in range(3):  # from the second time on its type is known
        for x64 in (True, False):
            with functrax.enable_x64(x64):
                assert seen(as_value(given)) == seen(inputs._as_value(given))


def test_numpy_arrays_are_copied() -> None:
    given = np.arange(4, dtype=np.float32)
    for _ in range(3):
        made = as_value(given)
        given += 1
        np.testing.assert_array_equal(made, given - 1)


def test_arrays_are_themselves() -> None:
    x = functrax.numpy.ones(3)
    assert as_value(x) is x


def test_what_is_no_array_is_called_as_it_is_said() -> None:
    for what in ("a thing", "another"):
        with pytest.raises(functrax.errors.DTypeError, match=f"^{what} is not an array"):
            as_value([1], what)
    with pytest.raises(functrax.errors.DTypeError, match="cannot have"):
        as_value(np.array(["a"]))
    with pytest.raises(functrax.errors.ArgumentError, match="masked"):
        as_value(np.ma.masked_array([1.0], [True]))
