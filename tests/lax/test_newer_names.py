"""Functions of jax.lax that came late, and arguments that ask for an accuracy."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_mulhi(dtype: str) -> None:
    info = np.iinfo(dtype)
    x, y = RNG.integers(info.min, info.max, (2, 20)).astype(dtype)
    wanted = (x.astype(object) * y.astype(object)) >> info.bits
    np.testing.assert_array_equal(lax.mulhi(x, y), wanted.astype(dtype))
    np.testing.assert_array_equal(functrax.jit(lax.mulhi)(x, y), wanted.astype(dtype))


def test_mul_in_another_dtype() -> None:
    x = np.array([100, -100], np.int8)
    out = lax.mul(x, x, out_dtype=np.float32)
    assert out.dtype == np.float32 and out.tolist() == [1e4, 1e4]
    assert lax.mul(x, 3, out_dtype="int16").tolist() == [300, -300]
    slope = functrax.grad(lambda a: lax.mul(a, a, out_dtype="float32").sum())(
        np.array([3.0], "float16")
    )
    assert slope.dtype == np.float16 and slope.tolist() == [6.0]
    with pytest.raises(DTypeError, match="mul"):
        lax.mul(x, x.astype(np.int16), out_dtype=np.int32)


def test_index_take() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    i, j = np.array([0, -1, 3], np.int8), np.array([4, 2, -3], np.int8)
    np.testing.assert_array_equal(lax.index_take(x, (i, j), (0, 2)), x[i % 2, :, j % 4])
    np.testing.assert_array_equal(lax.index_take(x, (j, i), (2, 0)), x[i % 2, :, j % 4])
    wide = np.zeros((300, 2), np.float32)
    wide[299] = 1
    np.testing.assert_array_equal(lax.index_take(wide, (np.array([-1], np.int8),), (0,)), [[1, 1]])
    with pytest.raises(DTypeError, match="not integers"):
        lax.index_take(x, (i.astype(np.float32),), (0,))
    with pytest.raises(ShapeError, match="one vector of indices"):
        lax.index_take(x, (i, j[:2]), (0, 1))
    with pytest.raises(ShapeError, match="one vector of indices"):
        lax.index_take(x, (i,), (0, 1))


@pytest.mark.parametrize("layouts", [("NWHC", "WHIO", "NWHC"), ("NCWH", "OIHW", "CHWN")])
def test_local_convolution(layouts: tuple[str, str, str]) -> None:
    # With the same kernel everywhere it is a convolution.
    lhs, rhs, out = layouts
    sizes = {"N": 2, "C": 3, "W": 5, "H": 4}
    x = RNG.integers(-3, 4, [sizes[c] for c in lhs]).astype(np.float32)
    window = {"I": 3, "O": 2, "W": 2, "H": 3}
    kernel = RNG.integers(-3, 4, [window[c] for c in rhs]).astype(np.float32)
    strides = (2, 1)
    wanted = lax.conv_general_dilated(x, kernel, strides, "VALID", dimension_numbers=layouts)
    spatial = [c for c in rhs if c not in "IO"]
    flat = kernel.transpose([rhs.index(c) for c in ("O", "I", *spatial)]).reshape(2, -1)
    places = {c: wanted.shape[out.index(c)] for c in spatial}
    shape = [{"O": 2, "I": flat.shape[1], **places}[c] for c in rhs]
    source = {"O": 0, "I": 1}
    order = [c for c in rhs if c in source]
    same = flat.transpose([source[c] for c in order])
    for axis, c in enumerate(rhs):
        if c in places:
            same = np.expand_dims(same, axis)
    filter_shape = [window[c] for c in spatial]
    kernels = np.broadcast_to(same, shape)
    got = lax.conv_general_dilated_local(
        x, kernels, strides, "VALID", filter_shape, dimension_numbers=layouts
    )
    np.testing.assert_array_equal(got, wanted)


def test_shapes_of_convolutions() -> None:
    layouts = ("NHWC", "HWIO", "NHWC")
    x, w = np.zeros((2, 7, 8, 3)), np.zeros((3, 2, 3, 5))
    for padding in ("SAME", "VALID", ((1, 2), (0, 1))):
        made = lax.conv_general_dilated(x, w, (2, 1), padding, dimension_numbers=layouts)
        shape = lax.conv_general_shape_tuple(x.shape, w.shape, (2, 1), padding, layouts)
        assert shape == made.shape
        made = lax.conv_transpose(x, w, (2, 1), padding, dimension_numbers=layouts)
        shape = lax.conv_transpose_shape_tuple(x.shape, w.shape, (2, 1), padding, layouts)
        assert shape == made.shape


def test_broadcast_like_and_shape_as_value() -> None:
    x = np.array([[1.0], [2.0]], np.float32)
    np.testing.assert_array_equal(
        lax.broadcast_like(x, np.zeros((3, 2, 2))), np.broadcast_to(x, (3, 2, 2))
    )
    with pytest.raises(ShapeError, match="does not broadcast"):
        lax.broadcast_like(x, np.zeros((3, 2)))
    assert lax.shape_as_value((2, 3)).tolist() == [2, 3]
    assert lax.shape_as_value(()).dtype == np.int32


def test_tokens() -> None:
    token = functrax.jit(lambda t: lax.after_all(t, lax.create_token()))(lax.create_token())
    assert token.shape == (0,)
    with pytest.raises(ArgumentError, match="must be tokens"):
        lax.after_all(1.0)


def test_stage_and_sink() -> None:
    assert len(functrax.make_jaxpr(lambda: lax.stage(1.0))().eqns) == 1
    assert len(functrax.make_jaxpr(lambda x: lax.dce_sink({"a": x * x}))(2.0).eqns) == 2
    assert functrax.jit(functrax.grad(lambda x: (lax.dce_sink(x * x), x)[1]))(2.0) == 1.0


def test_accuracy() -> None:
    for accuracy in (None, *lax.AccuracyMode, lax.Tolerance(ulps=2), lax.Tolerance(rtol=1e-3)):
        assert lax.exp(0.0, accuracy=accuracy) == 1.0
    with pytest.raises(ArgumentError, match="within 2 units in the last place"):
        lax.exp(1.0, accuracy=lax.Tolerance(ulps=1))
    with pytest.raises(ArgumentError, match="neither a mode nor a tolerance"):
        lax.exp(1.0, accuracy="highest")
    with pytest.raises(ArgumentError, match="must be non-negative"):
        lax.Tolerance(atol=-1.0)
    with pytest.raises(ArgumentError, match="At least one of"):
        lax.Tolerance()


def test_algorithms_of_products() -> None:
    x = np.eye(2, dtype=np.float32)
    own = lax.DotAlgorithm(np.float32, np.float32, np.float32)
    for precision in (*lax.DotAlgorithmPreset, own, "BF16_BF16_F32_X3"):
        if precision is lax.DotAlgorithmPreset.F64_F64_F64:
            continue
        np.testing.assert_array_equal(lax.dot(x, x, precision=precision), x)
    with pytest.raises(ArgumentError, match="wider dtype than the operands"):
        lax.dot(x, x, precision="F64_F64_F64")
    with pytest.raises(ArgumentError, match="unknown precision"):
        lax.dot(x, x, precision="F33_F33_F33")
    sums = {p.name: p.accumulation_type for p in lax.DotAlgorithmPreset}
    assert sums["F16_F16_F16"] == np.float16 and sums["BF16_BF16_F32_X9"] == np.float32
    assert sums["DEFAULT"] is None and sums["ANY_F8_ANY_F8_ANY_FAST_ACCUM"] is None
    with functrax.default_matmul_precision("F32_F32_F32"):
        np.testing.assert_array_equal(lax.dot(x, x), x)


def test_fft_of_no_axes() -> None:
    x = np.array([1j, 2.0], np.complex64)
    for kind in (lax.FftType.FFT, "IFFT"):
        np.testing.assert_array_equal(lax.fft(x, kind, ()), x)
    with pytest.raises(ShapeError, match="fft"):
        lax.fft(x.real, "RFFT", ())
