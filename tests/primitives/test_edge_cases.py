"""Values and derivatives at the edges: NaN, infinities, signed zeros, ties, overflow, emptiness.

The expected numbers are IEEE 754's, NumPy's or SciPy's; where those leave a choice they were
recorded from JAX 0.10.2 on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

import functrax.backends.reference.reference_device
import functrax.core.prims  # noqa: F401  (fills the registry)
from functrax.core.arrays.array import from_numpy
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.options.contexts import enable_x64
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import literal, registry
from functrax.core.tracing.stage import stage
from functrax.core.types import dtypes
from functrax.transforms.differentiation.derivatives import grad, jvp, vjp

NAN, INF = np.nan, np.inf


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def apply(name: str, *operands: Any, **params: Any) -> Any:
    out = registry[name](*(as_value(np.asarray(x)) for x in operands), **params)
    return [np.asarray(o) for o in out] if isinstance(out, list) else np.asarray(out)


def assert_same(got: Any, wanted: Any) -> None:
    """Equality that tells apart the two zeros."""
    wanted = np.asarray(wanted, got.dtype)
    if got.dtype == dtypes.bfloat16:  # of which NumPy's comparison does not know the NaN
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_array_equal(got, wanted)
    if dtypes.is_float(got.dtype):
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])


SPECIAL_POINTS = [-0.0, 0.0, INF, -INF, NAN]
UNARY = {
    "abs": [0.0, 0.0, INF, INF, NAN],
    "acosh": [NAN, NAN, INF, NAN, NAN],
    "atan": [-0.0, 0.0, np.pi / 2, -np.pi / 2, NAN],
    "cbrt": [-0.0, 0.0, INF, -INF, NAN],
    "ceil": [-0.0, 0.0, INF, -INF, NAN],
    "cosh": [1.0, 1.0, INF, INF, NAN],
    "erf": [-0.0, 0.0, 1.0, -1.0, NAN],
    "erfc": [1.0, 1.0, 0.0, 2.0, NAN],
    "exp": [1.0, 1.0, INF, 0.0, NAN],
    "exp2": [1.0, 1.0, INF, 0.0, NAN],
    "expm1": [-0.0, 0.0, INF, -1.0, NAN],
    "floor": [-0.0, 0.0, INF, -INF, NAN],
    "log": [-INF, -INF, INF, NAN, NAN],
    "log1p": [-0.0, 0.0, INF, NAN, NAN],
    "logistic": [0.5, 0.5, 1.0, 0.0, NAN],
    "neg": [0.0, -0.0, -INF, INF, NAN],
    "rsqrt": [-INF, INF, 0.0, NAN, NAN],
    "sign": [-0.0, 0.0, 1.0, -1.0, NAN],
    "sin": [-0.0, 0.0, NAN, NAN, NAN],
    "sinh": [-0.0, 0.0, INF, -INF, NAN],
    "sqrt": [-0.0, 0.0, INF, NAN, NAN],
    "square": [0.0, 0.0, INF, INF, NAN],
    "tanh": [-0.0, 0.0, 1.0, -1.0, NAN],
}


@pytest.mark.parametrize("name", sorted(UNARY))
@pytest.mark.parametrize("dtype", sorted(dtypes.FLOATING - dtypes.STORED, key=str), ids=str)
def test_special_points(name: str, dtype: Any) -> None:
    assert_same(apply(name, np.array(SPECIAL_POINTS, dtype)), UNARY[name])


def test_poles_of_special_functions() -> None:
    assert_same(apply("erf_inv", np.array([1.0, -1.0, 2.0])), [INF, -INF, NAN])
    assert_same(apply("lgamma", np.array([0.0, -1.0, INF, -INF])), [INF, INF, INF, INF])
    assert_same(apply("digamma", np.array([-1.0, INF])), [NAN, INF])


@pytest.mark.parametrize(
    ("name", "oracle", "operands"),
    [
        ("lgamma", scipy.special.gammaln, [[1e-3, 0.5, 3.0, 90.0]]),
        ("digamma", scipy.special.digamma, [[1e-3, 0.5, 3.0, 90.0]]),
        ("igamma", scipy.special.gammainc, [[0.1, 1.0, 30.0], [0.2, 1.0, 25.0]]),
        ("igammac", scipy.special.gammaincc, [[0.1, 1.0, 30.0], [0.2, 1.0, 25.0]]),
        ("zeta", scipy.special.zeta, [[1.5, 2.0, 9.0], [0.5, 1.0, 4.0]]),
        ("erf_inv", scipy.special.erfinv, [[-0.999, -0.1, 0.0, 0.7]]),
        ("bessel_i0e", scipy.special.i0e, [[-40.0, 0.0, 2.0]]),
        ("bessel_i1e", scipy.special.i1e, [[-40.0, 0.0, 2.0]]),
        (
            "regularized_incomplete_beta",
            scipy.special.betainc,
            [[0.5, 2.0, 20.0], [0.5, 3.0, 9.0], [0.1, 0.5, 0.7]],
        ),
    ],
)
def test_special_functions_equal_scipy(name: str, oracle: Any, operands: Any) -> None:
    arrays = [np.array(x) for x in operands]
    np.testing.assert_allclose(apply(name, *arrays), oracle(*arrays), rtol=1e-12)


def test_half_precision_is_rounded_once() -> None:
    x = np.linspace(0.1, 3.0, 200)
    for dtype in (dtypes.float16, dtypes.bfloat16):
        narrow = x.astype(dtype)
        for name, function in (("exp", np.exp), ("tan", np.tan), ("log1p", np.log1p)):
            wanted = function(narrow.astype(np.float64)).astype(np.float32).astype(dtype)
            got = apply(name, narrow)
            assert got.dtype == dtype
            np.testing.assert_allclose(
                got.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=0
            )


def test_integers_wrap_around() -> None:
    low = np.int8(-128)
    assert apply("mul", np.int8(100), np.int8(3)) == 44
    assert apply("add", np.uint8(250), np.uint8(10)) == 4
    assert apply("neg", low) == apply("abs", low) == apply("div", low, np.int8(-1)) == low
    assert apply("integer_pow", np.int8(5), y=3) == 125
    assert apply("square", np.int8(16)) == 0
    assert apply("reduce_sum", np.full(3, 100, np.int8), axes=(0,)) == 44
    assert_same(apply("cumsum", np.full(3, 100, np.uint8), axis=0, reverse=False), [100, 200, 44])


def test_division_and_remainder() -> None:
    assert_same(apply("div", np.array([-7, 7, 5]), np.array([2, -2, 0])), [-3, -3, -1])
    assert_same(apply("rem", np.array([-7, 7, 5]), np.array([2, -2, 0])), [-1, 1, 5])
    x, y = np.array([5.0, -5.0, INF, 3.0, -6.0]), np.array([0.0, INF, 2.0, -INF, 3.0])
    assert_same(apply("rem", x, y), [NAN, -5.0, NAN, 3.0, -0.0])


def test_conversion_saturates() -> None:
    x = np.array([NAN, 1e20, -1e20, -3.7, 300.0])
    for dtype in (np.int8, np.int32, np.int64, np.uint8, np.uint64):
        info = np.iinfo(dtype)
        wanted = [0, info.max, info.min, max(-3, info.min), min(300, info.max)]
        got = apply("convert_element_type", x, dtype=np.dtype(dtype), weak_type=False)
        assert got.tolist() == wanted
    truth = apply("convert_element_type", x, dtype=dtypes.bool_, weak_type=False)
    assert truth.all()


def test_powers() -> None:
    x = np.array([-2.0, 0.0, -0.0, INF, NAN, 1.0, -1.0])
    y = np.array([0.5, -1.0, -1.0, 0.0, 0.0, NAN, INF])
    assert_same(apply("pow", x, y), [NAN, INF, -INF, 1.0, 1.0, 1.0, 1.0])
    assert_same(apply("integer_pow", np.array([0.0, NAN, -2.0]), y=0), [1.0, 1.0, 1.0])
    assert_same(apply("integer_pow", np.array([0.0, -2.0]), y=-3), [INF, -0.125])


def test_comparisons_with_nan_and_ties() -> None:
    x, y = np.array([NAN, 1.0, -0.0]), np.array([1.0, NAN, 0.0])
    for name, wanted in (
        ("eq", [0, 0, 1]),
        ("ne", [1, 1, 0]),
        ("lt", [0, 0, 0]),
        ("ge", [0, 0, 1]),
    ):
        assert apply(name, x, y).tolist() == [bool(w) for w in wanted]
    assert_same(apply("max", x[:2], y[:2]), [NAN, NAN])
    assert_same(apply("min", x[:2], y[:2]), [NAN, NAN])
    assert_same(
        apply("clamp", np.zeros(3), np.array([NAN, -1.0, 2.0]), np.ones(3)), [NAN, 0.0, 1.0]
    )
    assert apply("max", np.complex128(1 + 5j), np.complex128(1 - 2j)) == 1 + 5j


def test_rounding_of_ties() -> None:
    x = np.array([-2.5, -0.5, 0.5, 1.5, NAN, INF])
    assert_same(apply("round", x, rounding_method=0), [-3.0, -1.0, 1.0, 2.0, NAN, INF])
    assert_same(apply("round", x, rounding_method=1), [-2.0, -0.0, 0.0, 2.0, NAN, INF])


def test_shifts_past_the_width() -> None:
    x, amount = np.array([-8, 8, 1], np.int8), np.array([8, 100, 7], np.int8)
    assert_same(apply("shift_left", x, amount), [0, 0, -128])
    assert_same(apply("shift_right_logical", x, amount), [0, 0, 0])
    assert_same(apply("shift_right_arithmetic", x, amount), [-1, 0, 0])


@pytest.mark.parametrize("dtype", sorted(dtypes.INTEGER - dtypes.STORED, key=str), ids=str)
def test_upper_half_of_products(dtype: Any) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    edges = [info.min, info.max, 0, 1, info.max // 2]
    drawn = rng.integers(info.min, info.max, 20, dtype=dtype, endpoint=True).tolist()
    x = np.array([*edges, *drawn], dtype)
    y = x[::-1].copy()
    wanted = [int(a) * int(b) >> info.bits for a, b in zip(x, y, strict=True)]
    assert apply("mulhi", x, y).tolist() == wanted


def test_sort_puts_nan_last_and_keeps_ties_in_order() -> None:
    x = np.array([3.0, NAN, -0.0, 0.0, -INF, INF, 1.0])
    params = {"dimension": 0, "is_stable": True, "num_keys": 1}
    (values,) = apply("sort", x, **params)
    assert_same(values, [-INF, -0.0, 0.0, 1.0, 3.0, INF, NAN])
    values, positions = apply("sort", x, np.arange(7), **params)
    assert_same(values, [-INF, -0.0, 0.0, 1.0, 3.0, INF, NAN])
    assert positions.tolist() == [4, 2, 3, 6, 0, 5, 1]
    (values,) = apply("sort", np.array([2 + 0j, 1 + 5j, 1 - 3j, NAN + 0j]), **params)
    np.testing.assert_array_equal(values, [1 - 3j, 1 + 5j, 2 + 0j, NAN + 0j])


def test_sort_by_two_keys_equals_lexsort() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 3, 50), rng.integers(0, 3, 50), np.arange(50)
    order = np.lexsort((b, a))
    for got, x in zip(
        apply("sort", a, b, c, dimension=0, is_stable=False, num_keys=2), (a, b, c), strict=True
    ):
        assert_same(got, x[order])


def test_top_k_of_ties_and_nan() -> None:
    values, positions = apply("top_k", np.array([1.0, NAN, 3.0, 3.0]), k=3, axis=0)
    assert_same(values, [NAN, 3.0, 3.0])
    assert positions.tolist() == [1, 2, 3]


def test_running_operations_at_infinities() -> None:
    x = np.array([-INF, -INF, 0.0, 1000.0, -INF])
    got = apply("cumlogsumexp", x, axis=0, reverse=False)
    assert_same(got, [-INF, -INF, 0.0, 1000.0, 1000.0])
    assert_same(apply("cummax", np.array([1.0, NAN, 3.0]), axis=0, reverse=False), [1, NAN, NAN])
    assert_same(apply("cummin", np.array([3, 1, 2]), axis=0, reverse=True), [1, 1, 2])


def derivative(name: str, *operands: float, by: int = 0) -> float:
    def function(x: Any) -> Any:
        given: list[Any] = [literal(v, dtypes.float64) for v in operands]
        given[by] = x
        return registry[name](*given)

    return float(np.asarray(grad(function)(operands[by])))


@pytest.mark.parametrize(
    ("name", "operands", "by", "wanted"),
    [
        ("abs", (0.0,), 0, 1.0),
        ("acosh", (1.0,), 0, INF),
        ("bessel_i1e", (0.0,), 0, 0.5),
        ("cbrt", (0.0,), 0, INF),
        ("clamp", (0.0, 0.0, 1.0), 1, 0.0),
        ("clamp", (0.0, 1.0, 1.0), 1, 0.0),
        ("log", (0.0,), 0, INF),
        ("max", (0.0, 0.0), 0, 0.5),
        ("pow", (0.0, 0.5), 0, INF),
        ("pow", (0.0, 2.0), 0, 0.0),
        ("pow", (0.0, 2.0), 1, 0.0),
        ("pow", (-2.0, 2.0), 0, -4.0),
        ("pow", (-2.0, 3.0), 0, 12.0),
        ("sign", (0.0,), 0, 0.0),
        ("sqrt", (0.0,), 0, INF),
    ],
)
def test_derivative_conventions(
    name: str, operands: tuple[float, ...], by: int, wanted: float
) -> None:
    assert derivative(name, *operands, by=by) == wanted


def test_power_with_integer_exponent_has_derivative_zero_at_zero() -> None:
    for exponent, x, wanted in ((0, 0.0, 0.0), (2, -3.0, -6.0), (1, 0.0, 1.0)):
        power = as_value(np.int32(exponent))
        assert float(np.asarray(grad(lambda v, p=power: registry["pow"](v, p))(x))) == wanted


def test_second_derivative_of_integer_power_at_zero() -> None:
    square = grad(grad(lambda x: registry["integer_pow"](x, y=2)))
    cube = grad(grad(lambda x: registry["integer_pow"](x, y=3)))
    assert (float(np.asarray(square(0.0))), float(np.asarray(cube(0.0)))) == (2.0, 0.0)


def test_derivative_of_product_with_zeros() -> None:
    x = np.array([2.0, 0.0, 3.0, 0.0])

    def product(v: Any) -> Any:
        return registry["cumprod"](v, axis=0, reverse=False)

    _, tangent = jvp(product, (x,), (np.ones(4),))
    # By the product rule; dividing the product by each factor would give NaN.
    assert_same(np.asarray(tangent), [1.0, 2.0, 6.0, 0.0])


def test_running_maximum_shares_the_cotangent_of_ties() -> None:
    x = np.array([1.0, 1.0, 0.0, 1.0])
    _, pull = vjp(lambda v: registry["cummax"](v, axis=0, reverse=False), x)
    (ct,) = pull(np.array([0.0, 0.0, 0.0, 1.0]))
    np.testing.assert_allclose(np.asarray(ct), np.array([1, 1, 0, 1]) / 3)


def test_derivative_of_running_logsumexp_after_minus_infinity() -> None:
    x = np.array([-INF, 0.0, 1.0])
    _, pull = vjp(lambda v: registry["cumlogsumexp"](v, axis=0, reverse=False), x)
    (ct,) = pull(np.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(np.asarray(ct), [0.0, *scipy.special.softmax(x[1:])], rtol=1e-12)


def test_derivative_of_running_logsumexp_does_not_overflow() -> None:
    x = np.array([1000.0, -1000.0, 999.0])
    _, tangent = jvp(
        lambda v: registry["cumlogsumexp"](v, axis=0, reverse=False), (x,), (np.ones(3),)
    )
    np.testing.assert_allclose(np.asarray(tangent), np.ones(3), rtol=1e-12)


def test_complex_functions_on_the_real_axis_equal_the_real_ones() -> None:
    x = np.array([0.3, 0.6])
    for name in ("exp2", "expm1", "log1p", "logistic", "rsqrt", "tan", "atanh", "asin"):
        got = apply(name, x.astype(np.complex128))
        np.testing.assert_allclose(got, apply(name, x), rtol=1e-14)
    got = apply("atan2", np.complex128(1 + 2j), np.complex128(0.5 - 1j))
    np.testing.assert_allclose(got, 1.9081667979066728 + 0.3790868723420225j, rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "constant", "exact"),
    [
        ("add", -0.0, True),
        ("add", 0.0, False),
        ("sub", 0.0, True),
        ("sub", -0.0, False),
        ("mul", 1.0, True),
        ("mul", 0.0, False),
        ("div", 1.0, True),
        ("pow", 1.0, True),
    ],
)
def test_only_exact_identities_are_simplified(name: str, constant: float, exact: bool) -> None:
    x = from_numpy(np.array([-0.0, 1.5]))
    second = literal(constant, dtypes.float64)
    program, _ = stage(lambda v: [registry[name](v, second)], [x.aval])
    assert (not program.eqns) == exact


def test_reduce_precision_of_enough_bits_is_nothing() -> None:
    x = from_numpy(np.array([0.1], np.float32))
    reduce_precision = registry["reduce_precision"]
    program, _ = stage(lambda v: [reduce_precision(v, exponent_bits=8, mantissa_bits=23)], [x.aval])
    assert not program.eqns
    assert apply("reduce_precision", np.float32(0.1), exponent_bits=5, mantissa_bits=2) != 0.1


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint64"])
def test_the_bits_common_to_no_elements_are_all_bits(dtype: str) -> None:
    pairs = IndexMap((3,), (3,), (Dim(0) // 2,))
    x = np.array([7, 3, 12]).astype(dtype)
    all_bits = np.invert(np.zeros((), dtype))
    got = apply("reindex_reduce", x, map=pairs, op="and")
    assert_same(got, [x[0] & x[1], x[2], all_bits])
