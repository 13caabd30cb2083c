"""Sums of products: every factor over its own axes only, pairs of factors by matrix products.

What enters: the terms of a product (``backends/reference/deferred.py``), whose factors have the
shape of the whole iteration space but repeat themselves along most axes.  What leaves: the sum over
some of the axes.  Nothing larger is made than a factor copied out (a convolution's windows: im2col)
or the product of a pair that a result needs.

An axis of the iteration space is a *label*.  Start at :func:`contract`; :func:`_pair` is where the
work is done.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.backends.reference.deferred import Deferred, Term
from functrax.backends.reference.strided import Array, Shape, used_axes
from functrax.core.prims.reduce import wider
from functrax.core.types import dtypes

Labels: TypeAlias = tuple[int, ...]
Operand: TypeAlias = tuple[Array, Labels]

_EXACT = 2**53  # integers up to here are exact in float64


def contract(x: Deferred | Array, kept: Labels) -> Array:
    """The sum over all axes but ``kept`` (increasing), in the type that it is added up in.

    Args:
      x: a deferred value, or an array with repeated axes; not empty.
      kept: the axes of the result.
    """
    if type(x) is Deferred:
        terms: Iterable[Term] = x.terms()
        dtype = accumulator(x.dtypes())
    else:
        assert isinstance(x, np.ndarray)
        dtype = accumulator({x.dtype})
        terms = (Term(dtype.type(1), (x,)),)
    total = None
    for term in terms:
        part = _sum_of_product(term.factors, x.shape, kept, dtype)
        if term.coefficient != 1:
            part = part * term.coefficient.astype(dtype)
        total = part if total is None else total + part
    assert total is not None
    return np.asarray(total)


def accumulator(found: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """The type in which products of these dtypes are added up.

    float32 for the narrow floats, and for truth values, which are counted: a sum of products that
    are not negative is above zero exactly when one of them is.
    """
    narrow = (dtypes.float16, dtypes.bfloat16, dtypes.bool_)
    return np.result_type(*(dtypes.float32 if d in narrow else d for d in found))


def _sum_of_product(
    factors: Sequence[Array], shape: Shape, kept: Labels, dtype: np.dtype[Any]
) -> Array:
    operands = [_operand(x, dtype) for x in factors]
    present = {k for _, labels in operands for k in labels}
    repeated = math.prod(n for k, n in enumerate(shape) if k not in present and k not in kept)
    out_labels = tuple(k for k in kept if k in present)
    out = _reduce(operands, out_labels, dtype)
    if repeated != 1:
        out = out * np.asarray(repeated).astype(dtype)
    sizes = [shape[k] if k in present else 1 for k in kept]
    return np.broadcast_to(out.reshape(sizes), [shape[k] for k in kept])


def _operand(x: Array, dtype: np.dtype[Any]) -> Operand:
    """A factor over the axes that it depends on."""
    labels = used_axes(x)
    # The ellipsis keeps it an array at rank 0.
    part = x[(*[slice(None) if k in labels else 0 for k in range(x.ndim)], ...)]
    return part.astype(dtype, copy=False), labels


def _reduce(operands: list[Operand], out_labels: Labels, dtype: np.dtype[Any]) -> Array:
    """The contraction of all operands, with its axes in the order of ``out_labels``."""
    if not operands:
        return np.ones((), dtype)
    operands = [_sum_alone(k, operands, out_labels) for k in range(len(operands))]
    sizes = tuple(sorted({k: n for x, ls in operands for k, n in zip(ls, x.shape)}.items()))
    for left, right in pair_order(tuple(ls for _, ls in operands), sizes, out_labels):
        second, first = operands.pop(right), operands.pop(left)
        needed = {*out_labels, *(k for _, ls in operands for k in ls)}
        operands.append(_pair(first, second, needed))
    ((out, labels),) = operands
    return out.transpose([labels.index(k) for k in out_labels])


def _sum_alone(number: int, operands: Sequence[Operand], out_labels: Labels) -> Operand:
    """One operand, summed over the labels that nothing else has."""
    x, labels = operands[number]
    others = {k for i, (_, ls) in enumerate(operands) if i != number for k in ls}
    alone = [k for k in labels if k not in others and k not in out_labels]
    if not alone:
        return x, labels
    axes = tuple(labels.index(k) for k in alone)
    summed = np.sum(x, axis=axes, dtype=wider(x.dtype)).astype(x.dtype)
    return summed, tuple(k for k in labels if k not in alone)


@functools.lru_cache(maxsize=4096)
def pair_order(
    labels: tuple[Labels, ...], sizes: tuple[tuple[int, int], ...], out_labels: Labels
) -> list[tuple[int, int]]:
    """Which pairs to contract, one after the other; a pair's result goes to the end.

    Greedy: the pair whose result adds least to what is kept in memory, then the one with the
    fewest multiplications.
    """
    size = dict(sizes)
    left = list(labels)
    pairs = []

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        a, b = left[pair[0]], left[pair[1]]
        union = {*a, *b}
        grows = _volume(_result_labels(left, pair, out_labels), size)
        return grows - _volume(a, size) - _volume(b, size), _volume(union, size)

    while len(left) > 1:
        best = min(itertools.combinations(range(len(left)), 2), key=cost)
        result = _result_labels(left, best, out_labels)
        left = [ls for i, ls in enumerate(left) if i not in best] + [result]
        pairs.append(best)
    return pairs


def _result_labels(left: Sequence[Labels], pair: tuple[int, int], out_labels: Labels) -> Labels:
    needed = {*out_labels, *(k for i, ls in enumerate(left) if i not in pair for k in ls)}
    return tuple(k for k in {*left[pair[0]], *left[pair[1]]} if k in needed)


def _volume(labels: Iterable[int], size: dict[int, int]) -> int:
    return math.prod(size[k] for k in labels)


def _pair(first: Operand, second: Operand, needed: set[int]) -> Operand:
    """The sum of the product of two operands over their common labels that are not ``needed``."""
    own = [sorted(set(first[1]) - set(second[1])), sorted(set(second[1]) - set(first[1]))]
    if own[0] and own[1] and own[1] < own[0]:
        first, second, own = second, first, own[::-1]
    (x, x_labels), (y, y_labels) = first, second
    common = sorted(set(x_labels) & set(y_labels))
    batch = [k for k in common if k in needed]
    summed = [k for k in common if k not in needed]
    rows, columns = own
    labels = (*batch, *rows, *columns)
    if not summed:
        return _aligned(x, x_labels, labels) * _aligned(y, y_labels, labels), labels
    sizes = dict(zip((*x_labels, *y_labels), (*x.shape, *y.shape)))
    left = _matrix(x, x_labels, batch, rows, summed)
    right = _matrix(y, y_labels, batch, summed, columns)
    return _matmul(left, right).reshape([sizes[k] for k in labels]), labels


def _aligned(x: Array, labels: Labels, wanted: Labels) -> Array:
    """``x`` with one axis for each wanted label, of size 1 where it has none."""
    moved = x.transpose([labels.index(k) for k in wanted if k in labels])
    return moved[tuple([slice(None) if k in labels else None for k in wanted]) or ...]


def _matrix(
    x: Array, labels: Labels, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Array:
    """``x`` as a stack of matrices, laid out so that a BLAS takes it."""
    moved = x.transpose([labels.index(k) for k in (*batch, *rows, *columns)])
    cut, end = len(batch), len(batch) + len(rows)
    height, width = math.prod(moved.shape[cut:end]), math.prod(moved.shape[end:])
    matrix = moved.reshape((*moved.shape[:cut], height, width))
    down, across = matrix.strides[-2:]
    item = matrix.itemsize
    by_rows = across == item and down >= width * item
    by_columns = down == item and across >= height * item
    return matrix if by_rows or by_columns else np.ascontiguousarray(matrix)


def _matmul(x: Array, y: Array) -> Any:
    """A product of stacks of matrices; integers are exact, modulo the range of their type."""
    if not dtypes.is_integer(x.dtype):
        return np.matmul(x, y)
    if _largest(x) * _largest(y) * x.shape[-1] >= _EXACT:
        return np.matmul(x, y)
    exact = np.matmul(x.astype(np.float64), y.astype(np.float64))
    return exact.astype(np.int64).astype(x.dtype)


def _largest(x: Array) -> int:
    return max(-int(x.min()), int(x.max()))
