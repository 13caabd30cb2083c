"""``x.at[index]``: what assignment in NumPy does, without updates out of range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.index_cases import bare, cases, clamped, positions
from tests.numpy.index_checks import assert_gradient

X = np.arange(12, dtype="f4").reshape(3, 4)


DTYPES = ["f4", "f4", "i4", "f2", "u1", "c8"]
UFUNCS = {
    "set": None, "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "mul": np.multiply, "divide": np.divide, "power": np.power, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip
MODES = [None, None, "drop", "fill", "clip", "promise_in_bounds"]


def operands(seed: int, count: int, name: str) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    """Arrays, indices, updates, modes, and the row-major positions updated (-1: outside)."""
    rng = np.random.default_rng(seed)
    for k, (shape, index) in enumerate(cases(seed, count)):
        dtype = DTYPES[k % (5 if name in ("min", "max", "power") else 6)]
        mode = MODES[k % len(MODES)]
        where = positions(shape, clamped(shape, index) if mode == "clip" else index)
        x, values = (rng.integers(1, 4, s).astype(dtype) for s in (shape, where.shape))
        if k % 4 == 1 and values.ndim:  # values that broadcast
            values = values[:1]
        yield x, index, values, mode, where


def numpy_update(x: Any, where: Any, values: Any, ufunc: Any) -> Any:
    """What the update gives, by row-major positions; position -1 is outside."""
    flat = np.append(x.reshape(-1), x.dtype.type(1))
    values = np.broadcast_to(values, where.shape)
    if ufunc is None:
        flat[where.reshape(-1)] = values.reshape(-1)
    else:
        with np.errstate(over="ignore"):
            ufunc.at(flat, where.reshape(-1), values.reshape(-1))
    return flat[:-1].reshape(x.shape)


@pytest.mark.parametrize("name", UFUNCS)
def test_updates_what_numpy_updates(name: str) -> None:
    for x, index, values, mode, where in operands(sum(map(ord, name)), 75, name):
        got = np.asarray(getattr(jnp.asarray(x).at[bare(index)], name)(values, mode=mode))
        wide = x.dtype.kind in "iu" and name == "divide"
        want = numpy_update(x.astype("f4") if wide else x, where, values, UFUNCS[name])
        assert got.dtype == want.dtype, (x.dtype, index)
        rtol = 3e-2 if x.dtype == "f2" else 1e-5
        np.testing.assert_allclose(got, want, rtol=rtol, err_msg=f"{x.shape} {index} {mode}")


def test_updates_of_truth_values() -> None:
    for x, index, values, mode, where in operands(5, 50, "set"):
        x, values = x.real > 2, values.real > 2
        for name, ufunc in (("set", None), ("min", np.logical_and), ("max", np.logical_or)):
            got = np.asarray(getattr(jnp.asarray(x).at[bare(index)], name)(values, mode=mode))
            np.testing.assert_array_equal(got, numpy_update(x, where, values, ufunc))


def test_applied_as_often_as_named() -> None:
    for x, index, _, mode, where in operands(6, 75, "set"):
        got = np.asarray(jnp.asarray(x).at[bare(index)].apply(lambda y: y + y, mode=mode))
        twice = np.full(where.shape, 2, x.dtype)
        np.testing.assert_array_equal(got, numpy_update(x, where, twice, np.multiply))


def test_batched_as_one_by_one() -> None:
    for x, index, values, mode, where in operands(9, 60, "add"):
        xs = np.stack([x, x + x, x * x])
        got = functrax.vmap(lambda x, v=values, i=index, m=mode: x.at[i].add(v, mode=m))(xs)
        want = np.stack([numpy_update(x, where, values, np.add) for x in xs])
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-2)


def test_power_and_apply() -> None:
    x = jnp.arange(3.0) + 2
    twice = np.array([0, 0])
    np.testing.assert_array_equal(np.asarray(x.at[twice].power(2.0)), [16, 3, 4])
    np.testing.assert_array_equal(np.asarray(x.at[twice].apply(jnp.square)), [16, 3, 4])
    np.testing.assert_array_equal(np.asarray(x.at[1:].apply(jnp.square)), [2, 9, 16])
    np.testing.assert_array_equal(np.asarray(x.at[np.array([2, 7])].apply(jnp.square)), [2, 3, 16])
    got = functrax.jit(lambda x, i: x.at[i].apply(jnp.square))(x, 1)
    np.testing.assert_array_equal(np.asarray(got), [2, 9, 4])
    traced = functrax.jit(lambda x, i: x.at[i].apply(jnp.square))
    for index in (twice, np.array([1, 2, 1, 1]), np.array([], int), np.array([7, -1])):
        np.testing.assert_array_equal(traced(x, index), x.at[index].apply(jnp.square))
    got = functrax.vmap(lambda i: x.at[i].apply(jnp.square))(np.array([[0, 0], [1, 2]]))
    np.testing.assert_array_equal(got, [[16, 3, 4], [2, 9, 16]])
    got = functrax.jit(lambda x, i: x.at[i].apply(jnp.square, unique_indices=True))(
        x, np.array([2, 0])
    )
    np.testing.assert_array_equal(np.asarray(got), [4, 3, 16])


def test_traced_indices() -> None:
    update = functrax.jit(lambda x, i, j, v: x.at[i, j].add(v))
    for i, j in ((1, 2), (-1, -1), (3, 0), (-4, 0), (2, 9)):
        want = X.copy()
        if -3 <= i < 3 and -4 <= j < 4:
            want[i, j] += 5
        np.testing.assert_array_equal(np.asarray(update(X, i, j, np.float32(5))), want)


def test_batched_updates() -> None:
    rows = np.array([[0, 0], [2, 1], [5, -1]])
    got = functrax.vmap(lambda i, v: jnp.zeros(3).at[i].add(v))(rows, np.float32([1, 2, 3]))
    np.testing.assert_array_equal(np.asarray(got), [[2, 0, 0], [0, 2, 2], [0, 0, 3]])
    got = functrax.vmap(lambda x: x.at[1:3].set(7.0))(X)
    np.testing.assert_array_equal(np.asarray(got)[:, 1:3], np.full((3, 2), 7))


def test_batched_update_of_one_element_by_a_number() -> None:
    got = functrax.vmap(lambda x: x.at[1].set(7.0))(X)
    np.testing.assert_array_equal(np.asarray(got)[:, 1], [7, 7, 7])


def test_modes() -> None:
    x = jnp.arange(4)
    assert np.asarray(x.at[7].set(9, mode="clip"))[-1] == 9
    for mode in (None, "drop", "fill", "promise_in_bounds"):
        np.testing.assert_array_equal(np.asarray(x.at[7].set(9, mode=mode)), np.arange(4))
    np.testing.assert_array_equal(np.asarray(x.at[-7].set(9, mode="drop")), np.arange(4))
    unwrapped = x.at[-1].set(9, wrap_negative_indices=False)
    np.testing.assert_array_equal(np.asarray(unwrapped), np.arange(4))
    with pytest.raises(errors.ArgumentError, match="unknown mode"):
        x.at[0].set(1, mode="wrap")


def test_traced_masks_take_scalars() -> None:
    f = functrax.jit(lambda x, m: x.at[m].set(0.0))
    np.testing.assert_array_equal(np.asarray(f(X, X > 4)), np.where(X > 4, 0, X))
    rows = functrax.jit(lambda x, m: x.at[m].multiply(2.0))(X, np.array([True, False, True]))
    np.testing.assert_array_equal(np.asarray(rows), X * np.array([[2], [1], [2]], "f4"))
    with pytest.raises(errors.NonConcreteBooleanIndexError):
        functrax.jit(lambda x, m: x.at[m].set(x[0]))(X, X > 4)


def test_dtype_of_the_array_stays() -> None:
    x = jnp.arange(3)
    assert x.at[0].set(True).dtype == "int32"
    assert jnp.zeros(3, "bfloat16").at[0].add(1.5).dtype == "bfloat16"
    assert jnp.zeros(3, "uint8").at[0].subtract(1)[0] == 255
    assert x.at[0].divide(2).dtype == "float32"
    with pytest.warns(FutureWarning, match="may lose"):
        assert x.at[1].set(1.7).tolist() == [0, 1, 2]
    with pytest.warns(FutureWarning, match="may lose"):
        assert jnp.zeros(2).at[0].add(2 + 1j).tolist() == [2, 0]


def test_one_scatter() -> None:
    def names(f: Any) -> list[str]:
        return [e.primitive.name for e in functrax.make_jaxpr(f)(X).jaxpr.eqns]

    assert names(lambda x: x.at[1:, ::2].set(x[:2, :2])) == ["slice", "scatter"]
    assert names(lambda x: x.at[np.array([0, 2])].add(x[:2])) == ["slice", "scatter"]
    assert names(lambda x: x.at[0].get()) == ["slice", "reshape"]


@pytest.mark.parametrize("name", ["set", "add", "subtract", "multiply", "min", "max", "divide"])
def test_gradients(name: str) -> None:
    rng = np.random.default_rng(4)
    x, v = (rng.uniform(0.5, 2, size).astype("f4") for size in ((4, 3), (3, 3)))
    once = np.array([2, 0, 7])

    def update(x: Any, v: Any) -> Any:
        return getattr(jnp.sin(x).at[once], name)(v * v, unique_indices=True)

    assert_gradient(update, x, v)
    assert_gradient(lambda x, v: getattr(jnp.sin(x).at[1:, ::-1], name)(jnp.exp(v)), x, v)


@pytest.mark.parametrize("name", ["set", "add"])
def test_gradients_with_repeated_indices(name: str) -> None:
    rng = np.random.default_rng(6)
    x, v = (rng.normal(size=size).astype("f4") for size in ((4, 2), (5, 2)))
    rows = np.array([1, 1, -1, 9, 3])
    assert_gradient(lambda x, v: getattr(jnp.sin(x).at[rows], name)(v * v), x, v)
    traced = functrax.jit(lambda x, v, i: getattr(jnp.sin(x).at[i], name)(v * v))
    assert_gradient(lambda x, v: traced(x, v, rows), x, v)


def test_refused() -> None:
    x = jnp.asarray(X)
    with pytest.raises(errors.ShapeError, match="do not broadcast") as caught:
        x.at[0].set(np.zeros(5, "f4"))
    assert "values f32[5], index of shape (4,)" in str(caught.value)
    with pytest.raises(errors.IndexingError, match="Too many"):
        x.at[0, 0, 0].set(1)
    with pytest.raises(errors.IndexingError, match="non-tuple sequence"):
        x.at[[0]].set(1)
