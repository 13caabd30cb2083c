"""Convolutions against loops, in all layouts, strides, dilations, paddings and groups."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from functrax import lax
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.contexts import enable_x64
from functrax.transforms.arguments.inspect_types import make_jaxpr
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit
from tests.lax.oracles import check_derivatives, conv_oracle

RNG = np.random.default_rng(0)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, size=shape).astype(np.float32)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2), (-1, 3)])
def test_one_dimension(stride: int, dilation: int, padding: tuple[int, int]) -> None:
    x, w = integers(2, 3, 9), integers(4, 3, 3)
    for base in (1, 2):
        y = lax.conv_general_dilated(x, w, (stride,), [padding], (base,), (dilation,))
        expected = conv_oracle(x, w, (stride,), [padding], (base,), (dilation,))
        assert y.shape == expected.shape
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("groups", "batch_groups"), [(1, 1), (2, 1), (4, 1), (1, 2), (1, 4)])
def test_groups(groups: int, batch_groups: int) -> None:
    x, w = integers(4, 4, 5, 4), integers(8, 4 // groups, 2, 3)
    settings: dict[str, Any] = {"groups": groups, "batch_groups": batch_groups}
    y = lax.conv_general_dilated(
        x,
        w,
        (2, 1),
        [(1, 0), (2, 1)],
        feature_group_count=groups,
        batch_group_count=batch_groups,
    )
    expected = conv_oracle(x, w, (2, 1), [(1, 0), (2, 1)], (1, 1), (1, 1), **settings)
    np.testing.assert_array_equal(y, expected)


def test_depthwise_has_no_division_in_its_map() -> None:
    x, w = integers(1, 4, 5), integers(8, 1, 3)
    closed = make_jaxpr(
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", feature_group_count=4)
    )(x, w)
    (spread,) = (e for e in all_eqns(closed.jaxpr) if e.primitive.name == "reindex")
    text = str(spread.params["map"])
    assert "//" not in text and "%" not in text


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "SAME_LOWER", "VALID", "valid"])
def test_ranks_and_named_padding(rank: int, padding: str) -> None:
    x, w = integers(2, 3, *(5, 4, 6)[:rank]), integers(2, 3, *(2, 3, 2)[:rank])
    strides = (2, 1, 3)[:rank]
    pads = lax.padtype_to_pads(x.shape[2:], w.shape[2:], strides, padding)
    y = lax.conv_general_dilated(x, w, strides, padding)
    ones = (1,) * rank
    np.testing.assert_array_equal(y, conv_oracle(x, w, strides, pads, ones, ones))
    if padding != "VALID" and padding != "valid":
        assert y.shape[2:] == tuple(-(-n // s) for n, s in zip(x.shape[2:], strides, strict=True))


@pytest.mark.parametrize("groups", [1, 2])
def test_layouts(groups: int) -> None:
    x, w = integers(2, 4, 5, 3), integers(6, 4 // groups, 2, 3)
    expected = conv_oracle(x, w, (1, 2), [(0, 1), (1, 1)], (1, 1), (1, 1), groups)
    for lhs, rhs, out in itertools.product(("NHWC", "CWNH"), ("HWIO", "OHIW"), ("NHWC", "HCNW")):
        lhs_perm, rhs_perm, out_perm = (
            ["NCHW".index(c) for c in lhs],
            ["OIHW".index(c) for c in rhs],
            ["NCHW".index(c) for c in out],
        )
        y = lax.conv_general_dilated(
            x.transpose(lhs_perm),
            w.transpose(rhs_perm),
            (1, 2),
            [(0, 1), (1, 1)],
            dimension_numbers=(lhs, rhs, out),
            feature_group_count=groups,
        )
        np.testing.assert_array_equal(y, expected.transpose(out_perm))


def test_spatial_order_is_the_kernels() -> None:
    numbers = lax.conv_dimension_numbers((1,) * 4, (1,) * 4, ("NHWC", "WHIO", "NCHW"))
    assert numbers == lax.ConvDimensionNumbers((0, 3, 2, 1), (3, 2, 0, 1), (0, 1, 3, 2))
    assert lax.conv_dimension_numbers((1,) * 3, (1,) * 3, numbers) is numbers


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv_transpose_is_the_transpose(stride: int, padding: str) -> None:
    """``<conv(x), y> == <x, conv_transpose(y)>`` for the kernel that goes back."""
    w = integers(4, 2, 5)
    x = integers(1, 3 * stride if padding == "SAME" else 2 * stride + 4, 2)
    layout = ("NHC", "HIO", "NHC")
    forward = lax.conv_general_dilated(x, w, (stride,), padding, dimension_numbers=layout)
    y = integers(*forward.shape)
    back = lax.conv_transpose(y, w, (stride,), padding, transpose_kernel=True)
    assert back.shape == x.shape
    assert np.sum(np.asarray(forward) * y) == np.sum(np.asarray(back) * x) != 0


def test_conv_transpose_sizes_and_padding() -> None:
    x, w = integers(2, 4, 3), integers(3, 3, 5)
    assert lax.conv_transpose(x, w, (2,), "SAME").shape == (2, 8, 5)
    assert lax.conv_transpose(x, w, (2,), "VALID").shape == (2, 9, 5)
    assert lax.conv_transpose(x, w, (2,), [(2, 1)]).shape == (2, 8, 5)
    explicit = lax.conv_transpose(x, w, (2,), [(2, 2)])
    consistent = lax.conv_transpose(x, w, (2,), [(0, 0)], use_consistent_padding=True)
    np.testing.assert_array_equal(explicit, consistent)


def test_conv_transpose_values() -> None:
    # jax.lax 0.10.2: conv_transpose(ones(1, 3, 1), [1, 2, 4], stride 2, each padding)
    x, w = np.ones((1, 3, 1), np.float32), np.float32([1, 2, 4]).reshape(3, 1, 1)
    same = lax.conv_transpose(x, w, (2,), "SAME")
    valid = lax.conv_transpose(x, w, (2,), "VALID")
    np.testing.assert_array_equal(np.ravel(same), [4, 2, 5, 2, 5, 2])
    np.testing.assert_array_equal(np.ravel(valid), [4, 2, 5, 2, 5, 2, 1])


def test_shorthands() -> None:
    x, w = integers(2, 3, 5), integers(4, 3, 2)
    expected = lax.conv_general_dilated(x, w, (2,), "SAME")
    np.testing.assert_array_equal(lax.conv(x, w, (2,), "SAME"), expected)
    general = lax.conv_with_general_padding(x, w, (2,), [(1, 1)], (2,), (3,))
    expected = lax.conv_general_dilated(x, w, (2,), [(1, 1)], (2,), (3,))
    np.testing.assert_array_equal(general, expected)


def test_empty_results() -> None:
    assert lax.conv_general_dilated(integers(2, 3, 2), integers(4, 3, 3), (1,), "VALID").shape == (
        2,
        4,
        0,
    )
    assert lax.conv_general_dilated(integers(0, 3, 4), integers(4, 3, 3), (1,), "VALID").shape == (
        0,
        4,
        2,
    )


def test_preferred_element_type() -> None:
    x = np.full((1, 1, 4), 100, np.int8)
    y = lax.conv_general_dilated(x, x[..., :2], (1,), "VALID", preferred_element_type=np.int32)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, [[[20000, 20000, 20000]]])


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": [(1, 0), (0, 1)]},
        {"padding": [(1, 1), (1, 1)], "window_strides": (2, 2), "rhs_dilation": (1, 2)},
        {"padding": [(1, 1), (2, 0)], "lhs_dilation": (2, 1)},
        {"padding": "SAME", "feature_group_count": 2},
        {"padding": "SAME", "batch_group_count": 2},
    ],
)
def test_derivatives(settings: dict[str, Any]) -> None:
    groups = settings.get("feature_group_count", 1)
    x, w = RNG.normal(size=(2, 2, 3, 4)), RNG.normal(size=(2, 2 // groups, 2, 2))
    settings = {"window_strides": (1, 1), **settings}
    with enable_x64():
        check_derivatives(lambda x, w: lax.conv_general_dilated(x, w, **settings), x, w)


def test_jit_and_vmap() -> None:
    x, w = integers(3, 2, 2, 5), integers(3, 4, 2, 3)

    def conv(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1,), "SAME")

    each = np.stack([conv(a, b) for a, b in zip(x, w, strict=True)])
    np.testing.assert_array_equal(jit(vmap(conv))(x, w), each)
    shared = np.stack([conv(a, w[0]) for a in x])
    np.testing.assert_array_equal(vmap(conv, (0, None))(x, w[0]), shared)


def test_errors() -> None:
    x, w = integers(2, 3, 5), integers(4, 3, 2)
    with pytest.raises(ShapeError, match=r"features(.|\n)*got(.|\n)*try"):
        lax.conv_general_dilated(x, integers(4, 2, 2), (1,), "SAME")
    with pytest.raises(ShapeError, match="same number of dimensions"):
        lax.conv_general_dilated(x, integers(4, 3), (1,), "SAME")
    with pytest.raises(ArgumentError, match="unknown name"):
        lax.conv_general_dilated(x, w, (1,), "FULL")
    with pytest.raises(ArgumentError, match="strides"):
        lax.conv_general_dilated(x, w, (0,), "SAME")
    with pytest.raises(ArgumentError, match="strides"):
        lax.conv_general_dilated(x, w, (1, 1), "SAME")
    with pytest.raises(ArgumentError, match="ambiguous"):
        lax.conv_general_dilated(x, w, (1,), "SAME", (2,))
    with pytest.raises(ArgumentError, match="pairs"):
        lax.conv_general_dilated(x, w, (1,), [1])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="dimension_numbers"):
        lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NXC"))
    with pytest.raises(ArgumentError, match="group counts"):
        lax.conv_general_dilated(x, w, (1,), "SAME", feature_group_count=2, batch_group_count=2)
    with pytest.raises(DTypeError, match="the same dtypes"):
        lax.conv_general_dilated(x, w.astype(np.int32), (1,), "SAME")
