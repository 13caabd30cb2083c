"""Linear systems, inverses and determinants: solve, inv, det, slogdet, lstsq, pinv and powers.

Matrices stand in the last two axes, and leading axes are batches.  Integers are computed in
float32.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims import determinants, factorisations
from functrax.core.prims.linear_systems import solve_each
from functrax.core.prims.matrices import adjoint, check_matrix, identity
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.axes import integer, many_axes
from functrax.numpy.contraction import matmul
from functrax.numpy.factoring import matrices_of, svd, svdvals
from functrax.numpy.logic import where
from functrax.numpy.norms import norm
from functrax.numpy.powers import square
from functrax.numpy.promote import (
    broadcast_shape,
    broadcast_value,
    promoting,
    result,
    to_array,
)
from functrax.numpy.reductions import max as max_, sum as sum_
from functrax.numpy.shaping import moveaxis, reshape
from functrax.numpy.ufuncs import absolute
from functrax.transforms.user_rules.custom_jvp import custom_jvp
from functrax.typing import ArrayLike

__all__ = [
    "cond",
    "det",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "slogdet",
    "solve",
    "tensorinv",
    "tensorsolve",
]


class SlogdetResult(NamedTuple):
    """The sign of determinants, and the logarithm of their absolute value."""

    sign: Array
    logabsdet: Array


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """``x`` with ``a x = b``.

    Args:
      a: square matrices.
      b: a vector if it has one axis; else matrices.  Leading axes broadcast.

    Returns:
      The solution, of the shape of ``b`` (broadcast); NaN where ``a`` is singular.

    Raises:
      ShapeError: if ``a`` is not square, or the sizes do not go together.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    x, y = matrices_of("solve", a, b)
    check_matrix("solve", x.aval, square=True)
    if y.aval.ndim == 0:
        raise ShapeError("solve: b has no axes", got=y.aval.str_short(), fix="a vector or matrices")
    is_vector = y.aval.ndim == 1
    y = y[:, None] if is_vector else y
    if x.aval.shape[-1] != y.aval.shape[-2]:
        raise ShapeError(
            "solve: a and b have different numbers of rows",
            got=f"a {x.aval.str_short()}, b {y.aval.str_short()}",
            fix="as many rows in b as in a; b with one axis is a vector",
        )
    x, y = same_batches("solve", x, y)
    out = result(solve_each(factorisations.linear_solve, x, y))
    return out[..., 0] if is_vector else out


def same_batches(name: str, a: Value, b: Value) -> tuple[Array, Array]:
    """Both sides of linear systems with the leading axes of both; one matrix ``a`` stays one."""
    if a.aval.ndim == 2:
        return a, b
    lead = promoting(broadcast_shape)(name, [x.aval.shape[:-2] for x in (a, b)])
    a, b = (broadcast_value(x, (*lead, *x.aval.shape[-2:])) for x in (a, b))
    return a, b


