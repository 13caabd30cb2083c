"""Interpolation on regular grids, as in ``jax.scipy.interpolate``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Values between the points of a rectangular grid.

    Args:
      points: for each axis of the grid its coordinates, a strictly increasing vector.
      values: real numbers at the points, of shape ``(len(points[0]), len(points[1]), ..., *rest)``.
      method: ``"linear"`` or ``"nearest"``.
      bounds_error: whether a point outside of the grid raises; False only, for points may be
        traced.
      fill_value: what points outside get; None continues from the nearest cell.

    Raises:
      ShapeError: if the coordinates do not fit the values, or are no vectors.
      ArgumentError: for another method, or for ``bounds_error=True``.

    >>> import functrax.numpy as jnp
    >>> grid = jnp.arange(3.0)
    >>> f = RegularGridInterpolator((grid, grid), grid[:, None] * 10 + grid)
    >>> f(jnp.array([[0.5, 1.5], [5.0, 0.0]]))
    Array([6.5, nan], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = math.nan,
    ) -> None:
        self.method = _known(method)
        if bounds_error:
            raise ArgumentError(
                "RegularGridInterpolator: bounds_error=True is not supported",
                got="bounds_error=True",
                fix="fill_value, which marks points outside",
            )
        self.values = jnp.asarray(values)
        if not jnp.issubdtype(self.values.dtype, jnp.floating):
            self.values = self.values.astype(float)
        self.grid = tuple(map(jnp.asarray, points))
        sizes = [f"[{','.join(map(str, p.shape))}]" for p in self.grid]
        fits = len(self.grid) <= self.values.ndim and all(
            p.ndim == 1 and p.shape[0] == n and n > 1
            for p, n in zip(self.grid, self.values.shape, strict=False)
        )
        if not fits:
            raise ShapeError(
                "RegularGridInterpolator: the coordinates do not fit the values",
                got=f"coordinates {', '.join(sizes)} for values of shape {self.values.shape}",
                fix="for each axis of the grid a vector of its size, which is at least 2",
            )
        self.fill_value = fill_value

    def __call__(self, xi: Any, method: str | None = None) -> Value:
        """The values at points.

        Args:
          xi: an array ``(..., number of axes)``, or a tuple with an array of coordinates for each
            axis of the grid, which are broadcast.
          method: instead of that of the interpolator.

        Returns:
          An array ``(..., *rest)``; for a single point ``(1, *rest)``, as in SciPy.
        """
        method = self.method if method is None else _known(method)
        ndim = len(self.grid)
        parts = xi if isinstance(xi, (tuple, list)) and len(xi) == ndim else None
        if parts is not None:
            at = jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, parts)), axis=-1)
        else:
            at = jnp.asarray(xi)
            if ndim == 1 and (at.ndim == 0 or at.shape[-1] != 1):
                at = at[..., None]
            elif ndim > 1 and at.ndim == 1:
                at = at[None]
        if at.ndim == 0 or at.shape[-1] != ndim:
            raise ShapeError(
                "RegularGridInterpolator: the points do not have a coordinate for each axis",
                got=f"points of shape {at.shape} for a grid of {ndim} axes",
                fix=f"an array (..., {ndim})",
            )
        cells, weights, outside = [], [], jnp.zeros(at.shape[:-1], bool)
        for k, p in enumerate(self.grid):
            x = at[..., k]
            cell = jnp.clip(jnp.searchsorted(p, x) - 1, 0, p.shape[0] - 2)
            cells.append(cell)
            weights.append((x - p[cell]) / (p[cell + 1] - p[cell]))
            outside |= (x < p[0]) | (x > p[-1])
        rest = (1,) * (self.values.ndim - ndim)
        found: Any = 0
        if method == "nearest":
            near = [jnp.where(w <= 0.5, c, c + 1) for c, w in zip(cells, weights, strict=True)]
            found = self.values[tuple(near)]
        else:
            for corner in itertools.product((0, 1), repeat=ndim):
                share: Any = 1.0
                for w, up in zip(weights, corner, strict=True):
                    share = share * (w if up else 1 - w)
                places = tuple(c + up for c, up in zip(cells, corner, strict=True))
                found = found + jnp.reshape(share, (*share.shape, *rest)) * self.values[places]
        if self.fill_value is None:
            return found
        return jnp.where(jnp.reshape(outside, (*outside.shape, *rest)), self.fill_value, found)


def _known(method: str) -> str:
    if method not in _METHODS:
        raise ArgumentError(
            "RegularGridInterpolator: unknown method",
            got=repr(method),
            fix=f"one of {', '.join(_METHODS)}",
        )
    return method


__dir__ = _listing(globals())
