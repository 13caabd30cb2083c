"""Covariances and correlation coefficients of variables: a product of centred observations.

Start at :func:`cov`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.prims.powers import sqrt
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy import reductions
from functrax.numpy.complex_parts import conj, real
from functrax.numpy.contraction import dot
from functrax.numpy.creation import checked_dtype
from functrax.numpy.extrema import clip
from functrax.numpy.joining import concatenate
from functrax.numpy.logic import where
from functrax.numpy.promote import convert, inexact, promote_dtypes, result, to_array
from functrax.numpy.shaping import reshape_to, squeeze, transpose
from functrax.numpy.statistics import average
from functrax.numpy.triangles import diagonal
from functrax.typing import ArrayLike, DTypeLike

__all__ = ["corrcoef", "cov"]


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariances of variables.

    Args:
      m: observations: a vector of one variable, or a matrix.
      y: more variables, in the form of ``m``.
      rowvar: whether rows of a matrix are variables, and not columns.
      bias: divide by the number of observations, and not by one less.
      ddof: what is subtracted from the number of observations; overrides ``bias``.
      fweights: how often each observation was made, an integer vector.
      aweights: how important each observation is, a vector.
      dtype: in which to compute.

    Returns:
      A matrix with a row and a column for each variable; a scalar for one variable.

    Raises:
      ShapeError: for more than two axes, or weights that are not one for each observation.
      ArgumentError: for a ``ddof`` that is no integer, and a dtype that is not inexact.
      DTypeError: for ``fweights`` that are not integers.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]))
      Array([[ 1. , -0.5],
             [-0.5,  1. ]], dtype=float32)
    """
    if ddof is not None and ddof != int(ddof):
        raise ArgumentError("cov: ddof is an integer", got=f"ddof={ddof}", fix="ddof=1")
    x = _variables(m, y, rowvar, dtype)
    count = x.aval.shape[1]
    less = (0 if bias else 1) if ddof is None else int(ddof)
    weights = _weights(fweights, aweights, x)
    if weights is None:
        total: Any = float(count)
        factor = total - less
        centred = x - average(x, axis=1, keepdims=True)
        other = centred
    else:
        total = reductions.sum(weights)
        centred = x - average(x, axis=1, weights=weights, keepdims=True)
        other = centred * weights[None]
        spread = (
            1.0 if aweights is None else reductions.sum(weights * to_array("cov", aweights)) / total
        )
        factor = total - less * spread
    factor = where(factor > 0, factor, 0)
    product = dot(centred, conj(transpose(other)))
    return squeeze(product / factor)


def _variables(m: Any, y: Any, rowvar: bool, dtype: Any) -> Value:
    """A matrix whose rows are the variables."""
    if dtype is not None and not dtypes.is_inexact(checked_dtype(dtype)):
        raise ArgumentError(
            "cov, corrcoef: dtype must be a subclass of float or complex",
            got=repr(dtype),
            fix="'float32'",
        )
    given = [to_array("cov", v, k) for k, v in enumerate((m, y)) if v is not None]
    values = [result(v) for v in promote_dtypes("cov", *given, kind=inexact)]
    rows = []
    for k, v in enumerate(values):
        if v.aval.ndim > 2:
            raise ShapeError(
                "cov: takes vectors and matrices",
                got=v.aval.str_short(),
                fix="reshape to one row for each variable",
            )
        wide = v if v.aval.ndim == 2 else reshape_to(v, (1, v.aval.size))
        if not rowvar and (v.aval.ndim == 2 if k == 0 else wide.aval.shape[0] != 1):
            wide = transpose(wide)  # NumPy's rules, which differ for m and y
        rows.append(wide if dtype is None else convert(wide, checked_dtype(dtype)))
    if len({row.aval.shape[1] for row in rows}) > 1:
        raise ShapeError(
            "cov: the variables have different numbers of observations",
            got=" and ".join(row.aval.str_short() for row in rows),
            fix="rowvar=False if columns are variables",
        )
    return concatenate(rows, 0) if len(rows) > 1 else rows[0]


def _weights(fweights: Any, aweights: Any, x: Value) -> Value | None:
    """One weight for each observation, or None if all are 1."""
    total = None
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        w = to_array("cov", weights)
        if w.aval.shape != x.aval.shape[1:]:
            raise ShapeError(
                f"cov: {name} is not one weight for each observation",
                got=f"{w.aval.str_short()} for {x.aval.shape[1]} observations",
                fix=f"a vector of size {x.aval.shape[1]}",
            )
        if name == "fweights" and not dtypes.is_integer(w.aval.dtype):
            raise DTypeError("cov: fweights are integers", got=w.aval.str_short(), fix="aweights=")
        total = w if total is None else total * w
    return total


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """The correlation coefficients of variables: covariances in units of standard deviations.

    Args:
      x: observations, as for :func:`cov`.
      y: more variables.
      rowvar: whether rows of a matrix are variables.
      dtype: in which to compute.

    Returns:
      Numbers from -1 to 1, of the shape of :func:`cov`.

    Raises:
      ShapeError: for more than two axes.
      ArgumentError: for a dtype that is not inexact.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.corrcoef(jnp.array([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]))[0, 1]
      Array(-0.5, dtype=float32)
    """
    found = cov(x, y, rowvar, dtype=dtype)
    if not found.aval.ndim:
        return found / found
    deviations = result(sqrt.bind(real(diagonal(found))))
    found = found / deviations[:, None] / deviations[None, :]
    if found.aval.dtype not in dtypes.COMPLEX:
        return clip(found, -1, 1)
    parts = clip(real(found), -1, 1), clip(found.imag, -1, 1)
    return parts[0] + np.complex64(1j) * parts[1]
