"""Objects that mean something when indexed: ``r_`` and ``c_`` join, ``s_`` gives the index.

Start at :class:`Joiner`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import ArgumentError
from functrax.core.tracing.primitive import Value
from functrax.numpy.creation import asarray
from functrax.numpy.joining import concatenate
from functrax.numpy.ranges import arange, linspace
from functrax.numpy.shaping import matrix_transpose, reshape_to, transpose_to

__all__ = ["c_", "index_exp", "r_", "s_"]


class Joiner:
    """Joins what it is indexed with: arrays, scalars, and slices, which mean ranges.

    A slice ``a:b:s`` is ``arange(a, b, s)``, and ``a:b:3j`` is ``linspace(a, b, 3)``.  A first
    string ``"axis,ndmin,place"`` says along which axis to join, to how many axes to raise arrays
    of fewer, and where their own axes go; ``"r"`` and ``"c"`` make a matrix of one row, or of one
    column.

    Args:
      axis: along which to join.
      ndmin: the least number of axes of the parts.
      place: the first of the axes of a part that has fewer; -1 puts them last.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.r_[1:4, 0, jnp.array([1.5])]
      Array([1. , 2. , 3. , 0. , 1.5], dtype=float32)
      >>> jnp.c_[jnp.array([1, 2]), jnp.array([3, 4])]
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """

    def __init__(self, axis: int, ndmin: int, place: int) -> None:
        self._axis, self._ndmin, self._place = axis, ndmin, place

    def __getitem__(self, key: Any) -> Value:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndmin, place = self._axis, self._ndmin, self._place
        if items and isinstance(items[0], str):
            directive, items = items[0].strip(), items[1:]
            if directive in ("r", "c"):
                return _matrix(self[items], directive)
            axis, ndmin, place = _numbers(directive, (axis, ndmin, place))
        if not items or any(isinstance(item, str) for item in items):
            raise ArgumentError(
                "r_, c_: need something to join, with a string only in front",
                got=repr(key)[:60],
                fix="r_[0:3, x], or r_['0,2', x, y]",
            )
        return concatenate([_part(item, ndmin, place) for item in items], axis)


def _matrix(x: Value, directive: str) -> Value:
    if x.aval.ndim != 1:
        return x
    row = reshape_to(x, (1, x.aval.size))
    return matrix_transpose(row) if directive == "c" else row


def _numbers(directive: str, defaults: tuple[int, int, int]) -> tuple[int, int, int]:
    try:
        given = [int(part) for part in directive.split(",")]
    except ValueError:
        given = []
    if not 1 <= len(given) <= 3:
        raise ArgumentError(
            "r_, c_: the string cannot be read",
            got=repr(directive),
            fix="'r', 'c', or up to three integers: 'axis,ndmin,place'",
        )
    axis, ndmin, place = (*given, *defaults[len(given) :])
    return axis, ndmin, place


def _part(item: Any, ndmin: int, place: int) -> Value:
    x = _range(item) if isinstance(item, slice) else asarray(item)
    missing = ndmin - x.aval.ndim
    if missing <= 0:
        return x
    own = x.aval.ndim
    first = place if place >= 0 else place + missing + 1
    x = reshape_to(x, (*[1] * missing, *x.aval.shape))
    lead = list(range(missing))
    return transpose_to(x, (*lead[:first], *range(missing, missing + own), *lead[first:]))


def _range(item: slice) -> Value:
    start = 0 if item.start is None else item.start
    if isinstance(item.step, complex):
        return linspace(start, item.stop, int(abs(item.step)))
    return arange(start, item.stop, 1 if item.step is None else item.step)


r_: Final = Joiner(0, 1, -1)
c_: Final = Joiner(-1, 2, 0)
s_: Final = np.s_
index_exp: Final = np.index_exp
