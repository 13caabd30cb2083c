"""Index maps against plain Python loops: gather, scatter, composition, inversion, batching."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError
from functrax.core.index.expr import Condition, Dim, Load
from functrax.core.index.map import IndexMap
from tests.core.index_oracle import (
    gather_oracle,
    image,
    points_of,
    random_map,
    random_structured_map,
    scatter_oracle,
)

IDENTITIES = {"add": 0, "mul": 1, "max": -99, "min": 99, "and": -1, "or": 0, "xor": 0, "set": -7}


def random_array(seed: int, shape: tuple[int, ...], low: int = -9, high: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape)


def random_loads(seed: int) -> list[np.ndarray]:
    return [random_array(seed + k, (n,), -2, 7) for k, n in enumerate((5, 3))]


@pytest.mark.parametrize("seed", range(200))
def test_gather_equals_a_loop(seed: int) -> None:
    form = random_map(seed, num_loads=2 if seed % 3 == 0 else 0)
    loads = random_loads(seed)
    array = random_array(seed, form.codomain)
    expected = gather_oracle(form, array, -77, loads)
    np.testing.assert_array_equal(form.gather(array, loads, fill=-77), expected, strict=True)


@pytest.mark.parametrize("seed", range(200))
def test_scatter_equals_a_loop(seed: int) -> None:
    form = random_map(seed, num_loads=2 if seed % 3 == 0 else 0)
    loads = random_loads(seed)
    values = random_array(seed, form.domain)
    for op, identity in IDENTITIES.items():
        found = form.scatter(values, form.codomain, op, identity, loads)
        expected = scatter_oracle(form, values, op, identity, loads)
        np.testing.assert_array_equal(found, expected, strict=True, err_msg=f"{op} {form}")


@pytest.mark.parametrize("seed", range(150))
def test_specialisations_equal_a_loop(seed: int) -> None:
    form = random_structured_map(seed)
    array = random_array(seed, form.codomain)
    expected = gather_oracle(form, array, -77)
    np.testing.assert_array_equal(form.gather(array, fill=-77), expected, strict=True)
    values = random_array(seed + 1, form.domain)
    for op, identity in IDENTITIES.items():
        found = form.scatter(values, form.codomain, op, identity)
        expected = scatter_oracle(form, values, op, identity)
        np.testing.assert_array_equal(found, expected, strict=True, err_msg=f"{op} {form}")


@pytest.mark.parametrize("seed", range(100))
def test_composition_equals_two_gathers(seed: int) -> None:
    inner = random_map(seed, num_loads=1)
    outer = random_map(seed + 5000, num_loads=1)
    outer = IndexMap(
        outer.domain,
        inner.domain,
        tuple(
            (outer.exprs or (Dim(0) * 0 + 1,))[k % max(len(outer.exprs), 1)]
            for k in range(len(inner.domain))
        )
        if outer.domain
        else (1,) * len(inner.domain),
        outer.conditions,
    )
    first, second = random_array(seed, (5,), -2, 7), random_array(seed + 1, (4,), -2, 7)
    array = random_array(seed + 2, inner.codomain)
    middle = gather_oracle(inner, array, -77, [second])
    expected = gather_oracle(outer, middle, -77, [first])
    composed = outer.compose(inner)
    loads = [first, second] if outer.num_loads else [second]
    np.testing.assert_array_equal(composed.gather(array, loads, fill=-77), expected)


def test_division_rounds_down_for_negative_numerators() -> None:
    form = IndexMap.from_function((1, 5), (4,), lambda i, j: ((i - j) // 2 + 2,))
    assert form.gather(np.arange(4)).tolist() == [[2, 1, 1, 0, 0]]  # truncation: 2 2 1 1 0
    rest = IndexMap.from_function((5,), (3,), lambda j: (-j % 3,))
    assert rest.gather(np.arange(3)).tolist() == [0, 2, 1, 0, 2]


def test_transposed_convolution_conditions() -> None:
    """Jittor's conv-transpose: rows (i1 - i3)/2 where (i1 - i3)%2 is 0."""
    form = IndexMap.from_function((7, 3), (3,), lambda i, k: ((i - k) // 2, ((i - k) % 2).eq(0)))
    x = np.array([1.0, 10.0, 100.0])
    expected = np.zeros((7, 3))
    for i in range(7):
        for k in range(3):
            if (i - k) % 2 == 0 and 0 <= (i - k) // 2 < 3:
                expected[i, k] = x[(i - k) // 2]
    np.testing.assert_array_equal(form.gather(x), expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float64", "complex64"])
def test_dtypes(dtype: str) -> None:
    array = np.array([0, 1, 1, 0, 1]).astype(dtype)
    form = IndexMap.from_function((4, 3), (5,), lambda i, j: (i + j, (i - j).ne(0)))
    gathered = form.gather(array, fill=np.ones((), dtype))
    assert gathered.dtype == array.dtype
    np.testing.assert_array_equal(gathered, gather_oracle(form, array, np.ones((), dtype)))
    scattered = form.scatter(gathered, (5,), "add", 0)
    assert scattered.dtype == array.dtype
    np.testing.assert_array_equal(scattered, scatter_oracle(form, gathered, "add", 0))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("dims", ["sum", "bins"])
def test_short_floats_are_accumulated_in_float32(dtype: type, dims: str) -> None:
    values = np.full(4096, 1.0, dtype)
    unused = IndexMap.reduction((4096,), (0,))
    bins = IndexMap.from_function((4096,), (1,), lambda i: (i // 4096 + i * 0,))
    form = unused if dims == "sum" else bins
    assert float(form.scatter(values, form.codomain, "add", 0).sum()) == 4096.0
    window = IndexMap.from_function((2048, 2), (2049,), lambda i, j: (i + j,))
    sums = window.scatter(np.full((2048, 2), 1.5, dtype), (2049,), "add", 0)
    assert sums.dtype == np.dtype(dtype)
    assert sums[:2].astype(float).tolist() == [1.5, 3.0]


def test_bfloat16_maximum_keeps_nan() -> None:
    form = IndexMap.from_function((6,), (2,), lambda i: (i % 2,))
    values = np.array([1, 2, np.nan, 5, 3, 4], ml_dtypes.bfloat16)
    found = form.scatter(values, (2,), "max", -np.inf)
    assert np.isnan(found[0].astype(float)) and float(found[1]) == 5.0


def test_scatter_from_an_array_adds_to_it() -> None:
    form = IndexMap((3,), (4,), (Load(0, [Dim(0)]),))
    found = form.scatter([1, 2, 3], (4,), "add", [10, 20, 30, 40], [np.array([1, 1, -1])])
    assert found.tolist() == [10, 23, 30, 40]


def test_set_keeps_the_last_value_in_row_major_order() -> None:
    form = IndexMap.from_function((50, 40), (7,), lambda i, j: ((i + 3 * j) % 7,))
    values = np.arange(2000).reshape(50, 40)
    np.testing.assert_array_equal(
        form.scatter(values, (7,), "set", 0), scatter_oracle(form, values, "set", 0)
    )


def test_affine_gather_is_a_read_only_view() -> None:
    array = np.arange(12.0).reshape(3, 4)
    turned = IndexMap.reverse((3, 4), (1,)).gather(array)
    repeated = IndexMap.broadcast((3, 4), (2, 3, 4), (1, 2)).gather(array)
    for view in (turned, repeated):
        assert np.shares_memory(view, array)
        assert not view.flags.writeable
    np.testing.assert_array_equal(turned, array[:, ::-1])


def test_large_domain_with_a_small_array_costs_little() -> None:
    form = IndexMap.broadcast((1, 3), (10**6, 10**6, 3), (1, 2))
    assert form.gather(np.zeros((1, 3))).shape == (10**6, 10**6, 3)
    indices, valid = IndexMap.from_function(
        (10**4, 10**4), (10**4, 10**4), lambda i, j: (i // 2, j % 7)
    ).evaluate()
    assert valid is True
    assert [index.shape for index in indices] == [(10**4, 1), (1, 10**4)]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,)])
def test_empty_and_scalar(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    for form in (
        IndexMap.identity(shape),
        IndexMap.broadcast(shape, (3, *shape), [k + 1 for k in range(len(shape))]),
    ):
        assert form.gather(array).shape == form.domain
        assert form.scatter(np.ones(form.domain), shape, "add", 0).shape == shape
    outside = IndexMap((2,), (0,), (Dim(0),))
    assert outside.gather(np.zeros((0,)), fill=5).tolist() == [5, 5]
    assert IndexMap((), (), ()).scatter(np.array(3.0), (), "max", -np.inf) == 3.0
    assert IndexMap((0,), (), ()).scatter(np.zeros(0), (), "max", -np.inf) == -np.inf
    never = IndexMap((2,), (2,), (Dim(0),), (Condition(1, "==0"),))
    assert never.gather([1, 2], fill=9).tolist() == [9, 9]


def test_constructors_equal_numpy() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    cases = [
        (IndexMap.transpose((2, 3, 4), (2, 0, 1)), x.transpose(2, 0, 1)),
        (IndexMap.reshape((2, 3, 4), (4, 6)), x.reshape(4, 6)),
        (IndexMap.reverse((2, 3, 4), (0, 2)), x[::-1, :, ::-1]),
        (IndexMap.slice_((2, 3, 4), (0, 2, 3), (2, -1, 0), (1, -1, -2)), x[:, ::-1, 3:0:-2]),
        (IndexMap.broadcast((2, 3, 4), (2, 5, 3, 4), (0, 2, 3)), np.stack([x] * 5, 1)),
        (
            IndexMap.pad((2, 3, 4), (1, 0, -1), (0, 2, -1)),
            np.pad(x, ((1, 0), (0, 2), (0, 0)))[:, :, 1:-1],
        ),
    ]
    for form, expected in cases:
        np.testing.assert_array_equal(form.gather(x), expected)


@pytest.mark.parametrize(
    ("low", "high", "interior", "expected"),
    [  # values from jax.lax.pad([1, 2, 3], 0, [(low, high, interior)])
        (1, 2, 0, [0, 1, 2, 3, 0, 0]),
        (0, 0, 2, [1, 0, 0, 2, 0, 0, 3]),
        (-1, 0, 1, [0, 2, 0, 3]),
        (-2, -1, 1, [2, 0]),
        (2, -2, 1, [0, 0, 1, 0, 2]),
    ],
)
def test_pad_is_xlas(low: int, high: int, interior: int, expected: list[int]) -> None:
    form = IndexMap.pad((3,), (low,), (high,), (interior,))
    assert form.gather([1, 2, 3]).tolist() == expected


@pytest.mark.parametrize("seed", range(60))
def test_batched(seed: int) -> None:
    form = random_map(seed, num_loads=2)
    size = 3
    arrays = random_array(seed, (size, *form.codomain))
    stacked = random_array(seed, (size, 5), -2, 7)
    shared = random_array(seed + 1, (3,), -2, 7)
    for operand in (True, False):
        batch = form.batched(size, (True, False), operand)
        found = batch.gather(arrays if operand else arrays[0], [stacked, shared], fill=-77)
        for b in range(size):
            expected = gather_oracle(form, arrays[b if operand else 0], -77, [stacked[b], shared])
            np.testing.assert_array_equal(found[b], expected)


@pytest.mark.parametrize("seed", range(100))
def test_domain_changes(seed: int) -> None:
    form = random_map(seed)
    array = random_array(seed, form.codomain)
    full = form.gather(array, fill=-77)
    perm = np.random.default_rng(seed).permutation(len(form.domain)).tolist()
    np.testing.assert_array_equal(
        form.permute_domain(perm).gather(array, fill=-77), full.transpose(perm)
    )
    smaller, kept = form.drop_unused_dims()
    index = tuple(slice(None) if k in kept else 0 for k in range(len(form.domain)))
    np.testing.assert_array_equal(smaller.gather(array, fill=-77), full[index])


def test_images_of_points_stay_inside() -> None:
    form = random_map(11)
    for point in points_of(form.domain):
        where = image(form, point)
        assert where is None or all(0 <= i < n for i, n in zip(where, form.codomain, strict=True))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: IndexMap((2,), (2, 2), (Dim(0),)), ArgumentError, "one expression per codomain"),
        (lambda: IndexMap((2,), (2,), (Dim(1),)), ArgumentError, "d1 is not one of the domain's"),
        (lambda: IndexMap((2,), (-2,), (Dim(0),)), ShapeError, "negative size"),
        (lambda: IndexMap((2.5,), (2,), (Dim(0),)), ShapeError, "not a shape"),
        (lambda: IndexMap((2,), (2,), (Dim(0),), (Dim(0) == 1,)), ArgumentError, ".eq()"),
        (lambda: IndexMap.transpose((2, 3), (0, 0)), AxisError, "named twice"),
        (lambda: IndexMap.transpose((2, 3), (0,)), AxisError, "not a permutation"),
        (lambda: IndexMap.reshape((2, 3), (5,)), ShapeError, "number of elements changes"),
        (lambda: IndexMap.broadcast((2,), (3,), (0,)), ShapeError, "does not fit"),
        (lambda: IndexMap.slice_((4,), (0,), (5,)), ArgumentError, "leaves the array"),
        (lambda: IndexMap.slice_((4,), (0,), (4,), (0,)), ArgumentError, "a stride is 0"),
        (lambda: IndexMap.pad((2,), (-3,), (0,)), ArgumentError, "is negative"),
        (lambda: IndexMap.pad((2,), (1, 1), (0,)), ArgumentError, "one number per dimension"),
        (lambda: IndexMap.identity((2,)).compose(IndexMap.identity((3,))), ShapeError, "meet"),
        (lambda: IndexMap.identity((2,)).gather(np.zeros(3)), ShapeError, "shape (3,)"),
        (lambda: IndexMap.identity((2,)).scatter(np.zeros(2), (3,), "add", 0), ShapeError, "(3,)"),
        (
            lambda: IndexMap.identity((2,)).scatter(np.zeros(2), (2,), "sum", 0),
            ArgumentError,
            "unknown operation",
        ),
        (lambda: IndexMap.identity((2,)).scatter(np.zeros(2), (2,), "xor", 0), DTypeError, "xor"),
        (
            lambda: IndexMap((2,), (2,), (Load(0, [Dim(0)]),)).gather(np.zeros(2)),
            ArgumentError,
            "e0 is missing",
        ),
        (
            lambda: IndexMap((2,), (2,), (Load(0, [Dim(0)]),)).gather(np.zeros(2), [[[1, 2]]]),
            ShapeError,
            "read with 1 indices",
        ),
        (
            lambda: IndexMap((2,), (2,), (Load(0, [Dim(0)]),)).gather(np.zeros(2), [[0.5, 1.0]]),
            DTypeError,
            "not an array of integers",
        ),
    ],
)
def test_errors(make: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        make()  # type: ignore[operator]
    assert words in str(caught.value)


def test_composed_loads_are_numbered_as_asked() -> None:
    take = IndexMap((3,), (4,), (Load(0, [Dim(0)]),))
    again = IndexMap((4,), (5,), (Load(0, [Dim(0)]),))
    assert take.compose(again).exprs == (Load(1, [Load(0, [Dim(0)])]),)
    assert take.compose(again, load_offset=3).exprs == (Load(3, [Load(0, [Dim(0)])]),)
    loads = [[2, 9, 0], [4, 3, 1, 0]]  # the 9 is outside the second index array
    assert take.compose(again).gather(np.arange(5), loads, fill=-1).tolist() == [1, -1, 4]
