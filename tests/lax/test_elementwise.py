"""What operands the elementwise functions take, and what comes out."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.special

from functrax import lax
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.ir.jaxpr import all_eqns
from functrax.transforms.arguments.inspect_types import make_jaxpr
from functrax.transforms.differentiation.derivatives import grad

F32, I32 = np.float32([0.25, 0.5, 0.75]), np.int32([1, 2, 3])
NUMPY = {
    "neg": np.negative, "sign": np.sign, "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
    "is_finite": np.isfinite, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "logistic": scipy.special.expit, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "atanh": np.arctanh,
    "erf": scipy.special.erf, "erfc": scipy.special.erfc, "erf_inv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln, "digamma": scipy.special.digamma,
    "bessel_i0e": scipy.special.i0e, "bessel_i1e": scipy.special.i1e,
    "reciprocal": np.reciprocal,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod,
    "max": np.maximum, "min": np.minimum, "pow": np.power, "atan2": np.arctan2,
    "nextafter": np.nextafter, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "igamma": scipy.special.gammainc,
    "igammac": scipy.special.gammaincc,
}  # fmt: skip


@pytest.mark.parametrize("name", NUMPY)
def test_unary(name: str) -> None:
    function = getattr(lax, name)
    out = function(F32)
    assert isinstance(out, ConcreteArray)
    np.testing.assert_allclose(out, NUMPY[name](F32.astype(np.float64)), rtol=2e-6)
    assert function.__name__ == name and function.__doc__
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    function, wanted = getattr(lax, name), BINARY[name]
    other = np.float32([1.5, 0.5, 0.25])
    np.testing.assert_allclose(function(F32, other), wanted(F32, other), rtol=2e-6)
    np.testing.assert_allclose(function(F32, 0.5), wanted(F32, np.float32(0.5)), rtol=2e-6)
    np.testing.assert_allclose(function(0.5, F32), wanted(np.float32(0.5), F32), rtol=2e-6)


def test_bits() -> None:
    other = np.int32([3, 1, 2])
    for name, wanted in (
        ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or),
        ("bitwise_xor", np.bitwise_xor),
        ("shift_left", np.left_shift),
        ("shift_right_arithmetic", np.right_shift),
    ):
        np.testing.assert_array_equal(getattr(lax, name)(I32, other), wanted(I32, other))
    np.testing.assert_array_equal(lax.shift_right_logical(np.int32([-1]), 28), [15])
    np.testing.assert_array_equal(lax.bitwise_not(I32), ~I32)
    np.testing.assert_array_equal(lax.population_count(I32), [1, 1, 2])
    np.testing.assert_array_equal(lax.clz(I32), [31, 30, 30])


def test_numbers_take_the_arrays_dtype() -> None:
    half = F32.astype(np.float16)
    assert lax.add(half, 1.0).dtype == np.float16
    assert lax.add(half, 1).dtype == np.float16
    assert lax.mul(2, I32.astype(np.int8)).dtype == np.int8
    assert lax.add(F32, np.float32(1)).dtype == np.float32
    assert lax.add(F32, np.float64(1)).dtype == np.float32
    out = lax.add(1, 2)
    assert out.dtype == np.int32 and out.weak_type
    assert lax.add(lax.add(1, 2), 3).weak_type
    assert not lax.add(F32, 1.0).weak_type


def test_numbers_become_literals() -> None:
    (eqn,) = all_eqns(make_jaxpr(lambda x: lax.mul(x, 2.0))(F32).jaxpr)
    assert eqn.primitive.name == "mul"


@pytest.mark.parametrize(
    ("x", "y"),
    [(I32, 1.5), (F32, I32), (F32, 1j), (F32, True), (np.array([True]), 1), (F32, np.int32(1)),
     (F32.astype(np.float16), np.float32(1)), (1, 1.0)],
)  # fmt: skip
def test_other_dtypes_are_refused(x: Any, y: Any) -> None:
    with pytest.raises(DTypeError):
        lax.add(x, y)


def test_shapes_that_meet() -> None:
    x = np.ones((2, 3), np.float32)
    assert lax.add(x, lax.full((), 1.0, "float32")).shape == (2, 3)
    assert lax.add(np.ones((2, 1), np.float32), np.ones((1, 3), np.float32)).shape == (2, 3)
    with pytest.raises(ShapeError, match="ranks"):
        lax.add(x, np.ones(3, np.float32))
    with pytest.raises(ShapeError, match="differ"):
        lax.add(x, np.ones((2, 2), np.float32))


def test_integers_are_refused_by_analytic_functions() -> None:
    with pytest.raises(DTypeError, match=r"sin(.|\n)*got(.|\n)*try"):
        lax.sin(I32)
    with pytest.raises(DTypeError, match="list"):
        lax.sin([1.0])  # type: ignore[arg-type]


def test_powers() -> None:
    np.testing.assert_allclose(lax.integer_pow(F32, -2), F32**-2.0, rtol=1e-6)
    np.testing.assert_allclose(lax.pow(F32, I32), F32**I32, rtol=1e-6)
    np.testing.assert_allclose(lax.pow(2.0, lax.add(I32, 0)), 2.0**I32, rtol=1e-6)
    np.testing.assert_allclose(lax.pow(F32, 3), F32**3, rtol=1e-6)
    with pytest.raises(DTypeError):
        lax.pow(I32, 2)


def test_choice() -> None:
    flags = np.array([True, False, True])
    np.testing.assert_array_equal(lax.select(flags, F32, -F32), np.where(flags, F32, -F32))
    np.testing.assert_array_equal(lax.select(flags, F32, 0.0), np.where(flags, F32, 0))
    np.testing.assert_array_equal(lax.select(False, F32, -F32), -F32)
    which = np.int32([2, 0, 1])
    np.testing.assert_array_equal(
        lax.select_n(which, F32, F32 + 1, F32 + 2), F32 + np.float32([2, 0, 1])
    )
    scalar = lax.gt(lax.full((), 1.0), 0.0)
    np.testing.assert_array_equal(lax.select(scalar, F32, -F32), F32)
    with pytest.raises(ShapeError, match="cases"):
        lax.select(flags, F32, F32[:2])
    with pytest.raises(ShapeError, match="choice"):
        lax.select(flags[:2], F32, F32)
    with pytest.raises(DTypeError, match="bool"):
        lax.select(F32, F32, F32)


def test_clamp_and_rounding() -> None:
    np.testing.assert_array_equal(lax.clamp(0.3, F32, 0.6), np.clip(F32, 0.3, 0.6, dtype="f4"))
    np.testing.assert_array_equal(lax.clamp(F32, F32, 0.6), np.float32([0.25, 0.5, 0.6]))
    halves = np.float32([-2.5, -0.5, 0.5, 1.5, 2.5])
    np.testing.assert_array_equal(lax.round(halves), [-3, -1, 1, 2, 3])
    even = lax.round(halves, lax.RoundingMethod.TO_NEAREST_EVEN)
    np.testing.assert_array_equal(even, np.round(halves))
    rounded = lax.reduce_precision(np.float32([1.001, 300.0]), 8, 7)
    np.testing.assert_array_equal(rounded, [1.0, 300.0])


def test_complex() -> None:
    z = lax.complex(F32, 2 * F32)
    np.testing.assert_array_equal(z, F32 + 2j * F32)
    np.testing.assert_array_equal(lax.real(z), F32)
    np.testing.assert_array_equal(lax.imag(z), 2 * F32)
    np.testing.assert_array_equal(lax.conj(z), F32 - 2j * F32)
    assert lax.conj(F32).dtype == np.complex64
    with pytest.raises(DTypeError):
        lax.real(F32)


def test_conversion() -> None:
    np.testing.assert_array_equal(lax.convert_element_type(F32 * 10, int), [2, 5, 7])
    assert lax.convert_element_type(F32, np.float64).dtype == np.float32
    assert not lax.convert_element_type(1, float).weak_type
    assert lax.dtype(np.float64(1)) == lax.dtype(2.0) == lax.dtype(float) == np.float32
    assert lax.dtype(F32) == np.float32 and lax.dtype("int8") == np.int8


@pytest.mark.parametrize(
    ("old", "new"), [("float32", "uint8"), ("int32", "int16"), ("int8", "float16")]
)
def test_bitcast(old: str, new: str) -> None:
    raw = np.random.default_rng(0).integers(0, 255, size=(3, 8), dtype=np.uint8)
    x = raw.view(old)
    size, wanted = np.dtype(old).itemsize, np.dtype(new).itemsize
    if wanted < size:
        expected = raw.view(new).reshape(*x.shape, size // wanted)
    else:
        x = x.reshape(3, -1, wanted // size)
        expected = x.view(new)[..., 0]
    out = np.asarray(lax.bitcast_convert_type(x, new))
    np.testing.assert_array_equal(out.view(np.uint8), np.ascontiguousarray(expected).view(np.uint8))
    with pytest.raises(ShapeError, match="parts"):
        lax.bitcast_convert_type(np.zeros((2, 3), np.uint8), np.int32)
    with pytest.raises(DTypeError, match="widths"):
        lax.bitcast_convert_type(np.zeros(2, bool), np.int32)


def test_stop_gradient() -> None:
    tree = lax.stop_gradient({"a": F32, "n": 3})
    np.testing.assert_array_equal(tree["a"], F32)
    assert tree["n"] == 3

    def f(x: Any) -> Any:
        return lax.add(lax.mul(x, 2.0), lax.stop_gradient(lax.square(x)))

    assert float(grad(f)(3.0)) == 2.0


def test_special_of_several_operands() -> None:
    np.testing.assert_allclose(
        lax.betainc(2.0, F32, 0.3), scipy.special.betainc(2.0, F32, 0.3), rtol=1e-5
    )
    np.testing.assert_allclose(
        lax.polygamma(np.float32(2.0), F32), scipy.special.polygamma(2, F32), rtol=1e-5
    )
    np.testing.assert_allclose(lax.zeta(2.5, F32), scipy.special.zeta(2.5, F32), rtol=1e-5)


def test_every_result_is_an_array() -> None:
    for out in (lax.full((), 1.0), lax.neg(2), lax.add(np.float32(1), np.float32(2))):
        assert isinstance(out, Array)
