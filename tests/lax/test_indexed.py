"""Gathers and scatters against loops; the loops were compared with jax.lax 0.10.2."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from functrax import lax
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.options.contexts import enable_x64
from functrax.transforms.differentiation.derivatives import grad
from functrax.transforms.mapping.vmap import vmap
from tests.lax.oracles import check_derivatives

RNG = np.random.default_rng(0)
X = RNG.integers(0, 100, size=(5, 6, 4)).astype(np.int32)
# dimension numbers, shape of the indices, window
CASES: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    (_numbers, _shape, _window)
    for _numbers, _shape, _window in (
        ({"offset_dims": (1, 2), "collapsed": (0,), "starts": (0,)}, (7, 1), (1, 6, 4)),
        ({"offset_dims": (0, 2), "collapsed": (1,), "starts": (1, 0)}, (7, 2), (2, 1, 3)),
        ({"offset_dims": (2, 3, 4), "collapsed": (), "starts": (2, 0, 1)}, (2, 3, 3), (2, 3, 2)),
        (
            {"offset_dims": (1,), "collapsed": (1,), "starts": (1,), "batch": ((0,), (0,))},
            (5, 1),
            (1, 1, 3),
        ),
        (
            {"offset_dims": (2,), "collapsed": (1,), "starts": (1,), "batch": ((0,), (1,))},
            (3, 5, 1),
            (1, 1, 2),
        ),
    )
]


def gather_numbers(case: dict[str, Any]) -> lax.GatherDimensionNumbers:
    batch = case.get("batch", ((), ()))
    return lax.GatherDimensionNumbers(
        case["offset_dims"], case["collapsed"], case["starts"], *batch
    )


def scatter_numbers(case: dict[str, Any]) -> lax.ScatterDimensionNumbers:
    return lax.ScatterDimensionNumbers(*gather_numbers(case))


def elements(
    case: dict[str, Any], indices: np.ndarray, window: tuple[int, ...], mode: str
) -> dict[tuple[int, ...], tuple[int, ...] | None]:
    """For each point of the moved array its element, or None."""
    offset, collapsed = case["offset_dims"], case["collapsed"]
    operand_batch, indices_batch = case.get("batch", ((), ()))
    counts = indices.shape[:-1]
    absent = (*collapsed, *operand_batch)
    kept = [a for a in range(X.ndim) if a not in absent]
    rank = len(counts) + len(offset)
    batch_dims = [k for k in range(rank) if k not in offset]
    found = {}
    for count in itertools.product(*map(range, counts)):
        start = [0] * X.ndim
        for axis, index in zip(case["starts"], indices[count], strict=True):
            start[axis] = int(index)
        limits = [n - w for n, w in zip(X.shape, window, strict=True)]
        if mode == "clip":
            start = [min(max(s, 0), n) for s, n in zip(start, limits, strict=True)]
        inside = all(0 <= s <= n for s, n in zip(start, limits, strict=True))
        for axis, by in zip(operand_batch, indices_batch, strict=True):
            start[axis] = count[by]
        for through in itertools.product(*(range(window[a]) for a in kept)):
            point = [0] * rank
            for k, c in zip(batch_dims, count, strict=True):
                point[k] = c
            at = list(start)
            for k, axis, step in zip(offset, kept, through, strict=True):
                point[k] = step
                at[axis] += step
            found[tuple(point)] = tuple(at) if inside else None
    return found


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
def test_gather(number: int, mode: str) -> None:
    case, shape, window = CASES[number]
    low, high = (0, 2) if mode == "promise_in_bounds" else (-3, 8)
    indices = RNG.integers(low, high, size=shape).astype(np.int32)
    places = elements(case, indices, window, mode)
    out = lax.gather(X, indices, gather_numbers(case), window, mode=mode)
    assert out.size == len(places)
    for point, at in places.items():
        expected = np.iinfo(np.int32).min if at is None else X[at]
        assert np.asarray(out)[point] == expected


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize("op", ["set", "add", "sub", "mul", "min", "max", "apply"])
def test_scatter(number: int, mode: str, op: str) -> None:
    case, shape, window = CASES[number]
    indices = RNG.integers(-3, 8, size=shape).astype(np.int32)
    places = elements(case, indices, window, mode)
    moved = tuple(1 + max(p[k] for p in places) for k in range(len(next(iter(places)))))
    updates = RNG.integers(-3, 4, size=moved).astype(np.int32)
    expected = X.copy()
    combine = {
        "set": lambda a, b: b,
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "min": min,
        "max": max,
        "apply": lambda a, b: a,
    }[op]
    for point, at in sorted(places.items()):
        if at is not None:
            expected[at] = 2 * X[at] + 1 if op == "apply" else combine(expected[at], updates[point])
    if op == "apply":
        out = lax.scatter_apply(
            X,
            indices,
            lambda v: lax.add(lax.mul(v, 2), 1),
            scatter_numbers(case),
            update_shape=moved,
            mode=mode,
        )
    else:
        function = lax.scatter if op == "set" else getattr(lax, f"scatter_{op}")
        out = function(X, indices, updates, scatter_numbers(case), mode=mode)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float32", np.nan), ("int8", -128), ("uint8", 255), ("bool", True), ("complex64", np.nan)],
)
def test_default_fill(dtype: str, value: Any) -> None:
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    x, far = np.zeros(3, dtype), np.array([[7]], np.int32)
    out = lax.gather(x, far, numbers, (1,), mode="fill")
    np.testing.assert_array_equal(out, np.array([value], dtype))
    five = lax.gather(x, far, numbers, (1,), mode="fill", fill_value=1)
    np.testing.assert_array_equal(five, np.ones(1, dtype))


def test_modes_by_name_and_default() -> None:
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    x, far = np.arange(3), np.array([[7], [-1]], np.int32)
    for mode in (None, "clip", lax.GatherScatterMode.CLIP):
        np.testing.assert_array_equal(lax.gather(x, far, numbers, (1,), mode=mode), [2, 0])
    narrow = lax.gather(np.arange(300), np.array([[-1]], np.int8), numbers, (1,), mode="clip")
    np.testing.assert_array_equal(narrow, [0])


def test_derivatives() -> None:
    rng = np.random.default_rng(0)
    x, indices = rng.normal(size=(4, 3)), np.array([[2], [0], [2]], np.int32)
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    into = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    updates, once = rng.normal(size=(3, 3)), np.array([[2], [0], [9]], np.int32)
    with enable_x64():
        check_derivatives(lambda x: lax.gather(x, indices, rows, (1, 3)), x)
        for function in (lax.scatter, lax.scatter_add, lax.scatter_min, lax.scatter_max):
            check_derivatives(lambda x, u, f=function: f(x, indices, u, into), x, updates)
        check_derivatives(
            lambda x, u: lax.scatter_mul(x, once, u, into, unique_indices=True), x, updates
        )


def test_no_gradient_to_indices() -> None:
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))

    def total(x: Any, i: Any) -> Any:
        return lax.reduce_sum(lax.gather(x, i, rows, (1, 4)), (0, 1))

    gradient = grad(total, (0, 1), allow_int=True)(
        X[0].astype(np.float32), np.array([[2], [2]], np.int32)
    )
    np.testing.assert_array_equal(np.asarray(gradient[0])[:, 0], [0, 0, 2, 0, 0, 0])
    assert str(gradient[1].dtype).startswith("[('float0'")


def test_vmap() -> None:
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    indices = np.array([[[1], [0]], [[5], [3]]], np.int32)
    out = vmap(lambda x, i: lax.gather(x, i, rows, (1, 4)))(X[:2], indices)
    np.testing.assert_array_equal(out, [X[0][[1, 0]], X[1][[5, 3]]])


def test_errors() -> None:
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    into = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    x, i = X[0], np.array([[1]], np.int32)
    with pytest.raises(DTypeError, match="not integers"):
        lax.gather(x, i.astype(np.float32), rows, (1, 4))
    with pytest.raises(ArgumentError, match="unknown mode"):
        lax.gather(x, i, rows, (1, 4), mode="wrap")
    with pytest.raises(DTypeError, match="the same dtypes"):
        lax.scatter_add(x, i, np.zeros((1, 4), np.float32), into)


G = lax.GatherDimensionNumbers
S = lax.ScatterDimensionNumbers

#: Numbers, the indices' shape, sizes of the slices; the operand's shape is (4, 5, 6).
WRONG_GATHERS: list[tuple[Any, Any, Any, str]] = [
    (G((1, 2), (0,), (0,)), (), (1, 5, 6), "no last axis"),
    (G((2, 1), (0,), (0,)), (3, 1), (1, 5, 6), "offset_dims in gather op must be sorted"),
    (G((1, 1), (0,), (0,)), (3, 1), (1, 5, 6), "offset_dims in gather op must not repeat"),
    (G((1, 3), (0,), (0,)), (3, 1), (1, 5, 6), "Offset dimension 1 in gather op is out of bounds"),
    (G((1, 2), (0,), (0,)), (3, 2), (1, 5, 6), "Gather op has 1 elements in start_index_map"),
    (G((1, 2), (0,), (3,)), (3, 1), (1, 5, 6), "Invalid start_index_map"),
    (G((1,), (0, 1), (1, 1)), (3, 2), (1, 1, 6), "start_index_map in gather op must not repeat"),
    (G((1,), (1, 0), (0,)), (3, 1), (1, 1, 6), "collapsed_slice_dims in gather op must be sorted"),
    (G((1, 2), (3,), (0,)), (3, 1), (1, 5, 6), "Invalid collapsed_slice_dims set in gather op"),
    (G((1,), (0,), (1,), (0,), (0,)), (4, 1), (1, 1, 6), "op must be disjoint"),
    (G((1, 2), (), (0,), (0,), (0,)), (4, 1), (1, 5, 6), "start_index_map and operand_batching"),
    (G((1, 2), (), (1,), (0,), (1,)), (4, 1), (1, 1, 6), "cannot have the index vector"),
    (G((1, 2), (), (1,), (0,), (0,)), (3, 1), (1, 1, 6), "to have the same shape"),
    (G((1, 2), (), (1,), (0,), ()), (4, 1), (1, 1, 6), "equal numbers of operand_batching_dims"),
    (G((1, 2), (0,), (0,)), (3, 1), (1, 5), "one slice size for every input dimension"),
    (G((1,), (0,), (0,)), (3, 1), (1, 5, 6), "All components of the offset index"),
    (G((1, 2), (0,), (0,)), (3, 1), (1, 5, 7), "Slice size at index 2 in gather op is out of"),
    (G((1, 2), (0,), (0,)), (3, 1), (2, 5, 6), "only collapse slice dims with bound 1"),
    (G((1, 2), (), (1,), (0,), (0,)), (4, 1), (2, 1, 6), "operand batching dims with bound 0/1"),
]

#: Numbers, the shapes of indices and updates.
WRONG_SCATTERS: list[tuple[Any, Any, Any, str]] = [
    (S((1, 2), (0,), (0,)), (3, 1), (3, 5), "Updates tensor must be of rank 3; got 2"),
    (S((2, 1), (0,), (0,)), (3, 1), (3, 5, 6), "update_window_dims in scatter op must be sorted"),
    (S((1, 2), (3,), (0,)), (3, 1), (3, 5, 6), "Invalid inserted_window_dims set in scatter op"),
    (S((1, 2), (0,), (0,)), (3, 2), (3, 5, 6), "Scatter op has 1 elements in scatter_dims_to_op"),
    (S((1, 2), (0,), (3,)), (3, 1), (3, 5, 6), "Invalid scatter_dims_to_operand_dims mapping"),
    (S((1, 2), (), (0,)), (3, 1), (3, 5, 6), "Scatter op has window of size 2; doesn't match"),
    (S((1, 2), (0,), (0,)), (3, 1), (3, 5, 7), "Bounds of the window dimensions of updates"),
    (S((1, 2), (0,), (0,)), (3, 1), (2, 5, 6), "Bounds of the scatter dimensions of updates"),
]


@pytest.mark.parametrize("case", range(len(WRONG_GATHERS)))
def test_numbers_that_are_no_gathers(case: int) -> None:
    numbers, indices, sizes, said = WRONG_GATHERS[case]
    for _ in range(2):  # what was found wrong once is wrong again
        with pytest.raises(ShapeError, match=said):
            lax.gather(np.ones((4, 5, 6)), np.zeros(indices, np.int32), numbers, sizes)


@pytest.mark.parametrize("case", range(len(WRONG_SCATTERS)))
def test_numbers_that_are_no_scatters(case: int) -> None:
    numbers, indices, updates, said = WRONG_SCATTERS[case]
    with pytest.raises(ShapeError, match=said):
        lax.scatter(np.ones((4, 5, 6)), np.zeros(indices, np.int32), np.ones(updates), numbers)
