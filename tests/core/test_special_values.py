"""The special functions against SciPy, identities, and values from 40-digit arithmetic or JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

from functrax.core.errors.typed import DTypeError
from functrax.core.prims import special_values as values
from functrax.core.prims.special_rounding import round_to

Array = NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
NAN, INF = float("nan"), float("inf")
ERRORS = ["erf", "erfc", "erf_inv"]
GAMMAS = ["lgamma", "digamma"]
BESSELS = ["bessel_i0e", "bessel_i1e"]
UNARY = [*ERRORS, *GAMMAS, *BESSELS, "logistic", "rsqrt", "cbrt", "log1p", "expm1"]
FUNCTIONS = [
    *((name, 1) for name in UNARY),
    *((name, 2) for name in ["zeta", "polygamma", "igamma", "igammac", "igamma_grad_a"]),
    ("random_gamma_grad", 2),
    ("betainc", 3),
]

# (a, x, P, Q), (a, x, dP/da, dx/da) and polygamma(200, 50), polygamma(300, 90), from 40 digits.
IGAMMA = [
    (142.8706015327837, 55.400609830568534, 8.708329155148914e-23, 1.0),
    (0.5083826928886694, 0.7488154423871042, 0.7747216489059464, 0.22527835109405353),
    (188.5483886302592, 329.1845094784589, 1.0, 1.373030385154436e-17),
    (482.5009601983902, 722.5559680528496, 1.0, 8.321352078647064e-22),
    (405.00908465410896, 216.55030690627012, 2.2333869178630064e-30, 1.0),
    (1413.215749309789, 1051.666469952981, 1.882176319608036e-26, 1.0),
    (0.001, 1e-05, 0.9891230446957827, 0.01087695530421733),
    (1e-10, 0.5, 0.9999999999440227, 5.597735948054988e-11),
    (3.0, 3.0, 0.5768099188731565, 0.42319008112684353),
    (200.0, 200.0, 0.5094034180072363, 0.4905965819927637),
    (1000.0, 1010.0, 0.6276789447369947, 0.3723210552630053),
    (7.88630094171302, 0.0019180056515564203, 1.1771934161858789e-26, 1.0),
    (12.0, 1.05, 1.4264845210723988e-09, 0.9999999985735155),
]
IGAMMA_GRAD = [
    (0.01, 0.001, -5.957905603446865, 0.6354138007185822),
    (0.1, 0.05, -2.0264226621003973, 1.3672830678368924),
    (0.5, 1.0, -0.38983726432851057, 1.8782472817325202),
    (1.0, 1.0, -0.4317297106348987, 1.1735630272247268),
    (3.0, 2.0, -0.2318486720439896, 0.8565714220978067),
    (10.0, 12.0, -0.09717797203717965, 1.1123294430180883),
    (50.0, 45.0, -0.04554329214012388, 0.9514101922116238),
    (150.0, 151.0, -0.03237582729030996, 1.004441498328402),
    (199.9, 210.0, -0.021514076709695316, 1.0257024318194456),
    (200.0, 190.0, -0.02235282834155004, 0.9753850603205174),
    (1000.0, 1010.0, -0.011945731337225441, 1.0051509296765344),
    (100000.0, 100100.0, -0.0011994802802501906, 1.0005015009179519),
    (100000000.0, 99970000.0, -4.4285249615234345e-07, 0.9998499866641662),
    (0.3, 20.0, -5.358973135044527e-10, 6.33273386935695),
    (0.001, 1.0, -0.219832728883122, 597.2229774959449),
    (5.0, 40.0, -1.109352325918427e-12, 2.448048686742916),
    (100.0, 30.0, -8.902177111131385e-24, 0.5168090677131236),
]
POLYGAMMA_LARGE = [-2.5829713930705358e33, -1.8824545371015635e26]


def _relative(got: Array, want: Array) -> float:
    scale = np.maximum(np.abs(want), np.finfo(np.float64).tiny)
    return float(np.max(np.abs(got - want) / scale))


def _same(got: Array, want: object) -> None:
    """Equal, with NaN equal to NaN and the signs of zeros alike."""
    np.testing.assert_array_equal(got, np.asarray(want))
    zero = got == 0
    np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(np.asarray(want))[zero])


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _magnitudes(low: float, high: float, size: int) -> Array:
    return 10.0 ** _rng().uniform(low, high, size)


def _both_signs(low: float, high: float, size: int) -> Array:
    return _magnitudes(low, high, size) * _rng().choice([-1.0, 1.0], size)


UNARY_CASES: list[tuple[str, Callable[[Array], Array], Array, float]] = [
    ("erf", scipy.special.erf, _both_signs(-300, 1, 4000), 1e-15),
    ("erf", scipy.special.erf, _rng().normal(0, 2, 4000), 1e-15),
    ("erfc", np.vectorize(math.erfc), _rng().uniform(-6, 26, 4000), 2e-15),
    ("erf_inv", scipy.special.erfinv, _both_signs(-300, 0, 4000), 1.5e-15),
    ("erf_inv", scipy.special.erfinv, 1 - _magnitudes(-15.9, 0, 4000), 1.5e-15),
    ("lgamma", scipy.special.gammaln, _magnitudes(-300, 300, 4000), 1.5e-15),
    ("digamma", scipy.special.digamma, _magnitudes(-300, 300, 4000), 1.5e-15),
    ("bessel_i0e", scipy.special.i0e, _both_signs(-300, 300, 4000), 2e-15),
    ("bessel_i0e", scipy.special.i0e, _rng().uniform(-60, 60, 4000), 2e-15),
    ("bessel_i1e", scipy.special.i1e, _both_signs(-300, 300, 4000), 2e-15),
    ("bessel_i1e", scipy.special.i1e, _rng().uniform(-60, 60, 4000), 2e-15),
    ("logistic", scipy.special.expit, _rng().uniform(-700, 40, 4000), 1e-15),
]


@pytest.mark.parametrize(("name", "scipy_function", "x", "bound"), UNARY_CASES)
def test_unary_functions_agree_with_scipy(
    name: str, scipy_function: Callable[[Array], Array], x: Array, bound: float
) -> None:
    assert _relative(getattr(values, name)(x), scipy_function(x)) < bound


def test_lgamma_and_digamma_keep_their_relative_accuracy_at_their_zeros() -> None:
    # from 40-digit arithmetic
    x = np.array([1 + 2.0**-30, 1 - 2.0**-30, 2 + 2.0**-30, 2 - 2.0**-30])
    want = [-5.375739784311044e-10, 5.375739798578573e-10]
    want += [3.937485957506932e-10, -3.9374859519130207e-10]
    np.testing.assert_allclose(values.lgamma(x), want, rtol=1e-15)
    np.testing.assert_allclose(
        values.digamma(np.array([1.4616321449683622, 1.4616321449683625])),
        [-9.241265521729427e-17, 1.2245374622004068e-16],
        rtol=1e-14,
    )


def test_lgamma_and_digamma_left_of_zero() -> None:
    x = -_rng().uniform(0.001, 60, 3000)
    for got, want, bound in (
        (values.lgamma(x), scipy.special.gammaln(x), 2e-15),
        (values.digamma(x), scipy.special.digamma(x), 1e-12),  # the bound is SciPy's error
    ):
        scale = np.maximum(1 + np.abs(np.log(-x)), np.abs(want))
        assert np.max(np.abs(got - want) / scale) < bound
    near_pole = values.digamma(np.float64(-15.999801627922665))
    assert near_pole == pytest.approx(-5038.227897724264, rel=1e-15)  # from 40-digit arithmetic


def test_digamma_is_the_derivative_of_lgamma() -> None:
    x = np.concatenate([_rng().uniform(0.5, 30, 200), -_rng().integers(0, 9, 50) - 0.3])
    step = 1e-4 * np.maximum(1, np.abs(x))
    near, far = (
        (values.lgamma(x + k * step) - values.lgamma(x - k * step)) / (2 * k * step) for k in (1, 2)
    )
    np.testing.assert_allclose((4 * near - far) / 3, values.digamma(x), rtol=1e-8, atol=1e-9)


def test_zeta_agrees_with_scipy() -> None:
    s = 1 + _magnitudes(-3, 2.5, 3000)
    q = 10.0 ** np.random.default_rng(8).uniform(-2, 4, 3000)
    want = scipy.special.zeta(s, q)
    normal = (want > 1e-300) & np.isfinite(want)
    assert _relative(values.zeta(s, q)[normal], want[normal]) < 1e-14


def test_zeta_left_of_zero_for_integer_exponents() -> None:
    s = np.array([2.0, 3, 4, 5, 2, 3, 7, 2])
    q = np.array([-0.5, -0.5, -10.3, -20.7, -3.1, -3.1, -0.25, -100.25])
    np.testing.assert_allclose(values.zeta(s, q), scipy.special.zeta(s, q), rtol=5e-15)
    assert np.isnan(values.zeta(np.float64(2.5), np.float64(-0.5)))


def test_polygamma_agrees_with_scipy_and_continues_digamma() -> None:
    m = np.random.default_rng(9).integers(0, 30, 2000)
    x = _magnitudes(-1.5, 3, 2000)
    got = values.polygamma(m.astype(np.float64), x)
    assert _relative(got, scipy.special.polygamma(m, x)) < 2e-14
    np.testing.assert_array_equal(values.polygamma(np.zeros(2000), x), values.digamma(x))


def test_polygamma_where_the_factorial_overflows() -> None:
    # from 40-digit arithmetic
    got = values.polygamma(np.array([200.0, 300.0]), np.array([50.0, 90.0]))
    np.testing.assert_allclose(got, POLYGAMMA_LARGE, rtol=1e-12)


def test_polygamma_is_the_derivative_of_the_order_below() -> None:
    m, x = np.repeat(np.arange(1.0, 6.0), 20), np.tile(np.linspace(-4.65, 6.2, 20), 5)
    step = 1e-5
    slope = (values.polygamma(m - 1, x + step) - values.polygamma(m - 1, x - step)) / (2 * step)
    want = values.polygamma(m, x)
    np.testing.assert_allclose(slope, want, rtol=1e-5, atol=1e-5)


def _gamma_arguments(low: float, high: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(11)
    a = 10.0 ** rng.uniform(low, high, 3000)
    around = np.abs(a + np.sqrt(a) * rng.normal(0, 3, 3000))
    return a, np.where(rng.random(3000) < 0.5, around, a * 10.0 ** rng.uniform(-1, 1, 3000))


@pytest.mark.parametrize(
    ("low", "high", "bound"), [(-3, 1, 5e-14), (1, 2.3, 1e-12), (2.2, 3.3, 4e-12)]
)
def test_igamma_and_igammac_agree_with_scipy(low: float, high: float, bound: float) -> None:
    # the bounds are SciPy's error: against 40 digits ours stays below 3e-14 (next test)
    a, x = _gamma_arguments(low, high)
    for ours, theirs in (
        (values.igamma, scipy.special.gammainc),
        (values.igammac, scipy.special.gammaincc),
    ):
        want = theirs(a, x)
        likely = want > 1e-30
        assert _relative(ours(a, x)[likely], want[likely]) < bound


def test_igamma_against_many_digits() -> None:
    a, x, lower, upper = np.array(IGAMMA).T
    assert _relative(values.igamma(a, x), lower) < 3e-14
    assert _relative(values.igammac(a, x), upper) < 3e-14


def test_igamma_and_igammac_add_to_one() -> None:
    a, x = _gamma_arguments(-3, 14)
    np.testing.assert_allclose(values.igamma(a, x) + values.igammac(a, x), 1, rtol=1e-15)


def test_derivatives_of_igamma_by_a_against_many_digits() -> None:
    a, x, slope, sample_slope = np.array(IGAMMA_GRAD).T
    assert _relative(values.igamma_grad_a(a, x), slope) < 5e-14
    assert _relative(values.random_gamma_grad(a, x), sample_slope) < 2e-14


def test_derivatives_of_igamma_by_a_are_smooth_where_formulas_meet() -> None:
    for a, x in ((200.0, 190.0), (200.0, 230.0), (1.3, 1.1), (5.0, 5.0)):
        a_near, x_near = np.array([a * (1 - 1e-13), a]), np.array([x, x * (1 + 1e-13)])
        left, right = values.random_gamma_grad(a_near, x_near)
        assert abs(left / right - 1) < 2e-12


def test_random_gamma_grad_where_the_density_underflows() -> None:
    # P is about (x/e)^a / ..., so d x / d a is about -(x/a) (log x - psi(a + 1))
    a, x = np.float64(1000.0), np.float64(1e-5)
    assert values.igamma(a, x) == 0
    want = -(x / a) * (np.log(x) - values.digamma(a + 1))
    np.testing.assert_allclose(values.random_gamma_grad(a, x), want, rtol=1e-8)


@pytest.mark.parametrize(
    ("low", "high", "bound"),
    [((-3, 1), (-3, 1), 1e-13), ((1, 3), (1, 3), 3e-13), ((-3, 1), (1, 6), 1e-13),
     ((3, 5), (3, 5), 8e-12),  # SciPy 1.15, the last for Python 3.10, errs by 7e-12
     ((2.9, 3.1), (2.9, 3.2), 5e-13)],
)  # fmt: skip
def test_betainc_agrees_with_scipy(
    low: tuple[float, float], high: tuple[float, float], bound: float
) -> None:
    rng = np.random.default_rng(12)
    a, b = 10.0 ** rng.uniform(*low, 2000), 10.0 ** rng.uniform(*high, 2000)
    mean = a / (a + b)
    near = mean + np.sqrt(mean * (1 - mean) / (a + b + 1)) * rng.normal(0, 3, 2000)
    x = np.where(rng.random(2000) < 0.5, rng.random(2000), np.clip(near, 1e-12, 1 - 1e-12))
    swap = rng.random(2000) < 0.3
    a, b, x = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - x, x)
    want = scipy.special.betainc(a, b, x)
    error = np.abs(values.betainc(a, b, x) - want)
    assert np.max((error - 1e-14) / np.maximum(want, 1e-30)) < bound


EDGES: list[tuple[str, list[list[float]], list[float]]] = [
    ("erf", [[NAN, INF, -INF, 0.0, -0.0]], [NAN, 1, -1, 0.0, -0.0]),
    ("erfc", [[NAN, INF, -INF, 0.0, -0.0, 30.0]], [NAN, 0, 2, 1, 1, 0]),
    ("erf_inv", [[NAN, 1, -1, 1.5, -INF, 0.0, -0.0]], [NAN, INF, -INF, NAN, NAN, 0.0, -0.0]),
    ("lgamma", [[NAN, INF, -INF, 0.0, -0.0, -3, 1, 2]], [NAN, INF, INF, INF, INF, INF, 0, 0]),
    ("digamma", [[NAN, INF, -INF, 0.0, -0.0, -3]], [NAN, INF, NAN, NAN, NAN, NAN]),
    ("bessel_i0e", [[NAN, INF, -INF, 0.0]], [NAN, 0, 0, 1]),
    ("bessel_i1e", [[NAN, INF, -INF, 0.0, -0.0]], [NAN, 0.0, -0.0, 0.0, -0.0]),
    ("logistic", [[NAN, INF, -INF, 0.0, 1e308]], [NAN, 1, 0, 0.5, 1]),
    ("rsqrt", [[NAN, INF, -1, 0.0, -0.0]], [NAN, 0, NAN, INF, -INF]),
    ("cbrt", [[NAN, INF, -INF, -0.0, -8]], [NAN, INF, -INF, -0.0, -2]),
    ("log1p", [[NAN, INF, -1, -2, -0.0]], [NAN, INF, -INF, NAN, -0.0]),
    ("expm1", [[NAN, INF, -INF, 1e4, -0.0]], [NAN, INF, -1, INF, -0.0]),
    (
        "zeta",
        [[1, 0.5, 2, 2, NAN, 2, 2, INF, INF, INF, 2], [1, 1, 0, -1, 1, NAN, INF, 1, 2, 0.5, 1e300]],
        [INF, NAN, INF, INF, NAN, NAN, 0, 1, 0, INF, 9.999999999999999e-301],
    ),
    (
        "polygamma",
        [[1, 2, 1, 2, -1, 1.5, 1, NAN, INF, 1], [0, 0, -1, -1, 1, 1, INF, 1, 1, NAN]],
        [INF, NAN, INF, NAN, NAN, NAN, 0, NAN, NAN, NAN],
    ),
    (
        "igamma",
        [[0, 0, 1, 1, -1, NAN, INF, 1, INF, 1, 0], [0, 1, 0, -1, 1, 1, 1, INF, INF, NAN, INF]],
        [NAN, 1, 0, NAN, NAN, NAN, 0, 1, NAN, NAN, 1],
    ),
    (
        "igammac",
        [[0, 0, 1, 1, -1, NAN, INF, 1, INF, 1, 0], [0, 1, 0, -1, 1, 1, 1, INF, INF, NAN, INF]],
        [NAN, 0, 1, NAN, NAN, NAN, 1, 0, NAN, NAN, 0],
    ),
    ("igamma_grad_a", [[0, 1, 1, -1, NAN, 1], [1, 0, INF, 1, 1, -1]], [NAN, 0, 0, NAN, NAN, NAN]),
    ("random_gamma_grad", [[0, 1, -1, NAN, 1], [1, 0, 1, 1, -1]], [NAN, 0, NAN, NAN, NAN]),
    (
        "betainc",
        [
            [0, 0, 1, 1, 1, 1, -1, INF, 2, NAN, 1, 0, INF],
            [0, 1, 0, 1, 1, 1, 1, 1, INF, 1, 1, 0, INF],
            [0.5, 0.5, 0.5, 0, 1, -0.1, 0.5, 0.5, 0.5, 0.5, 2, 0, 0.5],
        ],
        [NAN, 1, 0, 0, 1, NAN, NAN, 0, 1, NAN, NAN, NAN, NAN],
    ),
]


@pytest.mark.parametrize(("name", "operands", "want"), EDGES)
def test_edges(name: str, operands: list[list[float]], want: list[float]) -> None:
    _same(getattr(values, name)(*map(np.float64, operands)), np.float64(want))


@pytest.mark.parametrize(("name", "arity"), FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32], ids=["f16", "bf16", "f32"])
def test_narrow_dtypes_are_the_double_value_rounded_once(
    name: str, arity: int, dtype: np.dtype[Any]
) -> None:
    rng = np.random.default_rng(13)
    operands = [np.asarray(rng.uniform(0.1, 0.9, 200)).astype(dtype) for _ in range(arity)]
    if name in ("polygamma", "zeta"):
        operands[0] = np.asarray(rng.integers(2, 5, 200)).astype(dtype)
    got = getattr(values, name)(*operands)
    assert got.dtype == dtype
    want = getattr(values, name)(*(operand.astype(np.float64) for operand in operands))
    np.testing.assert_array_equal(got, round_to(want, np.dtype(dtype)))


@pytest.mark.parametrize(("name", "arity"), FUNCTIONS)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)], ids=str)
def test_any_shape(name: str, arity: int, shape: tuple[int, ...]) -> None:
    got = getattr(values, name)(*(np.full(shape, 0.5),) * arity)
    assert isinstance(got, np.ndarray)
    assert got.shape == shape
    assert got.dtype == np.float64


def test_operands_of_two_dtypes_or_of_integers_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"igamma: operands must share one real float dtype"):
        values.igamma(np.float32(1), np.float64(1))
    with pytest.raises(DTypeError, match=r"erf: operands must share"):
        values.erf(np.int32([1]))


def test_bfloat16_is_not_rounded_twice() -> None:
    # a hair above a tie: rounding to float32 first would land on the tie, and then on even
    x = np.float64([1 + 2**-8 + 2**-40, -1 - 2**-8 - 2**-40, 1 + 2**-8, 1e-60, 1e60, NAN])
    want = [1.0078125, -1.0078125, 1.0, 0.0, INF, NAN]
    _same(round_to(x, BF16).astype(np.float64), want)
