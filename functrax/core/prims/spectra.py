"""Eigenvalues and singular values: eigh, svd and eig.

Opaque operations on matrices in the last two axes.  Where two eigenvalues (or singular values) are
equal, the vectors are arbitrary and their tangents infinite or NaN; those of the values are right.

Formulas: M. B. Giles, "Collected matrix derivative results", 2008 (eigenvalues); J. Townsend,
"Differentiating the singular value decomposition", 2016.

Start at :class:`Eigh`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from functrax.core.errors.typed import DifferentiationError
from functrax.core.prims import matrix_values as values
from functrax.core.prims.arithmetic import abs_, add, div, mul, neg, select_n, sub
from functrax.core.prims.comparisons import eq
from functrax.core.prims.convert import complex_, convert_element_type, imag, real
from functrax.core.prims.factorisations import linear_solve
from functrax.core.prims.linear_systems import MatrixFunction
from functrax.core.prims.matrices import (
    across_columns,
    across_rows,
    adjoint,
    as_dtype_of,
    conjugated,
    diagonal,
    hermitian,
    is_complex,
    matmul,
    on_diagonal,
    real_part,
)
from functrax.core.prims.reduce import argmax, reduce_sum
from functrax.core.prims.reindex import full, iota
from functrax.core.tracing.primitive import Avals, Ops, Sample, Tangents, Value, like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


def _off_diagonal_reciprocal(x: Value) -> Value:
    """``1 / x`` off the diagonal and 0 on it."""
    here = on_diagonal(x.aval.shape)
    one, zero = like(x, 1), like(x, 0)
    return select_n(here, div(one, select_n(here, x, one)), zero)


def _real_aval(x: ShapedArray, shape: tuple[int, ...]) -> ShapedArray:
    narrow = dtypes.real_dtype(x.dtype)
    return ShapedArray(shape, narrow, x.weak_type and narrow == x.dtype)


def _widened(x: Value, other: Value) -> Value:
    """A real value in the dtype of another."""
    return as_dtype_of(x, other) if is_complex(other) and not is_complex(x) else x


class Eigh(MatrixFunction):
    """Eigenvalues, upwards, and orthonormal eigenvectors of Hermitian matrices.

    Reads the lower triangle only, or the upper one unless ``lower``.
    """

    name = "eigh"
    multiple_results = True

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        return _real_aval(x, x.shape[:-1]), x

    def reference(self, x: Any, *, lower: bool) -> Any:
        return list(values.eigh(x, lower))

    def jvp(self, primals: Ops, tangents: Tangents, *, lower: bool) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        w, v = self.bind(x, lower=lower)
        if t is None:
            return (w, v), (None, None)
        moved = matmul(hermitian(t, lower), v)
        inside = matmul(adjoint(v), moved)
        shape = x.aval.shape
        gaps = _off_diagonal_reciprocal(sub(across_columns(w, shape), across_rows(w, shape)))
        dv = matmul(v, mul(_widened(gaps, v), inside))
        return (w, v), (_products(v, moved, axis=-2), dv)

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), {"lower": True}, distinct=True)
        yield Sample(((2, 2, 2),), {"lower": False}, distinct=True)
        yield Sample(((0, 0),), {"lower": True})


class SVD(MatrixFunction):
    """Singular values, downwards; with ``compute_uv`` also ``u`` and ``vh``: ``x = u diag(s) vh``.

    The values come first.  Vectors have derivatives unless ``full_matrices`` adds arbitrary ones,
    and where the values are not 0.
    """

    name = "svd"
    multiple_results = True
    square = False

    def results(self, x: ShapedArray, *, full_matrices: bool, compute_uv: bool) -> Avals:
        *lead, m, n = x.shape
        k = min(m, n)
        s = _real_aval(x, (*lead, k))
        if not compute_uv:
            return (s,)
        left, right = (m, n) if full_matrices else (k, k)
        u = ShapedArray((*lead, m, left), x.dtype, x.weak_type)
        return s, u, ShapedArray((*lead, right, n), x.dtype, x.weak_type)

    def reference(self, x: Any, *, full_matrices: bool, compute_uv: bool) -> Any:
        if not compute_uv:
            return [values.singular_values(x)]
        u, s, vh = values.each_svd(x, full_matrices)
        return [s, u, vh]

    def jvp(
        self, primals: Ops, tangents: Tangents, *, full_matrices: bool, compute_uv: bool
    ) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if t is None:
            outs = self.bind(x, full_matrices=full_matrices, compute_uv=compute_uv)
            return outs, [None] * len(outs)
        m, n = x.aval.shape[-2:]
        if compute_uv and full_matrices and m != n:
            raise DifferentiationError(
                "svd: the vectors added by full_matrices have no derivative",
                got=x.aval.str_short(),
                fix="full_matrices=False",
            )
        s, u, vh = self.bind(x, full_matrices=False, compute_uv=True)
        if m >= n:
            moved = matmul(t, adjoint(vh))
            ds = _products(u, moved, axis=-2)
        else:
            moved = matmul(adjoint(u), t)
            ds = _products(vh, moved, axis=-1)
        if not compute_uv:
            return [s], [ds]
        inside = matmul(adjoint(u), moved) if m >= n else matmul(moved, adjoint(vh))
        du, dv = _vector_tangents(moved, s, u, adjoint(vh), inside)
        return [s, u, vh], [ds, du, adjoint(dv)]

    def samples(self) -> Iterable[Sample]:
        both = {"full_matrices": False, "compute_uv": True}
        yield Sample(((3, 3),), both, distinct=True)
        yield Sample(((4, 2),), both, distinct=True)
        yield Sample(((2, 3),), both, distinct=True)
        yield Sample(((2, 3, 2),), {"full_matrices": True, "compute_uv": False}, distinct=True)
        yield Sample(((0, 2),), both)


def _products(x: Value, y: Value, axis: int) -> Value:
    """Real parts of the products ``x^H y`` of columns, or of rows, and no others."""
    axes = (x.aval.ndim + axis,)
    return reduce_sum(real_part(mul(conjugated(x), y)), axes=axes)


def _vector_tangents(
    moved: Value, s: Value, u: Value, v: Value, inside: Value
) -> tuple[Value, Value]:
    """Tangents of left and right singular vectors.

    Args:
      moved: ``t v`` of the tangent ``t`` where ``u`` is the longer one; else ``u^H t``.
      s, u, v: the decomposition.
      inside: ``u^H t v``.
    """
    shape = inside.aval.shape
    columns, rows = across_columns(s, shape), across_rows(s, shape)
    gaps = mul(sub(columns, rows), add(columns, rows))
    factor = _widened(_off_diagonal_reciprocal(gaps), u)
    columns, rows = _widened(columns, u), _widened(rows, u)
    left, right = mul(inside, columns), mul(rows, inside)
    turn_u = mul(factor, add(left, adjoint(left)))
    turn_v = mul(factor, add(right, adjoint(right)))
    if is_complex(u):
        # Only the phase of u and v together is fixed; all of it is given to u.
        half = mul(sub(inside, adjoint(inside)), like(u, 0.5))
        here = on_diagonal(shape)
        turn_u = add(turn_u, select_n(here, like(u, 0), div(half, _not_zero(columns))))
    du, dv = matmul(u, turn_u), matmul(v, turn_v)
    m, n = u.aval.shape[-2], v.aval.shape[-2]
    if m > n:
        du = add(du, _outside(moved, u, s))
    if n > m:
        dv = add(dv, _outside(adjoint(moved), v, s))
    return du, dv


def _not_zero(x: Value) -> Value:
    return select_n(eq(x, full(x.aval.shape, like(x, 0))), x, like(x, 1))


def _outside(moved: Value, vectors: Value, s: Value) -> Value:
    """The part of a tangent that leaves the space of the vectors."""
    rest = sub(moved, matmul(vectors, matmul(adjoint(vectors), moved)))
    return div(rest, _widened(across_columns(s, rest.aval.shape), rest))


class Eig(MatrixFunction):
    """Complex eigenvalues of square matrices, in no particular order, and vectors if asked for.

    Vectors have length 1, and their largest element is real.  They have derivatives only with
    ``enable_eigvec_derivs``, which promises that the eigenvalues are simple; those of the values
    alone have first derivatives without it.
    """

    name = "eig"
    multiple_results = True

    def results(
        self,
        x: ShapedArray,
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
        **params: Any,
    ) -> Avals:
        dtype = _complex_dtype(x.dtype)
        vectors = compute_left_eigenvectors + compute_right_eigenvectors
        out = ShapedArray(x.shape, dtype)
        return (ShapedArray(x.shape[:-1], dtype), *(out for _ in range(vectors)))

    def reference(
        self,
        x: Any,
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
        enable_eigvec_derivs: bool,
    ) -> Any:
        dtype = _complex_dtype(x.dtype)
        w, right = (r.astype(dtype) for r in values.each_of_several(_complex_eig, x))
        outs = [w]
        if compute_left_eigenvectors:
            outs.append(_left_vectors(right))
        return [*outs, right] if compute_right_eigenvectors else outs

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if t is None:
            outs = self.bind(x, **params)
            return outs, [None] * len(outs)
        left, right = params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]
        if (left or right) and not params["enable_eigvec_derivs"]:
            raise DifferentiationError(
                "eig: the eigenvectors of matrices that are not Hermitian have no derivative here",
                got=x.aval.str_short(),
                fix="enable_eigvec_derivs=True of functrax.lax.linalg.eig where all eigenvalues "
                "are simple; eigvals; or eigh for Hermitian matrices",
            )
        outs = self.bind(x, **{**params, "compute_right_eigenvectors": True})
        w, v = outs[0], outs[-1]
        if not is_complex(t):
            t = convert_element_type(t, dtype=v.aval.dtype, weak_type=False)
        inside = linear_solve(v, matmul(t, v))
        changes = [diagonal(inside)]
        if left:
            vl = outs[1]
            turned = linear_solve(vl, matmul(adjoint(t), vl))
            changes.append(_eigenvector_tangent(conjugated(w), vl, turned))
        if right:
            changes.append(_eigenvector_tangent(w, v, inside))
        return outs[: len(changes)], changes

    def samples(self) -> Iterable[Sample]:
        only = {
            "compute_left_eigenvectors": False,
            "compute_right_eigenvectors": False,
            "enable_eigvec_derivs": False,
        }
        vectors = {**dict.fromkeys(only, True)}
        yield Sample(((3, 3),), only, diagonal=0.5)
        yield Sample(((2, 2, 2),), only)
        yield Sample(((0, 0),), only)
        yield Sample(((3, 3),), vectors, diagonal=0.5)


def _eigenvector_tangent(w: Value, v: Value, inside: Value) -> Value:
    """The tangent of eigenvectors of simple eigenvalues; ``inside`` is ``inv(v) t v``.

    A multiple of each vector is added, so that its length stays 1 and its largest element real.
    """
    shape = v.aval.shape
    gaps = _off_diagonal_reciprocal(sub(across_columns(w, shape), across_rows(w, shape)))
    moved = matmul(v, mul(gaps, inside))
    row = v.aval.ndim - 2
    if not shape[row]:
        return moved
    rows = iota.bind(shape=shape, dtype=dtypes.int32, axis=row)
    first = argmax.bind(abs_(v), axis=row, index_dtype=dtypes.int32)
    largest = eq(rows, across_columns(first, shape))
    ends = (reduce_sum.bind(select_n(largest, like(x, 0), x), axes=(row,)) for x in (moved, v))
    turned, pivot = ends
    along = reduce_sum.bind(mul(conjugated(v), moved), axes=(row,))
    factor = complex_(neg(real(along)), neg(div(imag(turned), real(pivot))))
    return add(moved, mul(v, across_columns(factor, shape)))


def _complex_eig(x: Any) -> Any:
    return tuple([r.astype(np.complex128) for r in np.linalg.eig(x)])


def _complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    wide = dtype in (dtypes.float64, dtypes.complex128)
    return dtypes.complex128 if wide else dtypes.complex64


def _left_vectors(right: Any) -> Any:
    """Vectors ``u`` of length 1 with ``u^H x = w u^H``: columns of the inverse adjoint."""
    unit = np.broadcast_to(np.eye(right.shape[-1], dtype=right.dtype), right.shape)
    left = np.conj(values.solve(right, unit)).swapaxes(-1, -2)
    left = left / np.linalg.norm(left, axis=-2, keepdims=True)
    if left.size:
        largest = np.argmax(np.abs(left), axis=-2)[..., None, :]
        end = np.take_along_axis(left, largest, -2)
        left = left * (np.conj(end) / np.abs(end))
    return left.astype(right.dtype)


eigh, svd, eig = Eigh(), SVD(), Eig()
