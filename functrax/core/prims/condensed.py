"""What Householder's reflections make of matrices: geqrf, geqp3, hessenberg, tridiagonal, schur.

Opaque operations on matrices in the last two axes, without derivatives, as JAX has them.  What
applies the reflections (``functrax.lax.linalg.householder_product``, ``ormqr``) is made of
contractions, and has derivatives.

Start at :class:`Condensation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functrax.core.errors.typed import DifferentiationError
from functrax.core.prims import reflector_values as values, schur_values
from functrax.core.prims.linear_systems import MatrixFunction
from functrax.core.tracing.primitive import Avals, Ops, Sample, Tangents
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


class Condensation(MatrixFunction):
    """Base: a form of a matrix with several results, none of which has a derivative."""

    multiple_results = True

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        outs = self.bind(primals[0], **params)
        if tangents[0] is None:
            return outs, [None] * len(outs)
        raise DifferentiationError(
            f"{self.name} is not differentiable",
            got=f"a tangent of {primals[0].aval.str_short()}",
            fix="functrax.numpy.linalg.qr, eigh, eigvals or svd, which have derivatives",
        )

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), distinct=True)
        yield Sample(((2, 2, 2),), distinct=True)
        yield Sample(((0, 0),))


def _vectors(x: ShapedArray, size: int) -> ShapedArray:
    return ShapedArray((*x.shape[:-2], size), x.dtype, x.weak_type)


class Geqrf(Condensation):
    """``(a, taus)``: the upper triangle of ``x = q r``, and below it the reflections of ``q``."""

    name = "geqrf"
    square = False

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        return x, _vectors(x, min(x.shape[-2:]))

    def reference(self, x: Any) -> Any:
        return list(values.qr(x))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((4, 2),), distinct=True)
        yield Sample(((2, 2, 3),), distinct=True)
        yield Sample(((0, 2),))


class Geqp3(Condensation):
    """``(a, taus, order)``: as :class:`Geqrf`, of ``x[:, order]``; ``order`` is int32.

    Each column is the longest of what the columns before leave of those to come.
    """

    name = "geqp3"
    square = False

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        order = ShapedArray((*x.shape[:-2], x.shape[-1]), dtypes.int32)
        return x, _vectors(x, min(x.shape[-2:])), order

    def reference(self, x: Any) -> Any:
        return list(values.pivoted_qr(x))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((4, 2),), distinct=True)
        yield Sample(((2, 2, 3),), distinct=True)
        yield Sample(((0, 2),))


class Hessenberg(Condensation):
    """``(a, taus)``: ``q^H x q``, zero below the first subdiagonal, where its reflections stand."""

    name = "hessenberg"

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        return x, _vectors(x, max(x.shape[-1] - 1, 0))

    def reference(self, x: Any) -> Any:
        return list(values.hessenberg(x))


class Tridiagonal(Condensation):
    """``(a, d, e, taus)``: the real diagonals of a Hermitian ``q^H x q``, and its reflections."""

    name = "tridiagonal"

    def results(self, x: ShapedArray, *, lower: bool, **params: Any) -> Avals:
        size = x.shape[-1]
        beside = _vectors(x, max(size - 1, 0))
        narrow = dtypes.real_dtype(x.dtype)
        weak = x.weak_type and narrow == x.dtype
        d, e = (ShapedArray(v.shape, narrow, weak) for v in (_vectors(x, size), beside))
        return x, d, e, beside

    def reference(self, x: Any, *, lower: bool) -> Any:
        return list(values.tridiagonal(x, lower))

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 3),), {"lower": True}, distinct=True)
        yield Sample(((2, 2, 2),), {"lower": False}, distinct=True)
        yield Sample(((0, 0),), {"lower": True})


class Schur(Condensation):
    """``(t, z)``: ``x = z t z^H``, with an upper triangle ``t`` and a unitary ``z``.

    Of real matrices ``t`` is real, with blocks of two rows for pairs of complex eigenvalues.
    """

    name = "schur"

    def results(self, x: ShapedArray, **params: Any) -> Avals:
        return x, x

    def reference(self, x: Any) -> Any:
        return list(schur_values.schur(x))


geqrf, geqp3, hessenberg = Geqrf(), Geqp3(), Hessenberg()
tridiagonal, schur = Tridiagonal(), Schur()
