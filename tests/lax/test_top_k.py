"""``top_k`` against a stable sort: ties, NaN, both zeros, few and many elements."""

import ml_dtypes
import numpy as np
import pytest

import functrax as fx
from functrax import lax

DTYPES = ["f2", ml_dtypes.bfloat16, "f4", "f8", "i1", "i4", "i8", "u1", "u4", "?"]
SHAPES = [((300,), 0), ((5, 400), 1), ((400, 3), 0), ((2, 300, 4), 1), ((0, 400), 1), ((3, 20), 1)]


def elements(kind: str, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=shape) * {"apart": 100, "ties": 2, "special": 3}[kind]
    x = x if kind == "apart" else np.round(x)
    unsigned = np.dtype(dtype).kind in "u?"
    x = (np.abs(x) if unsigned else x).astype(dtype)
    if kind == "special" and np.dtype(dtype).kind in "fV":
        x.reshape(-1)[::50] = np.nan
        x.reshape(-1)[1::40] = -0.0
    return x


def stable(x: np.ndarray, axis: int) -> np.ndarray:
    """Positions by size, NaN first, of equal elements the first one first."""
    keys = x.astype(np.float64)
    keys = np.where(np.isnan(keys), np.inf, keys)
    return np.argsort(-keys, axis=axis, kind="stable")


@pytest.mark.parametrize("kind", ["apart", "ties", "special"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_largest_in_order(dtype, kind):
    with fx.enable_x64():
        for shape, axis in SHAPES:
            x = elements(kind, shape, dtype)
            order = stable(x, axis)
            for k in (0, 1, 3, 17):
                values, places = lax.top_k(x, k, axis=axis)
                want = np.take(order, np.arange(k), axis)
                np.testing.assert_array_equal(np.asarray(places), want)
                np.testing.assert_array_equal(
                    np.asarray(values).astype(np.float64),
                    np.take_along_axis(x, want, axis).astype(np.float64),
                )


def test_nearly_all_elements_equal():
    x = np.zeros((4, 5000), np.float32)
    x[1, 77], x[2, 4999] = 1, -1
    _, places = lax.top_k(x, 3)
    assert np.asarray(places).tolist() == [[0, 1, 2], [77, 0, 1], [0, 1, 2], [0, 1, 2]]


def test_an_order_that_defeats_blocks():
    x = np.arange(10_000, dtype=np.int32)[::-1].copy()  # the largest are all in one block
    values, places = lax.top_k(x, 50)
    assert np.asarray(values).tolist() == list(range(9999, 9949, -1))
    assert np.asarray(places).tolist() == list(range(50))


@pytest.mark.parametrize("order", ["random", "rising", "falling", "few values"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("k", [1, 100, 999, 1000, 1001])
def test_long_rows(dtype, order, k):
    x = np.random.default_rng(1).normal(size=(3, 4000)) * 1000
    if order in ("rising", "falling"):
        x = np.sort(x)[:, :: 1 if order == "rising" else -1]
    x = (np.round(x / 500) if order == "few values" else x).astype(dtype)
    if dtype[0] == "f":
        x[0, ::700], x[1, 1::900] = np.nan, np.inf
    with fx.enable_x64():
        for y, axis in ((x, 1), (x.T.copy(), 0)):
            values, places = fx.jit(lambda y, axis=axis: lax.top_k(y, k, axis=axis))(y)
            want = np.take(stable(y, axis), np.arange(k), axis)
            np.testing.assert_array_equal(places, want)
            np.testing.assert_array_equal(values, np.take_along_axis(y, want, axis))
