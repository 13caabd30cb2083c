"""``pad`` by reflection in the points of the edges: ``2 edge - reflected``, as often as it takes.

Two reflections are a translation by a period, which adds twice the last element less the first.
So each element of the result is plus or minus an element of the array and multiples of those two:
the same multiples in each run of neighbours.

Start at :func:`pad_odd`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from functrax.core.prims.arithmetic import add, div, mul, neg, select_n, sub
from functrax.core.prims.comparisons import and_, eq, ge, gt, ne
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim, iota, zeros
from functrax.core.records import record
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.numpy.axes import Shape
from functrax.numpy.promote import broadcast_value
from functrax.numpy.rearranging import take_axis
from functrax.numpy.runs import MOST_RUNS, Run, read_runs
from functrax.numpy.shaping import join, slice_axis


@record
class _Part:
    """Neighbours of the result: the elements ``run``, as they are or turned, and what is added."""

    run: Run
    turned: bool
    turns: int  # periods from the array itself

    @property
    def lasts(self) -> int:
        """How often the last element is added."""
        return 2 * (self.turned + self.turns)

    @property
    def firsts(self) -> int:
        """How often the first element is subtracted."""
        return 2 * self.turns


def pad_odd(x: Value, axis: int, width: tuple[int, int], mode: str) -> Value:
    """An axis with its odd reflections before and after.

    Args:
      x: an array, with elements along the axis.
      axis: counted from 0.
      width: how many before and after.
      mode: ``"reflect"``, or ``"symmetric"``, which repeats the edges.
    """
    before, after = width
    size = x.aval.shape[axis]
    if size == 1:
        return read_runs(x, axis, [(0, 0, before + 1 + after)])
    offset = 0 if mode == "symmetric" else 1
    if (before + after) // (size - offset) + 3 > MOST_RUNS:
        return _by_positions(x, axis, width, offset)
    parts = _parts(size, before, after, offset)
    return join([_read_part(x, axis, part) for part in parts], axis)


def _parts(size: int, before: int, after: int, offset: int) -> Iterator[_Part]:
    span = size - offset
    place = -before
    while place < size + after:
        turns, within = divmod(place, 2 * span)
        if offset and turns > 0 and not within:  # reflected once less is the same
            turns, within = turns - 1, 2 * span
        turned = within >= size
        end = 2 * span + (offset if turns >= 0 else 0) if turned else size
        count = min(end - within, size + after - place)
        first = 2 * span - 1 + offset - within if turned else within
        yield _Part((first, -1 if turned else 1, count), turned, turns)
        place += count


def _read_part(x: Value, axis: int, part: _Part) -> Value:
    inner = read_runs(x, axis, [part.run])
    shape, dims = inner.aval.shape, tuple(range(x.aval.ndim))
    size = x.aval.shape[axis]

    def times(place: int, weight: int) -> Value:
        edge = slice_axis(x, axis, place, place + 1)
        factor = literal(np.asarray(weight).astype(x.aval.dtype), x.aval.dtype)
        return broadcast_in_dim.bind(mul.bind(edge, factor), shape=shape, dims=dims)

    inner = neg.bind(inner) if part.turned else inner
    if part.lasts:
        inner = add.bind(inner, times(size - 1, part.lasts))
    return sub.bind(inner, times(0, part.firsts)) if part.firsts else inner


def _by_positions(x: Value, axis: int, width: tuple[int, int], offset: int) -> Value:
    """The same with positions and weights computed in the program, for many reflections."""
    before, after = width
    size = x.aval.shape[axis]
    span = size - offset
    total = before + size + after
    dtype = dtypes.position_dtype(total + 4 * span)
    periods = -(-before // (2 * span))  # whole periods before, so that places are not negative
    line = iota.bind(shape=(total,), dtype=dtype, axis=0)
    place = add.bind(line, like(line, 2 * span * periods - before))
    turns = div.bind(place, like(place, 2 * span))
    within = sub.bind(place, mul.bind(turns, like(turns, 2 * span)))
    turns = sub.bind(turns, like(turns, periods))
    if offset:  # reflected once less is the same
        again = and_.bind(gt.bind(turns, like(turns, 0)), eq.bind(within, like(within, 0)))
        again = convert_element_type.bind(again, dtype=dtype)
        turns = sub.bind(turns, again)
        within = add.bind(within, mul.bind(again, like(again, 2 * span)))
    turned = ge.bind(within, like(within, size))
    back = sub.bind(like(within, 2 * span - 1 + offset), within)
    inner = take_axis(x, axis, select_n.bind(turned, within, back))
    shape = inner.aval.shape

    def weighted(y: Value, weights: Value) -> Value:
        factors = _along(convert_element_type.bind(weights, dtype=x.aval.dtype), axis, shape)
        used = _along(ne.bind(weights, like(weights, 0)), axis, shape)
        many = mul.bind(broadcast_value(y, shape), factors)
        return select_n.bind(used, zeros(many.aval), many)  # no infinity times zero

    one = convert_element_type.bind(turned, dtype=dtype)
    lasts = add.bind(one, turns)
    inner = select_n.bind(_along(turned, axis, shape), inner, neg.bind(inner))
    last = weighted(slice_axis(x, axis, size - 1, size), add.bind(lasts, lasts))
    first = weighted(slice_axis(x, axis, 0, 1), add.bind(turns, turns))
    return sub.bind(add.bind(inner, last), first)


def _along(line: Value, axis: int, shape: Shape) -> Value:
    return broadcast_in_dim.bind(line, shape=shape, dims=(axis,))
