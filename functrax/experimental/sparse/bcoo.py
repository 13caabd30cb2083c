"""``BCOO``: batched coordinates, the sparse array that everything else is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.errors.typed import ArgumentError
from functrax.core.pytree.operations import register_pytree_node_class
from functrax.experimental.sparse.base import JAXSparse, SparseInfo, mismatch, shape_of
from functrax.experimental.sparse.operators import SparseOperators


@register_pytree_node_class
class BCOO(SparseOperators, JAXSparse):
    """A sparse array as data and their coordinates.

    Its axes are, in this order, axes of a batch, sparse axes, and dense ones, which are stored
    whole.  The number of entries is the same for all elements of the batch; entries of one index
    are summed, and one whose index is out of bounds stands for nothing.

    Args:
      args: ``(data, indices)``: the data ``[*batch, nse, *dense]`` and integers
        ``[*batch, nse, n_sparse]``.  Axes of the batch may have size 1 where all are the same.
      shape: the shape.
      indices_sorted: whether the indices are in lexicographic order.
      unique_indices: whether no index is there twice.

    Raises:
      ShapeError: if the buffers do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> m
    BCOO(float32[2, 3], nse=3)
    >>> m @ jnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(jnp.asarray, args)
        self.shape = shape_of(shape)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        self._check()

    def _check(self) -> None:
        data, indices, shape = self.data, self.indices, self.shape
        got = f"data {data.shape}, indices {indices.shape} for shape {shape}"
        fix = "data [*batch, nse, *dense] and indices [*batch, nse, n_sparse]"
        if indices.ndim < 2 or not jnp.issubdtype(indices.dtype, jnp.integer):
            raise mismatch("BCOO", f"{got}, indices of {indices.dtype}", fix)
        n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
        whole = shape[n_batch + n_sparse :]
        fits = len(shape) >= n_batch + n_sparse and data.shape[n_batch:] == (self.nse, *whole)
        for buffer in (data, indices):
            sizes = zip(buffer.shape[:n_batch], shape, strict=False)
            fits = fits and all(n in (1, full) for n, full in sizes)
        if not fits:
            raise mismatch("BCOO", got, fix)

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    @property
    def nse(self) -> int:
        return int(self.indices.shape[-2])

    @property
    def n_batch(self) -> int:
        """How many leading axes count elements of a batch."""
        return int(self.indices.ndim) - 2

    @property
    def n_sparse(self) -> int:
        """How many axes are sparse."""
        return int(self.indices.shape[-1])

    @property
    def n_dense(self) -> int:
        """How many last axes are stored whole."""
        return int(self.data.ndim) - 1 - self.n_batch

    def _layout(self) -> str:
        batch = f", n_batch={self.n_batch}" if self.n_batch else ""
        return batch + (f", n_dense={self.n_dense}" if self.n_dense else "")

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """The sparse array of an array's elements; see ``bcoo_fromdense``."""
        from functrax.experimental.sparse.convert import bcoo_fromdense

        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The same as a matrix of ``scipy.sparse``."""
        _no_other_axes("BCOO.from_scipy_sparse", n_batch, n_dense)
        coordinates = mat.tocoo()
        indices = jnp.stack([jnp.asarray(coordinates.row), jnp.asarray(coordinates.col)], axis=1)
        return cls(
            (jnp.asarray(coordinates.data), indices.astype(index_dtype or "int32")),
            shape=coordinates.shape,
        )

    def todense(self) -> Any:
        from functrax.experimental.sparse.convert import bcoo_todense

        return bcoo_todense(self)

    def sort_indices(self) -> BCOO:
        """The same array with its indices in lexicographic order."""
        from functrax.experimental.sparse.convert import bcoo_sort_indices

        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same array with each index once, in lexicographic order.

        Args:
          nse: for how many entries there is room; as many as there are if None, which needs values
            that are known.
          remove_zeros: whether entries that are zero are left out.
        """
        from functrax.experimental.sparse import convert

        if remove_zeros:
            return convert.bcoo_eliminate_zeros(self, nse)
        return convert.bcoo_sum_duplicates(self, nse)

    def update_layout(
        self,
        *,
        n_batch: int | None = None,
        n_dense: int | None = None,
        on_inefficient: str | None = "error",
    ) -> BCOO:
        """The same array with other numbers of axes; see ``bcoo_update_layout``."""
        from functrax.experimental.sparse.convert import bcoo_update_layout

        return bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        from functrax.experimental.sparse.shapes import bcoo_transpose

        order = range(self.ndim)[::-1] if axes is None else axes
        return bcoo_transpose(self, permutation=tuple(order))

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        from functrax.experimental.sparse.making import empty_bcoo

        return empty_bcoo(shape, dtype, index_dtype, n_batch, n_dense, nse)

    @classmethod
    def _eye(
        cls,
        n: int,
        m: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:
        from functrax.experimental.sparse.making import eye_bcoo

        return eye_bcoo(n, m, k, dtype, index_dtype, n_batch, n_dense)

    def tree_flatten(self) -> tuple[tuple[Any, Any], Any]:
        return (self.data, self.indices), self._info

    @classmethod
    def tree_unflatten(cls, info: SparseInfo, children: Any) -> BCOO:
        """A sparse array of buffers; ``vmap`` takes axes of the batch away, and adds some."""
        made = object.__new__(cls)
        made.data, made.indices = children
        made.indices_sorted, made.unique_indices = info.indices_sorted, info.unique_indices
        made.shape = _shape_now(info.shape, made.data, made.indices)
        return made


def _shape_now(shape: tuple[int, ...], data: Any, indices: Any, rows: int = 0) -> tuple[int, ...]:
    """The shape of an array of buffers that had this one, before axes of a batch came or went.

    Args:
      shape: the shape then.
      data: the data.
      indices: the indices; their last axis counts sparse axes, unless ``rows`` says how many.
    """
    of_data, of_indices = (getattr(x, "shape", None) for x in (data, indices))
    own = 1 if rows else 2
    if not isinstance(of_data, tuple) or not isinstance(of_indices, tuple):
        return shape  # these are no arrays
    n_batch = len(of_indices) - own
    n_dense = len(of_data) - 1 - n_batch
    n_sparse = rows or of_indices[-1:][0] if of_indices else 0
    if n_batch < 0 or n_dense < 0 or n_batch + n_sparse + n_dense == len(shape):
        return shape
    try:
        first = jnp.broadcast_shapes(of_indices[:n_batch], of_data[:n_batch])
    except ValueError:  # the buffers do not go together, as those of a structure need not
        return shape
    return (*first, *shape[len(shape) - n_sparse - n_dense :])


def _no_other_axes(what: str, n_batch: int, n_dense: int) -> None:
    if n_batch or n_dense:
        from functrax.experimental.sparse.base import SparseLayoutError

        raise SparseLayoutError(
            f"{what}: the matrices of SciPy have sparse axes alone",
            got=f"n_batch={n_batch}, n_dense={n_dense}",
            fix="update_layout, afterwards",
        )


def check_axis(axis: int, ndim: int) -> int:
    """An axis counted from 0."""
    if not -ndim <= axis < ndim:
        raise ArgumentError("an axis is out of range", got=f"{axis} of {ndim}", fix="another axis")
    return axis % ndim
