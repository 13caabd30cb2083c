"""Sparse arrays from nothing: empty ones, identities, random ones; and any one made dense."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import functrax.numpy as jnp
from functrax import random
from functrax.core.errors.typed import ArgumentError
from functrax.experimental.sparse.base import JAXSparse, shape_of
from functrax.experimental.sparse.bcoo import BCOO
from functrax.experimental.sparse.bcsr import BCSR
from functrax.experimental.sparse.matrices import COO, CSC, CSR

_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        raise ArgumentError(
            "sparse: unknown format", got=repr(name), fix=f"one of {', '.join(_FORMATS)}"
        )
    return _FORMATS[name]


def _parts(shape: Sequence[int], n_batch: int, n_dense: int) -> list[tuple[int, ...]]:
    """The sizes of the axes of the batch, of the sparse ones, and of the dense ones."""
    sizes = shape_of(shape)
    last = len(sizes) - n_dense
    if n_batch < 0 or n_dense < 0 or n_batch > last:
        raise ArgumentError(
            "sparse: the axes do not suffice",
            got=f"shape {sizes}, n_batch={n_batch}, n_dense={n_dense}",
            fix="n_batch + n_dense at most the number of axes",
        )
    return [sizes[:n_batch], sizes[n_batch:last], sizes[last:]]


def empty_bcoo(
    shape: Sequence[int], dtype: Any, index_dtype: Any, n_batch: int, n_dense: int, nse: int
) -> BCOO:
    """A BCOO of zeros, with room for ``nse`` entries."""
    batch, sparse, dense = _parts(shape, n_batch, n_dense)
    data = jnp.zeros((*batch, nse, *dense), dtype)
    away = jnp.asarray(sparse, index_dtype).reshape(*(1 for _ in batch), 1, len(sparse))
    indices = jnp.broadcast_to(away, (*batch, nse, len(sparse)))
    return BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)


def eye_bcoo(
    n: int, m: int, k: int, dtype: Any, index_dtype: Any, n_batch: int, n_dense: int
) -> BCOO:
    """A BCOO with ones along a diagonal."""
    if n_batch or n_dense:
        _parts((n, m), n_batch, n_dense)
        return BCOO.fromdense(
            jnp.eye(n, m, k, dtype=dtype), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
        )
    size = max(min(n, m - k) if k > 0 else min(n + k, m), 0)
    along = jnp.arange(size, dtype=index_dtype)
    indices = jnp.stack([along - min(k, 0), along + max(k, 0)], axis=1)
    data = jnp.ones(size, dtype)
    return BCOO((data, indices), shape=(n, m), indices_sorted=True, unique_indices=True)


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse array of zeros.

    Args:
      shape: its shape.
      dtype: its dtype; float32 if None.
      index_dtype: the dtype of the indices.
      sparse_format: ``"bcoo"``, ``"bcsr"``, ``"coo"``, ``"csr"`` or ``"csc"``.
      kwds: of ``"bcoo"`` and ``"bcsr"``: ``n_batch``, ``n_dense``, ``nse``.
    """
    return _format(sparse_format)._empty(
        shape_of(shape), dtype=dtype, index_dtype=index_dtype, **kwds
    )


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse matrix with ones along a diagonal.

    Args:
      N: the number of rows.
      M: the number of columns; ``N`` if None.
      k: which diagonal: above the main one if positive.
      dtype: the dtype; float32 if None.
      index_dtype: the dtype of the indices.
      sparse_format: as for :func:`empty`.
      kwds: of ``"bcoo"`` and ``"bcsr"``: ``n_batch``, ``n_dense``.

    >>> from functrax.experimental import sparse
    >>> sparse.eye(3).todense()[1]
    Array([0., 1., 0.], dtype=float32)
    """
    rows = operator.index(N)
    cols = rows if M is None else operator.index(M)
    made = _format(sparse_format)
    return made._eye(rows, cols, operator.index(k), dtype=dtype, index_dtype=index_dtype, **kwds)


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = float,
    indices_dtype: Any = None,
    nse: float | int = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A random sparse array, with JAX's numbers.

    Args:
      key: a random key.
      shape: the shape.
      dtype: the dtype of the elements.
      indices_dtype: the dtype of the indices; int32 if None (int64 with ``enable_x64``).
      nse: the number of entries, or below 1 the part of the sparse elements that has one.
      n_batch, n_dense: how many axes are of the batch, and dense.
      unique_indices: whether no index is there twice.
      sorted_indices: whether the indices are in order.
      generator: makes the data of a key, a shape and a dtype.
      kwds: further arguments of ``generator``.

    Raises:
      ArgumentError: if there are not so many elements.
    """
    batch, sparse, dense = _parts(shape, n_batch, n_dense)
    size = math.prod(sparse)
    if not 0 <= nse < size:
        raise ArgumentError("random_bcoo: no such nse", got=f"nse={nse}", fix=f"below {size}")
    room = math.ceil(nse * size) if 0 < nse < 1 else int(nse)
    index_type = jnp.asarray(0).dtype if indices_dtype is None else jnp.dtype(indices_dtype)
    if size > jnp.iinfo(index_type).max:
        raise ArgumentError(
            "random_bcoo: the dtype of the indices is too small",
            got=f"{index_type} for {size} elements",
            fix="indices_dtype='int32'",
        )
    keys = random.split(key, math.prod(batch) + 1)

    def places(key: Any) -> Any:
        if not sparse:
            return jnp.zeros((room, 0), index_type)
        flat = random.choice(key, size, shape=(room,), replace=not unique_indices)
        return jnp.stack(jnp.unravel_index(flat.astype(index_type), sparse), axis=1)

    from functrax.transforms.mapping.vmap import vmap

    data = generator(keys[0], shape=(*batch, room, *dense), dtype=dtype, **kwds)
    indices = vmap(places)(keys[1:]).reshape(*batch, room, len(sparse))
    made = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return made.sort_indices() if sorted_indices else made


def todense(arr: Any) -> Any:
    """A sparse array as an array; arrays stay as they are."""
    return arr.todense() if isinstance(arr, JAXSparse) else jnp.asarray(arr)
