"""Tests generated from the primitives: whatever has samples is tested here.

Values against the reference, eager against jit, inferred types against actual ones, batching
against loops, derivatives against differences and against each other, and backward closure:
derivatives of the three families are made of the three families.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.typed import DifferentiationError
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64
from functrax.core.tracing.primitive import Elementwise, literal, registry
from functrax.core.types import dtypes
from functrax.transforms.arguments.inspect_types import make_jaxpr
from functrax.transforms.differentiation.derivatives import jvp, vjp
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit
from tests.primitives import harness
from tests.primitives.harness import Case, bits_of
from tests.thinning import one_in

META = frozenset({"elementwise", "reindex", "reindex_reduce"})
ALL_CASES = list(harness.cases())
FIRST_CASES = list(harness.first_cases())
BAD = [
    pytest.param(primitive, bad, id=f"{name}-{number}")
    for name, primitive in sorted(registry.items())
    for number, bad in enumerate(primitive.bad_samples())
]


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def every(given: Sequence[Any]) -> Any:
    return pytest.mark.parametrize("case", given, ids=repr)


def differentiable(case: Case) -> list[np.dtype[Any]]:
    wide = [dtypes.float64, dtypes.complex128]
    return [d for d in wide if d in case.tested_dtypes and _has_derivative(case, d)]


def _has_derivative(case: Case, dtype: np.dtype[Any]) -> bool:
    without = harness.NO_DERIVATIVE.get(case.primitive.name, ())
    function, xs = case.function(dtype, without)
    wide = dtypes.float64, dtypes.complex128
    return bool(xs) and bool(outs := function(*xs)) and all(o.aval.dtype in wide for o in outs)


def _assert_near(compiled: Any, wanted: Any) -> None:
    """Equal up to the rounding of functions, of the size of 1."""
    got, value = np.asarray(compiled), np.asarray(wanted)
    if got.dtype not in dtypes.INEXACT:
        np.testing.assert_array_equal(got, value)
        return
    eps = float(dtypes.finfo(got.dtype).eps)
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), value.astype(wide), rtol=32 * eps, atol=32 * eps)


def _reference(case: Case, dtype: np.dtype[Any]) -> Any:
    operands, params = case.operands(dtype), case.params(dtype)
    with np.errstate(all="ignore"):
        values = case.primitive.reference(*(x.value for x in operands), **params)
    return values if case.primitive.multiple_results else [values]


@every(ALL_CASES)
def test_value(case: Case) -> None:
    for dtype in case.tested_dtypes:
        operands = case.operands(dtype)
        params = case.params(dtype)
        avals = case.primitive.infer(tuple(x.aval for x in operands), params)
        avals = avals if isinstance(avals, tuple) else (avals,)
        wanted = _reference(case, dtype)
        eager = case.apply(*operands, dtype=dtype)
        for value, aval, got in zip(wanted, avals, eager, strict=True):
            actual = np.asarray(got)
            assert (actual.shape, actual.dtype) == (aval.shape, aval.dtype), dtype
            assert got.aval == aval
            _assert_near(got, value)


@every(one_in(2, ALL_CASES))
def test_value_in_strict_mode(case: Case) -> None:
    for dtype in case.tested_dtypes:
        operands = case.operands(dtype)
        with Override("strict", True):
            alone = case.apply(*operands, dtype=dtype)
            jitted = jit(lambda *xs, d=dtype: case.apply(*xs, dtype=d))(*operands)
        for value, a, b in zip(_reference(case, dtype), alone, jitted, strict=True):
            assert bits_of(a) == bits_of(b), dtype
            assert a.aval == b.aval
            _assert_near(b, value)


@every([c for c in FIRST_CASES if isinstance(c.primitive, Elementwise) and c.sample.shapes])
def test_scalar_literal_stands_for_full_array(case: Case) -> None:
    dtype = case.tested_dtypes[0]
    operands = case.operands(dtype)
    for i, x in enumerate(operands):
        constant = literal(x.value.reshape(-1)[0], x.aval.dtype)
        full = from_numpy(np.full(x.aval.shape, constant.val))
        wanted = case.apply(*operands[:i], full, *operands[i + 1 :], dtype=dtype)
        if len(operands) == 1:
            wanted = [np.asarray(w).reshape(-1)[0] for w in wanted]
        given = case.apply(*operands[:i], constant, *operands[i + 1 :], dtype=dtype)
        assert [bits_of(g) for g in given] == [bits_of(np.asarray(w)) for w in wanted]


@pytest.mark.parametrize(("primitive", "bad"), BAD)
def test_bad_operands_are_refused(primitive: Any, bad: Any) -> None:
    with pytest.raises(bad.error, match=bad.match):
        primitive.infer(bad.avals, bad.params)


def _vmap_dtype(case: Case) -> np.dtype[Any]:
    tested = case.tested_dtypes
    return dtypes.float64 if dtypes.float64 in tested else tested[0]


@every(ALL_CASES)
def test_vmap_equals_loop(case: Case) -> None:
    dtype = _vmap_dtype(case)
    count = len(case.sample.shapes)
    for axes in itertools.product((0, None), repeat=count):
        if all(axis is None for axis in axes):
            continue
        operands = case.operands(dtype, lead=[(3,) if a == 0 else () for a in axes])
        mapped = vmap(lambda *xs: case.apply(*xs, dtype=dtype), in_axes=axes)(*operands)
        rows = []
        for i in range(3):
            row = [
                from_numpy(x.value[i]) if a == 0 else x for x, a in zip(operands, axes, strict=True)
            ]
            rows.append(case.apply(*row, dtype=dtype))
        _assert_rows(mapped, rows)


@every([c for c in ALL_CASES if c.sample.shapes])
def test_vmap_over_every_axis(case: Case) -> None:
    dtype = _vmap_dtype(case)
    shapes = case.sample.shapes
    operands = case.operands(dtype, lead=[(3,)] * len(shapes))
    rows = [case.apply(*(from_numpy(x.value[i]) for x in operands), dtype=dtype) for i in range(3)]
    for axis in range(max(map(len, shapes)) + 1):
        # Negative axes are taken in turn; the results' axis moves along.
        axes = [min(axis, len(s)) for s in shapes]
        signed = [a - len(s) - 1 if axis % 2 else a for a, s in zip(axes, shapes, strict=True)]
        moved = [
            from_numpy(np.moveaxis(x.value, 0, a)) for x, a in zip(operands, axes, strict=True)
        ]
        results = vmap(
            lambda *xs: case.apply(*xs, dtype=dtype), in_axes=tuple(signed), out_axes=-1
        )(*moved)
        front = [from_numpy(np.moveaxis(np.asarray(x), -1, 0)) for x in results]
        _assert_rows(front, rows)


@every([c for c in FIRST_CASES if c.sample.shapes])
def test_vmap_of_vmap_equals_loops(case: Case) -> None:
    dtype = _vmap_dtype(case)
    count = len(case.sample.shapes)

    def function(*xs: Any) -> tuple[Any, ...]:
        return case.apply(*xs, dtype=dtype)

    # The first operand has both axes, the others have one of them, in turn.
    inner = [0] + [0 if i % 2 else None for i in range(1, count)]
    outer = [0] + [None if i % 2 else 0 for i in range(1, count)]
    lead = [(2,) * (a == 0) + (3,) * (b == 0) for a, b in zip(outer, inner, strict=True)]
    operands = case.operands(dtype, lead=lead)
    mapped = vmap(vmap(function, in_axes=tuple(inner)), in_axes=tuple(outer))(*operands)
    for i in range(2):
        rows = []
        for j in range(3):
            row = []
            for x, a, b in zip(operands, outer, inner, strict=True):
                value = x.value[i] if a == 0 else x.value
                row.append(from_numpy(value[j] if b == 0 else value))
            rows.append(function(*row))
        _assert_rows([m.value[i] for m in mapped], rows)


def _assert_rows(mapped: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
    for k, result in enumerate(mapped):
        wanted = np.stack([np.asarray(row[k]) for row in rows])
        got = np.asarray(result)
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        if dtypes.is_inexact(got.dtype):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(got, wanted)


def along(function: Callable[..., Any], ts: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """The derivative of a function along fixed directions."""

    def derivative(*xs: Any) -> tuple[Any, ...]:
        tangents: tuple[Any, ...] = jvp(function, xs, tuple(ts))[1]
        return tangents

    return derivative


@every(ALL_CASES)
def test_derivatives(case: Case) -> None:
    name = case.primitive.name
    for dtype in differentiable(case):
        without = harness.NO_DERIVATIVE.get(name, ())
        function, xs = case.function(dtype, without)
        ts = harness.direction(xs, seed=1)
        tangents = along(function, ts)(*xs)
        outs, pull = vjp(function, *xs)
        cts = harness.direction(outs, seed=2)
        forward, backward = harness.inner(cts, tangents), harness.inner(pull(tuple(cts)), ts)
        assert backward == pytest.approx(forward, rel=harness.ROUNDED.get(name, 1e-9), abs=1e-12)
        finite = all(np.isfinite(o).all() for o in outs)  # the maximum of nothing is not
        if finite and _is_limit(name, dtype):
            wanted = harness.difference(function, xs, ts)
            harness.assert_near(tangents, wanted, rtol=1e-6, atol=1e-8)


def _is_limit(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether the derivative is the limit of differences."""
    if name in harness.BY_CONVENTION:
        return False
    return not (dtypes.is_complex(dtype) and name in harness.FREE_PHASE)