def inv(a: ArrayLike) -> Array:
    """The inverse of square matrices; NaN where they are singular.

    Args:
      a: square matrices.

    Returns:
      An array of the same shape.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    (x,) = matrices_of("inv", a)
    check_matrix("inv", x.aval, square=True)
    return result(factorisations.linear_solve(x, identity(x)))


def det(a: ArrayLike) -> Array:
    """Determinants of square matrices; the first derivative is right for singular ones as well.

    Args:
      a: square matrices.

    Returns:
      An array without the last two axes.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.grad(jnp.linalg.det)(jnp.array([[1.0, 2.0], [2.0, 5.0]])).round(3)
    Array([[ 5., -2.],
           [-2.,  1.]], dtype=float32)
    """
    (x,) = matrices_of("det", a)
    check_matrix("det", x.aval, square=True)
    if 1 <= x.aval.shape[-1] <= 3 and x.aval.dtype in (dtypes.float32, dtypes.float64):
        return _small_det(result(x))
    return result(determinants.det(x))


def _small_det(a: Value) -> Value:
    """Determinants of matrices of at most three rows, written out, so that they are in a kernel."""
    rows = [[a[..., i, j] for j in range(a.shape[-1])] for i in range(a.shape[-1])]
    if len(rows) == 1:
        return rows[0][0]
    if len(rows) == 2:
        (p, q), (r, s) = rows
        return p * s - q * r
    first, (p, q, r), (s, t, u) = rows
    minors = q * u - r * t, r * s - p * u, p * t - q * s
    return first[0] * minors[0] + first[1] * minors[1] + first[2] * minors[2]


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign of determinants, and the logarithm of their absolute value, without overflow.

    Args:
      a: square matrices.
      method: accepted: ``"lu"``, ``"qr"`` or None.

    Returns:
      ``(sign, logabsdet)``; of a singular matrix 0 and minus infinity.

    Raises:
      ShapeError: if the matrices are not square.
      ArgumentError: for another method.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.slogdet(1e-30 * jnp.eye(2))
    SlogdetResult(sign=Array(1., dtype=float32), logabsdet=Array(-138.1551, dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ArgumentError("slogdet: unknown method", got=repr(method), fix="'lu', 'qr' or None")
    (x,) = matrices_of("slogdet", a)
    sign, size = determinants.slogdet(x)
    return SlogdetResult(result(sign), result(size))


@custom_jvp
@promoting
def _pseudo_inverse(a: Value, rtol: Value) -> Value:
    u, s, vh = svd(a, full_matrices=False)
    large = s > rtol * max_(s, axis=-1, keepdims=True, initial=0)
    reciprocal = where(large, 1 / where(large, s, 1), 0).astype(a.dtype)
    return matmul(adjoint(vh) * reciprocal[..., None, :], adjoint(u))


@_pseudo_inverse.defjvp
@promoting
def _pseudo_inverse_jvp(primals: Any, tangents: Any) -> tuple[Value, Value]:
    """G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses", 1973; no vectors.

    So equal singular values do no harm.
    """
    (a, rtol), (t, _) = primals, tangents
    p = _pseudo_inverse(a, rtol)
    ph, th = adjoint(p), adjoint(t)
    change = -matmul(p, matmul(t, p))
    left = matmul(p, matmul(ph, th))
    right = matmul(th, matmul(ph, p))
    change = change + left - matmul(left, matmul(a, p))
    return p, change + right - matmul(p, matmul(a, right))


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The pseudo-inverse of Moore and Penrose.

    Args:
      a: matrices of ``m`` rows and ``n`` columns.
      rtol: singular values up to this, relative to the largest, count as 0; if None, ten times
        ``max(m, n)`` times the dtype's precision.
      hermitian: accepted; whether the matrices are Hermitian.
      rcond: another name of ``rtol``.

    Returns:
      Matrices of ``n`` rows and ``m`` columns.

    Raises:
      ShapeError: if ``a`` is no matrix.
      ArgumentError: for ``rtol`` and ``rcond`` together.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    (x,) = matrices_of("pinv", a)
    check_matrix("pinv", x.aval)
    _only_one("pinv", "rtol and rcond", rtol, rcond)
    rtol = rcond if rtol is None else rtol
    if rtol is None:
        rtol = 10.0 * max(x.aval.shape[-2:]) * _precision(x)
    (limit,) = matrices_of("pinv", rtol)
    limit = limit.astype(dtypes.real_dtype(x.dtype))
    if x.aval.size == 0:
        return adjoint(x)
    out: Value = _pseudo_inverse(x, limit[..., None])
    return out


def _only_one(name: str, names: str, first: Any, second: Any) -> None:
    """Refuse two names of one argument together."""
    if first is not None and second is not None:
        raise ArgumentError(
            f"{name}: only one of {names} may be specified.",
            got=f"{first!r} and {second!r}",
            fix="rtol alone",
        )


def _precision(x: Value) -> float:
    return float(dtypes.finfo(dtypes.real_dtype(x.dtype)).eps)


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The ``x`` of least norm among those for which ``a x - b`` has the least.

    Args:
      a: a matrix of ``m`` rows and ``n`` columns.
      b: a vector of ``m`` elements, or a matrix of ``m`` rows.
      rcond: singular values below this, relative to the largest, count as 0; if None,
        ``max(m, n)`` times the dtype's precision.
      numpy_resid: whether residuals are left out where NumPy leaves them out; concrete arrays only.

    Returns:
      ``(x, residuals, rank, singular values)``; residuals are sums of squares.

    Raises:
      ShapeError: if ``a`` is no matrix, or ``b`` has another number of rows.

    >>> import functrax.numpy as jnp
    >>> points, values = jnp.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), jnp.array([1.0, 3.0, 5.0])
    >>> jnp.linalg.lstsq(points, values)[0].round(3)  # slope and height of a line
    Array([2., 1.], dtype=float32)
    """
    x, y = matrices_of("lstsq", a, b)
    if x.aval.ndim != 2 or y.aval.ndim not in (1, 2) or x.aval.shape[0] != y.aval.shape[0]:
        raise ShapeError(
            "lstsq: takes a matrix, and a vector or matrix of as many rows",
            got=f"a {x.aval.str_short()}, b {y.aval.str_short()}",
            fix="vmap lstsq for several systems",
        )
    m, n = x.aval.shape
    eps = _precision(x)
    limit = eps * max(m, n) if rcond is None else (eps if rcond < 0 else rcond)
    is_vector = y.aval.ndim == 1
    y = y[:, None] if is_vector else y
    s = svdvals(x)
    rank = sum_((s > 0) & (s >= limit * max_(s, initial=0))).astype(dtypes.int32)
    out = matmul(pinv(x, limit), y)
    rest = sum_(square(absolute(y - matmul(x, out))), axis=0)
    if numpy_resid and (m <= n or int(rank) < n):
        rest = rest[:0]
    return (out[:, 0] if is_vector else out), rest, rank, s


