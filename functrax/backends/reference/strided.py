"""NumPy arrays that repeat elements, and the operations that keep them small.

A broadcast is an array with stride 0; a sliding window is an array whose strides overlap.  Such
arrays take the memory of what they repeat, and their strides say which axes they depend on:
:func:`used_axes`.  The functions here do what the primitives' references do, with the same
results, without copying out the repetition:

- :func:`reindex` makes of an affine index map a strided view of the array, padded with the fill
  value;
- :func:`scatter_add` is the transpose of the latter: it adds whole slices.

Which way is taken depends on shapes and strides, never on values; arrays of at most ``SMALL``
elements are left to the references.  The compiler asks here which maps are windows
(:func:`window_of`), and which axes a reshape keeps apart (:func:`groups`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from functrax.core.index.expr import Condition, FloorDiv, Mod
from functrax.core.index.in_numpy import strided_view
from functrax.core.index.map import IndexMap
from functrax.core.index.map_form import affine_row
from functrax.core.prims.slicing import pad
from functrax.core.records import record

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Shape: TypeAlias = tuple[int, ...]

#: Arrays of at most so many elements are not worth any care.
SMALL = 4096
#: A value outgrows its sources when it has more than so many times the elements of each.
OUTGROWN = 4


def used_axes(x: Array) -> Shape:
    """The axes along which elements can differ: not of size 1, and not repeated."""
    return tuple([k for k, (n, s) in enumerate(zip(x.shape, x.strides)) if s and n != 1])


def core(x: Array) -> Array:
    """The part of ``x`` that is not repeated: size 1 along all axes but the used ones."""
    kept = used_axes(x)
    return x[tuple([slice(None) if k in kept else slice(0, 1) for k in range(x.ndim)])]


def distinct(x: Array) -> int:
    """How many elements there are in memory, at most: overlapping windows count once."""
    if not x.size:
        return 0
    span: int = sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides))
    volume: int = math.prod(x.shape[k] for k in used_axes(x))
    return min(span // max(x.itemsize, 1) + 1, volume)


def groups(old: Shape, new: Shape) -> Iterator[tuple[range, range]]:
    """The shortest runs of axes of both shapes that hold equally many elements (none is 0)."""
    i = j = 0
    while i < len(old) or j < len(new):
        first = i, j
        left = right = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        yield range(first[0], i), range(first[1], j)


# ---- index maps ----------------------------------------------------------------------------------


@record
class Window:
    """A map as strides over an array that is spaced out and padded.

    Args:
      step: how far apart the array's elements are set along each codomain dimension.
      low: how much to pad before each codomain dimension, and ``high`` after.
      start: the index of the domain's first point into the padded array.
      matrix: for each codomain dimension the step of each domain dimension.
    """

    step: Shape
    low: Shape
    high: Shape
    start: Shape
    matrix: tuple[Shape, ...]


@functools.lru_cache(maxsize=4096)
def window_of(index_map: IndexMap) -> Window | None:
    """The map as a window, if it is one and needs no more padding than it reads."""
    rows = rows_of(index_map)
    domain, codomain = index_map.domain, index_map.codomain
    if rows is None or 0 in domain or 0 in codomain:
        return None
    low, high, wide = [], [], []
    for (step, const, row), size in zip(rows, codomain):
        reach = [c * (n - 1) for c, n in zip(row, domain)]
        last = step * (size - 1)
        low.append(max(0, -(const + sum(r for r in reach if r < 0))))
        high.append(max(0, const + sum(r for r in reach if r > 0) - last))
        wide.append(low[-1] + last + 1 + high[-1])
    reads = math.prod(domain[k] for k in index_map.used_dims())
    if math.prod(wide) > 2 * (math.prod(codomain) + reads):
        return None
    return Window(
        tuple(step for step, _, _ in rows),
        tuple(low),
        tuple(high),
        tuple(const + before for (_, const, _), before in zip(rows, low)),
        tuple(row for _, _, row in rows),
    )


def rows_of(index_map: IndexMap) -> list[tuple[int, int, Shape]] | None:
    """``(step, const, row)`` for each codomain dimension, read at ``(const + row . d) / step``.

    A point where that is not an integer is not valid, which is how a convolution reads an array
    with holes: the expression is ``e // step``, and a condition says ``e % step == 0``.
    """
    left = list(index_map.conditions)
    rows = []
    for given in index_map.exprs:
        step, expr = 1, given
        for atom, _ in given.terms:
            if isinstance(atom, FloorDiv):
                known = [c for c in left if _is_divisible(c, atom)]
                if not known or step != 1:
                    return None
                left.remove(known[0])
                step = atom.divisor
                expr = given * step - atom * step + atom.expr
        row = affine_row(expr, len(index_map.domain))
        if row is None:
            return None
        rows.append((step, expr.const, row))
    return None if left else rows


def _is_divisible(condition: Condition, quotient: FloorDiv) -> bool:
    """Whether the condition says that a division leaves no rest."""
    rest, divisor = condition.expr, quotient.divisor
    if condition.kind != "==0" or not isinstance(rest, Mod) or rest.divisor != divisor:
        return False
    return ((rest.expr - quotient.expr) % divisor).as_int() == 0


def reindex(x: Array, indices: Sequence[Array], index_map: IndexMap, fill: Any) -> Array:
    """``O[o] = x[f(o)]``, or ``fill`` where ``o`` is not valid.

    Args:
      x: the array.
      indices: the extra operands of the map.
      index_map: the map ``f``.
      fill: a literal of the dtype of ``x``.
    """
    window = window_of(index_map)
    if window is None:
        return index_map.gather(x, indices, fill.val)
    if any((*window.low, *window.high)) or any(step != 1 for step in window.step):
        interior = tuple(step - 1 for step in window.step)
        x = pad.reference(x, low=window.low, high=window.high, interior=interior, fill=fill)
    begin: list[Any] = [slice(first, None) for first in window.start]
    corner = x[(*begin, ...)]  # an array at rank 0 too
    strides = [
        sum(row[k] * s for row, s in zip(window.matrix, x.strides))
        for k in range(len(index_map.domain))
    ]
    return strided_view(corner, index_map.domain, strides, writeable=False)


def scatter_add(values: Array, indices: Sequence[Array], index_map: IndexMap) -> Array:
    """``O[f(i)] += values[i]`` from zeros, for a map that uses all its dimensions.

    Several windows that overlap are added one whole slice after the other.
    """
    window = window_of(index_map)
    if window is None:
        return index_map.scatter(values, index_map.codomain, "add", 0, indices)
    looped = _looped_dims(index_map.domain, window.matrix)
    ends = [
        low + step * (size - 1) + 1
        for low, step, size in zip(window.low, window.step, index_map.codomain)
    ]
    out = np.zeros(tuple(map(sum, zip(ends, window.high))), values.dtype)
    rest = [k for k in range(values.ndim) if k not in looped]
    order = [next((k for k in rest if row[k]), None) for row in window.matrix]
    source = values.transpose([*looped, *(k for k in order if k is not None)])
    spread = tuple(None if k is None else slice(None) for k in order)
    for point in itertools.product(*[range(values.shape[k]) for k in looped]):
        where = []
        for first, row, k in zip(window.start, window.matrix, order):
            begin = first + sum(row[d] * i for d, i in zip(looped, point))
            step, count = (1, 1) if k is None else (row[k], values.shape[k])
            stop = begin + step * count
            where.append(slice(begin, None if stop < 0 else stop, step))
        out[tuple(where)] += source[point][spread]
    return out[tuple(map(slice, window.low, ends, window.step))]


@functools.lru_cache(maxsize=4096)
def _looped_dims(domain: Shape, matrix: tuple[Shape, ...]) -> Shape:
    """The domain dimensions to loop over, so that each other one steps along an axis of its own."""
    free: set[int] = set()
    for row in matrix:
        used = [k for k, step in enumerate(row) if step]
        alone = [k for k in used if sum(bool(other[k]) for other in matrix) == 1]
        if alone:
            free.add(max(alone, key=lambda k: domain[k]))
    return tuple(k for k in range(len(domain)) if k not in free)