@every(FIRST_CASES)
def test_higher_derivatives(case: Case) -> None:
    name = case.primitive.name
    without = harness.NO_DERIVATIVE.get(name, ()) + harness.FIRST_ORDER_ONLY.get(name, ())
    for dtype in differentiable(case):
        function, xs = case.function(dtype, without)
        ts = harness.direction(xs, seed=3)
        lower = along(function, ts)
        for _ in range(2):
            higher = along(lower, ts)
            got = higher(*xs)
            if _is_limit(name, dtype):
                harness.assert_near(got, harness.difference(lower, xs, ts), rtol=1e-5, atol=1e-7)
            lower = higher
        _check_reverse_over_reverse(function, xs, ts)


def _check_reverse_over_reverse(
    function: Callable[..., Any], xs: Sequence[Any], ts: Sequence[Any]
) -> None:
    """The second derivative by two transposes equals the one by two jvps."""
    second = along(along(function, ts), ts)(*xs)
    cts = tuple(harness.direction(second, seed=4))

    def gradient(*points: Any) -> Any:
        return vjp(function, *points)[1](cts)

    _, pull = vjp(gradient, *xs)
    got, wanted = harness.inner(pull(tuple(ts)), ts), harness.inner(cts, second)
    assert got == pytest.approx(wanted, rel=1e-8, abs=1e-10)


