"""``x.at[index]``: what assignment in NumPy does, without updates out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.index_cases import SHAPES, clamped, draw, positions
from tests.numpy.index_checks import assert_gradient

X = np.arange(12, dtype="f4").reshape(3, 4)


def cases(seed: int, count: int) -> list[tuple[Any, Any, Any, Any]]:
    """Arrays, indices, updates, and the row-major positions updated (-1: out of range)."""
    rng = np.random.default_rng(seed)
    found: list[tuple[Any, Any, Any, Any]] = []
    while len(found) < count:
        shape = SHAPES[rng.integers(len(SHAPES))]
        index = draw(rng, shape)
        x = rng.normal(size=shape).astype("f4")
        try:
            _ = x[clamped(shape, index)]
        except IndexError:
            continue
        where = positions(shape, index)
        found.append((x, index, rng.normal(size=where.shape).astype("f4"), where))
    return found


def numpy_update(x: Any, where: Any, values: Any, ufunc: Any) -> Any:
    """What the update gives, by row-major positions; position -1 is outside."""
    flat = np.append(x.reshape(-1), np.float32(0))
    if ufunc is None:
        flat[where.reshape(-1)] = values.reshape(-1)
    else:
        ufunc.at(flat, where.reshape(-1), values.reshape(-1))
    return flat[:-1].reshape(x.shape)


@pytest.mark.parametrize("seed", range(6))
def test_set_and_add(seed: int) -> None:
    for x, index, values, where in cases(seed, 100):
        at = jnp.asarray(x).at[index]
        np.testing.assert_array_equal(
            np.asarray(at.set(values)), numpy_update(x, where, values, None), err_msg=str(index)
        )
        np.testing.assert_allclose(
            np.asarray(at.add(values)), numpy_update(x, where, values, np.add), rtol=2e-5, atol=2e-5
        )


@pytest.mark.parametrize(
    ("name", "ufunc"),
    [
        ("subtract", np.subtract), ("multiply", np.multiply), ("mul", np.multiply),
        ("divide", np.divide), ("min", np.minimum), ("max", np.maximum),
    ],
)  # fmt: skip
def test_other_operations(name: str, ufunc: Any) -> None:
    for x, index, values, where in cases(70, 40):
        got = getattr(jnp.asarray(x).at[index], name)(values)
        want = numpy_update(x, where, values, ufunc)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)


def test_power_and_apply() -> None:
    x = jnp.arange(3.0) + 2
    twice = np.array([0, 0])
    np.testing.assert_array_equal(np.asarray(x.at[twice].power(2.0)), [16, 3, 4])
    np.testing.assert_array_equal(np.asarray(x.at[twice].apply(jnp.square)), [16, 3, 4])
    np.testing.assert_array_equal(np.asarray(x.at[1:].apply(jnp.square)), [2, 9, 16])
    np.testing.assert_array_equal(np.asarray(x.at[np.array([2, 7])].apply(jnp.square)), [2, 3, 16])
    got = functrax.jit(lambda x, i: x.at[i].apply(jnp.square))(x, 1)
    np.testing.assert_array_equal(np.asarray(got), [2, 9, 4])
    with pytest.raises(errors.ConcretizationError, match="unique_indices"):
        functrax.jit(lambda x, i: x.at[i].apply(jnp.square))(x, twice)
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
    with pytest.raises(errors.IndexingError, match="too many"):
        x.at[0, 0, 0].set(1)
    with pytest.raises(errors.IndexingError, match="list"):
        x.at[[0]].set(1)
