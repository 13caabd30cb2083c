"""``BCSR``: batched compressed sparse rows, for which one of BCOO does the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.pytree.operations import register_pytree_node_class
from functrax.experimental.sparse.base import (
    JAXSparse,
    SparseInfo,
    SparseLayoutError,
    batched,
    mismatch,
    shape_of,
)
from functrax.experimental.sparse.bcoo import BCOO, _no_other_axes, _shape_now
from functrax.experimental.sparse.convert import (
    bcoo_eliminate_zeros,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    extract,
)
from functrax.experimental.sparse.operators import SparseOperators
from functrax.experimental.sparse.products import bcoo_dot_general
from functrax.experimental.sparse.shapes import bcoo_broadcast_in_dim, bcoo_concatenate


@register_pytree_node_class
class BCSR(SparseOperators, JAXSparse):
    """A sparse matrix, or a batch of them, as rows: their columns, and where each row begins.

    Args:
      args: ``(data, indices, indptr)``: the data ``[*batch, nse, *dense]``, the columns
        ``[*batch, nse]``, and the beginnings of rows ``[*batch, rows + 1]``.
      shape: the shape, with two sparse axes.
      indices_sorted: whether the columns of each row are in order.
      unique_indices: whether no index is there twice.

    Raises:
      ShapeError: if the buffers do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> m.indptr
    Array([0, 1, 3], dtype=int32)
    """

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.shape = shape_of(shape)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        self._check()

    def _check(self) -> None:
        first, shape = self.indices.ndim - 1, self.shape
        buffers = (self.data, self.indices, self.indptr)
        fits = first >= 0 and self.indptr.ndim == first + 1 and len(shape) >= first + 2
        fits = fits and self.data.shape[first:] == (self.nse, *shape[first + 2 :])
        fits = fits and self.indptr.shape[first] == shape[first] + 1
        for buffer in buffers:
            sizes = zip(buffer.shape[: max(first, 0)], shape, strict=False)
            fits = fits and all(n in (1, full) for n, full in sizes)
        if not fits:
            shown = ", ".join(str(x.shape) for x in buffers)
            raise mismatch(
                "BCSR",
                f"data, indices, indptr of shapes {shown} for shape {shape}",
                "data [*batch, nse, *dense], indices [*batch, nse], indptr [*batch, rows + 1]",
            )

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    @property
    def nse(self) -> int:
        return int(self.indices.shape[-1])

    @property
    def n_batch(self) -> int:
        """How many leading axes count elements of a batch."""
        return int(self.indices.ndim) - 1

    @property
    def n_sparse(self) -> int:
        """Two: rows and columns."""
        return 2

    @property
    def n_dense(self) -> int:
        """How many last axes are stored whole."""
        return int(self.data.ndim) - 1 - self.n_batch

    def _layout(self) -> str:
        batch = f", n_batch={self.n_batch}" if self.n_batch else ""
        return batch + (f", n_dense={self.n_dense}" if self.n_dense else "")

    def to_bcoo(self) -> BCOO:
        """The same array as a BCOO."""
        rows = self.shape[self.n_batch]
        indices = batched(
            lambda columns, starts: _places(columns, starts, rows),
            self.n_batch,
            self.indices,
            self.indptr,
        )
        return BCOO((self.data, indices), **self._info._asdict())

    _coordinates = to_bcoo

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same as a BCOO with two sparse axes."""
        if arr.n_sparse != 2:
            raise SparseLayoutError(
                "BCSR: two sparse axes are needed", got=repr(arr), fix=".update_layout"
            )
        arr = arr if arr.indices_sorted else bcoo_sort_indices(arr)
        rows = arr.shape[arr.n_batch]
        starts = batched(lambda i: _starts(i, rows), arr.n_batch, arr.indices)
        return cls((arr.data, arr.indices[..., 1], starts), **arr._info._asdict())

    def _again(self, made: BCOO) -> Any:
        return BCSR.from_bcoo(made) if made.n_sparse == 2 else made

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """The sparse array of an array's elements; see ``bcoo_fromdense``."""
        return bcsr_fromdense(
            mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The same as a matrix of ``scipy.sparse``."""
        _no_other_axes("BCSR.from_scipy_sparse", n_batch, n_dense)
        rows = mat.tocsr()
        parts = (jnp.asarray(x).astype(index_dtype or "int32") for x in (rows.indices, rows.indptr))
        indices, pointers = parts
        return cls((jnp.asarray(rows.data), indices, pointers), shape=rows.shape)

    def todense(self) -> Any:
        return self.to_bcoo().todense()

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The same array with each index once; see ``BCOO.sum_duplicates``."""
        mat = self.to_bcoo()
        summed = bcoo_eliminate_zeros if remove_zeros else bcoo_sum_duplicates
        return BCSR.from_bcoo(summed(mat, nse))

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        return self._again(self.to_bcoo().transpose(axes))

    def tree_flatten(self) -> tuple[tuple[Any, Any, Any], Any]:
        return (self.data, self.indices, self.indptr), self._info

    @classmethod
    def tree_unflatten(cls, info: SparseInfo, children: Any) -> BCSR:
        """A sparse array of buffers; ``vmap`` takes axes of the batch away, and adds some."""
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made.indices_sorted, made.unique_indices = info.indices_sorted, info.unique_indices
        made.shape = _shape_now(info.shape, made.data, made.indices, 2)
        return made

    @classmethod
    def _empty(cls, shape: Sequence[int], **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._empty(shape, **options))

    @classmethod
    def _eye(cls, n: int, m: int, k: int, **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._eye(n, m, k, **options))


def _places(columns: Any, starts: Any, rows: int) -> Any:
    """Rows and columns of entries; both are out of bounds after the last row's end."""
    count = columns.shape[0]
    begins = jnp.zeros(count + 1, starts.dtype).at[starts].add(1, mode="drop")
    row = jnp.cumsum(begins)[:count].astype(columns.dtype) - 1
    return jnp.stack([row, columns], axis=1)


def _starts(indices: Any, rows: int) -> Any:
    """Where each row of sorted entries begins."""
    counts = jnp.zeros(rows, indices.dtype).at[indices[:, 0]].add(1, mode="drop")
    return jnp.concatenate([jnp.zeros(1, indices.dtype), jnp.cumsum(counts)]).astype(indices.dtype)


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCSR:
    """The BCSR array of an array's elements; see ``bcoo_fromdense``."""
    return BCSR.from_bcoo(
        bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    )


def bcsr_todense(mat: BCSR) -> Any:
    """A sparse array as an array."""
    return mat.todense()


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of an array at the places of a sparse one.

    Args:
      indices: columns ``[*batch, nse]``.
      indptr: beginnings of rows ``[*batch, rows + 1]``.
      mat: an array.
    """
    array = jnp.asarray(mat)
    n_batch = indices.ndim - 1
    places = batched(
        lambda c, s: _places(c, s, array.shape[n_batch]),
        n_batch,
        jnp.asarray(indices),
        jnp.asarray(indptr),
    )
    return extract(places, array)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same array with each index once; see ``bcoo_sum_duplicates``."""
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same array without stored zeros."""
    return mat.sum_duplicates(nse)


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """A general product whose operands may be BCSR; see ``bcoo_dot_general``."""
    a, b = (x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs))
    return bcoo_dot_general(
        a,
        b,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """A sparse array repeated along new axes; see ``bcoo_broadcast_in_dim``."""
    return BCSR.from_bcoo(
        bcoo_broadcast_in_dim(
            mat.to_bcoo(),
            shape=shape,
            broadcast_dimensions=broadcast_dimensions,
            sharding=sharding,
        )
    )


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Sparse arrays of one layout joined along an axis."""
    mats = [m.to_bcoo() for m in operands]
    return BCSR.from_bcoo(bcoo_concatenate(mats, dimension=dimension))
