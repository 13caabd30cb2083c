"""Systems of equations with three diagonals, in a number of steps that grows with their size."""

from __future__ import annotations

from typing import Any

from functrax.core import dtypes
from functrax.core.errors import ArgumentError, DTypeError, ShapeError
from functrax.core.operators import Array
from functrax.core.primitive import Value
from functrax.core.prims.reindex import transpose_
from functrax.lax.operands import ArrayLike, as_array, value_of
from functrax.transforms.control.loops import scan

NAME = "tridiagonal_solve"


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solve ``A x = b`` for a matrix of three diagonals, by elimination without pivoting.

    It is accurate where the diagonal dominates, as in implicit steps of diffusion equations.

    Args:
      dl: below the diagonal, ``(..., m)``: ``A[i, i - 1] = dl[i]``, and ``dl[0]`` is not used.
      d: the diagonal, ``(..., m)``.
      du: above the diagonal, ``(..., m)``: ``A[i, i + 1] = du[i]``; the last one is not used.
      b: right-hand sides, ``(..., m, n)``.
      perturb_singular: not supported.

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
    if perturb_singular:
        raise ArgumentError(
            f"{NAME}: perturb_singular is not supported", got="True", fix="regular matrices"
        )
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
    order = (row, *range(row))
    back = (*range(1, row + 1), 0)
    below, middle, above = (
        as_array(transpose_(x, order))[..., None] for x in (lower, diagonal, upper)
    )
    right = as_array(transpose_(sides, (*order, row + 1)))

    def eliminate(before: Any, rows: Any) -> Any:
        (low, mid, up, rhs), (factor, y) = rows, before
        pivot = mid - low * factor
        now = (up / pivot, (rhs - low * y) / pivot)
        return now, now

    def substitute(after: Any, rows: Any) -> Any:
        factor, y = rows
        x = y - factor * after
        return x, x

    nothing: tuple[Value, Value] = (middle[0] * 0, right[0] * 0)
    _, eliminated = scan(eliminate, nothing, (below, middle, above, right))
    _, found = scan(substitute, nothing[1], eliminated, reverse=True)
    return as_array(transpose_(value_of(NAME, found), (*back, row + 1)))
