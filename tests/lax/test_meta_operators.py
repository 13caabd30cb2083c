"""``lax.reindex`` and ``lax.reindex_reduce`` against loops over points."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from functrax import lax
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.index.map import IndexMap
from functrax.core.options.contexts import enable_x64
from functrax.transforms.differentiation.derivatives import grad, vjp
from functrax.transforms.mapping.vmap import vmap
from tests.core.index_oracle import gather_oracle, random_map, scatter_oracle
from tests.lax.oracles import check_derivatives, conv_oracle

OPS = ("add", "mul", "max", "min")


def written(index_map: IndexMap) -> dict[str, Any]:
    """A map as arguments of ``lax.reindex``."""
    return {"indices": index_map.exprs, "conditions": index_map.conditions}


def case(seed: int) -> tuple[IndexMap, list[np.ndarray]]:
    """A random map, and the index array that it reads if its seed is odd."""
    rng = np.random.default_rng(seed)
    loads = [rng.integers(-1, 4, size=(5,)).astype(np.int32)] if seed % 2 else []
    return random_map(seed, len(loads)), loads


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_random_maps(start: int) -> None:
    rng = np.random.default_rng(start)
    for index_map, loads in map(case, range(start, start + 20)):
        given = {**written(index_map), "extras": loads}
        domain, codomain = index_map.domain, index_map.codomain
        x = rng.integers(-9, 10, size=codomain).astype(np.float32)
        t = rng.integers(-2, 3, size=domain).astype(np.float32)
        forward = functools.partial(lax.reindex, shape=domain, **given)
        back = functools.partial(lax.reindex_reduce, op="add", shape=codomain, **given)
        filled = gather_oracle(index_map, x, 7, loads)
        np.testing.assert_array_equal(forward(x, fill_value=7), filled)
        np.testing.assert_array_equal(back(t), scatter_oracle(index_map, t, "add", 0, loads))
        np.testing.assert_array_equal(vjp(forward, x)[1](t)[0], back(t))
        np.testing.assert_array_equal(vjp(back, t)[1](x)[0], gather_oracle(index_map, x, 0, loads))


@pytest.mark.parametrize("op", OPS)
def test_random_reductions(op: str) -> None:
    rng = np.random.default_rng(3)
    identity = {"add": 0, "mul": 1, "max": np.iinfo(np.int32).min, "min": np.iinfo(np.int32).max}
    for index_map, loads in map(case, range(40)):
        x = rng.integers(-2, 3, size=index_map.domain).astype(np.int32)
        out = lax.reindex_reduce(x, op, index_map.codomain, **written(index_map), extras=loads)
        expected = scatter_oracle(index_map, x, op, identity[op], loads)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("size", [2, 3])
def test_pooling(op: str, size: int) -> None:
    x = np.random.default_rng(0).permutation(2 * 6 * 6).reshape(2, 6, 6) / 30.0 + 0.1

    def pool(x: Any) -> Any:
        shape = (2, 6 // size, 6 // size)
        return lax.reindex_reduce(x, op, shape, ("i0", f"i1/{size}", f"i2/{size}"))

    blocks = x.reshape(2, 6 // size, size, 6 // size, size)
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    with enable_x64():
        np.testing.assert_allclose(pool(x), ufunc.reduce(blocks, axis=(2, 4)), rtol=1e-12)
        check_derivatives(pool, x)


def test_product_with_zeros() -> None:
    x = np.array([0.0, 2.0, 3.0, 0.0, 0.0, 5.0])
    gradient = grad(lambda x: lax.reduce_sum(lax.reindex_reduce(x, "mul", (2,), ("i0/3",)), (0,)))
    np.testing.assert_array_equal(gradient(x), [6, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("conditions", ["overflow", "holding", "function"])
def test_transposed_convolution(conditions: str) -> None:
    rng = np.random.default_rng(0)
    x, p = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 3, 2))
    arguments: dict[str, dict[str, Any]] = {
        "overflow": {
            "indices": ("i0", "i4", "(i2-i5)/2", "(i3-i6)/2"),
            "overflow_conditions": ("(i2-i5)%2", "(i3-i6)%2"),
        },
        "holding": {
            "indices": ["i0", "i4", "(i2-i5)//2", "(i3-i6)//2"],
            "conditions": ["(i2-i5)%2 == 0 && (i3-i6)%2 == 0"],
        },
        "function": {
            "indices": lambda n, o, a, b, i, h, w: (n, i, (a - h) // 2, (b - w) // 2),
            "conditions": lambda n, o, a, b, i, h, w: (
                ((a - h) % 2).eq(0),
                ((b - w) % 2).eq(0),
            ),
        },
    }

    def conv(x: Any, p: Any) -> Any:
        shape = (2, 2, 9, 10, 3, 3, 2)
        xx = lax.reindex(x, shape, **arguments[conditions])
        return lax.reduce_sum(lax.mul(xx, lax.broadcast(p, shape, dims=(0, 2, 3))), (4, 5, 6))

    flipped = p[:, :, ::-1, ::-1]
    expected = conv_oracle(x, flipped, (1, 1), [(2, 2), (1, 1)], (2, 2), (1, 1))
    assert expected.shape == (2, 2, 9, 10)
    with enable_x64():
        np.testing.assert_allclose(conv(x, p), expected, rtol=1e-12, atol=1e-12)
        check_derivatives(conv, x, p)


def test_division_rounds_down() -> None:
    x = np.arange(1, 4, dtype=np.int32)
    # floor: (-1)/2 is -1, out of bounds; truncation would make it 0, element 1
    np.testing.assert_array_equal(lax.reindex(x, (4,), ("(i0-1)/2",)), [0, 1, 1, 2])
    np.testing.assert_array_equal(
        lax.reindex(x, (4,), lambda i: ((i - 1) // 2,)), lax.reindex(x, (4,), ("(i0-1)/2",))
    )


def test_extras() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 5)).astype(np.float32)
    index = rng.integers(0, 5, size=(4, 3)).astype(np.int32)
    expected = np.take_along_axis(x, index, 1)
    text = lax.reindex(x, (4, 3), ("i0", "@e0(i0, i1)"), extras=(index,))
    function = lax.reindex(x, (4, 3), lambda i, j, e: (i, e(i, j)), extras=(index,))
    np.testing.assert_array_equal(text, expected)
    np.testing.assert_array_equal(function, expected)
    gradient = grad(
        lambda x, i: lax.reduce_sum(
            lax.reindex(x, (4, 3), ("i0", "@e0(i0, i1)"), extras=(i,)), (0, 1)
        )
    )(x, index)
    counts = np.zeros((4, 5))
    np.add.at(counts, (np.arange(4)[:, None], index), 1)
    np.testing.assert_array_equal(gradient, counts)
    batched = vmap(lambda x, i: lax.reindex(x, (3,), ("@e0(i0)",), extras=(i,)))(x, index)
    np.testing.assert_array_equal(batched, expected)


def test_segment_sum() -> None:
    values = np.float32([1, 2, 3, 4])
    segments = np.int32([2, 0, 2, 9])
    out = lax.reindex_reduce(values, "add", (3,), ("@e0(i0)",), extras=(segments,))
    np.testing.assert_array_equal(out, [2, 0, 4])


def test_names_of_shapes() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    flipped = lax.reindex(x, (3, 2), ("xshape0 - 1 - i1", "yshape0 - 1 - i0"))
    np.testing.assert_array_equal(flipped, x[::-1, ::-1].T)


@pytest.mark.parametrize(
    ("alias", "op"), [("sum", "add"), ("multiply", "mul"), ("maximum", "max"), ("minimum", "min")]
)
def test_names_of_operations(alias: str, op: str) -> None:
    x = np.arange(5, dtype=np.int32)
    a, b = (lax.reindex_reduce(x, name, (3,), ("i0/2",)) for name in (alias, op))
    np.testing.assert_array_equal(a, b)


def test_logical_operations() -> None:
    x = np.array([True, False, True, True])
    both = lax.reindex_reduce(x, "logical_and", (2,), ("i0/2",))
    np.testing.assert_array_equal(both, [False, True])


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lax.reindex(np.ones(3), (2,), ("i0 + q",)), ArgumentError, "i0 [+] q"),
    (lambda: lax.reindex(np.ones(3), (2,), ("i0", "i0")), ArgumentError, "one index for each"),
    (lambda: lax.reindex(np.ones(3), (2,), ("i1",)), ArgumentError, "i1"),
    (lambda: lax.reindex(np.ones(3), (2,), ("i0*i0",)), ArgumentError, "constant"),
    (
        lambda: lax.reindex(np.ones(3), (2,), ("@e0(i0)",), extras=[np.ones(2)]),
        DTypeError,
        "integer",
    ),
    (
        lambda: lax.reindex(np.ones(3), (2,), lambda i, e: (e(),), extras=[np.arange(2)]),
        ShapeError,
        "number of indices",
    ),
    (lambda: lax.reindex_reduce(np.ones(3), "mean", (2,), ("i0",)), ArgumentError, "mean"),
    (lambda: lax.reindex_reduce(np.ones(3), "xor", (2,), ("i0",)), DTypeError, "xor"),
    (lambda: lax.reindex(np.ones(3), (2,), ("i0",), conditions=[3]), ArgumentError, "condition"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors(number: int) -> None:
    function, error, text = BAD[number]
    with pytest.raises(error, match=text) as caught:
        function()
    assert "\n  got " in str(caught.value) and "\n  at " in str(caught.value)
