"""What reductions do with elements, put together in several orders, against their references.

A reduction is run here as a kernel would: over rows of elements, one element of each row after the
other, and as a tree.  Sums and products of floats depend on the order, and are compared nearly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax.backends.reference.reference_device
import functrax.core.prims  # noqa: F401  (fills the registry)
from functrax.backends.kernels.evaluate import evaluate
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.options.contexts import enable_x64
from functrax.core.prims.lowered_reductions import Reduction
from functrax.core.prims.reduce import AxisReduce, ReindexReduce
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import registry
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from tests.primitives.harness import Case, cases


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


Carried = list[Any]


class Runner:
    """The three expressions of a reduction, over arrays."""

    def __init__(self, reduction: Reduction, dtype: np.dtype[Any]) -> None:
        self.reduction = reduction
        b = Builder()
        kinds = reduction.carries
        left = tuple(b.node("load", d, (), k) for k, d in enumerate(kinds))
        right = tuple(b.node("load", d, (), k + len(kinds)) for k, d in enumerate(kinds))
        x, place = b.node("load", dtype, (), 0), b.node("load", reduction.place, (), 1)
        self._start = reduction.start(b, x, place)
        self._combine = reduction.combine(b, left, right)
        self._finish = (reduction.finish(b, left),)
        assert [s.dtype for s in self._start] == list(kinds)
        assert [s.dtype for s in self._combine] == list(kinds)

    def _run(self, outputs: tuple[Scalar, ...], *arrays: Any) -> Carried:
        return evaluate(outputs, lambda node: arrays[node.attr])

    def start(self, x: Any, place: int) -> Carried:
        places = np.full(x.shape, place, self.reduction.place)
        return self._run(self._start, x, places)

    def combine(self, left: Carried, right: Carried) -> Carried:
        return self._run(self._combine, *left, *right)

    def finish(self, carried: Carried) -> Any:
        return self._run(self._finish, *carried)[0]

    def identity(self, shape: tuple[int, ...]) -> Carried:
        assert self.reduction.identity is not None
        pairs = zip(self.reduction.identity, self.reduction.carries, strict=True)
        return [np.full(shape, number, dtype) for number, dtype in pairs]

    def in_order(self, rows: Any) -> Any:
        """The reduction of the first axis, from the identity."""
        carried = self.identity(rows.shape[1:])
        for place, x in enumerate(rows):
            carried = self.combine(carried, self.start(x, place))
        return self.finish(carried)

    def as_tree(self, rows: Any, turned: bool) -> Any:
        """The same in another order; ``turned``: the right half is given as the left one."""
        parts = [self.start(x, place) for place, x in enumerate(rows)]
        parts.append(self.identity(rows.shape[1:]))
        while len(parts) > 1:
            half = len(parts) // 2
            rest = parts[2 * half :]
            pairs = zip(parts[:half], parts[half : 2 * half], strict=True)
            parts = [self.combine(y, x) if turned else self.combine(x, y) for x, y in pairs] + rest
        return self.finish(parts[0])


def rows_of(x: Any, axes: tuple[int, ...]) -> Any:
    """The reduced axes as one axis in front."""
    kept = [i for i in range(x.ndim) if i not in axes]
    moved = np.transpose(x, (*axes, *kept))
    count = int(np.prod([x.shape[a] for a in axes], dtype=int))
    return moved.reshape((count, *(x.shape[i] for i in kept)))


def assert_reduced(got: Any, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    assert got.dtype == wanted.dtype
    if not dtypes.is_float(wanted.dtype):
        np.testing.assert_array_equal(got, wanted)
        return
    # Accumulated in a wider dtype, or in float64: an ulp at most, but for what cancels.
    eps = float(dtypes.finfo(wanted.dtype).eps)
    wide = np.asarray(wanted, np.float64)
    np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=4 * eps, atol=4 * eps)


def check(primitive: Any, x: Any, params: dict[str, Any]) -> None:
    runner = Runner(primitive.reduction(ShapedArray(x.shape, x.dtype), **params), x.dtype)
    axes = params["axes"] if "axes" in params else (params["axis"],)
    rows = rows_of(x, axes)
    with np.errstate(all="ignore"):
        wanted = primitive.reference(x, **params)
    assert_reduced(runner.in_order(rows), wanted)
    for turned in (False, True):
        assert_reduced(runner.as_tree(rows, turned), wanted)


REDUCTIONS = [c for c in cases() if isinstance(c.primitive, ReindexReduce)]
ALONG_AXES = [c for c in REDUCTIONS if "map" not in c.sample.params]
BY_MAPS = [c for c in REDUCTIONS if "map" in c.sample.params]


@pytest.mark.parametrize("case", ALONG_AXES, ids=repr)
def test_samples(case: Case) -> None:
    for dtype in case.tested_dtypes:
        if dtype in dtypes.SCALAR:
            (x,) = case.operands(dtype)
            check(case.primitive, x.value, case.params(dtype))


@pytest.mark.parametrize("name", ["reduce_max", "reduce_min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", sorted(dtypes.FLOATING - dtypes.STORED, key=str), ids=str)
def test_extrema_with_nans_infinities_and_ties(name: str, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(5)
    some = np.array([np.nan, np.inf, -np.inf, 1.0, -2.0, 1.0, 0.5])
    x = rng.choice(some, (5, 200)).astype(dtype)
    no_nan = np.where(np.isnan(x), np.asarray(-np.inf, dtype), x)
    params: dict[str, Any] = {"axes": (0,)}
    if name.startswith("arg"):
        params = {"axis": 0, "index_dtype": dtypes.int32}
    for rows in (x, no_nan):
        check(registry[name], rows, params)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equal_elements_wins(name: str) -> None:
    zeros = np.array([[0.0, -0.0], [-0.0, 0.0], [0.0, 0.0]])
    check(registry[name], zeros, {"axis": 0, "index_dtype": dtypes.int32})
    for worst in (-np.inf, np.inf):
        check(registry[name], np.full((3, 2), worst), {"axis": 0, "index_dtype": dtypes.int32})
    booleans = np.array([[True, False], [True, False], [False, True]])
    check(registry[name], booleans, {"axis": 0, "index_dtype": dtypes.int32})


def test_places_that_the_index_dtype_cannot_hold_wrap_around_once() -> None:
    x = np.arange(300, dtype=np.int32)[:, None]
    check(registry["argmax"], x, {"axis": 0, "index_dtype": dtypes.int8})


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod"])
@pytest.mark.parametrize("dtype", sorted(dtypes.FLOATING - dtypes.STORED, key=str), ids=str)
def test_narrow_floats_are_accumulated_in_wider_ones(name: str, dtype: np.dtype[Any]) -> None:
    reduction = registry[name].reduction(ShapedArray((400, 3), dtype), axes=(0,))
    wanted = dtypes.float32 if dtype in dtypes.HALF else dtypes.float64
    assert reduction.carries == (wanted,)
    rng = np.random.default_rng(6)
    x = rng.uniform(0.9, 1.1, (400, 3)).astype(dtype)
    got = Runner(reduction, dtype).in_order(x)
    assert_reduced(got, registry[name].reference(x, axes=(0,)))


@pytest.mark.parametrize("case", BY_MAPS, ids=repr)
def test_reductions_by_maps(case: Case) -> None:
    for dtype in (d for d in case.tested_dtypes if d in dtypes.SCALAR):
        params = case.params(dtype)
        operands = [x.value for x in case.operands(dtype)]
        number_of_arrays = 2 if case.primitive.name == "scatter" else 1
        updates, indices = operands[number_of_arrays - 1], operands[number_of_arrays:]
        aval = ShapedArray(updates.shape, dtype)
        runner = Runner(case.primitive.reduction(aval, **params), dtype)
        index_map = params["map"]
        if number_of_arrays == 2:
            carried = runner.start(operands[0].copy(), 0)
        else:
            carried = runner.identity(index_map.codomain)
        _scatter(runner, index_map, indices, updates, carried)
        assert_reduced(runner.finish(carried), case.primitive.reference(*operands, **params))


def _scatter(runner: Runner, index_map: Any, indices: Any, updates: Any, carried: Carried) -> None:
    """Combine the updates, one by one in row-major order, into the arrays ``carried``."""
    targets, valid = index_map.evaluate(indices)
    valid = np.broadcast_to(np.asarray(valid), index_map.domain)
    targets = [np.broadcast_to(t, index_map.domain) for t in targets]
    for point in np.ndindex(*index_map.domain):
        if not valid[point]:
            continue
        target = tuple(int(t[point]) for t in targets)
        found = runner.combine([c[target] for c in carried], runner.start(updates[point], 0))
        for array, value in zip(carried, found, strict=True):
            array[target] = value


@pytest.mark.parametrize(
    "dtype", sorted((dtypes.INTEGER | dtypes.BOOL) - dtypes.STORED, key=str), ids=str
)
@pytest.mark.parametrize("op", ["and", "or", "xor", "add", "mul", "max", "min"])
def test_every_operation_by_a_map(op: str, dtype: np.dtype[Any]) -> None:
    index_map = IndexMap((5,), (3,), (Dim(0) // 2,), ((Dim(0)).ne(4),))
    x = np.array([7, 3, 12, 125, 1]).astype(dtype)
    reduce = registry["reindex_reduce"]
    runner = Runner(reduce.reduction(ShapedArray((5,), dtype), map=index_map, op=op), dtype)
    carried = runner.identity((3,))
    _scatter(runner, index_map, (), x, carried)
    assert_reduced(runner.finish(carried), reduce.reference(x, map=index_map, op=op))


def test_setting_has_no_identity_and_keeps_the_last() -> None:
    case = next(c for c in BY_MAPS if c.sample.params["op"] == "set")
    aval = ShapedArray(case.sample.shapes[1], dtypes.float32)
    reduction = case.primitive.reduction(aval, **case.params(dtypes.float32))
    assert reduction.identity is None
    assert not reduction.commutative


def test_the_whole_family_lowers() -> None:
    family = [p for p in registry.values() if isinstance(p, ReindexReduce)]
    assert len(family) >= 11
    for primitive in (p for p in family if isinstance(p, AxisReduce)):
        for dtype in primitive.accepts:
            aval = ShapedArray((3,), dtype)
            assert primitive.lowers((aval,), {"axes": (0,)})


def test_places_are_as_narrow_as_the_axis_allows() -> None:
    params = {"axis": 0, "index_dtype": dtypes.int64}
    few, many = (ShapedArray((n, 2), dtypes.float32) for n in (2**31 - 1, 2**31))
    assert registry["argmax"].reduction(few, **params).place == dtypes.int32
    assert registry["argmax"].reduction(many, **params).place == dtypes.int64
