"""Which axis of a convolution's arrays is which: layouts such as ``("NCHW", "OIHW", "NCHW")``.

Start at :func:`conv_dimension_numbers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.lax.operands import Shape
from functrax.lax.window_shapes import WindowAxis, pairs, transposed_padding, window_axes


class ConvDimensionNumbers(NamedTuple):
    """The axes of a convolution's arrays.

    Args:
      lhs_spec: the axes of the array's batch, feature, and spatial axes in order.
      rhs_spec: the axes of the kernel's output features, input features, and spatial axes.
      out_spec: the axes of the result's batch, feature, and spatial axes.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers: TypeAlias = "tuple[str, str, str] | ConvDimensionNumbers | None"


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Layouts as axis numbers.

    Args:
      lhs_shape: the array's shape.
      rhs_shape: the kernel's shape, of the same rank.
      dimension_numbers: three strings, in which ``N`` is the batch axis, ``C`` the feature axis,
        ``O`` and ``I`` the kernel's output and input features, and other letters are spatial axes,
        in the order of the kernel's; or ConvDimensionNumbers; or None for ``NC...``, ``OI...``,
        ``NC...``.

    Returns:
      For each of the array, the kernel and the result, which axis is the batch (the kernel's output
        features), which the features, and which the spatial axes.

    Raises:
      ShapeError: if the ranks differ, or are below 2.
      ArgumentError: if the layouts do not say where each axis is.

    >>> from functrax import lax
    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 9), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    rank = len(lhs_shape)
    if rank != len(rhs_shape) or rank < 2:
        raise ShapeError(
            "conv_general_dilated lhs and rhs must have the same number of dimensions, "
            "which is at least 2",
            got=f"shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}",
            fix="a batch and a feature axis in both, and the same number of spatial axes",
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        same = tuple(range(rank))
        return ConvDimensionNumbers(same, same, same)
    if not isinstance(dimension_numbers, (tuple, list)) or len(dimension_numbers) != 3:
        raise _unknown_layout(dimension_numbers, rank)
    lhs, rhs, out = dimension_numbers
    if not all(isinstance(s, str) and len(s) == rank == len(set(s)) for s in dimension_numbers):
        raise _unknown_layout(dimension_numbers, rank)
    spatial = [c for c in rhs if c not in "OI"]
    for layout, two in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if set(layout) != {*two, *spatial}:
            raise _unknown_layout(dimension_numbers, rank)
    return ConvDimensionNumbers(
        tuple(map(lhs.index, ("N", "C", *spatial))),
        tuple(map(rhs.index, ("O", "I", *spatial))),
        tuple(map(out.index, ("N", "C", *spatial))),
    )


def _unknown_layout(given: Any, rank: int) -> ArgumentError:
    return ArgumentError(
        "convolution: dimension_numbers does not say where each axis is",
        got=f"{given!r} for arrays of rank {rank}",
        fix="three layouts of the same spatial letters, such as ('NHWC', 'HWIO', 'NHWC')",
    )


def conv_general_permutations(dimension_numbers: tuple[str, str, str]) -> tuple[Shape, ...]:
    """For layouts as strings, the axes of array, kernel and result in ``NC...`` order.

    Args:
      dimension_numbers: three layouts, as for :func:`conv_dimension_numbers`.

    Returns:
      Three tuples of axis numbers.

    Raises:
      ArgumentError: if the layouts do not say where each axis is.

    >>> from functrax import lax
    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    rank = len(dimension_numbers[0])
    return tuple(map(tuple, conv_dimension_numbers((0,) * rank, (0,) * rank, dimension_numbers)))


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> Shape:
    """The shape of a convolution's result, all in ``NC...``, ``OI...`` layout.

    Args:
      lhs_shape: ``(batch, features, *spatial)``.
      rhs_shape: ``(output features, input features, *window)``.
      strides: how far apart windows are, for each spatial axis.
      pads: a pair ``(low, high)`` for each spatial axis.
      batch_group_count: into how many groups the batch is split.

    Returns:
      ``(batch, output features, *spatial)``.

    Raises:
      ArgumentError: if there is not a pair of paddings for each stride.

    >>> from functrax.lax.conv_numbers import conv_shape_tuple
    >>> conv_shape_tuple((2, 3, 8), (5, 3, 3), (2,), [(1, 1)])
    (2, 5, 4)
    """
    rows = zip(
        lhs_shape[2:], rhs_shape[2:], strides, pairs("conv", pads, len(strides)), strict=True
    )
    spatial = (WindowAxis(n, w, s, low, high).out for n, w, s, (low, high) in rows)
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: tuple[str, str, str],
) -> Shape:
    """The shape of a convolution's result, in layouts given as strings.

    Args:
      lhs_shape: the array's shape.
      rhs_shape: the kernel's shape.
      window_strides: how far apart windows are, for each spatial axis.
      padding: a name or pairs, as for :func:`conv_general_dilated`.
      dimension_numbers: three layouts, as for :func:`conv_dimension_numbers`.

    Returns:
      The sizes in the order of the third layout.

    Raises:
      ArgumentError: if the layouts, strides or padding are not understood.

    >>> from functrax import lax
    >>> layouts = ("NWC", "WIO", "NWC")
    >>> lax.conv_general_shape_tuple((2, 8, 3), (3, 3, 5), (2,), [(1, 1)], layouts)
    (2, 4, 5)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    array, kernel = (tuple(s[a] for a in p) for s, p in ((lhs_shape, lhs), (rhs_shape, rhs)))
    axes = window_axes("conv", array[2:], kernel[2:], window_strides, padding, None, None)
    return _laid_out(out, (array[0], kernel[0], *(axis.out for axis in axes)))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: tuple[str, str, str],
) -> Shape:
    """The shape of a transposed convolution's result, in layouts given as strings.

    The pairs of a ``padding`` that is no name are those of the dilated array.

    Args:
      lhs_shape: the array's shape.
      rhs_shape: the kernel's shape.
      window_strides: the factor by which each spatial axis grows.
      padding: ``"SAME"``, ``"VALID"``, or a pair ``(low, high)`` for each spatial axis.
      dimension_numbers: three layouts, as for :func:`conv_dimension_numbers`.

    Returns:
      The sizes in the order of the third layout.

    Raises:
      ArgumentError: if the layouts or the padding are not understood, or pairs are missing.

    >>> from functrax import lax
    >>> layouts = ("NWC", "WIO", "NWC")
    >>> lax.conv_transpose_shape_tuple((2, 4, 3), (3, 3, 5), (2,), "SAME", layouts)
    (2, 8, 5)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    array, kernel = (tuple(s[a] for a in p) for s, p in ((lhs_shape, lhs), (rhs_shape, rhs)))
    rows = list(zip(array[2:], kernel[2:], window_strides, strict=True))
    if isinstance(padding, str):
        pads = [transposed_padding(k, s, padding) for _, k, s in rows]
    else:
        pads = pairs("conv_transpose", padding, len(rows))
    sizes = ((n - 1) * s - k + 2 + sum(p) for (n, k, s), p in zip(rows, pads, strict=True))
    return _laid_out(out, (array[0], kernel[0], *sizes))


def _laid_out(layout: Shape, sizes: Shape) -> Shape:
    """Sizes in ``NC...`` order, at the axes that a layout gives them."""
    return tuple(sizes[layout.index(axis)] for axis in range(len(sizes)))
