"""NumPy values of factorisations and solutions that ``numpy.linalg`` lacks, or refuses to give.

All work on the last two axes.  Where NumPy raises (a singular or an indefinite matrix among
several), the values are NaN for the matrices at fault only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.core.prims import lapack

#: Matrices of more multiplications are computed by LAPACK where NumPy brings it, one by one.
MOST_WORK = 1 << 21
#: As many columns of a matrix are eliminated together.
PANEL = 32
#: A few triangles up to this size are solved by one call: more arithmetic, but no recursion, whose
#: calls take longer than that.  (Recursion takes many matrices at once; LAPACK one by one.)
WHOLE = 32
#: Rows of up to so many matrices are exchanged one by one, in lists; of more in arrays.
FEW = 16


def each(function: Callable[..., Any], *stacks: Any, fallback: Callable[[Any], Any]) -> Any:
    """A function of stacks of matrices; where it fails, of each matrix, with NaN for failures."""
    try:
        return function(*stacks)
    except np.linalg.LinAlgError:
        pass
    lead = stacks[0].shape[:-2]
    if not lead:
        return fallback(stacks[-1])
    flat = [s.reshape(-1, *s.shape[-2:]) for s in stacks]
    rows = [each(function, *row, fallback=fallback) for row in zip(*flat, strict=True)]
    return np.stack(rows).reshape(*lead, *rows[0].shape)


def each_matrix(function: Callable[..., Any], *stacks: Any) -> Any:
    """A function of single matrices, of stacks of them: an array, or a tuple.

    None where the function's value is None, and where there are no matrices.
    """
    lead = stacks[0].shape[:-2]
    flat = [s.reshape(-1, *s.shape[-2:]) for s in stacks]
    found = []
    for row in zip(*flat, strict=True):
        found.append(function(*row))
        if found[-1] is None:
            return None
    if not found:
        return None
    if not isinstance(found[0], tuple):
        return np.stack(found).reshape(*lead, *found[0].shape)
    return tuple([np.stack(x).reshape(*lead, *x[0].shape) for x in zip(*found, strict=True)])


def cholesky(x: Any) -> Any:
    """The lower factor; NaN in the lower triangle where a matrix is not positive definite."""
    return each(np.linalg.cholesky, x, fallback=lambda m: np.tril(np.full_like(m, np.nan)))


def indefinite(x: Any) -> tuple[tuple[int, ...], int] | None:
    """The first matrix that has no factor, and its first leading minor that is not positive.

    The minor is its order, counted from 1, so that its last row is the one that fails.
    """
    for index in np.ndindex(x.shape[:-2]):
        positive, order = 0, x.shape[-1] + 1
        while order - positive > 1:
            middle = (positive + order) // 2
            if np.isnan(cholesky(x[index][:middle, :middle])).any():
                order = middle
            else:
                positive = middle
        if order <= x.shape[-1]:
            return index, order
    return None


def solve(a: Any, b: Any) -> Any:
    """``inv(a) @ b``; NaN where ``a`` is singular."""
    if a.shape[-1] == 0 or b.shape[-1] == 0:
        return np.zeros_like(b)
    return each(np.linalg.solve, a, b, fallback=lambda m: np.full_like(m, np.nan))


def solve_lower(a: Any, b: Any) -> Any:
    """``inv(a) @ b`` for lower triangles ``a``, by halves; a zero on the diagonal divides."""
    n = a.shape[-1]
    if n == 0 or b.shape[-1] == 0:
        return b
    if n == 1:
        return b / a
    if 4 * max(math.prod(a.shape[:-2]), 1) <= n <= WHOLE:
        found = _solve_whole(a, b)
        if found is not None:
            return found
    k = n // 2
    first = solve_lower(a[..., :k, :k], b[..., :k, :])
    rest = b[..., k:, :] - a[..., k:, :k] @ first
    return np.concatenate([first, solve_lower(a[..., k:, k:], rest)], -2)


def _solve_whole(a: Any, b: Any) -> Any:
    """:func:`solve_lower` by one call of LAPACK, which works for numbers that are all finite.

    Turned around, the triangle is an upper one.  Elimination finds zeros below each pivot, so it
    exchanges no rows and changes none; what is left of the solution is substitution.
    """
    upper = np.triu(a[..., ::-1, ::-1])
    try:
        found = np.linalg.solve(upper, b[..., ::-1, :])[..., ::-1, :]
    except np.linalg.LinAlgError:
        return None
    return found if np.isfinite(found).all() else None


def lu(x: Any) -> tuple[Any, Any, Any]:
    """``(lu, pivots, permutation)`` by elimination with partial pivoting, a panel at a time."""
    *lead, m, n = x.shape
    count, k = math.prod(lead), min(m, n)
    if m * n * k > MOST_WORK:
        found = each_matrix(lapack.lu, x)
        if found is not None:
            return *found, permutation_of_pivots(found[1], m)
    out = x.reshape(count, m, n).copy()
    pivots = np.zeros((count, k), np.int32)
    order = np.tile(np.arange(m, dtype=np.int32), (count, 1))
    for first in range(0, k, PANEL):
        last = min(first + PANEL, k)
        _eliminate(out, pivots, order, first, last)
        corner = np.tril(out[:, first:last, first:last], -1) + np.eye(last - first, dtype=x.dtype)
        right = solve_lower(corner, out[:, first:last, last:])
        out[:, first:last, last:] = right
        out[:, last:, last:] -= out[:, last:, first:last] @ right
    return out.reshape(x.shape), pivots.reshape(*lead, k), order.reshape(*lead, m)


def _eliminate(out: Any, pivots: Any, order: Any, first: int, last: int) -> None:
    """Eliminate columns ``first`` to ``last`` within those columns; rows are exchanged whole."""
    every = np.arange(out.shape[0])
    for j in range(first, last):
        best = np.argmax(_size(out[:, j:, j]), axis=1) + j if out.shape[0] else every
        pivots[:, j] = best
        for rows in (out, order):
            kept = rows[:, j].copy()
            rows[:, j] = rows[every, best]
            rows[every, best] = kept
        pivot = out[:, j : j + 1, j]
        # A column of zeros needs no elimination, and stays.
        out[:, j + 1 :, j] /= np.where(pivot == 0, out.dtype.type(1), pivot)
        left, right = out[:, j + 1 :, j, None], out[:, None, j, j + 1 : last]
        out[:, j + 1 :, j + 1 : last] -= left * right


def _size(x: Any) -> Any:
    """How large elements are, as LAPACK compares pivots."""
    size = np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)
    return np.where(np.isnan(size), np.inf, size)


def permutation_of_pivots(pivots: Any, size: int) -> Any:
    """The order of rows that exchanging row ``i`` with row ``pivots[i]``, in turn, leaves.

    Pivots that are no rows are taken as gathers take them: from the end, or as the nearest row.
    """
    lead = pivots.shape[:-1]
    pivots = np.clip(np.where(pivots < 0, pivots + size, pivots), 0, size - 1)
    swaps = pivots.reshape(math.prod(lead), pivots.shape[-1])
    if swaps.shape[0] <= FEW:
        rows = [_exchanged(row.tolist(), size) for row in swaps]
        return np.array(rows, pivots.dtype).reshape(*lead, size)
    order = np.tile(np.arange(size, dtype=pivots.dtype), (swaps.shape[0], 1))
    every = np.arange(swaps.shape[0])
    for i in range(swaps.shape[1]):
        kept = order[:, i].copy()
        order[:, i] = order[every, swaps[:, i]]
        order[every, swaps[:, i]] = kept
    return order.reshape(*lead, size)


def _exchanged(swaps: list[int], size: int) -> list[int]:
    """The order of rows that exchanges leave."""
    order = list(range(size))
    for i, k in enumerate(swaps):
        order[i], order[k] = order[k], order[i]
    return order


def cofactors(x: Any) -> Any:
    """The matrix of cofactors, ``det(x) inv(x).T`` wherever that exists.

    With ``x = U diag(s) V`` it is ``det(U V) conj(U) diag(products of the other s) conj(V)``.
    """
    n = x.shape[-1]
    if n == 0:
        return x
    u, s, vh = each_svd(x)
    ones = np.ones_like(s[..., :1])
    before = np.concatenate([ones, np.cumprod(s[..., :-1], -1)], -1)
    after = np.concatenate([np.cumprod(s[..., :0:-1], -1)[..., ::-1], ones], -1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    product = (np.conj(u) * (before * after)[..., None, :]) @ np.conj(vh)
    return (sign[..., None, None] * product).astype(x.dtype)


def each_svd(x: Any, full: bool = False) -> Any:
    """The singular value decomposition; NaN where it does not converge."""
    return each_of_several(lambda m: np.linalg.svd(m, full_matrices=full), x)


def singular_values(x: Any) -> Any:
    """The singular values; NaN where they do not converge."""
    return each_of_several(lambda m: (np.linalg.svd(m, compute_uv=False),), x)[0]


def eigh(x: Any, lower: bool) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices; NaN where they do not converge."""
    return each_of_several(lambda m: np.linalg.eigh(m, UPLO="L" if lower else "U"), x)


def each_of_several(function: Callable[[Any], Any], x: Any) -> tuple[Any, ...]:
    """As :func:`each`, for a function of one stack that has several results."""
    try:
        return tuple(function(x))
    except np.linalg.LinAlgError:
        pass
    if x.ndim == 2:
        return tuple([np.full_like(r, np.nan) for r in function(np.zeros_like(x))])
    found = [each_of_several(function, m) for m in x]
    return tuple([np.stack(results) for results in zip(*found, strict=True)])
