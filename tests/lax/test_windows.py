"""Windowed reductions and windows against loops."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from functrax import lax
from functrax.core.errors.typed import ArgumentError, DTypeError, PyTreeError, ShapeError
from functrax.core.options.contexts import enable_x64
from functrax.transforms.differentiation.derivatives import grad
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit
from tests.lax.oracles import check_derivatives, window_oracle

RNG = np.random.default_rng(0)
OPS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any], int]] = {
    "add": (lax.add, operator.add, 0),
    "mul": (lax.mul, operator.mul, 1),
    "max": (lax.max, max, -128),
    "min": (lax.min, min, 127),
    "or": (lax.bitwise_or, operator.or_, 0),
    "and": (lax.bitwise_and, operator.and_, -1),
    "xor": (lax.bitwise_xor, operator.xor, 0),
}
SETTINGS = [
    ((1, 1), "VALID", (1, 1), (1, 1)),
    ((2, 3), "SAME", (1, 1), (1, 1)),
    ((3, 2), "SAME_LOWER", (1, 1), (1, 1)),
    ((2, 1), [(1, 2), (0, 3)], (2, 1), (1, 2)),
    ((1, 2), [(-1, 1), (2, -1)], (1, 3), (3, 1)),
]


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_named_reductions(name: str, setting: tuple[Any, ...]) -> None:
    function, op, init = OPS[name]
    strides, padding, base, dilation = setting
    x = RNG.integers(-2, 3, size=(6, 7)).astype(np.int8)
    pads = padding
    if isinstance(padding, str):
        pads = lax.padtype_to_pads(x.shape, (2, 3), strides, padding)
    expected = window_oracle(x, op, init, (2, 3), strides, pads, base, dilation)
    y = lax.reduce_window(x, np.int8(init), function, (2, 3), strides, padding, base, dilation)
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y, expected)
    shape = lax.reduce_window_shape_tuple(x.shape, (2, 3), strides, padding, base, dilation)
    assert shape == expected.shape

    def unrecognised(a: Any, b: Any) -> Any:
        return lax.bitwise_not(lax.bitwise_not(function(a, b)))

    general = lax.reduce_window(
        x, np.int8(init), unrecognised, (2, 3), strides, padding, base, dilation
    )
    np.testing.assert_array_equal(general, expected)


def test_initial_value_counts_once() -> None:
    # jax.lax 0.10.2 gives the same: the padding is left out
    x = np.arange(4, dtype=np.int32)
    y = lax.reduce_window(x, 10, lax.add, (3,), (1,), "SAME")
    np.testing.assert_array_equal(y, [11, 13, 16, 15])
    traced = jit(lambda x, i: lax.reduce_window(x, i, lax.add, (3,), (1,), "SAME"))
    np.testing.assert_array_equal(traced(x, np.int32(10)), y)


def test_several_operands() -> None:
    """The largest element of each window and its index."""
    x = RNG.permutation(8).astype(np.float32)
    index = np.arange(8, dtype=np.int32)

    def larger(a: Any, b: Any) -> Any:
        first = lax.ge(a[0], b[0])
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    inits = (np.float32(-np.inf), np.int32(-1))
    values, places = lax.reduce_window((x, index), inits, larger, (3,), (2,), [(1, 1)])
    padded = np.concatenate([[-np.inf], x, [-np.inf]])
    windows = np.stack([padded[i : i + 3] for i in range(0, 8, 2)])
    np.testing.assert_array_equal(values, windows.max(1))
    np.testing.assert_array_equal(places, windows.argmax(1) + np.arange(0, 8, 2) - 1)


@pytest.mark.parametrize("function", [lax.add, lax.max, lax.min, lax.mul])
def test_derivatives(function: Any) -> None:
    init = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}[function.__name__]
    x = RNG.permutation(20).reshape(4, 5) / 7.0
    with enable_x64():
        check_derivatives(
            lambda x: lax.reduce_window(x, init, function, (2, 3), (1, 2), [(1, 0), (1, 1)]), x
        )


def test_derivative_of_a_general_function() -> None:
    def log_add(a: Any, b: Any) -> Any:
        return lax.log(lax.add(lax.exp(a), lax.exp(b)))

    with enable_x64():
        x = RNG.normal(size=(7,))
        check_derivatives(lambda x: lax.reduce_window(x, -np.inf, log_add, (3,), (2,)), x)


def test_ties_share_the_cotangent() -> None:
    x = np.float32([1.0, 1.0, 0.0])
    gradient = grad(lambda x: lax.reduce_sum(lax.reduce_window(x, -np.inf, lax.max, (2,)), (0,)))
    np.testing.assert_array_equal(gradient(x), [0.5, 1.5, 0.0])


def test_vmap() -> None:
    x = RNG.normal(size=(3, 6)).astype(np.float32)

    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -np.inf, lax.max, (2,), (2,))

    np.testing.assert_array_equal(vmap(pool)(x), x.reshape(3, 3, 2).max(2))


def test_patches() -> None:
    x = RNG.normal(size=(2, 3, 5, 4)).astype(np.float32)
    w = RNG.normal(size=(6, 3, 2, 3)).astype(np.float32)
    settings: dict[str, Any] = {
        "window_strides": (2, 1),
        "padding": [(1, 0), (1, 2)],
        "rhs_dilation": (1, 2),
    }
    patches = lax.conv_general_dilated_patches(x, (2, 3), **settings)
    assert patches.shape[1] == 3 * 2 * 3
    product = np.einsum("nkab,ok->noab", patches, w.reshape(6, -1))
    expected = lax.conv_general_dilated(x, w, **settings)
    np.testing.assert_allclose(product, expected, rtol=1e-5, atol=1e-5)
    last = lax.conv_general_dilated_patches(
        x.transpose(0, 2, 3, 1), (2, 3), dimension_numbers=("NHWC", "HWIO", "NHWC"), **settings
    )
    np.testing.assert_array_equal(last, np.transpose(patches, (0, 2, 3, 1)))


def test_errors() -> None:
    x = np.ones((3, 4), np.float32)
    with pytest.raises(ShapeError, match="window needs a size"):
        lax.reduce_window(x, 0.0, lax.add, (2,))
    with pytest.raises(ArgumentError, match="strides"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2), (1,))
    with pytest.raises(ArgumentError, match="dilation"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2), base_dilation=(0, 1))
    with pytest.raises(DTypeError, match="initial value"):
        lax.reduce_window(x, lax.full((), 0, "int32"), lax.add, (2, 2))
    with pytest.raises(PyTreeError, match="tree structure as init_values"):
        lax.reduce_window((x, x), 0.0, lax.add, (2, 2))
    with pytest.raises(ArgumentError, match="computation"):
        lax.reduce_window(x, 0.0, lambda a, b: lax.gt(a, b), (2, 2))


def test_initial_values_of_another_kind():
    x = np.arange(6, dtype=np.int32)
    low = lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID")
    high = lax.reduce(x, np.inf, lax.min, (0,))
    assert low.tolist() == [1, 3, 5] and high == 0 and low.dtype == high.dtype == np.int32
    assert lax.reduce(x, 2.0, lax.add, (0,)) == 17
    for wrong in (0.5, np.nan, 1j):
        with pytest.raises(DTypeError, match="no integer"):
            lax.reduce(x, wrong, lax.add, (0,))
    for init, computation in ((-np.inf, lax.add), (np.inf, lax.max), (-np.inf, lax.min)):
        with pytest.raises(DTypeError, match="no integer"):
            lax.reduce(x, init, computation, (0,))


def test_kernels_that_differ_from_place_to_place() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype(np.float32)
    kernels = np.random.default_rng(1).normal(size=(4, 3, 12, 7)).astype(np.float32)
    options = ((1, 2), "VALID", (2, 2))
    wanted = np.empty((2, 4, 3, 7), np.float32)
    for i, j in np.ndindex(4, 3):
        window = x[:, i : i + 2, 2 * j : 2 * j + 2].transpose(0, 3, 1, 2).reshape(2, 12)
        wanted[:, i, j] = window @ kernels[i, j]
    layout = ("NHWC", "HWIO", "NHWC")
    made = lax.conv_general_dilated_local(x, kernels, *options, dimension_numbers=layout)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)

    other = ("HNCW", "HOIW", "WHNC")
    given = (x.transpose(1, 0, 3, 2), kernels.transpose(0, 3, 2, 1))
    turned = jit(lambda *a: lax.conv_general_dilated_local(*a, *options, dimension_numbers=other))(
        *given
    )
    np.testing.assert_allclose(turned, wanted.transpose(2, 1, 0, 3), rtol=1e-4, atol=1e-5)
    with enable_x64():
        check_derivatives(
            lambda x, k: lax.conv_general_dilated_local(x, k, (1,), "SAME", (2,)),
            np.arange(8.0).reshape(1, 2, 4),
            np.arange(24.0).reshape(3, 4, 2)[..., [0, 1, 0, 1]] / 10,
        )
    with pytest.raises(ShapeError):
        lax.conv_general_dilated_local(x, kernels[:3], *options, dimension_numbers=layout)


@pytest.mark.parametrize("op", ["add", "mul", "max", "min", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize(
    ("window", "options"),
    [
        ((100, 1), {}),
        ((37, 1), {"padding": "SAME"}),
        ((64, 3), {"padding": ((5, 9), (1, 1)), "window_strides": (3, 2)}),
        ((40, 2), {"window_dilation": (3, 1), "base_dilation": (2, 1)}),
        ((16, 16), {}),
    ],
)
def test_long_windows(op: str, window: tuple[int, ...], options: dict[str, Any]) -> None:
    """By halves, as by each of their elements."""
    rng = np.random.default_rng(0)
    kinds = ("int32", "float32") if not op.startswith("bitwise") else ("int32",)
    combine = getattr(lax, op)
    for kind in kinds:
        x = rng.integers(1, 3, (150, 40)).astype(kind)
        init = np.asarray({"mul": 1, "max": -9, "min": 9}.get(op, 0), kind)
        got = np.asarray(lax.reduce_window(x, init, combine, window, **options))
        # Named operations only are combined by halves.
        want = lax.reduce_window(x, init, lambda a, b: combine(a, b), window, **options)
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_gradient_of_long_windows() -> None:
    x = np.random.default_rng(1).normal(size=2000).astype("f4")
    weights = np.random.default_rng(2).normal(size=2000).astype("f4")

    def total(x: Any, window: int) -> Any:
        return (weights * lax.reduce_window(x, 0.0, lax.add, (window,), (1,), "SAME")).sum()

    want = np.convolve(weights, np.ones(33), "same")
    np.testing.assert_allclose(grad(total)(x, 33), want, atol=1e-4)
