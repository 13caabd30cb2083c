"""Products: of sparse arrays with dense ones, with each other, and element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.typed import ShapeError
from functrax.experimental.sparse.base import (
    SparseLayoutError,
    batched,
    columns,
    inside,
    nowhere,
    spread,
)
from functrax.experimental.sparse.bcoo import BCOO
from functrax.experimental.sparse.convert import (
    bcoo_sum_duplicates,
    bcoo_update_layout,
    extract,
    only_sparse,
)
from functrax.experimental.sparse.shapes import bcoo_broadcast_in_dim
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct, eval_shape
from functrax.transforms.mapping.vmap import vmap

Dims: TypeAlias = tuple[int, ...]
#: ((contracted axes of the first, of the second), (axes of the batch of the first, of the second))
Numbers: TypeAlias = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]


def numbers_of(given: Any) -> Numbers:
    """Dimension numbers as tuples."""
    (a, b), (c, d) = given
    return (_dims(a), _dims(b)), (_dims(c), _dims(d))


def _dims(given: Any) -> Dims:
    return (given,) if isinstance(given, int) else tuple(given)


def _left(n: int, *taken: Sequence[int]) -> list[int]:
    """The axes that are not taken."""
    gone = {axis for axes in taken for axis in axes}
    return [i for i in range(n) if i not in gone]


def result_of(lhs: Any, rhs: Any, numbers: Numbers, preferred: Any = None) -> Any:
    """The type that the product has, also where both are dense.

    Raises:
      ShapeError, ArgumentError: as ``lax.dot_general`` does.
    """
    dtype = jnp.promote_types(lhs.dtype, rhs.dtype)
    types = [ShapeDtypeStruct(x.shape, dtype) for x in (lhs, rhs)]
    return eval_shape(lambda a, b: lax.dot_general(a, b, numbers, None, preferred), *types)


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """A general product, as ``lax.dot_general``, of which one or both operands are sparse.

    Args:
      lhs, rhs: arrays, or sparse ones.
      dimension_numbers: ``((lhs contracted, rhs contracted), (lhs batch, rhs batch))``.  Axes of
        the batch have to be such of a sparse operand, too; dense ones are not contracted.
      precision, out_sharding: taken where both are dense.
      preferred_element_type: the dtype of the result.

    Returns:
      A sparse array if both are sparse, else an array.

    Raises:
      SparseLayoutError: for other axes.
    """
    numbers = numbers_of(dimension_numbers)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_sparse(lhs, rhs, numbers, preferred_element_type)
    if isinstance(lhs, BCOO):
        return _sparse_dense(lhs, jnp.asarray(rhs), numbers, preferred_element_type)
    if isinstance(rhs, BCOO):
        (a, b), (c, d) = numbers
        swapped = _sparse_dense(rhs, jnp.asarray(lhs), ((b, a), (d, c)), preferred_element_type)
        n_batch, n_swap = len(c), rhs.ndim - len(a)
        order = (*range(n_batch), *range(n_swap, swapped.ndim), *range(n_batch, n_swap))
        return jnp.transpose(swapped, order)
    return lax.dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def _sparse_dense(lhs: BCOO, rhs: Any, numbers: Numbers, preferred: Any) -> Any:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    out = result_of(lhs, rhs, numbers, preferred)
    n_batch, n_sparse = lhs.n_batch, lhs.n_sparse
    _check_axes("bcoo_dot_general", lhs, lhs_contract, lhs_batch)
    pairs = list(zip(lhs_contract, rhs_contract, strict=True))
    of_batch = [(a, b) for a, b in pairs if a < n_batch]
    of_sparse = [(a, b) for a, b in pairs if a >= n_batch]
    free = _left(n_batch, lhs_batch, [a for a, _ in of_batch])
    order = [*lhs_batch, *free, *(a for a, _ in of_batch)]
    sizes = lhs.shape[:n_batch]

    def ordered(buffer: Any) -> Any:
        full = jnp.broadcast_to(buffer, (*sizes, *buffer.shape[n_batch:]))
        return jnp.transpose(full, (*order, *range(n_batch, full.ndim)))

    contracted = [a - n_batch for a, _ in of_sparse]
    kept = _left(n_sparse, contracted)
    other = _left(rhs.ndim, rhs_batch, rhs_contract)
    right = jnp.transpose(
        rhs, (*rhs_batch, *(b for _, b in of_batch), *(b for _, b in of_sparse), *other)
    )
    out_shape = out.shape[len(lhs_batch) + len(free) :]

    def of_one(data: Any, indices: Any, right: Any) -> Any:
        index = columns(indices)
        found = (
            right.at[tuple(index[i] for i in contracted)].get(mode="fill", fill_value=0)
            if contracted
            else right[None]
        )
        wide = data.reshape(*data.shape, *(1 for _ in other))
        found = found.reshape(found.shape[0], *(1 for _ in data.shape[1:]), *found.shape[1:])
        product = wide.astype(out.dtype) * found.astype(out.dtype)
        if not kept:
            # An entry that is out of bounds has no factor, so it adds zeros; without any
            # contracted axis all entries count.
            return product.sum(0, dtype=out.dtype)
        places = tuple(index[i] for i in kept)
        return jnp.zeros(out_shape, out.dtype).at[places].add(product, mode="drop")

    function = _mapped(of_one, len(lhs_batch), len(free), len(of_batch))
    return function(ordered(lhs.data), ordered(lhs.indices), right)


def _mapped(function: Any, n_batch: int, n_free: int, n_contract: int) -> Any:
    """A function of one element of a batch, of all: in both, in the sparse one, and summed."""
    for _ in range(n_contract):
        function = _summed_over(function)
    for _ in range(n_free):
        function = vmap(function, in_axes=(0, 0, None))
    for _ in range(n_batch):
        function = vmap(function)
    return function


def _summed_over(function: Any) -> Any:
    return lambda *args: vmap(function)(*args).sum(0)


def _check_axes(what: str, mat: BCOO, contracted: Dims, batch: Dims) -> None:
    if any(axis >= mat.n_batch for axis in batch):
        raise SparseLayoutError(
            f"{what}: an axis of the batch is not one of the sparse array's batch",
            got=f"axes {batch} of {mat!r}",
            fix=".update_layout(n_batch=n)",
        )
    if any(axis >= mat.n_batch + mat.n_sparse for axis in contracted):
        raise SparseLayoutError(
            f"{what}: a dense axis is contracted",
            got=f"axes {contracted} of {mat!r}",
            fix=".update_layout(n_dense=0)",
        )


def _sparse_sparse(lhs: BCOO, rhs: BCOO, numbers: Numbers, preferred: Any) -> BCOO:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    out = result_of(lhs, rhs, numbers, preferred)
    only_sparse("bcoo_dot_general", [lhs, rhs])
    for mat, contracted, batch in ((lhs, lhs_contract, lhs_batch), (rhs, rhs_contract, rhs_batch)):
        _check_axes("bcoo_dot_general", mat, contracted, batch)
        if any(axis < mat.n_batch for axis in contracted):
            raise SparseLayoutError(
                "bcoo_dot_general: an axis of the batch is contracted",
                got=f"axes {contracted} of {mat!r}",
                fix=".update_layout(n_batch=0)",
            )
    left = [a - lhs.n_batch for a in lhs_contract]
    right = [b - rhs.n_batch for b in rhs_contract]
    left_kept, right_kept = _left(lhs.n_sparse, left), _left(rhs.n_sparse, right)
    left_free, right_free = _left(lhs.n_batch, lhs_batch), _left(rhs.n_batch, rhs_batch)
    if left_free and right_free and left_kept:
        raise SparseLayoutError(
            "bcoo_dot_general: both operands have axes of the batch that the other has not",
            got=f"{lhs!r} and {rhs!r}",
            fix=".update_layout(n_batch=n) for one of them",
        )
    if right_free and left_kept:
        raise SparseLayoutError(
            "bcoo_dot_general: axes of the second batch come after sparse ones of the first",
            got=f"{lhs!r} and {rhs!r}",
            fix=".update_layout(n_batch=n) for the second",
        )
    sparse = tuple(out.shape[len(lhs_batch) + len(left_free) + len(right_free) :])

    def of_one(da: Any, ia: Any, db: Any, ib: Any) -> tuple[Any, Any]:
        agree = inside(ia, lhs.shape[lhs.n_batch :])[:, None]
        agree &= inside(ib, rhs.shape[rhs.n_batch :])[None]
        for a, b in zip(left, right, strict=True):
            agree &= ia[:, None, a] == ib[None, :, b]
        product = da.astype(out.dtype)[:, None] * db.astype(out.dtype)[None]
        data = jnp.where(agree, product, jnp.zeros((), out.dtype))
        pairs = (da.shape[0], db.shape[0])
        parts = [jnp.broadcast_to(ia[:, None, i], pairs) for i in left_kept]
        parts += [jnp.broadcast_to(ib[None, :, i], pairs) for i in right_kept]
        places = jnp.stack(parts, -1) if parts else jnp.zeros((*pairs, 0), ia.dtype)
        places = jnp.where(agree[..., None], places, nowhere(sparse, places))
        count = pairs[0] * pairs[1]
        return data.reshape(count), places.reshape(count, len(sparse))

    def ordered(buffer: Any, mat: BCOO, axes: Sequence[int]) -> Any:
        full = jnp.broadcast_to(buffer, (*mat.shape[: mat.n_batch], *buffer.shape[mat.n_batch :]))
        return jnp.transpose(full, (*axes, *range(mat.n_batch, full.ndim)))

    function = of_one
    for _ in right_free:
        function = vmap(function, in_axes=(None, None, 0, 0))
    for _ in left_free:
        function = vmap(function, in_axes=(0, 0, None, None))
    for _ in lhs_batch:
        function = vmap(function)
    buffers = function(
        *(ordered(x, lhs, [*lhs_batch, *left_free]) for x in (lhs.data, lhs.indices)),
        *(ordered(x, rhs, [*rhs_batch, *right_free]) for x in (rhs.data, rhs.indices)),
    )
    made = BCOO(buffers, shape=tuple(out.shape))
    size = 1
    for n in sparse:
        size *= n
    return bcoo_sum_duplicates(made, nse=size) if size < made.nse else made


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """The elements of a product of dense arrays at the indices of a sparse one.

    Args:
      A, B: the arrays.
      indices: integers ``[*batch, nse, n_sparse]``.
      dimension_numbers: as for ``lax.dot_general``.

    Returns:
      Data ``[*batch, nse, *dense]``.
    """
    a, b = jnp.asarray(A), jnp.asarray(B)
    numbers = numbers_of(dimension_numbers)
    (lhs, rhs), batch = numbers
    if indices.ndim == 2 == indices.shape[1] and batch == ((), ()) and a.ndim == b.ndim == 2:
        if len(lhs) == 1:  # only the rows and columns that are asked for
            result_of(a, b, numbers)
            rows = jnp.moveaxis(a, lhs[0], 1).at[indices[:, 0]].get(mode="fill", fill_value=0)
            cols = jnp.moveaxis(b, rhs[0], 1).at[indices[:, 1]].get(mode="fill", fill_value=0)
            return (rows * cols).sum(1)
    return extract(jnp.asarray(indices), lax.dot_general(a, b, numbers))


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> BCOO:
    """A sparse array times an array that broadcasts to its shape, element by element."""
    return _with_dense("bcoo_multiply_dense", sp_mat, v, 0, lambda x, y: x * y)


def bcoo_divide_dense(sp_mat: BCOO, v: Any) -> BCOO:
    """A sparse array divided by an array that broadcasts to its shape, where it has elements."""
    return _with_dense("bcoo_divide_dense", sp_mat, v, 1, lambda x, y: x / y)


def _with_dense(
    what: str, sp_mat: BCOO, v: Any, nothing: int, function: Callable[[Any, Any], Any]
) -> BCOO:
    """A function of the elements of both; ``nothing`` is what there is out of bounds."""
    array = jnp.asarray(v)
    if array.ndim > sp_mat.ndim or jnp.broadcast_shapes(array.shape, sp_mat.shape) != sp_mat.shape:
        raise ShapeError(
            f"{what}: the array does not broadcast to the sparse one",
            got=f"{array.shape} and {sp_mat.shape}",
            fix="sparse.bcoo_broadcast_in_dim for the sparse one",
        )
    array = array.reshape((1,) * (sp_mat.ndim - array.ndim) + array.shape)

    def of_one(data: Any, indices: Any, array: Any) -> Any:
        places = zip(columns(indices), array.shape, strict=False)
        at = tuple(i if n > 1 else jnp.zeros_like(i) for i, n in places)
        found = array.at[at].get(mode="fill", fill_value=nothing) if at else array
        return function(data, found)

    data = batched(of_one, sp_mat.n_batch, sp_mat.data, sp_mat.indices, array)
    return BCOO((data, sp_mat.indices), **sp_mat._info._asdict())


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product of two sparse arrays, element by element; shapes broadcast.

    The result has room for as many entries as the first.
    """
    shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    lhs, rhs = (
        m
        if m.shape == shape
        else bcoo_broadcast_in_dim(
            m, shape=shape, broadcast_dimensions=range(len(shape) - m.ndim, len(shape))
        )
        for m in (lhs, rhs)
    )
    n_batch, n_dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    lhs, rhs = (bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in (lhs, rhs))
    sparse = shape[lhs.n_batch : lhs.n_batch + lhs.n_sparse]
    dtype = jnp.promote_types(lhs.dtype, rhs.dtype)

    def of_one(da: Any, ia: Any, db: Any, ib: Any) -> Any:
        same = (ia[:, None] == ib[None]).all(-1) & inside(ia, sparse)[:, None]
        wide = db.astype(dtype)[None]
        factor = jnp.where(spread(same, wide), wide, jnp.zeros((), dtype)).sum(1, dtype=dtype)
        return da.astype(dtype) * factor

    data = batched(
        of_one,
        lhs.n_batch,
        lhs.data,
        lhs.indices,
        rhs.data,
        rhs.indices,
        shape=shape[: lhs.n_batch],
    )
    return BCOO((data, lhs.indices), **lhs._info._asdict())
