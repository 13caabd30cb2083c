"""Dtypes of 8 bits and fewer: held, moved and converted, and computed in wider ones."""

import ml_dtypes
import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax.core.errors.typed import DTypeError
from functrax.core.options import contexts as config
from functrax.core.options.config import Override
from functrax.core.types import dtypes
from functrax.core.types.promotion import TypePromotionError

FLOATS = sorted(dtypes.STORED_FLOATS, key=str)
INTEGERS = sorted(dtypes.STORED_INTEGERS, key=str)
F8, I4 = dtypes.as_dtype("float8_e4m3fn"), dtypes.as_dtype("int4")


def codes_of(dtype: np.dtype) -> np.ndarray:
    """Every number of a dtype."""
    return np.arange(1 << dtypes.itemsize_bits(dtype), dtype=np.uint8).view(dtype)


def doubtful(dtype: np.dtype) -> np.ndarray:
    """All numbers of 16 bits, and what lies about the middles of neighbours, in float32."""
    every = np.arange(1 << 16, dtype=np.uint16)
    known = codes_of(dtype).astype(np.float32)
    known = np.unique(known[np.isfinite(known)])
    middles = (known[1:] + known[:-1]) / 2
    sides = [np.nextafter(middles, np.float32(side)) for side in (-np.inf, np.inf)]
    halves = [every.view(t).astype(np.float32) for t in (np.float16, ml_dtypes.bfloat16)]
    return np.concatenate([*halves, middles, *sides])


def as_there(numbers: np.ndarray, wide: str) -> np.ndarray:
    """Numbers as a wide dtype; on a GPU without the signs of NaNs that float32 does not get.

    Its conversions from float16 and float64 make NaN anew, without a sign (in NVIDIA's header
    ``cuda_fp16.hpp`` so does ``__internal_half2float``).
    """
    found = numbers.astype(wide)
    if fx.config.backend == "cuda" and wide in ("float16", "float64"):
        return np.where(np.isnan(found), np.abs(found), found)
    return found


def assert_same(got, want) -> None:
    """Equal bits, but for those of NaNs in wide floats."""
    got = np.asarray(got)
    assert got.dtype == want.dtype
    if want.dtype in dtypes.STORED:
        got, want = got.view(np.uint8), want.view(np.uint8)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_converted_as_ml_dtypes_does(dtype):
    codes, numbers = codes_of(dtype), doubtful(dtype)
    strict = dtype == ml_dtypes.float8_e8m0fnu  # whose least number is subnormal in float32
    with np.errstate(all="ignore"), config.enable_x64(), Override("strict", strict):
        for wide in ("float32", "float64", "float16", "bfloat16"):
            converted = fx.jit(lambda x, wide=wide: x.astype(wide))(codes)
            np.testing.assert_array_equal(
                np.asarray(converted).astype(np.float64), codes.astype(wide).astype(np.float64)
            )
            x = as_there(numbers, wide)
            assert_same(fx.jit(lambda x: x.astype(dtype))(x), x.astype(dtype))
        whole = np.arange(-700, 700)
        assert_same(fx.jit(lambda x: x.astype(dtype))(whole), whole.astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_and_floats_saturate(dtype):
    codes, info = codes_of(dtype), ml_dtypes.iinfo(dtype)
    whole = np.arange(-300, 300, dtype=np.int32)
    convert = fx.jit(lambda x: x.astype(dtype))
    assert_same(fx.jit(lambda x: x.astype(jnp.int32))(codes), codes.astype(np.int32))
    assert_same(convert(whole), whole.astype(dtype))
    x = np.array([-1e9, -2.7, -0.5, 0.9, 2.7, 1e9, np.nan, -np.inf], np.float32)
    want = np.clip(np.nan_to_num(np.trunc(x)), int(info.min), int(info.max)).astype(dtype)
    assert_same(convert(x), want)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_elements_move_as_they_are(dtype):
    x = codes_of(dtype)[: 2 * (len(codes_of(dtype)) // 2)].reshape(2, -1)
    for name, move in {
        "transpose": lambda a, np: np.transpose(a),
        "reverse": lambda a, np: a[:, ::-1],
        "concatenate": lambda a, np: np.concatenate([a, a], 1),
        "gather": lambda a, np: a[np.array([1, 0, 1])],
        "where": lambda a, np: np.where(np.array([[True], [False]]), a, a[:1]),
        "reshape": lambda a, np: np.reshape(a, -1),
    }.items():
        want = move(x, np)
        for run in (lambda f: f, fx.jit):
            assert_same(run(lambda a, move=move: move(a, jnp))(jnp.asarray(x)), want), name


@pytest.mark.parametrize("operation", ["add", "multiply", "maximum", "subtract"])
@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint2"]
)
def test_each_operation_is_rounded_once(operation, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.choice(codes_of(dtypes.as_dtype(dtype)), 500) for _ in range(2))
    with np.errstate(all="ignore"):
        wide = dtypes.compute_dtype(x.dtype)
        want = getattr(np, operation)(x.astype(wide), y.astype(wide)).astype(dtype)
    for run in (lambda f: f, fx.jit):
        got = np.asarray(run(getattr(jnp, operation))(jnp.asarray(x), jnp.asarray(y)))
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_sums_and_products_are_added_up_in_float32():
    x = jnp.full((4096,), 0.0625, F8)
    assert float(jnp.sum(x)) == 256.0  # in float8, adding would stop at 1
    a = jnp.full((3, 512), 0.125, F8)
    assert np.asarray(a @ a.T).astype(np.float32).tolist() == [[8.0] * 3] * 3
    wide = fx.lax.dot(a, a.T, preferred_element_type=jnp.float32)
    assert wide.dtype == jnp.float32


def test_weak_numbers_give_way_and_nothing_else_does():
    x = jnp.ones(2, F8)
    assert (x * 2.5).dtype == F8
    assert (jnp.ones(2, I4) + 1).dtype == I4
    assert (x + jnp.ones(2, jnp.int8)).dtype == F8
    for other in (jnp.float32, jnp.bfloat16, jnp.float8_e5m2, jnp.complex64):
        with pytest.raises(TypePromotionError, match="promotion path"):
            x + jnp.ones(2, other)
    with pytest.raises(TypePromotionError, match="promotion path"):
        jnp.ones(2, I4) + jnp.ones(2, jnp.int8)
    assert int(jnp.array([8], I4)[0]) == -8  # numbers wrap, as in JAX


def test_derivatives_and_batches():
    x = jnp.array([1.0, 2.0, 3.0], F8)
    gradient = fx.grad(lambda a: jnp.sum(a * a).astype(jnp.float32))(x)
    assert_same(gradient, np.array([2.0, 4.0, 6.0]).astype(F8))
    assert_same(fx.vmap(lambda a: a * 2)(x), np.array([2.0, 4.0, 6.0]).astype(F8))
    weights = fx.grad(lambda w: jnp.sum(w.astype(F8).astype(jnp.float32) ** 2))(jnp.array([1.07]))
    assert weights.dtype == jnp.float32
    np.testing.assert_array_equal(np.asarray(weights), [2.25])  # of 1.125, the nearest number


def test_loops_carry_them():
    final, seen = fx.lax.scan(lambda c, a: (c + a, c), jnp.array(0, I4), jnp.full(5, 3, I4))
    assert int(final) == 15 - 16
    assert np.asarray(seen).astype(int).tolist() == [0, 3, 6, -7, -4]
    _, counted = fx.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, jnp.ones(2, F8))
    )
    assert np.asarray(counted).astype(float).tolist() == [8.0, 8.0]


