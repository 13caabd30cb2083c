"""Determinants and their derivatives: det, slogdet, cofactor.

Formulas: M. B. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation", 2008.

Start at :class:`Det`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from functrax.core.prims import matrix_values as values
from functrax.core.prims.arithmetic import mul, sub
from functrax.core.prims.factorisations import linear_solve
from functrax.core.prims.linear_systems import MatrixFunction
from functrax.core.prims.matrices import (
    everywhere,
    is_complex,
    matmul,
    only_imaginary,
    real_part,
    trace,
    transposed,
)
from functrax.core.tracing.primitive import Avals, Ops, Sample, Tangents
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


class Det(MatrixFunction):
    """Determinants.  The first derivative is right for singular matrices as well."""

    name = "det"

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        return ShapedArray(x.shape[:-2], x.dtype, x.weak_type)

    def reference(self, x: Any) -> Any:
        return np.asarray(np.linalg.det(x), x.dtype)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if t is None:
            return self.bind(x), None
        return self.bind(x), trace(matmul(transposed(cofactor(x)), t))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), diagonal=3.0)
        yield Sample(((2, 2, 2),), diagonal=3.0)
        yield Sample(((0, 0),))


class Cofactor(MatrixFunction):
    """The matrix of cofactors: the derivative of the determinant by each element."""

    name = "cofactor"

    def reference(self, x: Any) -> Any:
        return values.cofactors(x)

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x)
        if t is None:
            return out, None
        change = linear_solve(x, t)
        scaled = mul(everywhere(trace(change), x.aval.shape), out)
        return out, sub(scaled, matmul(out, transposed(change)))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), diagonal=3.0)
        yield Sample(((2, 2, 2),), diagonal=3.0)
        yield Sample(((0, 0),))


class SlogDet(MatrixFunction):
    """The determinant's sign, of absolute value 1, and the logarithm of its absolute value."""

    name = "slogdet"
    multiple_results = True

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        lead = x.shape[:-2]
        narrow = dtypes.real_dtype(x.dtype)
        weak = x.weak_type and narrow == x.dtype
        return ShapedArray(lead, x.dtype, x.weak_type), ShapedArray(lead, narrow, weak)

    def reference(self, x: Any) -> Any:
        sign, size = np.linalg.slogdet(x)
        return [np.asarray(sign, x.dtype), np.asarray(size, dtypes.real_dtype(x.dtype))]

    def jvp(self, primals: Ops, tangents: Tangents) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        sign, size = self.bind(x)
        if t is None:
            return (sign, size), (None, None)
        change = trace(linear_solve(x, t))
        turn = mul(sign, only_imaginary(change)) if is_complex(x) else None
        return (sign, size), (turn, real_part(change))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), diagonal=4.0)
        yield Sample(((2, 2, 2),), diagonal=4.0)
        yield Sample(((0, 0),))


det, cofactor, slogdet = Det(), Cofactor(), SlogDet()
