"""Parts of an axis read one after the other.

What a function reads of an axis is mostly a few *runs*: neighbours forwards, neighbours backwards,
or one element again and again.  They are described by a few integers, however long they are, and
become slices, reversals and broadcasts joined together.

Start at :func:`read_runs`; :func:`read_periodic` is for runs that come again and again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from functrax.core.prims.identity import optimization_barrier
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Value
from functrax.numpy.shaping import join, reshape_to, reverse, slice_axis

#: ``(first, step, count)``: ``count`` elements from the position ``first`` on; the step is 1
#: forwards, -1 backwards, and 0 for one element repeated.
Run: TypeAlias = "tuple[int, int, int]"

#: More runs than this are read otherwise: a program has a slice for each.
MOST_RUNS: Final = 12


def read_runs(x: Value, axis: int, runs: Sequence[Run]) -> Value:
    """The elements of an axis in runs, of positions that are in range."""
    parts = [_read_run(x, axis, *run) for run in runs if run[2]]
    return join(parts, axis) if parts else slice_axis(x, axis, 0, 0)


def _read_run(x: Value, axis: int, first: int, step: int, count: int) -> Value:
    if count == 1 or step > 0:
        return slice_axis(x, axis, first, first + count)
    if step < 0:
        return reverse(slice_axis(x, axis, first - count + 1, first + 1), (axis,))
    one = slice_axis(x, axis, first, first + 1)
    shape = tuple(count if k == axis else size for k, size in enumerate(one.aval.shape))
    return broadcast_in_dim.bind(one, shape=shape, dims=tuple(range(len(shape))))


def read_periodic(x: Value, axis: int, period: Sequence[Run], start: int, count: int) -> Value:
    """``count`` elements of runs that come again and again.

    Args:
      x: the array.
      axis: counted from 0.
      period: the runs of one period; not empty.
      start: the place within the periods of the first element; may be negative.
      count: how many.
    """
    length = sum(run[2] for run in period)
    if length == 1:
        return _read_run(x, axis, period[0][0], 0, count)
    if len(period) * -(-count // length) > MOST_RUNS:
        once = read_runs(x, axis, period)
        if len(period) > 1:  # of many periods each is read from memory, not put together again
            (once,) = optimization_barrier.bind(once)
        return _repeated(once, axis, start % length, count)
    return read_runs(x, axis, list(periodic_runs(period, start, count)))


def periodic_runs(period: Sequence[Run], start: int, count: int) -> Iterator[Run]:
    """The runs of ``count`` elements from the place ``start`` of the periods on."""
    at = start % sum(run[2] for run in period)
    for first, step, size in itertools.cycle(period):
        if not count:
            return
        skipped = min(at, size)
        at -= skipped
        taken = min(size - skipped, count)
        count -= taken
        if taken:
            yield first + step * skipped, step, taken


def _repeated(x: Value, axis: int, start: int, count: int) -> Value:
    """``count`` elements from ``start`` on of an axis repeated as a whole."""
    shape = x.aval.shape
    first = -start % shape[axis]  # what is left of the period in which they begin
    times, last = divmod(count - first, shape[axis])
    wide = (*shape[:axis], times, *shape[axis:])
    dims = tuple(k if k < axis else k + 1 for k in range(len(shape)))
    many = broadcast_in_dim.bind(x, shape=wide, dims=dims)
    whole = reshape_to(many, (*shape[:axis], times * shape[axis], *shape[axis + 1 :]))
    before = [slice_axis(x, axis, start, shape[axis])] if first else []
    after = [slice_axis(x, axis, 0, last)] if last else []
    return join([*before, whole, *after], axis)