@every([c for c in FIRST_CASES if c.primitive.family in META])
def test_derivatives_stay_in_the_three_families(case: Case) -> None:
    name = case.primitive.name
    without = harness.NO_DERIVATIVE.get(name, ()) + harness.FIRST_ORDER_ONLY.get(name, ())
    for dtype in differentiable(case)[:1]:
        function, xs = case.function(dtype, without)
        ts = harness.direction(xs, seed=5)
        forward, backward = function, function
        for order in range(1, 5):
            forward = along(forward, ts)
            backward = _gradient_of(backward)
            for derivative in (forward, backward):
                program = make_jaxpr(derivative)(*xs)
                families = {e.primitive.family for e in all_eqns(program.jaxpr)}
                assert families <= META, f"order {order}"


def _gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the sum of squares of a function's results."""

    def gradient(*xs: Any) -> Any:
        outs, pull = vjp(function, *xs)
        return pull(outs)

    return gradient


MISSING = [
    (name, i, order)
    for order, table in enumerate((harness.NO_DERIVATIVE, harness.FIRST_ORDER_ONLY), 1)
    for name, operands in table.items()
    for i in operands
]


@pytest.mark.parametrize(("name", "operand", "order"), MISSING)
def test_missing_derivatives_are_refused(name: str, operand: int, order: int) -> None:
    case = next(c for c in FIRST_CASES if c.primitive.name == name)
    others = [i for i in range(len(case.sample.shapes)) if i != operand]
    function, xs = case.function(dtypes.float64, others)
    ts = harness.direction(xs, seed=6)
    derivative = along(function, ts)
    if order == 2:
        derivative(*xs)
        derivative = along(derivative, ts)
    with pytest.raises(DifferentiationError, match=r"derivative|differentiable"):
        derivative(*xs)
