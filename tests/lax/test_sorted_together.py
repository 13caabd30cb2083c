"""``sort`` of one array and of several, against NumPy's stable permutations."""

import ml_dtypes
import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax

DTYPES = [ml_dtypes.bfloat16, "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "?"]
DTYPES += ["c8", "c16"]
KINDS = ["apart", "ties", "bits", "rising"]
SHAPES = [((300,), 0), ((5, 400), 1), ((400, 3), 0), ((2, 90, 4), 1), ((0, 4), 1), ((3, 1), 1)]


@pytest.fixture(autouse=True)
def wide_types():
    with fx.enable_x64():
        yield


def elements(kind: str, shape: tuple[int, ...], dtype: object) -> np.ndarray:
    rng, dtype = np.random.default_rng(1), np.dtype(dtype)
    if dtype.kind == "c":
        parts = np.empty((*shape, 2), f"f{dtype.itemsize // 2}")
        parts[..., 0] = elements("ties" if kind == "apart" else kind, shape, parts.dtype)
        parts[..., 1] = rng.normal(size=shape)
        return parts.view(dtype)[..., 0]
    if kind == "bits" and dtype.kind != "b":
        return rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
    x = rng.normal(size=shape) * 100
    x = np.sort(x.ravel()).reshape(shape) if kind == "rising" else x
    x = np.round(x / 50) if kind == "ties" else x
    x = (np.abs(x) if dtype.kind == "u" else x).astype(dtype)
    if kind == "ties" and dtype.kind in "fV":
        x.ravel()[::9] = -0.0
        x.ravel()[4::31] = np.nan
        x.ravel()[5::31] = -np.nan
    return x


def keys(x: np.ndarray) -> list[np.ndarray]:
    """Numbers whose order is that of ``lax.sort``: the zeros equal, and all NaN last."""
    if x.dtype.kind == "c":
        return [*keys(x.real), *keys(x.imag)]
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    if x.dtype.kind != "f":
        return [x]
    missing = np.isnan(x)
    return [missing, np.where(missing, 0, x)]


def order(operands: list[np.ndarray], axis: int) -> np.ndarray:
    return np.lexsort([k for x in operands for k in keys(x)][::-1], axis=axis)


def same(got, want: np.ndarray) -> None:
    assert np.asarray(got).dtype == want.dtype
    assert np.asarray(got).tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_positions(dtype, kind):
    for shape, axis in SHAPES:
        x = elements(kind, shape, dtype)
        want = order([x], axis).astype(np.int64)
        for sort in (jnp.argsort, fx.jit(jnp.argsort, static_argnums=1)):
            same(sort(x, axis), want)


@pytest.mark.parametrize("num_keys", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_by_several_keys(dtype, num_keys):
    for shape, axis in SHAPES:
        few = np.random.default_rng(2).integers(0, 3, shape).astype(np.int8)
        operands = [few, elements("ties", shape, "c8"), elements("ties", shape, dtype)]
        want = order(operands[:num_keys], axis)
        got = lax.sort(operands, axis, num_keys=num_keys)
        for found, x in zip(got, operands, strict=True):
            same(found, np.take_along_axis(x, want, axis))


@pytest.mark.parametrize("length", [95, 96, 97, 255, 257, 5000, 20_000, 70_000])
@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", ml_dtypes.bfloat16], ids=str)
def test_lengths_at_which_the_way_changes(dtype, length):
    for kind in ("apart", "ties", "rising"):
        x = elements(kind, (length,), dtype)
        same(jnp.argsort(x), order([x], 0).astype(np.int64))


def test_one_array_of_floats_with_both_zeros():
    x = np.round(np.random.default_rng(3).normal(size=(40, 30)).astype(np.float32))
    assert np.signbit(x[x == 0]).any()
    for axis in (0, 1):
        want = np.take_along_axis(x, order([x], axis), axis)
        same(jnp.sort(x, axis), want)
        same(fx.jit(lambda x, axis=axis: jnp.sort(x, axis))(x), want)
        half = x.astype(ml_dtypes.bfloat16)
        same(jnp.sort(half, axis), np.take_along_axis(half, order([half], axis), axis))


@pytest.mark.parametrize("dtype", ["i2", "i4", "u4", "i8", "u8"])
def test_integers_that_begin_in_order(dtype):
    x = np.random.default_rng(4).integers(0, 2**15, 100_000).astype(dtype)
    begun = np.concatenate([np.sort(x[:70_000]), x[70_000:]])
    for y in (x, begun, np.sort(x)):
        same(jnp.sort(y), np.sort(y))
        same(jnp.sort(y.reshape(1000, 100), 0), np.sort(y.reshape(1000, 100), 0))


def test_in_a_loop_it_reads_what_it_replaces():
    x = np.random.default_rng(5).normal(size=200).astype(np.float32)

    def step(_, pair):
        return lax.sort((pair[1], pair[0]))

    want = (x, x[::-1].copy())
    for _ in range(3):
        first = order([want[1]], 0)
        want = want[1][first], want[0][first]
    got = fx.jit(lambda *pair: lax.fori_loop(0, 3, step, pair))(x, x[::-1].copy())
    for found, wanted in zip(got, want, strict=True):
        same(found, wanted)


def test_derivatives_move_with_the_values():
    x = np.random.default_rng(6).normal(size=(4, 200)).astype(np.float32)
    keys = np.round(x * 2)
    tangent = np.random.default_rng(7).normal(size=x.shape).astype(np.float32)
    _, moved = fx.jvp(lambda x: lax.sort_key_val(keys, x)[1], (x,), (tangent,))
    same(moved, np.take_along_axis(tangent, order([keys], 1), 1))
