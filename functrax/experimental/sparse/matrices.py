"""``COO``, ``CSR`` and ``CSC``: single sparse matrices, for programs that have them.

They can be made, multiplied with dense arrays, and made dense; ``BCOO`` and ``BCSR`` can do more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax import lax
from functrax.core.pytree.operations import register_pytree_node_class
from functrax.experimental.sparse.base import JAXSparse, SparseLayoutError, mismatch, shape_of
from functrax.experimental.sparse.bcoo import BCOO
from functrax.experimental.sparse.bcsr import BCSR
from functrax.experimental.sparse.operators import matmul


class _Matrix(JAXSparse):
    """What the three share."""

    def _start(self, shape: Sequence[int]) -> None:
        self.shape = shape_of(shape)
        if len(self.shape) != 2:
            raise mismatch(type(self).__name__, f"shape {self.shape}", "a shape of two axes")

    @property
    def nse(self) -> int:
        return int(self.data.size)

    @abstractmethod
    def _coordinates(self) -> BCOO:
        """The same as a BCOO."""

    def todense(self) -> Any:
        return self._coordinates().todense()

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse) or jnp.ndim(other) not in (1, 2):
            raise SparseLayoutError(
                f"{type(self).__name__} @ x: not there for sparse arrays, nor for other ranks",
                got=repr(other) if isinstance(other, JAXSparse) else f"rank {jnp.ndim(other)}",
                fix="sparse.BCOO, or an array of one or two axes",
            )
        return matmul(self._coordinates(), other)


def _only_reversed(axes: Sequence[int] | None) -> None:
    if axes is not None and tuple(axes) != (1, 0):
        raise SparseLayoutError("transpose: two axes", got=repr(axes), fix="axes=None")


@register_pytree_node_class
class COO(_Matrix):
    """A sparse matrix as data, rows and columns.

    Args:
      args: ``(data, row, col)``, of shape ``[nse]`` each.
      shape: the shape.
      rows_sorted, cols_sorted: what is known of the order.
    """

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        self.data, self.row, self.col = map(jnp.asarray, args)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted
        self._start(shape)

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> COO:
        """The sparse matrix of an array's elements that are not zero."""
        return cls._of(BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def _of(cls, mat: BCOO) -> COO:
        row, col = mat.indices[:, 0], mat.indices[:, 1]
        return cls((mat.data, row, col), shape=mat.shape, rows_sorted=mat.indices_sorted)

    @classmethod
    def _empty(cls, shape: Sequence[int], **options: Any) -> COO:
        return cls._of(BCOO._empty(shape, **options))

    @classmethod
    def _eye(cls, n: int, m: int, k: int, **options: Any) -> COO:
        return cls._of(BCOO._eye(n, m, k, **options))

    def _coordinates(self) -> BCOO:
        return BCOO((self.data, jnp.stack([self.row, self.col], axis=1)), shape=self.shape)

    def _sort_indices(self) -> COO:
        if self._rows_sorted:
            return self
        row, col, data = lax.sort((self.row, self.col, self.data), num_keys=2)
        return COO((data, row, col), shape=self.shape, rows_sorted=True)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        _only_reversed(axes)
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.data, self.row, self.col), (self.shape, self._rows_sorted, self._cols_sorted)

    @classmethod
    def tree_unflatten(cls, info: Any, children: Any) -> COO:
        """A matrix of its buffers."""
        made = object.__new__(cls)
        made.data, made.row, made.col = children
        made.shape, made._rows_sorted, made._cols_sorted = info
        return made


class _Compressed(_Matrix):
    """A matrix whose rows, or columns, are given by their beginnings."""

    indices: Any
    indptr: Any

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self._start(shape)

    @classmethod
    def _of(cls, mat: BCOO) -> Any:
        rows = BCSR.from_bcoo(mat)
        return cls((rows.data, rows.indices, rows.indptr), shape=rows.shape)

    def _rows(self, shape: tuple[int, ...]) -> BCOO:
        return BCSR((self.data, self.indices, self.indptr), shape=shape).to_bcoo()

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.data, self.indices, self.indptr), self.shape

    @classmethod
    def tree_unflatten(cls, shape: Any, children: Any) -> Any:
        """A matrix of its buffers."""
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made.shape = shape
        return made


@register_pytree_node_class
class CSR(_Compressed):
    """A sparse matrix as rows: ``(data, indices, indptr)``, columns and where each row begins."""

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSR:
        """The sparse matrix of an array's elements that are not zero."""
        return cls._of(BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype))  # type: ignore[no-any-return]

    @classmethod
    def _empty(cls, shape: Sequence[int], **options: Any) -> CSR:
        return cls._of(BCOO._empty(shape, **options))  # type: ignore[no-any-return]

    @classmethod
    def _eye(cls, n: int, m: int, k: int, **options: Any) -> CSR:
        return cls._of(BCOO._eye(n, m, k, **options))  # type: ignore[no-any-return]

    def _coordinates(self) -> BCOO:
        return self._rows(self.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        _only_reversed(axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@register_pytree_node_class
class CSC(_Compressed):
    """A sparse matrix as columns: ``(data, indices, indptr)``, rows and each column's begin."""

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSC:
        """The sparse matrix of an array's elements that are not zero."""
        return CSR.fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).transpose()

    @classmethod
    def _empty(cls, shape: Sequence[int], **options: Any) -> CSC:
        return CSR._empty(tuple(shape)[::-1], **options).transpose()

    @classmethod
    def _eye(cls, n: int, m: int, k: int, **options: Any) -> CSC:
        return CSR._eye(m, n, -k, **options).transpose()

    def _coordinates(self) -> BCOO:
        return self._rows(self.shape[::-1]).transpose()

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        _only_reversed(axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> COO:
    """The COO matrix of an array; see ``bcoo_fromdense``."""
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSR:
    """The CSR matrix of an array; see ``bcoo_fromdense``."""
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


def coo_todense(mat: COO) -> Any:
    """A COO matrix as an array."""
    return mat.todense()


def csr_todense(mat: CSR) -> Any:
    """A CSR matrix as an array."""
    return mat.todense()


def _product(mat: _Matrix, other: Any, ndim: int, transpose: bool) -> Any:
    array = jnp.asarray(other)
    if array.ndim != ndim:
        raise mismatch("a product", f"an array of {array.ndim} axes", f"an array of {ndim}")
    return (mat.transpose() if transpose else mat) @ array


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """A COO matrix, or its transpose, times a vector."""
    return _product(mat, v, 1, transpose)


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """A COO matrix, or its transpose, times a matrix."""
    return _product(mat, B, 2, transpose)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """A CSR matrix, or its transpose, times a vector."""
    return _product(mat, v, 1, transpose)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """A CSR matrix, or its transpose, times a matrix."""
    return _product(mat, B, 2, transpose)
