"""What NVIDIA's libraries compute where that is not what a primitive of the language gives.

They exist in programs of a GPU alone, after differentiation and batching, so they have no such
rules.  Matrices are dense and lie row by row, as all arrays do; the libraries, whose matrices lie
column by column, see them transposed, which is said where it matters.

Start at :class:`LibraryForm`.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import matrix_values as values
from functrax.core.prims.factorisations import qr
from functrax.core.prims.fourier import fft
from functrax.core.prims.matrices import ACCEPTS
from functrax.core.tracing.primitive import Avals, Opaque
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


class LibraryForm(Opaque):
    """Base: an operation of a library."""

    accepts = ACCEPTS

    def jvp(self, *args: Any, **params: Any) -> NoReturn:
        raise self._compiled("differentiated")

    def batch(self, *args: Any, **params: Any) -> NoReturn:
        raise self._compiled("batched")

    def _compiled(self, what: str) -> AssertionError:
        return AssertionError(
            f"{self.name} was {what}: it exists in compiled programs alone, which no "
            "transformation sees"
        )


class UnscaledInverse(LibraryForm):
    """An inverse Fourier transform that divides by nothing; params are those of ``fft``."""

    name = "unscaled_inverse_fft"

    def shape_rule(self, x: ShapedArray, *, kind: str, fft_lengths: tuple[int, ...]) -> Avals:
        return fft.shape_rule(x, kind=kind, fft_lengths=fft_lengths)

    def reference(self, x: Any, *, kind: str, fft_lengths: tuple[int, ...]) -> Any:
        scaled = fft.reference(x, kind=kind, fft_lengths=fft_lengths)
        return scaled * scaled.real.dtype.type(math.prod(fft_lengths))


class CholeskyAttempt(LibraryForm):
    """``cholesky`` with what was in the upper triangle, and whether it failed.

    The second result, an int32 for each matrix, is not 0 where the first has no meaning.
    """

    name = "cholesky_attempt"
    multiple_results = True

    def shape_rule(self, x: ShapedArray) -> Avals:
        return x, ShapedArray(x.shape[:-2], dtypes.int32)

    def reference(self, x: Any) -> Any:
        return [values.cholesky(x) + np.triu(x, 1), np.zeros(x.shape[:-2], np.int32)]


class SolveAttempt(LibraryForm):
    """``linear_solve`` of a transposed other side, transposed, and whether it failed.

    The second result, an int32 for each matrix, is not 0 where the matrix is singular.
    """

    name = "linear_solve_attempt"
    multiple_results = True

    def shape_rule(self, a: ShapedArray, turned: ShapedArray) -> Avals:
        return turned, ShapedArray(a.shape[:-2], dtypes.int32)

    def reference(self, a: Any, turned: Any) -> Any:
        solved = values.solve(a, turned.swapaxes(-1, -2)).swapaxes(-1, -2)
        return [np.ascontiguousarray(solved), np.zeros(a.shape[:-2], np.int32)]


class TransposedLU(LibraryForm):
    """``lu`` of the transposed operand: the factors, transposed, and the pivots, counted from 1."""

    name = "lu_of_transposed"
    multiple_results = True

    def shape_rule(self, x: ShapedArray) -> Avals:
        return x, ShapedArray((*x.shape[:-2], min(x.shape[-2:])), dtypes.int32)

    def reference(self, x: Any) -> Any:
        factors, pivots, _ = values.lu(x.swapaxes(-1, -2))
        return [np.ascontiguousarray(factors.swapaxes(-1, -2)), pivots + np.int32(1)]


class TransposedQR(LibraryForm):
    """``qr`` of the transposed operand: ``r`` with what else is left there, and ``q``, transposed.

    The first result has the operand's shape; its lower triangle is ``r``, transposed.  ``columns``
    are those of ``q``, of which there is none where it is 0.
    """

    name = "qr_of_transposed"
    multiple_results = True

    def shape_rule(self, x: ShapedArray, *, columns: int) -> Avals:
        q = ShapedArray((*x.shape[:-2], columns, x.shape[-1]), x.dtype)
        return (x, q) if columns else (x,)

    def reference(self, x: Any, *, columns: int) -> Any:
        whole = columns > min(x.shape[-2:])
        how = {"full_matrices": whole, "compute_q": bool(columns)}
        *q, r = qr.reference(x.swapaxes(-1, -2), **how)
        first = np.zeros_like(x)
        first[..., : r.shape[-2]] = r.swapaxes(-1, -2)
        return [first, *[np.ascontiguousarray(y.swapaxes(-1, -2)) for y in q]]


class RowExchanges(LibraryForm):
    """Numbers of rows in the order that exchanges of rows leave; pivots are counted from 1."""

    name = "row_exchanges"
    accepts = frozenset({dtypes.int32})

    def shape_rule(self, rows: ShapedArray, pivots: ShapedArray) -> Avals:
        return rows

    def reference(self, rows: Any, pivots: Any) -> Any:
        order = values.permutation_of_pivots(pivots - np.int32(1), rows.shape[-1])
        return np.take_along_axis(rows, order, -1)


unscaled_inverse_fft = UnscaledInverse()
cholesky_attempt, linear_solve_attempt = CholeskyAttempt(), SolveAttempt()
lu_of_transposed, row_exchanges = TransposedLU(), RowExchanges()
qr_of_transposed = TransposedQR()


def number(value: Any, dtype: np.dtype[Any]) -> Literal:
    """A number as an operand, which stands for an array full of it."""
    return Literal(np.asarray(value, dtype), ShapedArray((), dtype))
