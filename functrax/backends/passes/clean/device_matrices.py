"""Factorisations and linear systems in the form in which cuSOLVER and cuBLAS compute them.

Their matrices lie column by column, so each of ours is the transposed one there.  The factor of a
Hermitian matrix is found as it is: the lower triangle of ours is the upper one of theirs.  A system
is solved by the elimination of the transposed matrix, for other sides that are transposed by
kernels, or lie as they are if there is one.  ``lu`` and ``qr`` are those of the matrix itself, so
kernels transpose it before and after.

A library says by a number where it failed, for which a kernel writes NaN, as the CPU does.

Start at :data:`MATRIX_FORMS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from functrax.backends.passes.clean.device_primitives import (
    cholesky_attempt,
    linear_solve_attempt,
    lu_of_transposed,
    number,
    qr_of_transposed,
    row_exchanges,
)
from functrax.backends.passes.writer import EquationWriter
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Var
from functrax.core.prims.arithmetic import add, select_n, sub
from functrax.core.prims.comparisons import ge, ne
from functrax.core.prims.factorisations import factored_solve, linear_solve, lu, qr
from functrax.core.prims.linear_systems import cholesky, triangular_solve
from functrax.core.prims.mapped import reindex, reindex_reduce
from functrax.core.prims.reindex import broadcast_in_dim, iota, reshape, transpose
from functrax.core.prims.slicing import slice_
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes


def _cholesky(eqn: Eqn) -> list[Eqn]:
    write = EquationWriter(eqn.source)
    (x,), (out,) = eqn.invars, eqn.outvars
    factor, failed = write.several(cholesky_attempt, x)
    found = _or_nan(write, factor, failed)
    zero = number(0, x.aval.dtype)
    return write.define(out, select_n, _is_lower(write, x), zero, found)


def _linear_solve(eqn: Eqn) -> list[Eqn]:
    write = EquationWriter(eqn.source)
    (a, b), (out,) = eqn.invars, eqn.outvars
    solved, failed = write.several(linear_solve_attempt, a, _transposed(write, b))
    found = _transposed(write, _or_nan(write, solved, failed))
    return write.define(out, reshape, found, shape=out.aval.shape)


def _lu(eqn: Eqn) -> list[Eqn] | None:
    (x,), (factors, pivots, order) = eqn.invars, eqn.outvars
    *lead, m, _ = x.aval.shape
    if math.prod(lead) > 1:
        return None
    write = EquationWriter(eqn.source)
    turned, exchanged = write.several(lu_of_transposed, _transposed(write, x))
    write.define(factors, reshape, _transposed(write, turned), shape=x.aval.shape)
    write.define(pivots, sub, exchanged, number(1, dtypes.int32))
    rows = write.new(iota, shape=(*lead, m), dtype=dtypes.int32, axis=len(lead))
    return write.define(order, row_exchanges, rows, exchanged)


def _qr(eqn: Eqn) -> list[Eqn] | None:
    (x,), (*q, r) = eqn.invars, eqn.outvars
    *lead, _, n = x.aval.shape
    if math.prod(lead) > 1:
        return None
    write = EquationWriter(eqn.source)
    columns = q[0].aval.shape[-1] if q else 0
    left, *turned = write.several(qr_of_transposed, _transposed(write, x), columns=columns)
    for out, found in zip(q, turned, strict=True):
        write.define(out, reshape, _transposed(write, found), shape=out.aval.shape)
    rows = r.aval.shape[-2]
    steps, limit = (1,) * left.aval.ndim, (*lead, n, rows)
    part = write.new(slice_, left, start=(0,) * left.aval.ndim, limit=limit, strides=steps)
    whole = _transposed(write, part)
    return write.define(r, select_n, _is_lower(write, whole, -1), whole, number(0, x.aval.dtype))


def _factored_solve(eqn: Eqn) -> list[Eqn]:
    (_, factors, order, b), (out,) = eqn.invars, eqn.outvars
    write = EquationWriter(eqn.source)
    turned = eqn.params["transposed"]
    how = {"left_side": True, "transpose_a": turned, "conjugate_a": False}
    below = {**how, "lower": True, "unit_diagonal": True}
    above = {**how, "lower": False, "unit_diagonal": False}
    if turned:
        inside = write.new(triangular_solve, factors, b, **above)
        found = write.new(triangular_solve, factors, inside, **below)
        last = _rows_taken(write, found, _inverse(write, order))
        return write.define(out, reshape, last, shape=out.aval.shape)
    inside = write.new(triangular_solve, factors, _rows_taken(write, b, order), **below)
    return write.define(out, triangular_solve, factors, inside, **above)


def _inverse(write: EquationWriter, order: Atom) -> Var:
    """The permutations that undo permutations."""
    shape = order.aval.shape
    dims = [Dim(i) for i in range(len(shape))]
    index_map = IndexMap(shape, shape, (*dims[:-1], Load(0, dims)))
    places = write.new(iota, shape=shape, dtype=dtypes.int32, axis=len(shape) - 1)
    return write.new(reindex_reduce, places, order, map=index_map, op="add")


def _rows_taken(write: EquationWriter, x: Atom, rows: Atom) -> Var:
    """The rows of matrices in the order of ``rows``."""
    *lead, _, n = x.aval.shape
    dims = [Dim(i) for i in range(len(lead) + 2)]
    read = (*dims[: len(lead)], Load(0, dims[: len(lead) + 1]), dims[-1])
    index_map = IndexMap((*lead, rows.aval.shape[-1], n), x.aval.shape, read)
    return write.new(reindex, x, rows, map=index_map, fill=number(0, x.aval.dtype))


def _transposed(write: EquationWriter, x: Atom) -> Var:
    """Matrices transposed; those of one row or column lie as they did."""
    *lead, m, n = x.aval.shape
    if 1 in (m, n):
        return write.new(reshape, x, shape=(*lead, n, m))
    axes = range(len(lead))
    return write.new(transpose, x, perm=(*axes, len(lead) + 1, len(lead)))


def _is_lower(write: EquationWriter, x: Atom, diagonal: int = 0) -> Var:
    """Which elements of matrices are not above a diagonal."""
    shape, last = x.aval.shape, x.aval.ndim - 1
    row, column = (
        write.new(iota, shape=shape, dtype=dtypes.int32, axis=axis) for axis in (last - 1, last)
    )
    if diagonal:
        row = write.new(add, row, number(diagonal, dtypes.int32))
    return write.new(ge, row, column)


def _or_nan(write: EquationWriter, x: Atom, failed: Atom) -> Var:
    """Matrices, with NaN in place of those of which a library gave a number that is not 0."""
    wrong = write.new(ne, failed, number(0, dtypes.int32))
    dims = tuple(range(failed.aval.ndim))
    everywhere = write.new(broadcast_in_dim, wrong, shape=x.aval.shape, dims=dims)
    return write.new(select_n, everywhere, x, number(np.nan, x.aval.dtype))


#: What writes an operation in another form, or leaves it.
MATRIX_FORMS: Final[dict[Primitive, Callable[[Eqn], list[Eqn] | None]]] = {
    cholesky: _cholesky,
    linear_solve: _linear_solve,
    lu: _lu,
    qr: _qr,
    factored_solve: _factored_solve,
}
