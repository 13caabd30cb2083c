"""``unique`` and the set functions: NumPy's results, and fixed sizes under ``jit``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import agree, check

A = np.array([5, 3, 5, 1, 3], "i4")
B = np.array([3, 9, 1, 9], "i4")
ROWS = np.array([[3, 1], [3, 1], [2, 2], [2, 1]], "i4")
NANS = np.array([np.nan, 1, np.nan, 2], "f4")
MANY = np.random.default_rng(0).integers(0, 90, 200).astype("i4")
ALL: dict[str, Any] = {"return_index": True, "return_inverse": True, "return_counts": True}

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("unique", (A,), ALL),
    ("unique", (ROWS,), ALL),
    ("unique", (ROWS,), {"axis": 1}),
    ("unique", (ROWS,), {"axis": 0, "return_index": True, "return_counts": True}),
    ("unique", (NANS,), ALL),
    ("unique", (NANS,), {**ALL, "equal_nan": False}),
    ("unique", (MANY,), ALL),
    ("unique", (A[:0],), {}),
    ("unique", (A > 2,), {}),
    ("unique_all", (A,), {}),
    ("unique_counts", (A,), {}),
    ("unique_inverse", (ROWS,), {}),
    ("unique_values", (A,), {}),
    ("union1d", (A, B), {}),
    ("setdiff1d", (A, B), {}),
    ("setdiff1d", (B, A), {"assume_unique": True}),
    ("setdiff1d", (MANY[:100], MANY[100:]), {}),
    ("setxor1d", (A, B), {}),
    ("setxor1d", (MANY[:100], MANY[100:]), {}),
    ("intersect1d", (A, B), {"return_indices": True}),
    ("intersect1d", (MANY[:100], MANY[100:]), {"return_indices": True}),
    ("intersect1d", (A, A[:0]), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_same_as_numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, under_jit=False, **kwargs)


@pytest.mark.parametrize("kwargs", [{}, {"invert": True}, {"method": "sort"}])
@pytest.mark.parametrize("tests", [B, MANY, A[:0]])
def test_isin(tests: Any, kwargs: dict[str, Any]) -> None:
    wanted = np.isin(ROWS, tests, invert=kwargs.get("invert", False))
    agree(jnp.isin(ROWS, tests, **kwargs), wanted)
    agree(functrax.jit(lambda x, y: jnp.isin(x, y, **kwargs))(ROWS, tests), wanted)


# values recorded from JAX 0.10.2
SIZED: list[tuple[Any, Any]] = [
    (lambda x, y: jnp.unique(x, **ALL, size=5),
     ([1, 3, 5, 1, 1], [3, 1, 0, 3, 3], [2, 1, 2, 0, 1], [1, 2, 2, 0, 0])),
    (lambda x, y: jnp.unique(x, **ALL, size=2), ([1, 3], [3, 1], [2, 1, 2, 0, 1], [1, 2])),
    (lambda x, y: jnp.unique(x, size=4, fill_value=-1), [1, 3, 5, -1]),
    (lambda x, y: jnp.union1d(x, y, size=6), [1, 3, 5, 9, 1, 1]),
    (lambda x, y: jnp.setdiff1d(x, y, size=3), [5, 0, 0]),
    (lambda x, y: jnp.setdiff1d(x, y, size=3, fill_value=-1), [5, -1, -1]),
    (lambda x, y: jnp.setxor1d(x, y, size=4), [5, 9, 5, 5]),
    (lambda x, y: jnp.setxor1d(x, y, size=4, fill_value=-1), [5, 9, -1, -1]),
    (lambda x, y: jnp.intersect1d(x, y, size=4, return_indices=True),
     ([1, 3, 1, 1], [3, 1, 5, 5], [2, 0, 4, 4])),
    (lambda x, y: jnp.intersect1d(x, y, size=4, fill_value=-1), [1, 3, -1, -1]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "wanted"), SIZED)
def test_sizes(function: Any, wanted: Any) -> None:
    got = (function(A, B), functrax.jit(function)(A, B))
    for found in got:
        shown = [x.tolist() for x in found] if isinstance(found, tuple) else found.tolist()
        assert shown == (list(wanted) if isinstance(wanted, tuple) else wanted)


@pytest.mark.parametrize("name", ["unique", "union1d", "setdiff1d", "setxor1d", "intersect1d"])
def test_traced_arrays_need_a_size(name: str) -> None:
    args = (A,) if name == "unique" else (A, B)
    with pytest.raises(errors.ConcretizationError, match=rf"{name}: (.|\n)*size="):
        functrax.jit(getattr(jnp, name))(*args)


def test_gradient_of_unique() -> None:
    weights = jnp.array([1.0, 10.0])
    slope = functrax.grad(lambda x: jnp.sum(jnp.unique(x) * weights))(jnp.array([2.0, 1.0, 2.0]))
    assert slope.tolist() == [10.0, 1.0, 0.0]


def test_nothing_to_fill_up_with() -> None:
    with pytest.raises(errors.ShapeError, match="fill_value"):
        jnp.unique(jnp.zeros(0), size=2)
    assert jnp.unique(jnp.zeros(0), size=2, fill_value=7).tolist() == [7.0, 7.0]


def test_positions_and_counts_are_default_integers() -> None:
    with functrax.enable_x64(True):
        found = [*jnp.unique(A, **ALL)[1:], *jnp.intersect1d(A, B, return_indices=True)[1:]]
        found += [jnp.argsort(A), jnp.lexsort((A, A)), jnp.bincount(A)]
        found.append(jnp.histogramdd(A[:, None])[0])
        assert {str(x.dtype) for x in found} == {"int64"}
        assert str(jnp.argpartition(A, 1).dtype) == "int32"


def test_set_functions_leave_ranks_to_their_operands():
    column = np.array([[1], [3]], "i4")
    with functrax.numpy_rank_promotion("raise"), functrax.numpy_dtype_promotion("strict"):
        assert jnp.isin(column, B).tolist() == [[True], [True]]
        assert jnp.isin(MANY[:5, None], MANY).all()
        assert jnp.intersect1d(A, B).tolist() == [1, 3]
        assert jnp.setxor1d(A, B).tolist() == [5, 9]
        filled = jnp.unique(ROWS, axis=0, size=4, fill_value=jnp.array([7, 8]))
        assert filled[-1].tolist() == [7, 8]


def test_setdiff1d_has_the_dtype_of_the_first():
    found = jnp.setdiff1d(A, np.array([5.0, 0.5], "f4"))
    assert found.dtype == np.int32
    assert found.tolist() == [1, 3]


@pytest.mark.parametrize("size", [None, 3])
def test_setxor1d_of_repeated_elements_said_to_be_unique(size):
    found = jnp.setxor1d(A, B, assume_unique=True, size=size, fill_value=0)
    theirs = np.setxor1d(A, B, assume_unique=True)
    assert found.tolist() == theirs.tolist() + [0] * ((size or len(theirs)) - len(theirs))
    assert jnp.setxor1d(A[:0], B[:0], assume_unique=True).shape == (0,)


def test_complex_nans_are_one_value():
    nan = np.nan
    x = np.array([complex(3, nan), 1, complex(nan, 1), complex(nan, nan), 1], "c8")
    values, counts = jnp.unique(x, return_counts=True)
    assert values[0] == 1
    assert np.isnan(values[1])
    assert counts.tolist() == [2, 3]
    assert jnp.unique(x, equal_nan=False).shape == (4,)
