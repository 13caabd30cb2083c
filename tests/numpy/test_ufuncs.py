"""Elementwise functions against NumPy, under jit, at their edges, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import functrax
import functrax.numpy as jnp
from functrax import enable_x64
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.options.config import Override

SHAPES = [(), (3,), (0, 2), (2, 1, 3)]
#: name -> (NumPy's function, the interval of the operand)
UNARY = {
    "abs": (np.abs, -3, 3),
    "fabs": (np.fabs, -3, 3),
    "negative": (np.negative, -3, 3),
    "positive": (np.positive, -3, 3),
    "sign": (np.sign, -3, 3),
    "square": (np.square, -3, 3),
    "reciprocal": (np.reciprocal, 0.5, 3),
    "exp": (np.exp, -3, 3),
    "exp2": (np.exp2, -3, 3),
    "expm1": (np.expm1, -3, 3),
    "log": (np.log, 0.1, 3),
    "log2": (np.log2, 0.1, 3),
    "log10": (np.log10, 0.1, 3),
    "log1p": (np.log1p, -0.5, 3),
    "sqrt": (np.sqrt, 0, 3),
    "cbrt": (np.cbrt, -3, 3),
    "sin": (np.sin, -3, 3),
    "cos": (np.cos, -3, 3),
    "tan": (np.tan, -1, 1),
    "arcsin": (np.arcsin, -1, 1),
    "arccos": (np.arccos, -1, 1),
    "arctan": (np.arctan, -3, 3),
    "sinh": (np.sinh, -3, 3),
    "cosh": (np.cosh, -3, 3),
    "tanh": (np.tanh, -3, 3),
    "arcsinh": (np.arcsinh, -3, 3),
    "arccosh": (np.arccosh, 1, 3),
    "arctanh": (np.arctanh, -0.9, 0.9),
    "deg2rad": (np.deg2rad, -90, 90),
    "rad2deg": (np.rad2deg, -3, 3),
    "sinc": (np.sinc, -3, 3),
    "i0": (np.i0, -3, 3),
    "floor": (np.floor, -3, 3),
    "ceil": (np.ceil, -3, 3),
    "trunc": (np.trunc, -3, 3),
    "rint": (np.rint, -3, 3),
    "round": (np.round, -3, 3),
    "isnan": (np.isnan, -3, 3),
    "isinf": (np.isinf, -3, 3),
    "isfinite": (np.isfinite, -3, 3),
    "isposinf": (np.isposinf, -3, 3),
    "isneginf": (np.isneginf, -3, 3),
    "signbit": (np.signbit, -3, 3),
    "logical_not": (np.logical_not, -3, 3),
    "real": (np.real, -3, 3),
    "imag": (np.imag, -3, 3),
    "conj": (np.conj, -3, 3),
    "angle": (np.angle, -3, 3),
    "isreal": (np.isreal, -3, 3),
    "nan_to_num": (np.nan_to_num, -3, 3),
    "spacing": (np.spacing, 0.1, 3),
}
BINARY = {
    "add": (np.add, -3, 3),
    "subtract": (np.subtract, -3, 3),
    "multiply": (np.multiply, -3, 3),
    "divide": (np.divide, 0.5, 3),
    "floor_divide": (np.floor_divide, 0.5, 9),
    "remainder": (np.remainder, 0.5, 9),
    "fmod": (np.fmod, 0.5, 9),
    "power": (np.power, 0.5, 3),
    "float_power": (np.float_power, 0.5, 3),
    "hypot": (np.hypot, -3, 3),
    "logaddexp": (np.logaddexp, -3, 3),
    "logaddexp2": (np.logaddexp2, -3, 3),
    "arctan2": (np.arctan2, -3, 3),
    "copysign": (np.copysign, -3, 3),
    "nextafter": (np.nextafter, -3, 3),
    "heaviside": (np.heaviside, -3, 3),
    "maximum": (np.maximum, -3, 3),
    "minimum": (np.minimum, -3, 3),
    "fmax": (np.fmax, -3, 3),
    "fmin": (np.fmin, -3, 3),
    "equal": (np.equal, -3, 3),
    "not_equal": (np.not_equal, -3, 3),
    "less": (np.less, -3, 3),
    "less_equal": (np.less_equal, -3, 3),
    "greater": (np.greater, -3, 3),
    "greater_equal": (np.greater_equal, -3, 3),
    "logical_and": (np.logical_and, -3, 3),
    "logical_or": (np.logical_or, -3, 3),
    "logical_xor": (np.logical_xor, -3, 3),
    "isclose": (np.isclose, -3, 3),
}
INTEGERS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "gcd": np.gcd,
    "lcm": np.lcm,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "power": np.power,
    "maximum": np.maximum,
    "add": np.add,
}


def values(rng, shape, low, high, dtype):
    x = rng.uniform(low, high, shape)
    return np.round(x).astype(dtype) if np.dtype(dtype).kind in "iub" else x.astype(dtype)


def assert_close(ours, theirs, tolerance=2e-6):
    assert ours.shape == theirs.shape
    exact = np.asarray(theirs).astype(np.asarray(ours).dtype)
    np.testing.assert_allclose(np.asarray(ours), exact, rtol=tolerance, atol=tolerance)


def assert_strictly_equal(function, *args):
    """In strict mode jit gives the bits of the operations one by one."""
    with Override("strict", True):
        jitted = functrax.jit(lambda *xs: function(*xs))(*args)
        np.testing.assert_array_equal(np.asarray(jitted), np.asarray(function(*args)))


@pytest.mark.parametrize("name", UNARY)
def test_one_operand_against_numpy(name):
    rng = np.random.default_rng(0)
    function, low, high = UNARY[name]
    for shape in SHAPES:
        x = values(rng, shape, low, high, np.float32)
        theirs = np.asarray(function(x))
        ours = getattr(jnp, name)(x)
        assert_close(ours, theirs.reshape(shape))
        jitted = functrax.jit(getattr(jnp, name))(x)
        assert jitted.dtype == ours.dtype
        assert_close(jitted, theirs.reshape(shape))
        assert_strictly_equal(getattr(jnp, name), x)


@pytest.mark.parametrize("name", BINARY)
def test_two_operands_broadcast_as_in_numpy(name):
    rng = np.random.default_rng(1)
    function, low, high = BINARY[name]
    for left, right in [((3,), (3,)), ((2, 1, 3), (4, 1)), ((), (3,)), ((0, 2), (1, 2)), ((), ())]:
        x = values(rng, left, low, high, np.float32)
        y = values(rng, right, low, high, np.float32)
        ours = getattr(jnp, name)(x, y)
        assert_close(ours, np.asarray(function(x, y)))
        assert_close(functrax.jit(getattr(jnp, name))(x, y), np.asarray(function(x, y)))
        assert_strictly_equal(getattr(jnp, name), x, y)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_against_numpy(name, dtype):
    rng = np.random.default_rng(2)
    low = 0 if np.dtype(dtype).kind == "u" or name in ("left_shift", "right_shift") else -5
    x = rng.integers(low, 6, (4, 5)).astype(dtype)
    y = rng.integers(0 if name == "power" else low, 6, (5,)).astype(dtype)
    if name in ("floor_divide", "remainder", "fmod"):
        y[y == 0] = 3
    ours = getattr(jnp, name)(x, y)
    theirs = INTEGERS[name](x, y)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_half_precision_is_close():
    x = np.linspace(0.1, 2, 7)
    for name in ("exp", "log", "sqrt", "tanh", "sinc", "arctan", "i0"):
        for dtype in (jnp.float16, jnp.bfloat16):
            ours = getattr(jnp, name)(jnp.array(x, dtype))
            assert ours.dtype == dtype
            exact = UNARY[name][0](np.asarray(jnp.array(x, dtype), np.float64))
            np.testing.assert_allclose(np.asarray(ours, np.float64), exact, rtol=0.02, atol=0.002)


def test_complex_operands():
    x = np.array([1 + 2j, -0.5j, -3 + 0j], np.complex64)
    for name in ("exp", "log", "sin", "sqrt", "abs", "angle", "real", "imag", "conj", "sinc"):
        assert_close(getattr(jnp, name)(x), np.asarray(getattr(np, name)(x)), 1e-5)
    y = np.array([1 + 3j, 1 - 0.5j, -3 + 0j], np.complex64)
    assert_close(jnp.maximum(x, y), np.maximum(x, y))
    assert_close(jnp.minimum(x, y), np.minimum(x, y))
    np.testing.assert_array_equal(np.asarray(jnp.less(x, y)), [True, True, False])
    assert_close(jnp.logaddexp(x, y), np.log(np.exp(x) + np.exp(y)), 1e-5)
    assert_close(jnp.rint(x), np.rint(x))


def test_remainders_have_python_s_signs():
    x, y = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    for dtype in (np.int32, np.float32):
        a, b = jnp.array(x, dtype), jnp.array(y, dtype)
        assert (a % b).tolist() == [1, 2, -2, -1]
        assert (a // b).tolist() == [2, -3, -3, 2]
        assert jnp.fmod(a, b).tolist() == [1, -1, 1, -1]
        assert [v.tolist() for v in divmod(a, b)] == [[2, -3, -3, 2], [1, 2, -2, -1]]
        assert (a % 3).tolist() == [1, 2, 1, 2]
        assert (a // -3).tolist() == [-3, 2, -3, 2]
    assert jnp.remainder(jnp.array([5, -5]), 0).tolist() == [0, 0]
    assert jnp.floor_divide(-5.0, 0.0) == -np.inf
    assert jnp.floor_divide(jnp.float32(8388609), 1) == 8388609


def test_powers():
    x = jnp.array([-2.0, 0.0, 3.0])
    assert (x**2).tolist() == [4, 0, 9]
    assert (x**0).tolist() == [1, 1, 1]
    assert (x**-1.0).tolist() == [-0.5, np.inf, pytest.approx(1 / 3)]
    assert jnp.array([2, 0, 1]).__pow__(jnp.array([-1, 0, -1])).tolist() == [0, 1, 1]
    assert jnp.power(jnp.int8(2), 3).dtype == jnp.int8
    assert functrax.jit(lambda x, n: x**n)(x, 2).tolist() == [4, 0, 9]
    assert str(functrax.make_jaxpr(lambda x: x**2)(x)).count("integer_pow") == 1
    with pytest.raises(DTypeError, match="negative powers"):
        jnp.array([1, 2]) ** -1


@pytest.mark.parametrize("strict", [False, True])
def test_floats_come_apart_and_together(strict):
    with np.errstate(all="ignore"):
        x = np.array(
            [3.0, -5.0, 0.0, -0.0, 1e-40, -3e-45, 3e38, np.inf, -np.inf, np.nan], np.float32
        )
    with Override("strict", strict):
        mantissa, exponent = jnp.frexp(x)
        if not strict and functrax.config.backend in ("auto", "llvm"):  # subnormal ones are zeros
            x[4:6] = [0, -0.0]
        np.testing.assert_array_equal(np.asarray(jnp.ldexp(mantissa, exponent)), x)
        fraction, whole = map(np.asarray, jnp.modf(x))
    want_mantissa, want_exponent = np.frexp(x)
    np.testing.assert_array_equal(np.asarray(mantissa), want_mantissa)
    assert exponent.dtype == np.int32
    finite = np.isfinite(x)
    np.testing.assert_array_equal(np.asarray(exponent)[finite], want_exponent[finite])
    assert jnp.ldexp(jnp.float32(1e-30), 200) == np.ldexp(np.float32(1e-30), 200)
    with functrax.enable_x64():
        assert jnp.ldexp(1.0, np.array([2**40, -(2**40), 5])).tolist() == [np.inf, 0.0, 32.0]
    np.testing.assert_array_equal(fraction, np.modf(x)[0])
    np.testing.assert_array_equal(whole, np.modf(x)[1])
    np.testing.assert_array_equal(np.asarray(jnp.copysign(x, -1)), np.copysign(x, np.float32(-1)))
    np.testing.assert_array_equal(np.asarray(jnp.signbit(x)), np.signbit(x))


def test_special_values():
    nan, inf = np.nan, np.inf
    x = np.array([nan, inf, -inf, 0.0], np.float32)
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num"):
        np.testing.assert_array_equal(np.asarray(getattr(jnp, name)(x)), getattr(np, name)(x))
    filled = jnp.nan_to_num(x, nan=1, posinf=2, neginf=jnp.float32(3))
    assert filled.tolist() == [1, 2, 3, 0]
    for name in ("fmax", "fmin", "maximum", "minimum", "heaviside"):
        ours = getattr(jnp, name)(x, np.float32(1))
        np.testing.assert_array_equal(np.asarray(ours), getattr(np, name)(x, np.float32(1)))
    for a in (inf, -inf, 1.0, nan):
        for b in (inf, -inf, 1.0, nan):
            pair = np.float32(a), np.float32(b)
            for name in ("hypot", "logaddexp", "logaddexp2"):
                with np.errstate(invalid="ignore"):
                    want = getattr(np, name)(*pair)
                np.testing.assert_allclose(np.asarray(getattr(jnp, name)(*pair)), want, rtol=1e-6)
    assert jnp.hypot(jnp.float32(3e30), 4e30) == np.float32(5e30)
    close = jnp.isclose(jnp.array([nan, inf, 1.0]), jnp.array([nan, inf, 1 + 1e-6]), equal_nan=True)
    assert close.tolist() == [True, True, True]
    assert jnp.isclose(jnp.array([inf]), 1.0).tolist() == [False]


def test_bits():
    x = jnp.array([0, 1, -3, 127], jnp.int8)
    assert jnp.bitwise_count(x).tolist() == [0, 1, 2, 7]
    assert jnp.bitwise_count(x).dtype == jnp.uint8
    assert (~x).tolist() == [-1, -2, 2, -128]
    assert (x >> 1).tolist() == [0, 0, -2, 63]
    assert jnp.gcd(jnp.array([-12, 0, 0]), jnp.array([18, 5, 0])).tolist() == [6, 5, 0]
    fibonacci = jnp.array([1836311903, 1134903170])
    assert jnp.gcd(fibonacci[0], fibonacci[1]) == 1


def test_rounding_and_limits():
    x = jnp.array([0.5, 1.5, -2.5, 2.346])
    assert jnp.round(x).tolist() == [0, 2, -2, 2]
    np.testing.assert_allclose(np.asarray(jnp.round(x, 2)), [0.5, 1.5, -2.5, 2.35], rtol=1e-6)
    assert jnp.round(jnp.array([1234.0]), -2).tolist() == [1200]
    assert jnp.round(jnp.array([3, 4])).dtype == jnp.int32
    assert jnp.clip(x, 0, 2).tolist() == [0.5, 1.5, 0, 2]
    assert jnp.clip(x, max=1.0).tolist() == [0.5, 1, -2.5, 1]
    assert jnp.clip(jnp.ones(2), 2, 1).tolist() == [1, 1]
    assert x.clip(0, 1).tolist() == [0.5, 1, 0, 1]
    with pytest.raises(ArgumentError, match="negative decimals"):
        jnp.round(jnp.array([3]), -1)
    with pytest.raises(DTypeError, match="complex"):
        jnp.clip(jnp.array([1j]), 0, 1)


def nth_derivative(f, n):
    for _ in range(n):
        f = functrax.grad(f)
    return f


def test_derivatives_of_sinc_at_zero():
    with enable_x64():
        want = [1, 0, -(np.pi**2) / 3, 0, np.pi**4 / 5, 0]
        for n, derivative in enumerate(want):
            found = float(nth_derivative(jnp.sinc, n)(0.0))
            assert found == pytest.approx(derivative, rel=1e-12, abs=1e-12)
        x = 0.3183  # beside the seam between series and quotient
        exact = (np.pi * x * np.cos(np.pi * x) - np.sin(np.pi * x)) / (np.pi * x**2)
        assert float(functrax.grad(jnp.sinc)(x)) == pytest.approx(exact, rel=1e-12)


def test_derivatives_of_logaddexp():
    with enable_x64():

        def f(x):
            return jnp.logaddexp(x, 1.0)

        for x in (1.0, 0.0, 3.0, -800.0, 800.0):
            s = scipy.special.expit(x - 1)
            want = [s, s * (1 - s), s * (1 - s) * (1 - 2 * s)]
            for n, derivative in enumerate(want, 1):
                assert float(nth_derivative(f, n)(x)) == pytest.approx(derivative, abs=1e-14)
        infinite = functrax.grad(jnp.logaddexp, (0, 1))(-np.inf, -np.inf)
        assert all(np.isfinite(float(d)) for d in infinite)
        assert float(functrax.grad(jnp.logaddexp)(-np.inf, 0.0)) == 0


@pytest.mark.parametrize(
    ("function", "argument", "derivative"),
    [
        (lambda x: jnp.hypot(x, x), 0.0, 0.0),
        (lambda x: jnp.hypot(x, 4.0), 3.0, 0.6),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: x**2, -2.0, -4.0),
        (lambda x: jnp.power(x, jnp.array(2)), -2.0, -4.0),
        (lambda x: jnp.power(0.0, x), 2.0, 0.0),
        (lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1)), 0.0), -1.0, 0.0),
        (lambda x: jnp.where(x > 0, x, jnp.nan), 1.0, 1.0),
        (lambda x: x % 3.0, 5.0, 1.0),
        (lambda x: 5.0 % x, 3.0, -1.0),
        (lambda x: -5.0 % x, 3.0, 2.0),
        (lambda x: x // 3.0, 5.0, 0.0),
        (lambda x: jnp.clip(x, 0.0, 1.0), 2.0, 0.0),
        (lambda x: jnp.maximum(x, 1.0), 1.0, 0.5),
        (lambda x: jnp.fmax(x, 1.0), np.nan, 0.0),
        (lambda x: jnp.copysign(x, -1.0), 2.0, -1.0),
        (lambda x: jnp.ldexp(x, 3), 1.5, 8.0),
        (lambda x: jnp.frexp(x)[0], 3.0, 0.25),
        (lambda x: jnp.modf(x)[0], 3.25, 1.0),
        (lambda x: jnp.round(x, 1), 1.23, 0.0),
        (lambda x: jnp.nan_to_num(x), np.nan, 0.0),
        (lambda x: jnp.reciprocal(x), 2.0, -0.25),
        (lambda x: jnp.logaddexp2(x, 1.0), 1.0, 0.5),
        (lambda x: jnp.i0(x), 0.5, float(scipy.special.i1(0.5))),
        (lambda x: jnp.i0(x), 0.0, 0.0),
        (lambda x: jnp.abs(x + 1j * x), 1.0, np.sqrt(2)),
    ],
)
def test_derivatives_at_delicate_points(function, argument, derivative):
    with enable_x64():
        assert float(functrax.grad(function)(argument)) == pytest.approx(derivative, abs=1e-12)
        assert float(functrax.jit(functrax.grad(function))(argument)) == pytest.approx(
            derivative, abs=1e-12
        )


def test_where():
    x = jnp.array([1.0, -2.0, 3.0])
    assert jnp.where(x > 0, x, 0).tolist() == [1, 0, 3]
    assert jnp.where(jnp.array([2, 0, 1]), 1, jnp.array([[5], [6]])).tolist() == [
        [1, 5, 1],
        [1, 6, 1],
    ]
    assert jnp.where(True, 1, 2) == 1
    assert functrax.vmap(lambda c: jnp.where(c, x, 0.0))(jnp.array([True, False])).shape == (2, 3)
    with pytest.raises(ArgumentError, match="one of x and y is missing"):
        jnp.where(True, 1)
    with pytest.raises(ArgumentError, match="size and fill_value"):
        jnp.where(True, 1, 2, size=3)


def test_errors_have_four_parts():
    with pytest.raises(DTypeError) as lists:
        jnp.add([1, 2], jnp.ones(2))
    text = str(lists.value)
    assert "add: takes arrays and scalars" in text
    assert "got   [1, 2] of type list at position 0" in text
    assert "test_ufuncs.py" in text
    assert "functrax.numpy.array" in text
    with pytest.raises(
        ShapeError, match=r"multiply: shapes do not broadcast\n  got   \(3,\), \(4,\)"
    ):
        jnp.multiply(jnp.ones(3), jnp.ones(4))
    with pytest.raises(TypeError):
        jnp.add(None, 1)
    with pytest.raises(DTypeError, match="complex"):
        jnp.floor(1j)


def test_wrong_arguments_are_explained():
    with pytest.raises(ArgumentError) as unknown:
        jnp.exp(jnp.ones(2), outt=3)
    assert "exp: unknown keyword 'outt'" in str(unknown.value)
    assert "test_ufuncs.py" in str(unknown.value)
    with pytest.raises(ArgumentError, match=r"keepdims="):
        jnp.sum(jnp.ones(2), keepdim=True)
    with pytest.raises(ArgumentError, match="add: takes 2 positional arguments but 3"):
        jnp.add(1, 2, 3)
    with pytest.raises(TypeError, match="unhashable"):
        jnp.sum(jnp.ones(2), axis=hash(jnp.ones(2)))


def test_rank_promotion_can_be_refused():
    with functrax.numpy_rank_promotion("raise"):
        assert jnp.add(jnp.ones((2, 3)), 1).shape == (2, 3)
        with pytest.raises(ShapeError, match="their ranks differ"):
            jnp.add(jnp.ones((2, 3)), jnp.ones(3))
    with functrax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="following NumPy"):
        jnp.add(jnp.ones((2, 3)), jnp.ones(3))


def test_the_common_case_makes_one_equation():
    x = jnp.ones((2, 3))
    for function in (lambda x: x + x, lambda x: x * 2.0, lambda x: 3 - x, lambda x: jnp.tanh(x)):
        assert len(functrax.make_jaxpr(function)(x).eqns) == 1
    assert len(functrax.make_jaxpr(lambda x: jnp.maximum(x, 0))(x).eqns) == 1


def test_the_greatest_common_divisor_is_never_negative() -> None:
    assert jnp.gcd(jnp.int8(-128), jnp.int8(31)) == 1
    assert jnp.gcd(jnp.int32(-(2**31)), jnp.int32(6)) == 2
