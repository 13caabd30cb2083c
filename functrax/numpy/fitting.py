"""Polynomials from points, and their zeros: polyfit and roots.

A fit is a least-squares problem, solved by the singular values of a scaled Vandermonde matrix;
zeros are the eigenvalues of the companion matrix.

Start at :func:`polyfit`.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ConcretizationError, ShapeError
from functrax.core.prims.arithmetic import stop_gradient
from functrax.core.prims.powers import sqrt
from functrax.core.prims.spectra import eig, svd
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy import reductions
from functrax.numpy.axes import integer
from functrax.numpy.complex_parts import conj, real
from functrax.numpy.contraction import dot
from functrax.numpy.filling import eye, zeros
from functrax.numpy.joining import concatenate
from functrax.numpy.logic import where
from functrax.numpy.polynomials import vander
from functrax.numpy.promote import convert, inexact, promote_dtypes, promoting, result, to_array
from functrax.numpy.ranges import arange
from functrax.numpy.rearranging import is_known, take_axis
from functrax.numpy.selecting import trim_zeros
from functrax.numpy.shaping import reshape_to, slice_axis, transpose
from functrax.numpy.sorting import argsort
from functrax.numpy.ufuncs import absolute
from functrax.numpy.vector_products import outer
from functrax.typing import ArrayLike

__all__ = ["polyfit", "roots"]


@overload
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = ...,
    full: Literal[False] = ...,
    w: ArrayLike | None = ...,
    cov: Literal[False] = ...,
) -> Array: ...
@overload
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = ...,
    full: bool = ...,
    w: ArrayLike | None = ...,
    cov: bool | str = ...,
) -> Any: ...
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of a degree that is nearest to points, in the sense of least squares.

    Args:
      x: coordinates, a vector.
      y: values, a vector of the same size, or a matrix with a column for each fit.
      deg: the degree.
      rcond: singular values below this fraction of the largest count as 0; the size of ``x`` times
        the precision of the dtype if None.
      full: also give the sum of squared distances, the rank, the singular values and ``rcond``.
      w: a weight for each distance, before it is squared.
      cov: also give the covariances of the coefficients, scaled by the distances, or not with
        ``"unscaled"``.

    Returns:
      The coefficients, that of the highest power first, or a tuple that begins with them.

    Raises:
      ArgumentError: for a negative degree, or too few points for covariances.
      ShapeError: if the shapes do not fit.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.round(jnp.polyfit(jnp.array([0.0, 1.0, 2.0]), jnp.array([1.0, 3.0, 5.0]), 1), 3)
      Array([2., 1.], dtype=float32)
    """
    order = integer("polyfit", "deg", deg) + 1
    places, left, right = _weighted(x, y, order, w)
    return _fitted(places, left, right, rcond, full, cov)


@promoting
def _fitted(
    places: Value, left: Value, right: Value, rcond: float | None, full: bool, cov: Any
) -> Any:
    """The result of :func:`polyfit` for powers ``left`` and values ``right``, both weighted."""
    dtype, order = places.aval.dtype, left.aval.shape[1]
    fraction = places.aval.size * float(dtypes.finfo(dtype).eps) if rcond is None else rcond
    scale = result(sqrt.bind(reductions.sum(real(left * conj(left)), axis=0)))
    scale = where(scale == 0, 1, scale)
    s, u, vh = svd.bind(left / scale, full_matrices=False, compute_uv=True)
    used = s > fraction * s[:1]
    inverse = where(used, 1 / where(used, s, 1), 0)
    adjoint, v = conj(transpose(u)), conj(transpose(vh))
    columns = right if right.aval.ndim > 1 else reshape_to(right, (right.aval.size, 1))
    found = dot(v, inverse[:, None] * dot(adjoint, columns)) / scale[:, None]
    distances = columns - dot(left, found)
    squares = reductions.sum(real(distances * conj(distances)), axis=0)
    out = reshape_to(found, (order, *right.aval.shape[1:]))
    if full:
        rank = reductions.sum(used, dtype=dtypes.int32)
        return out, squares, rank, result(s), result(convert(fraction, s.aval.dtype))
    if not cov:
        return out
    base = dot(v * inverse**2, vh) / outer(scale, scale)
    if isinstance(cov, str) and cov == "unscaled":
        return out, base if right.aval.ndim == 1 else base[:, :, None]
    return out, _scaled(base, squares, places.aval.size - order, right.aval.ndim)


