"""Checks of axes, permutations and shapes that the reindex and reduce families share."""

from __future__ import annotations

from collections.abc import Sequence

from functrax.core.errors.typed import AxisError, ShapeError
from functrax.core.types.aval import ShapedArray


def check_axes(name: str, aval: ShapedArray, axes: Sequence[int]) -> None:
    """Refuse axes out of range or named twice; axes are counted from 0 here."""
    for axis in axes:
        if not 0 <= axis < aval.ndim:
            raise AxisError(
                f"{name}: axis {axis} is out of range for an array of rank {aval.ndim}",
                got=f"axes {tuple(axes)} of {aval.str_short()}",
                fix=f"axes from 0 to {aval.ndim - 1}" if aval.ndim else "no axis at all",
            )
    if len(set(axes)) != len(axes):
        raise AxisError(
            f"{name}: repeated axis, a duplicate value in the axes",
            got=f"axes {tuple(axes)} of {aval.str_short()}",
            fix="name each axis once",
        )


def axis_from_start(name: str, axis: int, ndim: int, what: str = "axis") -> int:
    """An axis counted from 0; negative ones count from the end.

    Raises:
      AxisError: if an array of rank ``ndim`` has no such axis.
    """
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"{name}: {what} {axis} is out of range for an array of rank {ndim}",
            got=f"{what} {axis}",
            fix=f"an axis from {-ndim} to {ndim - 1}" if ndim else "an array with an axis",
        )
    return axis % ndim


def check_permutation(name: str, aval: ShapedArray, perm: Sequence[int]) -> None:
    """Refuse anything but a permutation of the axes."""
    if sorted(perm) != list(range(aval.ndim)):
        raise AxisError(
            f"{name}: not a permutation of the axes",
            got=f"{tuple(perm)} for {aval.str_short()}",
            fix=f"each of 0..{aval.ndim - 1} exactly once",
        )


def check_sizes(name: str, shape: Sequence[int]) -> None:
    """Refuse negative sizes."""
    if any(s < 0 for s in shape):
        raise ShapeError(
            f"{name}: a size is negative", got=f"shape {tuple(shape)}", fix="sizes of 0 or more"
        )
