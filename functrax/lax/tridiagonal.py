"""Systems of equations with three diagonals, in a number of steps that grows with their size."""

from __future__ import annotations

import functools
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError, ShapeError
from functrax.core.prims.arithmetic import select_n, stop_gradient
from functrax.core.prims.reindex import transpose_
from functrax.core.types import dtypes
from functrax.lax.elementwise import max as maximum
from functrax.lax.joining import concatenate
from functrax.lax.operands import as_array, broadcast_sizes, repeat, value_of
from functrax.transforms.control.user_loops import scan
from functrax.typing import ArrayLike

NAME = "tridiagonal_solve"


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solve ``A x = b`` for a matrix of three diagonals, by elimination with partial pivoting.

    Args:
      dl: below the diagonal, ``(..., m)``: ``A[i, i - 1] = dl[i]``, and ``dl[0]`` is not used.
      d: the diagonal, ``(..., m)``.
      du: above the diagonal, ``(..., m)``: ``A[i, i + 1] = du[i]``; the last one is not used.
      b: right-hand sides, ``(..., m, n)``.
      perturb_singular: whether pivots that are nearly zero are replaced by small ones, so that a
        singular matrix gives a large solution, as inverse iteration wants it; else it gives
        infinities or NaN.

    Returns:
      An array of the shape and dtype of ``b``.

    Raises:
      ShapeError, DTypeError: if they are not of these shapes and of one dtype of floats or
        complex numbers.

    >>> import functrax.numpy as jnp
    >>> one = jnp.ones(3)
    >>> tridiagonal_solve(one, 4 * one, one, jnp.array([[5.0], [6.0], [5.0]]))[:, 0].round(5)
    Array([1., 1., 1.], dtype=float32)
    """
    lower, diagonal, upper, sides = (value_of(NAME, x) for x in (dl, d, du, b))
    given = (lower, diagonal, upper, sides)
    shown = ", ".join(x.aval.str_short() for x in given)
    shape = sides.aval.shape
    if len(shape) < 2 or any(x.aval.shape != shape[:-1] for x in given[:3]):
        raise ShapeError(
            f"{NAME}: the diagonals do not fit the right-hand sides",
            got=shown,
            fix="three diagonals (..., m) and right-hand sides (..., m, n)",
        )
    if len({x.aval.dtype for x in given}) > 1 or not dtypes.is_inexact(sides.aval.dtype):
        raise DTypeError(
            f"{NAME} takes floats or complex numbers of one dtype", got=shown, fix=".astype(...)"
        )
    row = len(shape) - 2
    if not shape[row]:
        return as_array(sides)
    order = (row, *range(row))
    back = (*range(1, row + 1), 0)
    below, middle, above = (
        as_array(transpose_(x, order))[..., None] for x in (lower, diagonal, upper)
    )
    right = as_array(transpose_(sides, (*order, row + 1)))
    rows, last = _eliminated(below, middle, above, right)
    found = _substituted(rows, last, bool(perturb_singular))
    return as_array(transpose_(value_of(NAME, found), (*back, row + 1)))


def _eliminated(below: Array, middle: Array, above: Array, right: Array) -> tuple[Any, Any]:
    """The rows of the upper triangle, each with two elements beside its pivot, and the last one.

    The element before the last row's end, and after it, is not there.
    """
    none = middle[0] * 0

    def eliminate(row: Any, following: Any) -> Any:
        """Of two rows the one with the larger first element stays; the other loses it."""
        (pivot, beside, rhs), (low, mid, up, side) = row, following
        swap = abs(low) > abs(pivot)
        first = _where(swap, low, pivot), _where(swap, mid, beside), _where(swap, up, none)
        rest = _where(swap, pivot, low), _where(swap, beside, mid), _where(swap, none, up)
        factor = _where(first[0] == 0, none, rest[0] / _where(first[0] == 0, none + 1, first[0]))
        top, under = _where(swap, side, rhs), _where(swap, rhs, side)
        left = (rest[1] - factor * first[1], rest[2] - factor * first[2], under - factor * top)
        return left, (*first, top)

    # What stands above the diagonal in the last row is outside the matrix.
    inside = concatenate([above[:-1], above[-1:] * 0], 0)
    start = (middle[0], inside[0], right[0])
    last, rows = scan(eliminate, start, (below[1:], middle[1:], inside[1:], right[1:]))
    return rows, last


def _substituted(rows: Any, last: Any, perturb: bool) -> Array:
    """The solution, from the last row upwards."""
    pivots, firsts, seconds, sides = rows
    end, _, end_side = last
    pivots = concatenate([pivots, end[None]], 0)
    if perturb:
        sizes = [abs(pivots).max(0)]
        sizes += [abs(x).max(0) for x in (firsts, seconds) if x.shape[0]]
        largest = functools.reduce(maximum, sizes)
        small = float(dtypes.finfo(largest.dtype).eps) * largest
        small = _where(small == 0, small + float(dtypes.finfo(largest.dtype).tiny), small)
        pivots = _perturbed(pivots, as_array(stop_gradient(small))[None])

    def substitute(after: Any, row: Any) -> Any:
        (next_one, second_next), (pivot, first, second, side) = after, row
        x = (side - first * next_one - second * second_next) / pivot
        return (x, next_one), x

    final = end_side / pivots[-1]
    state = (final, final * 0)
    _, found = scan(substitute, state, (pivots[:-1], firsts, seconds, sides), reverse=True)
    return concatenate([found, final[None]], 0)


def _perturbed(pivots: Array, small: Array) -> Array:
    """Pivots of at least a size, moved away from zero by it where they are smaller."""
    near = abs(pivots) < small
    moved = small if not dtypes.is_complex(pivots.dtype) else small.astype(pivots.dtype)
    sign = pivots.real >= 0
    return _where(near, pivots + _where(sign, moved, -moved), pivots)


def _where(condition: Array, x: Array, y: Array) -> Array:
    """Elements of ``x`` where the condition holds, else of ``y``."""
    shape = broadcast_sizes(NAME, [condition.shape, x.shape, y.shape])
    values = (repeat(a, shape) for a in (condition, y, x))
    return as_array(select_n(*values))
