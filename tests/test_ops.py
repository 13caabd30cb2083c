"""Segment reductions against loops, and pytrees as vectors."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import ops
from functrax.errors import ConcretizationError, DTypeError, ShapeError
from functrax.flatten_util import ravel_pytree

REDUCTIONS = {
    "sum": (ops.segment_sum, np.add, 0),
    "prod": (ops.segment_prod, np.multiply, 1),
    "max": (ops.segment_max, np.maximum, None),
    "min": (ops.segment_min, np.minimum, None),
}


def looped(name: str, data: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    _, combine, empty = REDUCTIONS[name]
    if empty is None:
        limits = np.iinfo(data.dtype) if data.dtype.kind in "iu" else None
        low, high = (limits.min, limits.max) if limits else (-np.inf, np.inf)
        empty = low if name == "max" else high
    out = np.full((size, *data.shape[1:]), empty, data.dtype)
    for row, i in zip(data, ids, strict=True):
        if 0 <= i < size:
            out[i] = combine(out[i], row)
    return out


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("jitted", [False, True])
def test_segments_equal_a_loop(name, dtype, jitted):
    rng = np.random.default_rng(3)
    data = rng.integers(1, 5, (9, 2)).astype(dtype)
    ids = rng.integers(-2, 6, 9)
    reduce = REDUCTIONS[name][0]
    run = functrax.jit(reduce, static_argnums=2) if jitted else reduce
    out = run(data, ids, 5)
    assert out.dtype == dtype
    assert np.array_equal(out, looped(name, data, ids, 5))


def test_the_number_of_segments_is_found():
    assert ops.segment_sum(jnp.ones(3), jnp.array([0, 3, 0])).tolist() == [2.0, 0.0, 0.0, 1.0]
    assert ops.segment_sum(jnp.ones(0), jnp.zeros(0, int)).shape == (0,)


def test_the_number_of_segments_is_found_while_tracing():
    ids = np.array([0, 2, 0])
    got = functrax.jit(lambda x: ops.segment_sum(x, ids))(np.float32([1, 2, 3]))
    np.testing.assert_array_equal(np.asarray(got), [4, 0, 2])


def test_booleans_have_limits():
    values, ids = jnp.array([True, False]), jnp.array([0, 0])
    assert ops.segment_max(values, ids, 2).tolist() == [True, False]
    assert ops.segment_min(values, ids, 2).tolist() == [False, True]


def test_segment_sum_has_a_derivative_and_batches():
    ids = jnp.array([0, 2, 0])

    def f(x):
        return jnp.sum(ops.segment_sum(x, ids, 3) ** 2)

    assert functrax.grad(f)(jnp.array([1.0, 2.0, 3.0])).tolist() == [8.0, 4.0, 8.0]
    rows = functrax.vmap(lambda x: ops.segment_sum(x, ids, 3))(jnp.ones((2, 3)))
    assert rows.tolist() == [[2.0, 0.0, 1.0]] * 2


def test_wrong_segments():
    with pytest.raises(DTypeError, match="segment_sum: the numbers"):
        ops.segment_sum(jnp.ones(2), jnp.ones(2), 2)
    with pytest.raises(ShapeError, match="segment_max: the elements"):
        ops.segment_max(jnp.ones(2), jnp.zeros(3, int), 2)


def test_removed_index_functions():
    x = jnp.array([1.0, 2.0, 3.0])
    assert ops.index_update(x, ops.index[1:], 0.0).tolist() == [1.0, 0.0, 0.0]
    assert ops.index_add(x, 0, 5).tolist() == [6.0, 2.0, 3.0]
    assert ops.index_mul(x, 1, 5).tolist() == [1.0, 10.0, 3.0]
    assert ops.index_min(x, ops.index[:], 2.0).tolist() == [1.0, 2.0, 2.0]
    assert ops.index_max(x, ops.index[:], 2.0).tolist() == [2.0, 2.0, 3.0]


def test_ravel_pytree_and_back():
    tree = {"i": jnp.array([1, 2]), "w": np.ones((2, 1), np.float32), "s": 2.5}
    flat, unravel = ravel_pytree(tree)
    assert flat.dtype == np.float32
    assert flat.tolist() == [1.0, 2.0, 2.5, 1.0, 1.0]
    back = unravel(flat)
    assert back["i"].dtype == np.int32 and back["i"].tolist() == [1, 2]
    assert back["w"].shape == (2, 1)
    assert unravel == ravel_pytree(tree)[1]
    assert hash(unravel) == hash(ravel_pytree(tree)[1])


def test_ravel_pytree_of_nothing():
    flat, unravel = ravel_pytree({"a": ()})
    assert flat.shape == (0,)
    assert unravel(flat) == {"a": ()}


def test_ravel_pytree_under_transformations():
    params = {"b": jnp.array(1.0), "w": jnp.array([2.0, 3.0])}
    flat, unravel = ravel_pytree(params)

    def loss(p):
        return p["b"] * jnp.sum(p["w"] ** 2)

    gradient = functrax.grad(lambda v: loss(unravel(v)))(flat)
    assert gradient.tolist() == [13.0, 4.0, 6.0]
    hessian = functrax.jit(functrax.hessian(lambda v: loss(unravel(v))))(flat)
    assert hessian[0].tolist() == [0.0, 4.0, 6.0]


def test_a_complex_vector_loses_its_imaginary_part_in_real_leaves():
    flat, unravel = ravel_pytree([jnp.ones(1), jnp.array([1j])])
    assert flat.dtype == np.complex64
    assert unravel(flat)[0].dtype == np.float32


def test_wrong_vectors():
    flat, unravel = ravel_pytree([jnp.ones(3)])
    with pytest.raises(ShapeError, match="unravel"):
        unravel(flat[1:])
    assert unravel(flat.astype(int))[0].dtype == "int32"  # leaves of one dtype take the vector's
    flat, unravel = ravel_pytree([jnp.ones(3), jnp.ones(2, int)])
    with pytest.raises(DTypeError, match="unravel"):
        unravel(flat.astype(int))


def test_traced_numbers_need_a_number_of_segments():
    with pytest.raises(ConcretizationError, match="how many segments there are"):
        functrax.jit(lambda i: functrax.ops.segment_sum(jnp.ones(3), i))(jnp.zeros(3, int))
