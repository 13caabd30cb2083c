"""Triangular systems and the factor of a positive definite matrix: triangular_solve, cholesky.

Opaque operations on matrices in the last two axes; leading axes are batches.  Their tangents are
made of the same operations and of contractions, so there are derivatives of every order.

Formulas: M. B. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation", 2008 (solutions); I. Murray, "Differentiation of the Cholesky
decomposition", 2016.

Start at :class:`TriangularSolve`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import DTypeError, FunctraxError, ShapeError
from functrax.core.prims import lapack, matrix_values as values
from functrax.core.prims.arithmetic import mul, neg, select_n, sub
from functrax.core.prims.matrices import (
    ACCEPTS,
    check_matrix,
    conjugated,
    hermitian,
    is_complex,
    joined,
    matmul,
    on_diagonal,
    parted,
    transposed,
    triangle,
)
from functrax.core.prims.reindex import reshape
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Linear,
    Opaque,
    Ops,
    Sample,
    Tangents,
    Value,
    check_dtype,
    like,
    spread,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_F32 = dtypes.float32


def solve_each(solve: Opaque, a: Value, b: Value, **how: Any) -> Value:
    """What a primitive of linear systems gives for each index of the leading axes of ``b``.

    One matrix ``a`` is factorised once, whatever leading axes ``b`` has.
    """
    *lead, m, n = b.aval.shape
    if a.aval.ndim > 2 or not lead:
        return solve.bind(a, b, **how)
    size = math.prod(lead)
    sides = reshape(b, shape=(size, m, n))
    return reshape(solve.batch(size, (a, sides), (False, True), **how)[0], shape=b.aval.shape)


def why_no_solution(a: Any, *others: Any) -> tuple[str, str]:
    """Why the system of a finite matrix has no finite solution, for ``why_not_finite``."""
    return (
        "the matrix is singular, or close to it",
        "functrax.numpy.linalg.lstsq or pinv, or add to the matrix's diagonal",
    )


class MatrixFunction(Opaque):
    """Base: a function of one matrix, for each index of the leading axes."""

    accepts = ACCEPTS
    square = True

    def shape_rule(self, x: ShapedArray, **params: Any) -> Avals:
        check_dtype(self.name, x, self.accepts)
        check_matrix(self.name, x, self.square)
        return self.results(x, **params)

    def results(self, *args: Any, **params: Any) -> Avals:
        """``(x, **params)`` -> the types of the results, for matrices that fit."""
        found: ShapedArray = args[0]
        return found

    def why_not_finite(self, x: Any) -> tuple[str, str]:
        return "numbers too large for the dtype, or no convergence", "divide the matrix by its norm"

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], **params: Any
    ) -> tuple[Any, Any]:
        outs = self.bind(args[0], **params)
        return outs, ([True] * len(outs) if self.multiple_results else True)

    def bad_samples(self) -> Iterable[BadSample]:
        params = next(iter(self.samples())).params
        yield BadSample((ShapedArray((3,), _F32),), ShapeError, "matrices", params)
        yield BadSample((ShapedArray((3, 3), dtypes.int32),), DTypeError, self.name, params)
        if self.square:
            yield BadSample((ShapedArray((3, 4), _F32),), ShapeError, "square", params)


def check_system(name: str, a: ShapedArray, b: ShapedArray, left: bool = True) -> None:
    """Refuse a system whose sides do not go together."""
    for aval in (a, b):
        check_dtype(name, aval, ACCEPTS)
    if a.dtype != b.dtype:
        raise DTypeError(
            f"{name} takes operands of one dtype",
            got=f"{a.str_short()}, {b.str_short()}",
            fix="convert with .astype(...), or use functrax.numpy.linalg.solve, which promotes",
        )
    check_matrix(name, a, square=True)
    check_matrix(name, b)
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2 if left else -1]:
        raise ShapeError(
            f"{name}: the sizes of the matrix and of the other side differ",
            got=f"a {a.str_short()}, b {b.str_short()}",
            fix=f"equal leading axes, and as many {'rows' if left else 'columns'} in b as in a",
        )


class TriangularSolve(Opaque):
    """``x`` with ``op(a) x = b``, or ``x op(a) = b`` unless ``left_side``; linear in ``b``.

    Only one triangle of ``a`` is read, and not its diagonal if that counts as ones.  A zero on the
    diagonal gives infinities and NaN.  A batch of other sides of one ``a`` is one system.
    """

    name = "triangular_solve"
    accepts = ACCEPTS

    def shape_rule(self, a: ShapedArray, b: ShapedArray, *, left_side: bool, **how: Any) -> Avals:
        check_system("triangular_solve", a, b, left_side)
        return ShapedArray(b.shape, b.dtype, a.weak_type and b.weak_type)

    def reference(
        self,
        a: Any,
        b: Any,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> Any:
        if a.shape[-1] ** 2 * max(b.shape[-2:]) > values.MOST_WORK:
            flags = (left_side, lower, transpose_a, conjugate_a, unit_diagonal)
            found = values.each_matrix(lambda m, v: lapack.triangular_solve(m, v, *flags), a, b)
            if found is not None:
                return found
        a = a.conj() if conjugate_a else a
        if not left_side:
            b, transpose_a = b.swapaxes(-1, -2), not transpose_a
        if transpose_a:
            a, lower = a.swapaxes(-1, -2), not lower
        if unit_diagonal:
            a = np.where(np.eye(a.shape[-1], dtype=bool), a.dtype.type(1), a)
        if not lower:
            a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
        out = values.solve_lower(a, b)
        out = out if lower else out[..., ::-1, :]
        return np.ascontiguousarray(out if left_side else out.swapaxes(-1, -2))

    def jvp(self, primals: Ops, tangents: Tangents, **how: Any) -> tuple[Any, Any]:
        (a, b), (da, db) = primals, tangents
        x = self.bind(a, b, **how)
        if da is None:
            return x, None if db is None else self.bind(a, db, **how)
        k = 1 if how["unit_diagonal"] else 0
        da = triangle(da, how["lower"], -k if how["lower"] else k)
        da = transposed(da) if how["transpose_a"] else da
        da = conjugated(da) if how["conjugate_a"] else da
        change = matmul(da, x) if how["left_side"] else matmul(x, da)
        return x, self.bind(a, neg(change) if db is None else sub(db, change), **how)

    def why_not_finite(self, a: Any, b: Any) -> tuple[str, str]:
        zeros = np.argwhere(np.diagonal(a, axis1=-2, axis2=-1) == 0)
        if not len(zeros):
            return why_no_solution(a, b)
        *index, row = zeros[0].tolist()
        return (
            f"the diagonal is 0 at row {row}{_of_matrix(index)}",
            "a triangle without zeros on its diagonal, or functrax.numpy.linalg.lstsq",
        )

    def transpose(self, ct: Value, a: Any, b: Any, **how: Any) -> list[Value | None]:
        if isinstance(a, Linear):
            raise a.not_linear()
        turned = {**how, "transpose_a": not how["transpose_a"]}
        return [None, self.bind(a, ct, **turned)]

    def batch(self, size: int, args: Ops, batched: Sequence[bool], **how: Any) -> tuple[Any, Any]:
        a, b = args
        if batched[0] or not size:
            return self.bind(*spread(size, args, batched, literals=True), **how), True
        left = how["left_side"]
        return parted(self.bind(a, joined(b, left), **how), size, left), True

    def samples(self) -> Iterable[Sample]:
        for left, lower, turn, conj, unit in (
            (True, True, False, False, False),
            (False, True, True, True, False),
            (True, False, True, False, True),
            (False, False, False, True, False),
        ):
            how = _how(left, lower, turn, conj, unit)
            shape = (3, 2) if left else (2, 3)
            yield Sample(((3, 3), shape), how, diagonal=4.0)
        yield Sample(((2, 3, 3), (2, 3, 1)), _how(True, True, False, False, False), diagonal=4.0)
        yield Sample(((0, 0), (0, 2)), _how(True, True, False, False, False))

    def bad_samples(self) -> Iterable[BadSample]:
        how = _how(True, True, False, False, False)
        yield from bad_systems(how)


def _of_matrix(index: Sequence[int]) -> str:
    """Which one of several matrices, in words."""
    return f" of matrix {tuple(index)}" if index else ""


def _how(left: bool, lower: bool, turn: bool, conj: bool, unit: bool) -> dict[str, Any]:
    return {
        "left_side": left,
        "lower": lower,
        "transpose_a": turn,
        "conjugate_a": conj,
        "unit_diagonal": unit,
    }


def bad_systems(params: dict[str, Any]) -> Iterable[BadSample]:
    """Sides that do not go together."""
    a, wide = ShapedArray((3, 3), _F32), ShapedArray((3, 4), _F32)
    b, long = ShapedArray((3, 1), _F32), ShapedArray((4, 1), _F32)
    cases: tuple[tuple[ShapedArray, ShapedArray, type[FunctraxError], str], ...] = (
        (wide, b, ShapeError, "square"),
        (a, long, ShapeError, "differ"),
        (a, ShapedArray((3,), _F32), ShapeError, "matrices"),
        (a, ShapedArray((3, 1), dtypes.float64), DTypeError, "one dtype"),
    )
    for left, right, error, match in cases:
        yield BadSample((left, right), error, match, params)


triangular_solve = TriangularSolve()


def solve_triangle(
    a: Value,
    b: Value,
    *,
    left: bool = True,
    lower: bool = True,
    adjoint: bool = False,
    unit: bool = False,
) -> Value:
    """:class:`TriangularSolve`; with ``adjoint``, by the conjugate transpose of ``a``."""
    conj = adjoint and is_complex(a)
    return triangular_solve(a, b, **_how(left, lower, adjoint, conj, unit))


class Cholesky(MatrixFunction):
    """Lower ``L`` with ``L L^H = x``; reads the lower triangle only.

    The lower triangle is NaN where the matrix is not positive definite.
    """

    name = "cholesky"

    def reference(self, x: Any) -> Any:
        return values.cholesky(x)

    def why_not_finite(self, x: Any) -> tuple[str, str]:
        found = values.indefinite(x)
        where = "" if found is None else f": row {found[1] - 1}{_of_matrix(found[0])} fails first"
        return (
            f"the matrix is not positive definite{where}",
            "a symmetric matrix with positive eigenvalues: add to its diagonal",
        )

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x)
        if t is None:
            return out, None
        right = solve_triangle(out, hermitian(t, lower=True), left=False, adjoint=True)
        both = triangle(solve_triangle(out, right), lower=True)
        half = select_n(on_diagonal(x.aval.shape), both, mul(both, like(both, 0.5)))
        return out, matmul(out, half)

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), diagonal=7.0)
        yield Sample(((2, 2, 2),), diagonal=7.0)
        yield Sample(((0, 0),))


cholesky = Cholesky()