def _weighted(x: Any, y: Any, order: int, w: Any) -> tuple[Value, Value, Value]:
    """The coordinates, their powers, and the values, the last two times the weights."""
    if order < 1:
        raise ArgumentError("polyfit: deg is negative", got=f"deg={order - 1}", fix="deg=0 or more")
    given = [to_array("polyfit", v, k) for k, v in enumerate((x, y) if w is None else (x, y, w))]
    places, values, *weights = (result(v) for v in promote_dtypes("polyfit", *given, kind=inexact))
    size = places.aval.size
    fits = values.aval.ndim in (1, 2) and values.aval.shape[0] == size
    if places.aval.ndim != 1 or not size or not fits:
        raise ShapeError(
            "polyfit: needs a vector of coordinates, and a value for each",
            got=f"{places.aval.str_short()} and {values.aval.str_short()}",
            fix="a vector, or a matrix with a column for each fit",
        )
    powers = vander(places, order)
    if not weights:
        return places, powers, values
    if weights[0].aval.shape != (size,):
        raise ShapeError(
            "polyfit: needs one weight for each point", got=weights[0].aval.str_short(),
            fix=f"a vector of {size} weights",
        )  # fmt: skip
    column = weights[0][:, None]
    wide = values * (column if values.aval.ndim == 2 else weights[0])
    return places, powers * column, wide


def _scaled(base: Value, squares: Value, freedom: int, ndim: int) -> Value:
    """The covariances, in units of the mean squared distances."""
    if freedom <= 0:
        raise ArgumentError(
            "polyfit: there are too few points for covariances",
            got=f"{freedom} more points than coefficients",
            fix="cov='unscaled', or a lower degree",
        )
    factor = squares / freedom
    return base * factor[0] if ndim == 1 else base[:, :, None] * factor


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial.

    Args:
      p: coefficients, a vector, that of the highest power first.
      strip_zeros: leave zeros in front out; ``p`` must then be known.  Otherwise there are
        ``p.size - 1`` results, and those that do not exist are NaN.

    Returns:
      A complex vector, in no particular order.

    Raises:
      ConcretizationError: if ``p`` is traced and zeros are to be left out.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.sort(jnp.roots(jnp.array([1.0, -3.0, 2.0])).real)
      Array([1., 2.], dtype=float32)
    """
    (x,) = promote_dtypes("roots", to_array("roots", p), kind=inexact)
    if x.aval.ndim != 1:
        raise ShapeError("roots: takes a vector", got=x.aval.str_short(), fix="ravel it")
    known = stop_gradient.bind(x)
    if not strip_zeros:
        return _all_roots(x, known)
    if not is_known(known):
        raise ConcretizationError(
            "roots: how many zeros are in front depends on the values of a traced array",
            got=x.aval.str_short(),
            fix="strip_zeros=False",
        )
    front = trim_zeros(x, "f")
    whole = trim_zeros(front, "b")
    found = _eigenvalues(whole)
    return concatenate([found, zeros(front.aval.size - whole.aval.size, found.aval.dtype)])


def _all_roots(x: Value, known: Value) -> Value:
    """As many results as there can be, the largest first.

    Zeros in front are moved to the end, where each is a zero of the polynomial; as many of the
    smallest results become NaN.
    """
    size = x.aval.size
    if size < 2:
        return _eigenvalues(x)
    front = reductions.argmax(result(known) != 0)
    line = arange(size, dtype=dtypes.int32)
    found = _eigenvalues(take_axis(x, 0, (line + front) % size))
    found = take_axis(found, 0, argsort(stop_gradient.bind(absolute(found)), descending=True))
    return where(line[: size - 1] < size - 1 - front, found, np.nan)


def _eigenvalues(x: Value) -> Value:
    """Those of the companion matrix of a polynomial whose first coefficient is not zero."""
    size = x.aval.size
    wide = x.aval.dtype in (dtypes.float64, dtypes.complex128)
    if size < 2:
        return from_numpy(np.zeros(0, np.complex128 if wide else np.complex64))
    row = -slice_axis(x, 0, 1, size) / slice_axis(x, 0, 0, 1)
    shifted = eye(size - 2, size - 1, dtype=x.aval.dtype)
    matrix = concatenate([reshape_to(row, (1, size - 1)), shifted], 0)
    (found,) = eig.bind(
        matrix,
        compute_left_eigenvectors=False,
        compute_right_eigenvectors=False,
        enable_eigvec_derivs=False,
    )
    return result(found)
