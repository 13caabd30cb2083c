"""Every primitive that lowers gives, in scalar operations, what its reference gives.

Generated from the registry: the samples of each elementwise primitive in all its dtypes, and all
combinations of the edges of a dtype.  Equality is exact; functions of ``MATH``, which targets
expand, are compared to a few units in the last place, and complex numbers to a few of their
modulus (``test_complex_kernels.py`` has their edges).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax.backends.reference.reference_device
import functrax.core.prims
import functrax.transforms.differentiation.checkpoint  # noqa: F401  (they fill the registry)
from functrax.backends.kernels.evaluate import evaluate
from functrax.core.ir.jaxpr import Literal
from functrax.core.options.contexts import enable_x64
from functrax.core.scalars.scalar import MATH, Builder, Scalar
from functrax.core.tracing.primitive import Elementwise, Primitive, registry
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from tests.primitives.harness import Case, cases

SERIES = "a series with a number of terms that depends on the operands"
#: Elementwise primitives that never lower.
NOT_LOWERED = {
    "bessel_i0e": "no expansion in core/scalars/scalar.py yet",
    "bessel_i1e": "no expansion in core/scalars/scalar.py yet",
    "igamma": SERIES,
    "igamma_grad_a": SERIES,
    "igammac": SERIES,
    "polygamma": SERIES,
    "random_gamma_grad": SERIES,
    "regularized_incomplete_beta": SERIES,
    "zeta": SERIES,
}
#: Of equal zeros either one may be the result.
ANY_ZERO = frozenset({"max", "min", "clamp"})
#: Units in the last place, by which NumPy's own functions differ from each other.
MAX_ULPS = 4

ALL = sorted(dtypes.SCALAR, key=str)
#: More parameters than the samples have, by primitive: a function of the dtype.
MORE_PARAMS: dict[str, Any] = {
    "convert_element_type": lambda d: [{"dtype": new} for new in ALL],
    "bitcast_convert_type": lambda d: [
        {"dtype": new}
        for new in ALL
        if new.itemsize == d.itemsize and (new == dtypes.bool_) == (d == dtypes.bool_)
    ],
    "integer_pow": lambda d: [{"y": y} for y in range(-5 if dtypes.is_float(d) else 0, 12)],
    "reduce_precision": lambda d: [
        {"exponent_bits": e, "mantissa_bits": m} for e in (1, 4, 8, 11) for m in (0, 5, 7, 23, 52)
    ],
}


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def lowered(
    primitive: Primitive, avals: list[ShapedArray], params: dict[str, Any]
) -> tuple[Scalar, ...]:
    """The results of a primitive, whose operand ``k`` is a load with the attribute ``k``."""
    b = Builder()
    operands = [b.node("load", a.dtype, (), k) for k, a in enumerate(avals)]
    out = primitive.lower(b, *operands, **params)
    return out if isinstance(out, tuple) else (out,)


def operations(outputs: tuple[Scalar, ...]) -> set[str]:
    found: dict[int, str] = {}
    todo = list(outputs)
    while todo:
        node = todo.pop()
        if id(node) not in found:
            found[id(node)] = node.op
            todo.extend(node.args)
    return set(found.values())


def ulps_between(got: Any, wanted: Any) -> Any:
    """How many numbers lie between two arrays of floats; 0 where both are NaN."""
    kind = np.dtype(f"i{got.dtype.itemsize}")

    def ordered(x: Any) -> Any:
        bits = x.view(kind).astype(object)
        return np.where(bits < 0, -(bits + (1 << (8 * kind.itemsize - 1))), bits)

    distance = np.abs(np.asarray(ordered(got) - ordered(wanted)))
    return np.where(np.isnan(got) & np.isnan(wanted), 0, distance)


def assert_same(got: Any, wanted: Any, any_zero: bool) -> None:
    """Equal bits, but for those of NaNs."""
    if not dtypes.is_float(wanted.dtype):
        np.testing.assert_array_equal(got, wanted)
        return
    bits = np.dtype(f"u{wanted.dtype.itemsize}")
    same = (got.view(bits) == wanted.view(bits)) | (np.isnan(got) & np.isnan(wanted))
    if any_zero:
        same |= (got == 0) & (wanted == 0)
    assert np.all(same), (got[~same], wanted[~same])


def check(primitive: Primitive, operands: list[Any], params: dict[str, Any]) -> None:
    avals = [ShapedArray(x.shape, x.dtype) for x in operands]
    if not primitive.lowers(tuple(avals), params):
        return
    outputs = lowered(primitive, avals, params)
    with np.errstate(all="ignore"):
        wanted = primitive.reference(*operands, **params)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    all_got = evaluate(outputs, lambda node: operands[node.attr])
    for got, want in zip(all_got, wanted, strict=True):
        got, want = np.broadcast_arrays(got, np.asarray(want))
        assert got.dtype == want.dtype
        with np.errstate(invalid="ignore"):  # of signalling NaNs
            if any(dtypes.is_complex(x.dtype) for x in (*operands, want)):
                kind = dtypes.real_dtype(want.dtype)
                eps = np.finfo(kind).eps if kind.kind == "f" else 0
                np.testing.assert_allclose(got, want, rtol=MAX_ULPS * eps)
            elif operations(outputs) & MATH.keys():
                assert np.all(ulps_between(got, want) <= MAX_ULPS), (got, want)
            else:
                assert_same(got, want, primitive.name in ANY_ZERO)


def elementwise() -> list[Elementwise]:
    """Those of functrax itself: other tests register some of their own."""
    found = [p for _, p in sorted(registry.items()) if isinstance(p, Elementwise)]
    return [p for p in found if type(p).__module__.startswith("functrax.")]


SAMPLES = [c for c in cases() if isinstance(c.primitive, Elementwise)]


@pytest.mark.parametrize("case", SAMPLES, ids=repr)
def test_samples(case: Case) -> None:
    for dtype in case.tested_dtypes:
        operands = [x.value for x in case.operands(dtype)]
        check(case.primitive, operands, case.params(dtype))


def edges(dtype: np.dtype[Any], few: bool) -> Any:
    """Values of a dtype at which something may go wrong."""
    if dtype == dtypes.bool_:
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        width = info.bits
        numbers = [info.min, info.max, 0, 1, 3, width - 1, width, info.max - 1, 100]
        signed = [-1, -7, -width] if info.min else []
        return np.unique(np.array((numbers[:4] if few else numbers) + signed, dtype))
    limits = dtypes.finfo(dtype)
    numbers = [0.0, 0.5, 1.0, 2.5, float(limits.max), math.inf]
    if not few:
        eps = float(limits.eps)
        numbers += [float(limits.smallest_subnormal), float(limits.tiny), eps, 1 + eps, 0.75]
        numbers += [1.5, 3.5, 100.5, 127.5, 3e4, 5 - 1 / 3, float(limits.tiny) * 0.75]
    both = np.array(numbers).astype(dtype)
    return np.concatenate([both, -both, np.array([math.nan], dtype)])


def combinations(kinds: list[np.dtype[Any]]) -> list[Any]:
    """All tuples of the edges of some dtypes, as one vector for each place."""
    columns = zip(*itertools.product(*(edges(d, len(kinds) > 2) for d in kinds)), strict=True)
    return [np.array(column, d) for column, d in zip(columns, kinds, strict=True)]


@pytest.mark.parametrize("primitive", elementwise(), ids=repr)
def test_edges(primitive: Elementwise) -> None:
    if primitive.name in NOT_LOWERED:
        return
    for case in (c for c in SAMPLES if c.primitive is primitive):
        for dtype in case.tested_dtypes:
            if dtype not in dtypes.SCALAR:
                continue
            operands = combinations(case.operand_dtypes(dtype))
            more = MORE_PARAMS.get(primitive.name, lambda d: [])(dtype)
            for params in (case.params(dtype), *more):
                check(primitive, operands, params)


def random_bits(rng: np.random.Generator, dtype: np.dtype[Any], size: int) -> Any:
    """Numbers of every size, and a few NaNs."""
    if dtype == dtypes.bool_:
        return rng.integers(0, 2, size).astype(bool)
    drawn = rng.integers(0, 256, size * dtype.itemsize, dtype=np.uint8).view(dtype)
    if dtype.kind in "iu":
        return drawn >> rng.integers(0, dtype.itemsize * 8, size).astype(dtype)
    return drawn


@pytest.mark.parametrize("primitive", elementwise(), ids=repr)
def test_random_bits(primitive: Elementwise) -> None:
    if primitive.name in NOT_LOWERED:
        return
    rng = np.random.default_rng(3)
    for case in (c for c in SAMPLES if c.primitive is primitive):
        for dtype in (d for d in case.tested_dtypes if d in dtypes.SCALAR):
            operands = [random_bits(rng, d, 500) for d in case.operand_dtypes(dtype)]
            more = MORE_PARAMS.get(primitive.name, lambda d: [])(dtype)
            for params in (case.params(dtype), *more):
                check(primitive, operands, params)


@pytest.mark.parametrize("dtype", sorted(dtypes.INTEGER - dtypes.STORED, key=str), ids=str)
@pytest.mark.parametrize("name", ["div", "rem"])
@pytest.mark.parametrize("divisor", [-7, -1, 0, 1, 3])
def test_constant_divisors(name: str, dtype: np.dtype[Any], divisor: int) -> None:
    number = np.asarray(divisor).astype(dtype)
    x = edges(dtype, few=False)
    b = Builder()
    out = registry[name].lower(b, b.node("load", dtype, (), 0), b.const(number, dtype))
    (got,) = evaluate([out], lambda node: x)
    np.testing.assert_array_equal(got, registry[name].reference(x, number))


def test_what_does_not_lower() -> None:
    samples = [(p, a) for p in elementwise() for a in _avals(p)]
    lower = {p.name for p, (avals, params) in samples if p.lowers(avals, params)}
    assert {p.name for p in elementwise()} - lower == set(NOT_LOWERED)


def _avals(primitive: Elementwise) -> Iterator[tuple[tuple[ShapedArray, ...], dict[str, Any]]]:
    for case in (c for c in SAMPLES if c.primitive is primitive):
        for dtype in case.tested_dtypes:
            kinds = case.operand_dtypes(dtype)
            avals = zip(case.sample.shapes, kinds, strict=True)
            yield tuple(ShapedArray(s, d) for s, d in avals), case.params(dtype)


#: Primitives whose complex values no kernel computes.
REAL_ONLY = frozenset(
    ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bitcast_convert_type")
)


@pytest.mark.parametrize("case", SAMPLES, ids=repr)
def test_all_dtypes_lower(case: Case) -> None:
    if case.primitive.name in NOT_LOWERED:
        return
    for dtype in case.tested_dtypes:
        kinds, params = case.operand_dtypes(dtype), case.params(dtype)
        shapes = case.sample.shapes
        avals = tuple(ShapedArray(s, d) for s, d in zip(shapes, kinds, strict=True))
        out = case.primitive.infer(avals, params)
        results = out if isinstance(out, tuple) else (out,)
        is_complex = any(dtypes.is_complex(a.dtype) for a in (*avals, *results))
        left = is_complex and case.primitive.name in REAL_ONLY
        assert case.primitive.lowers(avals, params) != left


def test_scalar_constants_are_operands_too() -> None:
    b = Builder()
    x = b.node("load", dtypes.float32, (), 0)
    two = Literal(2.0, ShapedArray((), dtypes.float32))
    out = registry["pow"].lower(b, x, b.const(two.val, two.aval.dtype))
    (got,) = evaluate([out], lambda node: np.float32([3.0]))
    assert got.tolist() == [9.0]


def test_a_primitive_without_a_lowering_says_so() -> None:
    zeta = registry["zeta"]
    aval = ShapedArray((3,), dtypes.float32)
    assert not zeta.lowers((aval, aval), {})
    sort = registry["sort"]
    with pytest.raises(NotImplementedError, match="sort has no lowering"):
        sort.lower(Builder())
