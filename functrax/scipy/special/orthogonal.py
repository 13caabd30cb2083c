"""Orthogonal factors: qr, products with its factor, and Hessenberg's form.

Start at :func:`qr`.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.matrices import check_matrix
from functrax.numpy.factoring import matrices_of
from functrax.typing import ArrayLike

__all__ = ["hessenberg", "qr", "qr_multiply"]


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """``a = Q R``, with orthonormal columns in ``Q`` and an upper triangle ``R``.

    Args:
      a: matrices ``[..., m, n]``.
      mode: ``"full"`` for square ``Q``, ``"economic"``, or ``"r"`` for ``(R,)`` alone.
      pivoting: whether to decompose ``a[..., order]``, with an order that makes the diagonal of
        ``R`` fall; it is returned too, last.
      overwrite_a, lwork, check_finite: accepted; they change nothing.

    Returns:
      ``(Q, R)`` or ``(R,)``; or ``(Q, R, order)`` or ``(R, order)``.

    Raises:
      ArgumentError: for another mode.
      ShapeError: if they are not matrices.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import qr
    >>> q, r = qr(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> jnp.abs(r).round(3)
    Array([[5. , 2.2],
           [0. , 0.4]], dtype=float32)
    """
    if mode not in ("full", "economic", "r"):
        raise ArgumentError("qr: unknown mode", got=repr(mode), fix="'full', 'economic' or 'r'")
    (x,) = matrices_of("qr", a)
    factors = lax.linalg.qr(x, pivoting=pivoting, full_matrices=mode != "economic")
    return factors[1:] if mode == "r" else factors


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """A product with the ``Q`` of :func:`qr` (``min(m, n)`` columns of it), which is not made.

    Args:
      a: matrices ``[..., m, n]``; ``k`` is ``min(m, n)``.
      c: a matrix, or a vector, which counts as one row or column and gives a vector.
      mode: ``"right"`` for ``c @ Q``, of ``c`` ``[..., p, m]``; ``"left"`` for ``Q @ c``, of ``c``
        ``[..., k, p]``.
      pivoting: as for :func:`qr`.
      conjugate: whether the conjugate of ``Q`` takes its place.
      overwrite_a, overwrite_c: accepted; they change nothing.

    Returns:
      ``(product, R)``, with ``k`` rows in ``R``; and the order of the columns, with ``pivoting``.

    Raises:
      ArgumentError: for another mode.
      ShapeError: if the sizes do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import qr_multiply
    >>> product, r = qr_multiply(jnp.array([[3.0], [4.0]]), jnp.array([5.0, 5.0]))
    >>> jnp.abs(product).round(3)
    Array([7.], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ArgumentError(
            "qr_multiply: mode must be 'right' or 'left'", got=repr(mode), fix="'right'"
        )
    x, y = matrices_of("qr_multiply", a, c)
    check_matrix("qr_multiply", x.aval)
    m, n = x.shape[-2:]
    k, left = min(m, n), mode == "left"
    is_vector = y.ndim == 1
    y = (y[:, None] if left else y[None]) if is_vector else y
    if y.ndim != x.ndim or y.shape[-2 if left else -1] != (k if left else m):
        raise ShapeError(
            "qr_multiply: the sizes of Q and of the other factor differ",
            got=f"a {x.aval.str_short()}, c {y.aval.str_short()}, mode={mode!r}",
            fix=f"{k} rows in c" if left else f"{m} columns in c",
        )
    packed, taus, *order = lax.linalg.geqp3(x) if pivoting else lax.linalg.geqrf(x)
    y = jnp.conj(y) if conjugate else y
    if left:
        none = [(0, 0)] * (y.ndim - 2)
        y = jnp.pad(y, [*none, (0, m - k), (0, 0)])
    out = lax.linalg.ormqr(packed[..., :k], taus, y, left=left)
    out = out if left else out[..., :k]
    out = jnp.conj(out) if conjugate else out
    out = (out[..., 0] if left else out[..., 0, :]) if is_vector else out
    return (out, jnp.triu(packed)[..., :k, :], *order)


@overload
def hessenberg(
    a: ArrayLike, *, calc_q: Literal[False] = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Array: ...
@overload
def hessenberg(
    a: ArrayLike, *, calc_q: Literal[True], overwrite_a: bool = ..., check_finite: bool = ...
) -> tuple[Array, Array]: ...
@overload
def hessenberg(
    a: ArrayLike, *, calc_q: bool = ..., overwrite_a: bool = ..., check_finite: bool = ...
) -> Array | tuple[Array, Array]: ...
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """``H`` with ``a = Q H Q^H`` and zeros below its first subdiagonal.

    Args:
      a: square matrices ``[..., n, n]``.
      calc_q: whether to return ``(H, Q)``.
      overwrite_a, check_finite: accepted; they change nothing.

    Returns:
      ``H``, or ``(H, Q)``; no derivatives.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import hessenberg
    >>> h = hessenberg(jnp.arange(9.0).reshape(3, 3))
    >>> h[2, 0]
    Array(0., dtype=float32)
    """
    (x,) = matrices_of("hessenberg", a)
    packed, taus = lax.linalg.hessenberg(x)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    n = x.shape[-1]
    eye = jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), x.shape)
    if n < 2:
        return h, eye
    inside = lax.linalg.householder_product(packed[..., 1:, :-1], taus)
    return h, eye.at[..., 1:, 1:].set(inside)
