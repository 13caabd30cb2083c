"""Factorisations by elimination and by rotation, lu and qr, and linear systems: linear_solve.

Opaque operations on matrices in the last two axes, whose tangents are made of triangular solutions
and contractions.

Formulas: S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions
with application in optimum experimental design", 2010 (qr); the derivative of
``P A = L U`` splits ``inv(L) dPA inv(U)`` into its two triangles (lu); M. B. Giles, "Collected
matrix derivative results for forward and reverse mode algorithmic differentiation", 2008
(solutions).

Start at :class:`QR`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims import lapack, matrix_values as values
from functrax.core.prims.arithmetic import add, neg, select_n, stop_gradient, sub
from functrax.core.prims.linear_systems import (
    MatrixFunction,
    bad_systems,
    check_system,
    solve_triangle,
    why_no_solution,
)
from functrax.core.prims.matrices import (
    ACCEPTS,
    adjoint,
    identity,
    is_complex,
    joined,
    matmul,
    on_diagonal,
    only_imaginary,
    parted,
    rows_taken,
    transposed as turned,
    triangle,
    with_diagonal,
)
from functrax.core.prims.slicing import pad, slice_
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Linear,
    Opaque,
    Ops,
    Sample,
    Tangents,
    Value,
    like,
    spread,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


def first_columns(x: Value, count: int) -> Value:
    """The first columns of matrices."""
    return _corner(x, x.aval.shape[-2], count)


def _corner(x: Value, rows: int, columns: int) -> Value:
    *lead, m, n = x.aval.shape
    if (rows, columns) == (m, n):
        return x
    ndim = x.aval.ndim
    return slice_(x, start=(0,) * ndim, limit=(*lead, rows, columns), strides=(1,) * ndim)


def _rows_from(x: Value, first: int) -> Value:
    *lead, _, _ = x.aval.shape
    start = (*(0 for _ in lead), first, 0)
    return slice_(x, start=start, limit=x.aval.shape, strides=(1,) * x.aval.ndim)


def _columns_from(x: Value, first: int) -> Value:
    *lead, _, _ = x.aval.shape
    start = (*(0 for _ in lead), 0, first)
    return slice_(x, start=start, limit=x.aval.shape, strides=(1,) * x.aval.ndim)


def _padded(x: Value, rows: int, columns: int, left: int = 0) -> Value:
    """Matrices with zeros added below and beside, ``left`` columns of these before."""
    *lead, m, n = x.aval.shape
    if (m, n) == (rows, columns):
        return x
    none = (0,) * x.aval.ndim
    low = (*(0 for _ in lead), 0, left)
    high = (*(0 for _ in lead), rows - m, columns - n - left)
    return pad(x, low=low, high=high, interior=none, fill=like(x, 0))


def _squared(x: Value, size: int) -> Value:
    """Matrices with zeros added, so that they have ``size`` rows and columns."""
    return _padded(x, size, size)


class QR(MatrixFunction):
    """``x = q r``, with ``q`` of orthonormal columns and ``r`` an upper triangle.

    The diagonal of ``r`` is real, of any sign.  Without ``compute_q`` it is ``r`` alone.

    Differentiable where the first columns are linearly independent.  Columns that ``full_matrices``
    adds to ``q`` are those of its reflections, whose tangents D. Roberts and L. Roberts, "QR and LQ
    decomposition matrix backpropagation algorithms for square, wide, and deep matrices", 2020, and
    arXiv:2409.13374 (eq. 32 and 33) give.
    """

    name = "qr"
    multiple_results = True
    square = False

    def results(self, x: ShapedArray, *, full_matrices: bool, compute_q: bool) -> Avals:
        *lead, m, n = x.shape
        k = m if full_matrices else min(m, n)
        r = ShapedArray((*lead, k, n), x.dtype, x.weak_type)
        return (ShapedArray((*lead, m, k), x.dtype, x.weak_type), r) if compute_q else (r,)

    def reference(self, x: Any, *, full_matrices: bool, compute_q: bool) -> Any:
        *lead, m, n = x.shape
        k = m if full_matrices else min(m, n)
        if x.size == 0:
            q = np.broadcast_to(np.eye(m, k, dtype=x.dtype), (*lead, m, k))
            return [q, np.zeros((*lead, k, n), x.dtype)][1 - compute_q :]
        if x.dtype.char in "fF" and m * n * min(m, n) > values.MOST_WORK:
            found = values.each_matrix(lambda a: lapack.qr(a, k, compute_q), x)
            if found is not None:
                return list(found)
        if compute_q:
            return list(np.linalg.qr(x, mode="complete" if full_matrices else "reduced"))
        r = np.zeros((*lead, k, n), x.dtype)
        r[..., : min(m, n), :] = np.linalg.qr(x, mode="r")
        return [r]

    def fewer(self, used: Sequence[bool], params: dict[str, Any]) -> dict[str, Any] | None:
        return {**params, "compute_q": False} if tuple(used) == (False, True) else None

    def jvp(
        self, primals: Ops, tangents: Tangents, *, full_matrices: bool, compute_q: bool
    ) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if t is None:
            outs = self.bind(x, full_matrices=full_matrices, compute_q=compute_q)
            return outs, [None] * len(outs)
        outs, changes = self._with_tangents(x, t, full_matrices)
        return outs[1 - compute_q :], changes[1 - compute_q :]

    def _with_tangents(self, x: Value, t: Value, full_matrices: bool) -> tuple[Any, Any]:
        """Both results and their tangents."""
        q, r = self.bind(x, full_matrices=full_matrices, compute_q=True)
        m, n = x.aval.shape[-2:]
        k = min(m, n)
        whole = q
        q, r = first_columns(q, k), _corner(r, k, n)
        scaled = solve_triangle(first_columns(r, k), first_columns(t, k), left=False, lower=False)
        inside = matmul(adjoint(q), scaled)
        below = triangle(inside, lower=True, k=-1)
        turn = sub(below, adjoint(below))
        if is_complex(x):
            # The diagonal of r stays real, so q's columns turn in the complex plane.
            middle = select_n(on_diagonal(turn.aval.shape), like(x, 0), only_imaginary(inside))
            turn = add(turn, middle)
        upper = sub(inside, turn)
        dq = sub(scaled, matmul(q, upper))
        dr = matmul(upper, r) if m >= n else sub(matmul(adjoint(q), t), matmul(turn, r))
        dr = triangle(dr, lower=False)
        if m > n and full_matrices:
            return self._full(x, whole, dq, dr)
        return (q, r), (dq, dr)

    def _full(self, x: Value, q: Value, dq: Value, dr: Value) -> tuple[Any, Any]:
        """Results and tangents with the columns that make ``q`` square."""
        m, n = x.aval.shape[-2:]
        (r,) = self.bind(x, full_matrices=True, compute_q=False)
        first, added = first_columns(q, n), _columns_from(q, n)
        top, below = _corner(first, n, n), _rows_from(first, n)
        turn = adjoint(linear_solve(adjoint(sub(top, identity(top))), adjoint(below)))
        change = sub(_rows_from(dq, n), matmul(turn, _corner(dq, n, n)))
        rest = matmul(add(first, matmul(added, turn)), adjoint(change))
        more = sub(matmul(dq, adjoint(turn)), rest)
        wide = add(_padded(dq, m, m), _padded(more, m, m, left=n))
        return (q, r), (wide, _padded(dr, m, n))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), {"full_matrices": False, "compute_q": True}, diagonal=3.0)
        yield Sample(((4, 2),), {"full_matrices": False, "compute_q": True})
        yield Sample(((2, 3),), {"full_matrices": False, "compute_q": True})
        yield Sample(((2, 2, 3),), {"full_matrices": True, "compute_q": True})
        yield Sample(((4, 2),), {"full_matrices": True, "compute_q": True})
        yield Sample(((4, 2),), {"full_matrices": True, "compute_q": False})
        yield Sample(((2, 2, 3),), {"full_matrices": False, "compute_q": False})
        yield Sample(((0, 2),), {"full_matrices": False, "compute_q": True})


class LU(MatrixFunction):
    """Elimination with partial pivoting: ``x[permutation] = L U``.

    The first result has ``U`` in its upper triangle, and ``L``, whose diagonal is 1, below; then
    come the rows exchanged with row 0, 1, ... in turn, and the permutation; both are int32.
    """

    name = "lu"
    multiple_results = True
    square = False

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        *lead, m, n = x.shape
        pivots = ShapedArray((*lead, min(m, n)), dtypes.int32)
        return x, pivots, ShapedArray((*lead, m), dtypes.int32)

    def reference(self, x: Any) -> Any:
        return list(values.lu(x))

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        lu, pivots, order = self.bind(x)
        if t is None:
            return (lu, pivots, order), (None, None, None)
        m, n = x.aval.shape[-2:]
        k = min(m, n)
        strict = triangle(_corner(lu, m, k), lower=True, k=-1)
        left = with_diagonal(_squared(strict, m), 1)
        upper = _squared(triangle(_corner(lu, k, n), lower=False), n)
        # Beyond the last pivot U is continued by an identity matrix.
        right = upper if k == n else add(upper, _identity_after(upper, k))
        inside = solve_triangle(left, rows_taken(t, order), unit=True)
        inside = solve_triangle(right, inside, left=False, lower=False)
        change = add(
            matmul(left, triangle(inside, lower=True, k=-1)),
            matmul(triangle(inside, lower=False), right),
        )
        return (lu, pivots, order), (change, None, None)

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), distinct=True)
        yield Sample(((4, 2),), distinct=True)
        yield Sample(((2, 3),), distinct=True)
        yield Sample(((2, 3, 3),), distinct=True)
        yield Sample(((0, 2),))


def _identity_after(x: Value, k: int) -> Value:
    """Square matrices of zeros, with ones on the diagonal from row ``k`` on."""
    *lead, n, _ = x.aval.shape
    none = (0,) * x.aval.ndim
    rest = ShapedArray((*lead, n - k, n - k), x.aval.dtype, x.aval.weak_type)
    ones = select_n(on_diagonal(rest.shape), like(x, 0), like(x, 1))
    low = (*(0 for _ in lead), k, k)
    return pad(ones, low=low, high=none, interior=none, fill=like(x, 0))


class LUPivotsToPermutation(Opaque):
    """The order of rows that exchanging rows ``i`` and ``pivots[i]``, in turn, leaves."""

    name = "lu_pivots_to_permutation"
    accepts = frozenset({dtypes.int32, dtypes.int64})

    def shape_rule(self, pivots: ShapedArray, *, permutation_size: int) -> Avals:
        if pivots.ndim < 1 or not dtypes.is_integer(pivots.dtype):
            raise ArgumentError(
                "lu_pivots_to_permutation: takes arrays of integers",
                got=pivots.str_short(),
                fix="the pivots that lu returns",
            )
        if permutation_size < pivots.shape[-1]:
            raise ArgumentError(
                "lu_pivots_to_permutation: the permutation is shorter than the pivots",
                got=f"permutation_size={permutation_size} for {pivots.str_short()}",
                fix="the number of rows of the matrix",
            )
        return ShapedArray((*pivots.shape[:-1], permutation_size), pivots.dtype)

    def reference(self, pivots: Any, *, permutation_size: int) -> Any:
        return values.permutation_of_pivots(pivots, permutation_size)

    def jvp(self, primals: Ops, tangents: Tangents, *, permutation_size: int) -> tuple[Any, Any]:
        return self.bind(primals[0], permutation_size=permutation_size), None

    def batch(
        self, size: int, args: Ops, batched: Any, *, permutation_size: int
    ) -> tuple[Any, Any]:
        return self.bind(args[0], permutation_size=permutation_size), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((2, 3),), {"permutation_size": 4}, ((2.0, 3.0),), dtypes=(dtypes.int32,))

    def bad_samples(self) -> Iterable[BadSample]:
        pivots = ShapedArray((3,), dtypes.int32)
        yield BadSample((pivots,), ArgumentError, "shorter", {"permutation_size": 2})


class LinearSolve(Opaque):
    """``x`` with ``a x = b`` by elimination; NaN where ``a`` is singular.  Linear in ``b``."""

    name = "linear_solve"
    accepts = ACCEPTS
    why_not_finite = staticmethod(why_no_solution)

    def shape_rule(self, a: ShapedArray, b: ShapedArray) -> Avals:
        check_system("linear_solve", a, b)
        return ShapedArray(b.shape, b.dtype, a.weak_type and b.weak_type)

    def reference(self, a: Any, b: Any) -> Any:
        return values.solve(a, b)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (a, b), (da, db) = primals, tangents
        if da is None and db is None:
            return self.bind(a, b), None
        # All solutions, those of the transposed system among them, share one elimination.
        factors, _, order = lu(stop_gradient(a))
        x = factored_solve(a, factors, order, b, transposed=False)
        return x, factored_solve(a, factors, order, _changed(da, x, db), transposed=False)

    def transpose(self, ct: Value, a: Any, b: Any) -> list[Value | None]:
        if isinstance(a, Linear):
            raise a.not_linear()
        return [None, self.bind(turned(a), ct)]

    def batch(self, size: int, args: Ops, batched: Sequence[bool]) -> tuple[Any, Any]:
        return _batch_of_systems(self, size, args, batched)

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3), (3, 2)), diagonal=4.0)
        yield Sample(((2, 2, 2), (2, 2, 1)), diagonal=4.0)
        yield Sample(((0, 0), (0, 2)))

    def bad_samples(self) -> Iterable[BadSample]:
        yield from bad_systems({})


def _batch_of_systems(
    solve: Opaque, size: int, args: Ops, batched: Sequence[bool], **how: Any
) -> tuple[Any, Any]:
    """Linear systems; those that differ in the other side alone are one, eliminated once."""
    if any(batched[:-1]) or not size:
        return solve.bind(*spread(size, args, batched, literals=True), **how), True
    *system, b = args
    return parted(solve.bind(*system, joined(b, True), **how), size, True), True


def _changed(da: Value | None, x: Value, db: Value | None) -> Value:
    """The right side ``db - da x`` of the tangent of a solution; not both are None."""
    if da is None:
        assert db is not None
        return db
    change = matmul(da, x)
    return neg(change) if db is None else sub(db, change)


class FactoredSolve(Opaque):
    """:class:`LinearSolve` of a matrix ``a`` that :class:`LU` has eliminated already.

    The operands are ``a``, the factors and the permutation that ``LU`` gives, and ``b``.  The
    factors stand for ``a``, whose tangent is the only one that counts; so derivatives are those of
    a linear system, and do not go through the elimination.
    """

    name = "factored_solve"
    accepts = ACCEPTS
    why_not_finite = staticmethod(why_no_solution)

    def shape_rule(
        self, a: ShapedArray, factors: ShapedArray, order: ShapedArray, b: ShapedArray, **how: Any
    ) -> Avals:
        check_system("factored_solve", a, b)
        if factors.shape != a.shape or factors.dtype != a.dtype:
            raise ShapeError(
                "factored_solve: the factors are not those of the matrix",
                got=f"a {a.str_short()}, factors {factors.str_short()}",
                fix="what lu gives for a",
            )
        if order.shape != a.shape[:-1] or order.dtype != dtypes.int32:
            raise ShapeError(
                "factored_solve: the permutation is not that of the matrix",
                got=f"a {a.str_short()}, permutation {order.str_short()}",
                fix="what lu gives for a",
            )
        return ShapedArray(b.shape, b.dtype, a.weak_type and b.weak_type)

    def reference(self, a: Any, factors: Any, order: Any, b: Any, *, transposed: bool) -> Any:
        return values.solve(a.swapaxes(-1, -2) if transposed else a, b)

    def jvp(self, primals: Ops, tangents: Tangents, *, transposed: bool) -> tuple[Any, Any]:
        (a, factors, order, b), (da, _, _, db) = primals, tangents
        x = self.bind(a, factors, order, b, transposed=transposed)
        if da is None and db is None:
            return x, None
        da = turned(da) if transposed and da is not None else da
        return x, self.bind(a, factors, order, _changed(da, x, db), transposed=transposed)

    def transpose(
        self, ct: Value, a: Any, factors: Any, order: Any, b: Any, *, transposed: bool
    ) -> list[Value | None]:
        if isinstance(a, Linear):
            raise a.not_linear()
        return [None, None, None, self.bind(a, factors, order, ct, transposed=not transposed)]

    def batch(self, size: int, args: Ops, batched: Sequence[bool], **how: Any) -> tuple[Any, Any]:
        return _batch_of_systems(self, size, args, batched, **how)

    def samples(self) -> Iterable[Sample]:
        return ()


linear_solve, factored_solve = LinearSolve(), FactoredSolve()


qr, lu, lu_pivots_to_permutation = QR(), LU(), LUPivotsToPermutation()
