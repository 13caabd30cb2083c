"""Norms of vectors and of matrices."""

from __future__ import annotations

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.tracing.primitive import Value
from functrax.numpy.analytic import sqrt
from functrax.numpy.axes import many_axes
from functrax.numpy.creation import asarray
from functrax.numpy.factoring import svdvals
from functrax.numpy.logic import where
from functrax.numpy.powers import power, square
from functrax.numpy.reductions import max as max_, min as min_, sum as sum_
from functrax.numpy.shaping import expand_dims, moveaxis
from functrax.numpy.ufuncs import absolute
from functrax.typing import ArrayLike, Axes

__all__ = ["matrix_norm", "norm", "vector_norm"]


def _safe_sqrt(x: Value) -> Value:
    """The square root, with derivative 0 (to every order) instead of infinity at 0."""
    zero = x == 0
    return where(zero, 0, sqrt(where(zero, 1, x)))


def vector_norm(
    x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: int | float | str | None = 2
) -> Array:
    """The norm of vectors: ``(sum |x|^ord)^(1/ord)``.

    The Euclidean norm has derivative 0 at the zero vector, which is a subgradient.

    Args:
      x: an array.
      axis: the axes that make up a vector; all of them if None.
      keepdims: whether the axes stay, with size 1.
      ord: a number, or infinity or minus infinity for the largest or smallest absolute value;
        0 counts the elements that are not zero.

    Returns:
      Real numbers, of the shape without the axes.

    Raises:
      ArgumentError: if ``ord`` is a name.
      AxisError: if an axis is out of range.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.vector_norm(jnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    x = asarray(x)
    axes = None if axis is None else many_axes("vector_norm", axis, x.ndim)
    if ord is None or ord == 2:
        squares = square(absolute(x) if np.iscomplexobj(x.dtype.type(0)) else x)
        return _safe_sqrt(sum_(squares, axis=axes, keepdims=keepdims))
    if ord == np.inf:
        return max_(absolute(x), axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return min_(absolute(x), axis=axes, keepdims=keepdims)
    if ord == 0:
        return sum_((x != 0).astype(absolute(x).dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return sum_(absolute(x), axis=axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ArgumentError(
            "vector_norm: ord is not a number", got=repr(ord), fix="a number, or inf, or -inf"
        )
    total = sum_(power(absolute(x), ord), axis=axes, keepdims=keepdims)
    return power(total, 1 / ord)


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro"
) -> Array:
    """The norm of matrices, which are the last two axes.

    Args:
      x: an array of rank at least 2.
      keepdims: whether the axes stay, with size 1.
      ord: ``"fro"`` for Frobenius; ``"nuc"`` for the sum of the singular values, 2 or -2 for the
        largest or smallest; 1 or -1 for the largest or smallest column sum; inf or -inf for the
        largest or smallest row sum.

    Returns:
      Real numbers, of the shape without the last two axes.

    Raises:
      ArgumentError: for another ``ord``.
      AxisError: if ``x`` has fewer than two axes.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.array([[1.0, -2.0], [3.0, 4.0]]), ord=jnp.inf)
    Array(7., dtype=float32)
    """
    return norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


def norm(
    x: ArrayLike, ord: int | float | str | None = None, axis: Axes = None, keepdims: bool = False
) -> Array:
    """The norm of a vector or of a matrix.

    Args:
      x: an array.
      ord: which norm: see :func:`vector_norm` for vectors and :func:`matrix_norm` for matrices;
        None is the Euclidean norm of all elements.
      axis: one axis for vectors, two for matrices; None takes the whole array.
      keepdims: whether the axes stay, with size 1.

    Returns:
      Real numbers, of the shape without the axes.

    Raises:
      ArgumentError: if there is no such norm for so many axes.
      AxisError: if an axis is out of range.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.grad(jnp.linalg.norm)(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    x = asarray(x)
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    axes = many_axes("norm", tuple(range(x.ndim)) if axis is None else axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) == 2 and ord in (None, "fro"):
        return vector_norm(x, axis=axes, keepdims=keepdims)
    if len(axes) == 2 and ord in (1, -1, np.inf, -np.inf):
        summed, kept = axes if abs(ord) == 1 else axes[::-1]
        sums = sum_(absolute(x), axis=summed, keepdims=True)
        if ord > 0:  # of no elements it is 0
            out = max_(sums, axis=kept, keepdims=True, initial=0)
        else:
            out = min_(sums, axis=kept, keepdims=True)
        return out if keepdims else out.squeeze(axes)
    if len(axes) == 2 and ord in (2, -2, "nuc"):
        s = svdvals(moveaxis(x, axes, (-2, -1)))
        if ord == "nuc" or (ord == 2 and not s.shape[-1]):
            reduced = sum_(s, axis=-1)
        else:
            reduced = s[..., 0 if ord == 2 else -1]
        return expand_dims(reduced, axes) if keepdims else reduced
    raise ArgumentError(
        "norm: this ord is not available for these axes",
        got=f"ord={ord!r} over axes {axes} of {x.aval.str_short()}",
        fix="ord None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf for matrices; a number for vectors",
    )
