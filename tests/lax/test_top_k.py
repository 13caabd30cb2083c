"""``top_k`` against a stable sort of integers in the total order of floats."""

import ml_dtypes
import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax

FLOATS = ["f2", ml_dtypes.bfloat16, "f4", "f8"]
DTYPES = [*FLOATS, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
KINDS = ["apart", "ties", "bits", "rising", "falling", "equal"]
#: Rows that are long and short, one and many, side by side in tiles that are full and not.
SHAPES = [
    *(((300,), 0), ((5, 400), 1), ((400, 3), 0), ((2, 300, 4), 1), ((0, 400), 1)),
    *(((3, 20), 1), ((70, 16), 1), ((90, 37), 0), ((2, 3000), 1), ((1, 1), 0), ((7, 0), 0)),
]
COUNTS = [0, 1, 3, 17, 100]


@pytest.fixture(autouse=True)
def wide_types():
    with fx.enable_x64():
        yield


def elements(kind: str, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    rng, dtype = np.random.default_rng(0), np.dtype(dtype)
    if kind == "bits" and dtype.kind != "b":  # infinities, both zeros, NaN of all kinds, extremes
        x = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
        if dtype.kind in "fV":
            for n, number in enumerate([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf]):
                x.reshape(-1)[n::13] = number
        return x
    x = rng.normal(size=shape) * 100
    if kind in ("rising", "falling"):
        x = np.sort(x.ravel()).reshape(shape) * (1 if kind == "rising" else -1)
    if kind == "ties":
        x = np.round(x / 50)
    if kind == "equal":
        x = np.ones(shape)
    x = (np.abs(x) if dtype.kind in "u" else x).astype(dtype)
    if kind == "ties" and dtype.kind in "fV":
        x = np.where(rng.random(shape) < 0.1, np.array(-0.0, dtype), x)
    return x


def stable(x: np.ndarray, axis: int) -> np.ndarray:
    """Positions by size in total order, of equal elements the first one first."""
    if x.dtype.kind in "fV":
        bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
        most = 2 ** (8 * x.dtype.itemsize - 1) - 1
        keys = np.where(bits < 0, bits ^ most, bits)
    else:
        half = 2**63 if x.dtype == np.uint64 else 0
        keys = (x.astype(np.uint64) - np.uint64(half)).view(np.int64)
    return np.argsort(~keys, axis=axis, kind="stable")


def check(found, x: np.ndarray, k: int, axis: int) -> None:
    values, places = map(np.asarray, found)
    want = np.take(stable(x, axis), np.arange(k), axis)
    assert places.dtype == np.int32 and values.dtype == x.dtype
    np.testing.assert_array_equal(places, want)
    assert values.tobytes() == np.take_along_axis(x, want, axis).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_largest_in_order(dtype, kind):
    for shape, axis in SHAPES:
        x = elements(kind, shape, dtype)
        for k in {*COUNTS, shape[axis]}:
            if k <= shape[axis]:
                check(lax.top_k(x, k, axis=axis), x, k, axis)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, "f4", "f8", "i4", "u1"], ids=str)
@pytest.mark.parametrize("k", [1, 100, 399, 400, 1001])
def test_long_rows(dtype, kind, k):
    x = elements(kind, (3, 4000), dtype)
    for y, axis in ((x, 1), (np.tile(x.T, (1, 7)), 0)):
        check(fx.jit(lambda y, axis=axis: lax.top_k(y, k, axis=axis))(y), y, k, axis)


def test_the_order_of_floats():
    nan = np.float32("nan")
    x = np.array([0.0, -0.0, nan, 1, -nan, -np.inf, -0.0, 0.0, np.inf, nan], np.float32)
    _, places = lax.top_k(x, 10)
    assert np.asarray(places).tolist() == [2, 9, 8, 3, 0, 7, 1, 6, 5, 4]


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_go_to_what_is_chosen(axis, k):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(70, 50)).astype(np.float32)
    weights = rng.normal(size=(k, 50) if axis == 0 else (70, k)).astype(np.float32)

    def total(x):
        return (lax.top_k(x, k, axis=axis)[0] * weights).sum()

    want = np.zeros_like(x)
    np.put_along_axis(want, np.take(stable(x, axis), np.arange(k), axis), weights, axis)
    for gradient in (fx.grad(total), fx.jit(fx.grad(total))):
        np.testing.assert_array_equal(gradient(x), want)


@pytest.mark.parametrize("in_axis", [0, 1, 2])
def test_vmap(in_axis):
    x = elements("ties", (6, 30, 40), "f4")
    got = fx.vmap(lambda x: lax.top_k(x, 5), in_axes=in_axis)(x)
    check(got, np.ascontiguousarray(np.moveaxis(x, in_axis, 0)), 5, 2)


def test_in_a_loop_it_reads_what_it_replaces():
    x = elements("apart", (40,), "f4")

    def step(_, x):
        values, places = lax.top_k(x, 40)
        return values - places

    want = x
    for _ in range(3):
        order = stable(want, 0)
        want = want[order] - order.astype(np.float32)
    np.testing.assert_array_equal(fx.jit(lambda x: lax.fori_loop(0, 3, step, x))(x), want)


def test_stored_dtypes():
    x = jnp.asarray(elements("ties", (5, 300), "f4"), jnp.float8_e4m3fn)
    _, places = lax.top_k(x, 9)
    want = np.take(stable(np.asarray(x).astype(np.float32), 1), np.arange(9), 1)
    np.testing.assert_array_equal(places, want)