def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """How many singular values are above ``rtol`` times the largest.

    Args:
      M: matrices of ``m`` rows and ``n`` columns.
      rtol: ``max(m, n)`` times the dtype's precision, if None.
      hermitian: whether the matrices are Hermitian, which is quicker.
      tol: another name of ``rtol``.

    Returns:
      int32, an array without the last two axes; of a vector, whether it is not 0.

    Raises:
      ArgumentError: for ``rtol`` and ``tol`` together.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int32)
    """
    (x,) = matrices_of("matrix_rank", M)
    if x.aval.ndim < 2:
        return (x != 0).any().astype(dtypes.int32)
    _only_one("matrix_rank", "tol or rtol", rtol, tol)
    rtol = tol if rtol is None else rtol
    s = svd(x, compute_uv=False, hermitian=hermitian)
    limit = max(x.aval.shape[-2:]) * _precision(x) if rtol is None else rtol
    cut = max_(s, axis=-1, keepdims=True, initial=0) * limit
    return sum_(s > cut, axis=-1)


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """The condition number of matrices: the norm times that of the inverse.

    Args:
      x: matrices.
      p: which norm; None and 2 for the ratio of the largest singular value to the smallest, -2 for
        its reciprocal, others as for :func:`norm`.

    Returns:
      Real numbers, an array without the last two axes.

    Raises:
      ShapeError: if ``x`` is no matrix, or not square where the inverse is needed.
      ArgumentError: if there is no such norm.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.cond(jnp.array([[4.0, 0.0], [0.0, 0.5]]))
    Array(8., dtype=float32)
    """
    (m,) = matrices_of("cond", x)
    check_matrix("cond", m.aval, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(m)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return norm(m, p, axis=(-2, -1)) * norm(inv(m), p, axis=(-2, -1))


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices multiplied ``n`` times; negative powers are those of the inverse.

    Args:
      a: square matrices.
      n: a known integer; 0 for identities.

    Returns:
      An array of the same shape; of integers it stays of integers if ``n`` is not negative.

    Raises:
      ShapeError: if the matrices are not square.
      ArgumentError: if ``n`` is not a known integer.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 5)
    Array([[1, 5],
           [0, 1]], dtype=int32)
    """
    x = to_array("matrix_power", a)
    check_matrix("matrix_power", x.aval, square=True)
    power = integer("matrix_power", "n", n)
    if power < 0:
        x, power = inv(x), -power
    out = None
    while power:
        if power % 2:
            out = x if out is None else matmul(out, x)
        power //= 2
        x = matmul(x, x) if power else x
    return result(identity(x)) if out is None else out


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse for ``tensordot``: ``tensordot(tensorinv(a), a, ind)`` is an identity.

    Args:
      a: an array.
      ind: how many axes make up the rows.

    Returns:
      An array of shape ``(*a.shape[ind:], *a.shape[:ind])``.

    Raises:
      ShapeError: if the first ``ind`` sizes have another product than the others.
      ArgumentError: if ``ind`` is not an integer.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.tensorinv(jnp.eye(6).reshape(6, 2, 3), ind=1).shape
    (2, 3, 6)
    """
    (x,) = matrices_of("tensorinv", a)
    count = integer("tensorinv", "ind", ind)
    shape = x.aval.shape
    rows, columns = shape[:count], shape[count:]
    if count < 1 or math.prod(rows) != math.prod(columns):
        raise ShapeError(
            "tensorinv: the axes do not make a square matrix",
            got=f"ind={ind} for {x.aval.str_short()}",
            fix="sizes before and after axis ind with one product",
        )
    matrix = inv(reshape(x, (math.prod(rows), math.prod(columns))))
    return reshape(matrix, (*columns, *rows))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """``x`` with ``tensordot(a, x, x.ndim) = b``.

    Args:
      a: an array of shape ``(*b.shape, *x.shape)``, of as many rows as columns.
      b: the other side.
      axes: axes of ``a`` to move to the end first.

    Returns:
      The solution ``x``.

    Raises:
      ShapeError: if the axes do not make a square matrix.

    >>> import functrax.numpy as jnp
    >>> jnp.linalg.tensorsolve(jnp.eye(6).reshape(2, 3, 6), jnp.ones((2, 3)))
    Array([1., 1., 1., 1., 1., 1.], dtype=float32)
    """
    x, y = matrices_of("tensorsolve", a, b)
    if axes is not None:
        moved = many_axes("tensorsolve", axes, x.aval.ndim)
        x = moveaxis(x, moved, tuple(range(x.aval.ndim - len(moved), x.aval.ndim)))
    columns = x.aval.shape[y.aval.ndim :]
    size = math.prod(columns)
    if x.aval.size != size * size or y.aval.size != size:
        raise ShapeError(
            "tensorsolve: the axes do not make a square matrix",
            got=f"a {x.aval.str_short()}, b {y.aval.str_short()}",
            fix="a of shape (*b.shape, *x.shape) with sizes of one product",
        )
    out = solve(reshape(x, (size, size)), reshape(y, (size,)))
    return reshape(out, columns)