def test_largest_and_least_where_there_is_no_infinity():
    x = jnp.array([-3.0, -1.0], F8)
    assert float(jnp.max(x)) == -1.0
    assert float(jnp.max(x, where=jnp.array([True, False]), initial=-448)) == -3.0
    assert int(jnp.min(jnp.array([3, -8], I4))) == -8
    assert int(jnp.argmax(jnp.array([3, -8, 7], I4))) == 2
    assert np.asarray(jnp.sort(jnp.array([3, -8, 7], I4))).tolist() == [-8, 3, 7]


def test_making_them():
    assert np.asarray(jnp.arange(3, dtype=I4)).tolist() == [0, 1, 2]
    assert np.asarray(fx.lax.iota(I4, 3)).tolist() == [0, 1, 2]
    assert np.asarray(jnp.linspace(0, 1, 3, dtype=F8)).astype(float).tolist() == [0, 0.5, 1]
    assert str(jnp.zeros(2, jnp.uint2).aval) == "ShapedArray(uint2[2])"
    assert repr(jnp.array([1.5], F8)) == "Array([1.5], dtype=float8_e4m3fn)"
    assert jnp.float8_e5m2(3).dtype == ml_dtypes.float8_e5m2
    assert jnp.iinfo(jnp.int4).max == 7
    assert jnp.finfo(jnp.float8_e4m3fn).bits == 8
    assert fx.dtypes.itemsize_bits("int4") == 4
    assert jnp.isdtype(I4, "signed integer")
    assert jnp.isdtype(F8, "real floating")


def test_signs_and_exponents():
    x = jnp.array([-0.0, -3.0, 6.0], jnp.float6_e3m2fn)
    assert np.asarray(jnp.signbit(x)).tolist() == [True, True, False]
    mantissa, exponent = jnp.frexp(jnp.array([6.0], F8))
    assert (float(mantissa[0]), int(exponent[0])) == (0.75, 3)
    assert mantissa.dtype == F8
    assert float(jnp.ldexp(jnp.array(0.75, F8), 3)) == 6.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: jnp.nextafter(jnp.ones(2, F8), 2),
        lambda: fx.lax.population_count(jnp.ones(2, I4)),
        lambda: fx.lax.bitcast_convert_type(jnp.ones(2, I4), jnp.int8),
    ],
)
def test_what_depends_on_the_number_of_bits_is_refused(call):
    with pytest.raises(DTypeError, match=r"bits|widths"):
        call()


def test_bits_as_they_are():
    x = jnp.array([1.0, -2.0], F8)
    bits = fx.lax.bitcast_convert_type(x, jnp.uint8)
    assert np.asarray(bits).tolist() == [0x38, 0xC0]
    assert_same(fx.jit(lambda b: fx.lax.bitcast_convert_type(b, F8))(bits), np.asarray(x))


def test_programs_have_conversions_and_no_arithmetic_of_stored_dtypes():
    text = str(fx.make_jaxpr(lambda a: jnp.sin(a))(jnp.ones(2, F8)))
    assert text.count("convert_element_type") == 2
    assert "f32[2] = sin" in text
