"""``x[index]`` means what it means in NumPy, with JAX's rules for indices out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.index_cases import bare, cases, clamped, is_integer, positions
from tests.numpy.index_checks import assert_gradient

X = np.arange(12, dtype="f4").reshape(3, 4)


DTYPES = ["f4", "f4", "i4", "u1", "c8", "?", "f2"]


def filled(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """An array of numbers that differ."""
    drawn = np.random.default_rng(seed).permutation(int(np.prod(shape))).reshape(shape)
    return (drawn % 2 == 0) if dtype == "?" else drawn.astype(dtype)


@pytest.mark.parametrize("seed", range(10))
def test_reads_what_numpy_reads(seed: int) -> None:
    for k, (shape, index) in enumerate(cases(seed, 230)):
        x = filled(shape, DTYPES[k % len(DTYPES)])
        got = np.asarray(jnp.asarray(x)[bare(index)])
        want = x[clamped(x.shape, index)]
        assert (got.shape, got.dtype) == (want.shape, want.dtype), (shape, index)
        assert np.array_equal(got, want), (shape, index)


@pytest.mark.parametrize("seed", range(4))
def test_traced_indices_read_the_same(seed: int) -> None:
    for shape, index in cases(40 + seed, 75):
        x = filled(shape, "f4")
        places = [k for k, item in enumerate(index) if is_integer(item)]

        def read(x: Any, *values: Any, index: Any = index, places: Any = places) -> Any:
            items = list(index)
            for place, value in zip(places, values, strict=True):
                items[place] = value
            return x[tuple(items)]

        values = [np.asarray(index[k]) for k in places]
        got = np.asarray(functrax.jit(read)(x, *values))
        want = x[clamped(x.shape, index)]
        assert got.shape == want.shape, (shape, index)
        assert np.array_equal(got, want), (shape, index)


@pytest.mark.parametrize(("dtype", "fill"), [("f4", np.nan), ("i4", -(2**31)), ("u1", 255)])
def test_modes_of_reads(dtype: str, fill: Any) -> None:
    for shape, index in cases(80, 120):
        x = filled(shape, dtype)
        at = jnp.asarray(x).at[bare(index)]
        inside, places = x[clamped(shape, index)], positions(shape, index)
        for mode in ("clip", "promise_in_bounds"):
            np.testing.assert_array_equal(np.asarray(at.get(mode=mode)), inside)
        for mode in ("fill", "drop"):
            for given, outside in ((None, fill), (7, 7)):
                want = np.append(x, np.asarray(outside, dtype))[places]
                got = np.asarray(at.get(mode=mode, fill_value=given))
                np.testing.assert_array_equal(got, want, err_msg=f"{shape} {index}")


@pytest.mark.parametrize("mode", ["wrap", "clip", "fill", None])
def test_modes_of_take(mode: str | None) -> None:
    rng = np.random.default_rng(11)
    for shape in ((5,), (3, 4), (2, 3, 4)):
        for axis in (None, *range(-len(shape), len(shape))):
            x = filled(shape, "f4")
            size = x.size if axis is None else shape[axis]
            indices = rng.integers(-3 * size, 3 * size, (2, 5))
            got = np.asarray(jnp.take(x, indices, axis, mode=mode))
            if mode in ("wrap", "clip"):
                np.testing.assert_array_equal(got, np.take(x, indices, axis, mode=mode))
                continue
            want = np.take(x, indices % size, axis).astype("f4")
            outside = (indices < -size) | (indices >= size)
            before = 0 if axis is None else axis % x.ndim
            want[(slice(None),) * before + (outside,)] = np.nan
            np.testing.assert_array_equal(got, want)


def test_batched_reads() -> None:
    rng = np.random.default_rng(3)
    xs = rng.normal(size=(5, 3, 4)).astype("f4")
    rows = rng.integers(-4, 5, (5, 2))
    inside = np.clip(np.where(rows < 0, rows + 3, rows), 0, 2)
    want = np.stack([x[i] for x, i in zip(xs, inside, strict=True)])
    got = functrax.vmap(lambda x, i: x[i])(xs, rows)
    np.testing.assert_array_equal(np.asarray(got), want)
    one = functrax.vmap(lambda i: jnp.asarray(xs[0])[i, 1:])(inside[:, 0])
    np.testing.assert_array_equal(np.asarray(one), xs[0][inside[:, 0], 1:])


@pytest.mark.parametrize(
    "index",
    [
        True, False, (None, True, 0), (np.True_, slice(None, None, -1)), (0, [1, 2]), (), ...,
        np.int8(-1), np.uint8(2), (np.array(1), ...), np.zeros(0, int), np.zeros((0, 2), int),
        (np.zeros((3, 4), bool),), (slice(None), np.array([[0, 1]]), None),
        ([0, 2], None, slice(1, None)), (slice(np.int64(0), jnp.asarray(2)),),
    ],
)  # fmt: skip
def test_unusual_indices(index: Any) -> None:
    plain = tuple(
        slice(i.start, int(i.stop)) if isinstance(i, slice) and i.stop is not None else i
        for i in index
    ) if isinstance(index, tuple) else index  # fmt: skip
    want = X[plain]
    got = jnp.asarray(X)[index]
    assert got.shape == want.shape
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize(("index", "row"), [(3, 2), (5, 2), (-3, 0), (-4, 0), (-1, 2)])
def test_out_of_range_reads_the_nearest(index: int, row: int) -> None:
    x = jnp.asarray(X)
    np.testing.assert_array_equal(np.asarray(x[index]), X[row])
    np.testing.assert_array_equal(np.asarray(x[jnp.array([index])])[0], X[row])
    np.testing.assert_array_equal(np.asarray(functrax.jit(lambda i: x[i])(index)), X[row])


def test_narrow_and_unsigned_traced_indices() -> None:
    x = np.arange(300, dtype="f4")
    read = functrax.jit(lambda x, i: x[i])
    for dtype, index in (("u1", 255), ("i1", -1), ("u4", 299), ("i2", -300), ("u4", 2**32 - 1)):
        want = x[min(index if index >= 0 else index + 300, 299)]
        assert np.asarray(read(x, np.array(index, dtype))) == want


def test_get_modes() -> None:
    x = jnp.asarray(X)
    far = np.array([1, 7, -1, -9])
    assert np.isnan(np.asarray(x.at[far].get(mode="fill"))[[1, 3]]).all()
    np.testing.assert_array_equal(np.asarray(x.at[far].get(mode="fill"))[[0, 2]], X[[1, 2]])
    filled = np.asarray(x.at[far].get(mode="drop", fill_value=3))
    np.testing.assert_array_equal(filled[[1, 3]], np.full((2, 4), 3))
    np.testing.assert_array_equal(np.asarray(x.at[far].get(mode="clip")), X[[1, 2, 2, 0]])
    np.testing.assert_array_equal(np.asarray(x.at[far].get()), X[[1, 2, 2, 0]])
    unwrapped = x.at[far].get(mode="clip", wrap_negative_indices=False)
    np.testing.assert_array_equal(np.asarray(unwrapped), X[[1, 2, 0, 0]])
    assert np.asarray(jnp.arange(4).at[7].get(mode="fill")) == np.iinfo("i4").min
    assert np.asarray(jnp.arange(4, dtype="uint8").at[7].get(mode="fill")) == 255
    assert np.asarray(jnp.array([False]).at[7].get(mode="fill"))
    assert np.isnan(np.asarray(x.at[5].get(mode="fill"))).all()


def test_basic_indexing_stays_basic() -> None:
    def names(f: Any) -> list[str]:
        return [e.primitive.name for e in functrax.make_jaxpr(f)(X).jaxpr.eqns]

    assert names(lambda x: x[1]) == ["slice", "reshape"]
    assert names(lambda x: x[1:, ::2]) == ["slice"]
    assert names(lambda x: x[::-1]) == ["rev"]
    assert names(lambda x: x[:, None]) == ["reshape"]
    assert names(lambda x: x[...]) == []
    assert names(lambda x: x[:1, ::-1]) == ["slice", "rev"]
    assert names(lambda x: x[np.array([0, 2])]) == ["reindex"]


def test_iteration_and_scalars() -> None:
    rows = [np.asarray(row) for row in jnp.asarray(X)]
    np.testing.assert_array_equal(np.stack(rows), X)
    assert jnp.asarray(X)[0, 0].shape == ()
    assert functrax.jit(lambda x: x[0] + 1)(np.float32([3])) == 4
    assert functrax.jit(lambda: jnp.asarray(np.float32(3))[...])() == 3


def test_gradients() -> None:
    for shape, index in cases(50, 25):
        x = np.random.default_rng(1).normal(size=shape).astype("f4")
        if x[clamped(x.shape, index)].size:
            assert_gradient(lambda x, index=index: jnp.sin(jnp.asarray(x))[index], x)


def test_gradients_by_traced_indices() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(4, 3)).astype("f4")
    rows = np.array([[0, 3, 3], [1, -1, 9]])

    def read(x: Any, i: Any) -> Any:
        return functrax.jit(lambda x, i: jnp.square(x)[i, 1:])(x, i)

    assert_gradient(lambda x: read(x, rows), x)
    assert_gradient(lambda x: jnp.asarray(x).at[rows].get(mode="fill", fill_value=0) ** 2, x)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ([0, 1], "non-tuple sequence"),
        ("a", "string indexing"),
        (1.0, "Indexer must have integer"),
        (np.array([1.0]), "Indexer must have integer"),
        ({}, "takes integers"),
        ((0, 0, 0), "Too many indices"),
        ((..., 0, ...), "more than one ellipsis"),
        (slice(0, 2.0), "not a slice"),
        (slice(None, None, 0), "not a slice"),
        (np.array([True, False]), "boolean index did not match"),
        ((np.array([0, 1]), np.array([0, 1, 2])), "do not broadcast"),
        ((0, [True]), "boolean index did not match"),
    ],
)
def test_refused(index: Any, text: str) -> None:
    with pytest.raises(errors.IndexingError, match=text) as caught:
        _ = jnp.asarray(X)[index]
    message = str(caught.value)
    assert message.startswith("indexing: ")
    assert "test_indexing.py" in message
    for part in ("  got ", "  at ", "  try "):
        assert part in message


def test_refused_in_empty_arrays() -> None:
    empty = jnp.zeros((0, 3))
    for index in (0, (0, 1), np.array([0])):
        with pytest.raises(errors.IndexingError, match="with size 0"):
            _ = empty[index]
    assert empty[:, 0].shape == (0,)
    assert jnp.zeros((2, 0, 3))[np.zeros(0, int), np.array([-2])].shape == (0, 3)
    assert empty[np.zeros(0, int)].shape == (0, 3)


def test_traced_masks_and_slices_are_refused() -> None:
    with pytest.raises(errors.NonConcreteBooleanIndexError, match=r"jnp\.where"):
        functrax.jit(lambda x, m: x[m])(X, X > 3)
    with pytest.raises(errors.IndexingError, match="dynamic_slice"):
        functrax.jit(lambda x, i: x[i : i + 2])(X, 1)


def test_arrays_cannot_be_assigned_to() -> None:
    with pytest.raises(errors.ImmutableError, match=r"\.at\["):
        jnp.asarray(X)[0] = 1.0


@pytest.mark.parametrize(
    ("shape", "mask"), [((3,), (0,)), ((3, 4), (0, 4)), ((3, 4), (3, 0)), ((3, 4, 5), (0,))]
)
def test_masks_without_elements(shape, mask):
    x = np.ones(shape, np.float32)
    empty = np.zeros(mask, bool)
    assert jnp.asarray(x)[empty].shape == x[empty].shape


@pytest.mark.parametrize(
    ("shape", "index", "axis"),
    [
        ((2,), -3, 0),
        ((2,), 2, 0),
        ((2, 3), (..., 4), 1),
        ((2, 3, 5), (slice(5), slice(None), 6), 2),
        ((2, 3, 5), (slice(None), [1, 2], 6), 2),
        ((2, 3, 5), (None, np.arange(2), np.int32(6)), 1),
    ],
)
def test_known_indices_are_checked_on_demand(shape, index, axis):
    x = jnp.zeros(shape)
    before = x[index].shape
    functrax.config.update("check_static_indices", True)
    try:
        for read in (
            lambda x: x[index],
            functrax.jit(lambda x: x[index]),
            lambda x: x.at[index].get(),
        ):
            with pytest.raises(IndexError, match=f"out of bounds for axis {axis} with size"):
                read(x)
        assert x.at[index].get(mode="clip").shape == before
        assert x.at[index].set(1).shape == shape
        assert x[..., -1].shape == shape[:-1]
    finally:
        functrax.config.update("check_static_indices", False)
    assert x[index].shape == before
