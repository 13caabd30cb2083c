"""Schur's form of matrices, and what is worked out by it: functions of matrices and Sylvester's
equations.

Start at :func:`schur`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.linear_systems import solve_triangle
from functrax.core.prims.matrices import adjoint, check_matrix, is_complex
from functrax.core.tracing.primitive import Value
from functrax.numpy import linalg as la
from functrax.numpy.factoring import matrices_of
from functrax.numpy.promote import promoting, result
from functrax.typing import ArrayLike

__all__ = ["funm", "rsf2csf", "schur", "solve_sylvester"]


@promoting
def as_complex(x: Value) -> Value:
    """Numbers as complex ones of the same precision."""
    return x.astype(jnp.result_type(x.dtype, jnp.complex64))


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """``a = Z T Z^H``, with a unitary ``Z`` and an upper triangle ``T``.

    Args:
      a: square matrices ``[..., n, n]``.
      output: ``"real"`` for a real ``T`` of a real ``a``, with blocks of two rows on its diagonal
        for pairs of complex eigenvalues; ``"complex"`` for a complex triangle.

    Returns:
      ``(T, Z)``; no derivatives.

    Raises:
      ArgumentError: for another ``output``.
      ShapeError: if the matrices are not square.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import schur
    >>> t, z = schur(jnp.array([[0.0, 2.0], [2.0, 3.0]]))
    >>> (z @ t @ z.T).round(3)
    Array([[0., 2.],
           [2., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ArgumentError(
            "schur: Expected 'output' to be either 'real' or 'complex'",
            got=repr(output),
            fix="output='real'",
        )
    (x,) = matrices_of("schur", a)
    t, z = lax.linalg.schur(as_complex(x) if output == "complex" else x)
    return t, z


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex form of Schur of its real one.

    Args:
      T: ``[..., n, n]``, a triangle but for blocks of two rows.
      Z: ``[..., n, n]``, the vectors; leading axes broadcast.
      check_finite: accepted; it changes nothing.

    Returns:
      ``(T, Z)``, complex, with ``Z T Z^H`` unchanged.

    Raises:
      ShapeError: if they are not square matrices of one size.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import rsf2csf, schur
    >>> t, z = rsf2csf(*schur(jnp.array([[0.0, 1.0], [-1.0, 0.0]])))
    >>> jnp.abs(t).round(3)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    t, z = matrices_of("rsf2csf", T, Z)
    for x in (t, z):
        check_matrix("rsf2csf", x.aval, square=True)
    if t.shape[-1] != z.shape[-1]:
        raise ShapeError(
            "rsf2csf: Input array shapes must match",
            got=f"T {t.aval.str_short()}, Z {z.aval.str_short()}",
            fix="matrices of one size",
        )
    each = jnp.vectorize(_complex_form, signature="(n,n),(n,n)->(n,n),(n,n)")
    found: tuple[Value, Value] = each(as_complex(t), as_complex(z))
    return found


def _complex_form(t: Value, z: Value) -> tuple[Value, Value]:
    """One rotation for each element below the diagonal, from the last one upwards."""
    n = t.shape[-1]
    if n < 2:
        return t, z
    places = jnp.arange(n)
    eps = jnp.finfo(t.dtype).eps

    def step(count: Value, carry: tuple[Value, Value]) -> tuple[Value, Value]:
        t, z = carry
        m = n - 1 - count
        block = lax.dynamic_slice(t, (m - 1, m - 1), (2, 2))
        low = block[1, 0]
        sizes = jnp.abs(jnp.diagonal(block)).sum()
        # Without an element below the diagonal it is the identity.
        idle = jnp.abs(low) <= eps * sizes
        gap = la.eigvals(block)[0] - block[1, 1]
        size = jnp.sqrt(jnp.abs(gap) ** 2 + jnp.abs(low) ** 2).astype(t.dtype)
        size = jnp.where(idle, 1, size)
        cos, sin = jnp.where(idle, 1, gap / size), jnp.where(idle, 0, low / size)
        turn = jnp.stack([jnp.stack([jnp.conj(cos), sin]), jnp.stack([-sin, cos])])
        rows = lax.dynamic_slice(t, (m - 1, 0), (2, n))
        rows = jnp.where((places >= m - 1)[None], turn @ rows, rows)
        t = lax.dynamic_update_slice(t, rows, (m - 1, 0))
        columns = lax.dynamic_slice(t, (0, m - 1), (n, 2))
        columns = jnp.where((places <= m)[:, None], columns @ adjoint(turn), columns)
        t = lax.dynamic_update_slice(t, columns, (0, m - 1))
        vectors = lax.dynamic_slice(z, (0, m - 1), (n, 2)) @ adjoint(turn)
        return t.at[m, m - 1].set(0), lax.dynamic_update_slice(z, vectors, (0, m - 1))

    found: tuple[Value, Value] = lax.fori_loop(0, n - 1, step, (t, z))
    return found


@overload
def funm(A: ArrayLike, func: Callable[[Any], Any], disp: Literal[True] = ...) -> Array: ...
@overload
def funm(
    A: ArrayLike, func: Callable[[Any], Any], *, disp: Literal[False]
) -> tuple[Array, Array]: ...
@overload
def funm(
    A: ArrayLike, func: Callable[[Any], Any], disp: bool = ...
) -> Array | tuple[Array, Array]: ...
def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of a matrix, by the recurrence of Parlett on its form of Schur.

    G. H. Golub and C. F. Van Loan, "Matrix Computations", algorithm 9.1.1.  Where eigenvalues are
    close to each other the result has few correct digits.

    Args:
      A: a square matrix.
      func: the function of numbers; it is given the eigenvalues, as a vector, complex.
      disp: if False, an estimate of the relative error is returned too.

    Returns:
      A complex matrix, or ``(matrix, error)``.

    Raises:
      ShapeError: if ``A`` is not one square matrix.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.linalg.funm(jnp.diag(jnp.array([4.0, 9.0])), jnp.sqrt).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    (a,) = matrices_of("funm", A)
    check_matrix("funm", a.aval, square=True)
    if a.ndim != 2:
        raise ShapeError("funm: takes one matrix", got=a.aval.str_short(), fix="functrax.vmap")
    t, z = schur(a, "complex")
    values = func(jnp.diagonal(t))
    found, error = _parlett(t, jnp.asarray(values).astype(t.dtype))
    out = z @ found @ adjoint(z)
    return out if disp else (out, error)


@promoting
def _parlett(t: Value, values: Value) -> tuple[Value, Value]:
    """A function of a triangle from its values at the diagonal, one diagonal after the other."""
    n = t.shape[-1]
    places = jnp.arange(n)
    apart = places[None] - places[:, None]
    main = jnp.diagonal(t)
    gaps = main[None] - main[:, None]
    safe = jnp.where(gaps == 0, 1, gaps)

    def step(k: Value, f: Value) -> Value:
        return jnp.where(apart == k, (t @ f - f @ t) / safe, f)

    # Known diagonals commute up to the next one, which is what makes all of it commute.
    found = lax.fori_loop(1, n, step, jnp.diag(values))
    precision = jnp.finfo(t.dtype).eps
    least = jnp.min(jnp.where((apart > 0) & (gaps != 0), jnp.abs(gaps), 1.0), initial=1.0)
    norm = jnp.max(jnp.sum(jnp.abs(jnp.triu(t, 1)), 0), initial=0.0)
    error = jnp.minimum(1, jnp.maximum(precision, precision / least * norm))
    return found, jnp.where(jnp.isfinite(found).all() & (n > 0), error, jnp.inf)


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """``X`` with ``A X + X B = C``; it has derivatives.

    Args:
      A: ``[..., m, m]``.
      B: ``[..., n, n]``.
      C: ``[..., m, n]``; leading axes broadcast.
      method: ``"schur"`` for Bartels and Stewart's, ``"eigen"`` by eigenvectors, which is less
        accurate where these are nearly dependent.
      tol: the result is NaN where an eigenvalue of ``A`` and one of ``-B`` are as close as this.

    Returns:
      ``[..., m, n]``, complex if one of them is.

    Raises:
      ShapeError: if the sizes do not go together.
      ArgumentError: for another method.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import solve_sylvester
    >>> one = jnp.eye(2)
    >>> solve_sylvester(one, 3 * one, 8 * one).round(3)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    a, b, c = matrices_of("solve_sylvester", A, B, C)
    for x in (a, b):
        check_matrix("solve_sylvester", x.aval, square=True)
    check_matrix("solve_sylvester", c.aval)
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            "solve_sylvester: Incompatible shapes for Sylvester equation",
            got=", ".join(x.aval.str_short() for x in (a, b, c)),
            fix="C of as many rows as A, and as many columns as B",
        )
    if method not in ("schur", "eigen"):
        raise ArgumentError(
            "solve_sylvester: Unrecognized method", got=repr(method), fix="'schur' or 'eigen'"
        )
    solve = _sylvester_by_schur if method == "schur" else _sylvester_by_vectors
    found: Value = jnp.vectorize(
        lambda x, y, z: solve(x, y, z, jnp.asarray(tol, x.real.dtype)),
        signature="(m,m),(n,n),(m,n)->(m,n)",
    )(a, b, c)
    return found


def _like(x: Value, c: Value) -> Value:
    """A complex result as real as the equation."""
    return x if is_complex(c) else x.real


def _nan_where_singular(x: Value, first: Value, second: Value, tol: Value) -> Value:
    """A solution, or NaN where the sum of two eigenvalues is nearly zero."""
    sums = jnp.abs(first[:, None] + second[None])
    return jnp.where(jnp.min(sums, initial=jnp.inf) < tol, jnp.nan, x).astype(x.dtype)


def _sylvester_by_vectors(a: Value, b: Value, c: Value, tol: Value) -> Value:
    first, left = la.eig(as_complex(a))
    second, right = la.eig(as_complex(b))
    inside = la.solve(left, as_complex(c) @ right) / (first[:, None] + second[None])
    found = left @ inside @ la.inv(right)
    return _like(_nan_where_singular(found, first, second, tol), c)


def _sylvester_by_schur(a: Value, b: Value, c: Value, tol: Value) -> Value:
    """Bartels and Stewart's method, as the solution of a linear system, which has derivatives."""
    left, right = (schur(lax.stop_gradient(x), "complex") for x in (a, b))
    turned = (_transposed(*left), _transposed(*right))
    found = lax.custom_linear_solve(
        lambda x: a @ x + x @ b,
        c,
        lambda _, side: _like(_by_columns(left, right, side), c),
        lambda _, side: _like(_by_columns(*turned, side), c),
    )
    return _nan_where_singular(found, jnp.diagonal(left[0]), jnp.diagonal(right[0]), tol)


def _transposed(t: Value, z: Value) -> tuple[Value, Value]:
    """The form of Schur of the transposed matrix."""
    return jnp.flip(t.T, (0, 1)), jnp.flip(jnp.conj(z), 1)


def _by_columns(left: tuple[Value, Value], right: tuple[Value, Value], c: Value) -> Value:
    """The solution for two matrices in the form of Schur, one column after the other."""
    (r, u), (s, v) = left, right
    eye = jnp.eye(r.shape[-1], dtype=r.dtype)
    places = jnp.arange(s.shape[-1])

    def column(found: Value, given: tuple[Value, Value, Value]) -> tuple[Value, None]:
        """The next column, by a triangle, from what the columns before leave."""
        k, above, side = given
        rest = (side - found @ above)[:, None]
        new = result(solve_triangle(r + above[k] * eye, rest, lower=False))
        return jnp.where((places == k)[None], new, found), None

    moved = adjoint(u) @ as_complex(c) @ v
    inside = lax.scan(column, jnp.zeros_like(moved), (places, s.T, moved.T))[0]
    return u @ inside @ adjoint(v)
