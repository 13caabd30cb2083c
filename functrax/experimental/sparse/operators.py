"""Python's operators on sparse arrays, and the methods that arrays have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import functrax.numpy as jnp
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.experimental.sparse.base import SparseLayoutError

if TYPE_CHECKING:
    from functrax.experimental.sparse.bcoo import BCOO


class SparseOperators:
    """What BCOO and BCSR share; the work is done by BCOO."""

    if TYPE_CHECKING:
        data: Any
        shape: tuple[int, ...]
        ndim: int
        dtype: Any

    def _coordinates(self) -> BCOO:
        """The same array as a BCOO."""
        return self  # type: ignore[return-value]

    def _again(self, made: BCOO) -> Any:
        """A BCOO in the form of this array."""
        return made

    def _with_data(self, data: Any) -> Any:
        """The same places with other data."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), data=data)
        return made

    def astype(self, dtype: Any) -> Any:
        """The same array with another dtype."""
        return self._with_data(self.data.astype(dtype))

    def reshape(self, *args: Any) -> Any:
        """The same elements in another shape, of which one size may be -1."""
        from functrax.experimental.sparse.shapes import bcoo_reshape

        sizes = list(args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
        if sizes.count(-1) == 1:
            known = math.prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = math.prod(self.shape) // max(known, 1)
        return self._again(bcoo_reshape(self._coordinates(), new_sizes=sizes))

    def sum(self, axis: int | Sequence[int] | None = None) -> Any:
        """The sums along axes, as a sparse array; of everything as an array if None."""
        from functrax.experimental.sparse.shapes import bcoo_reduce_sum

        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        made = bcoo_reduce_sum(self._coordinates(), axes=list(axes))
        return made if made.ndim else made.todense()

    def __neg__(self) -> Any:
        return self._with_data(-self.data)

    def __pos__(self) -> Any:
        return self._with_data(+self.data)

    def __abs__(self) -> Any:
        from functrax.experimental.sparse.convert import unique

        return self._again(unique(self._coordinates())._map(abs))

    def _map(self, function: Any) -> Any:
        """A function of the data, which takes 0 to 0 and is linear or of unique entries."""
        return self._with_data(function(self.data))

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)

    def __mul__(self, other: Any) -> Any:
        return multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return multiply(self, other)

    def __truediv__(self, other: Any) -> Any:
        from functrax.experimental.sparse.products import bcoo_divide_dense

        if is_sparse(other):
            raise not_sparse("division by a sparse array", other)
        if not jnp.ndim(other):
            return self._map(lambda data: data / other)
        return self._again(bcoo_divide_dense(self._coordinates(), other))

    def __add__(self, other: Any) -> Any:
        return add(self, other)

    def __radd__(self, other: Any) -> Any:
        return add(self, other)

    def __sub__(self, other: Any) -> Any:
        return add(self, -other)

    def __rsub__(self, other: Any) -> Any:
        return add(-self, other)

    def __getitem__(self, item: Any) -> Any:
        from functrax.experimental.sparse.indexing import index

        made = index(self._coordinates(), item)
        return self._again(made) if made.ndim else made

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.shape[0]))


def is_sparse(x: Any) -> bool:
    """Whether it is a BCOO or a BCSR."""
    return isinstance(x, SparseOperators)


def _as_operand(x: Any) -> Any:
    return x._coordinates() if is_sparse(x) else jnp.asarray(x)


def not_sparse(what: str, x: Any) -> SparseLayoutError:
    """The error for an operation whose result is not sparse."""
    return SparseLayoutError(
        f"{what} gives what is not zero where the sparse array is",
        got=repr(x),
        fix=".todense(), for a dense result",
    )


def matmul(a: Any, b: Any) -> Any:
    """The product of matrices, as ``@`` has it; sparse if both are."""
    from functrax.experimental.sparse.products import bcoo_dot_general

    lhs, rhs = _as_operand(a), _as_operand(b)
    if not lhs.ndim or not rhs.ndim:
        raise ShapeError("matmul: an operand is a scalar", got=f"{a!r}, {b!r}", fix="a * b")
    batch: tuple[int, ...] = ()
    if lhs.ndim > 2 and rhs.ndim > 2:
        batch = tuple(range(lhs.ndim - 2))
        if lhs.shape[:-2] != rhs.shape[:-2]:
            raise ShapeError(
                "matmul: the leading axes differ",
                got=f"{lhs.shape} and {rhs.shape}",
                fix="sparse.bcoo_broadcast_in_dim",
            )
    numbers = (((lhs.ndim - 1,), (max(rhs.ndim - 2, 0),)), (batch, batch))
    made = bcoo_dot_general(lhs, rhs, dimension_numbers=numbers)
    if lhs.ndim == 2 and rhs.ndim > 2:  # its rows come after the leading axes of the other
        order = (*range(1, made.ndim - 1), 0, made.ndim - 1)
        made = made.transpose(order)
    same = is_sparse(a) and is_sparse(b) and made.ndim
    return a._again(made) if same else made


def multiply(a: Any, other: Any) -> Any:
    """A sparse array times a sparse or a dense one, element by element."""
    from functrax.experimental.sparse.products import bcoo_multiply_dense, bcoo_multiply_sparse

    if is_sparse(other):
        return a._again(bcoo_multiply_sparse(a._coordinates(), other._coordinates()))
    if not jnp.ndim(other):
        return a._map(lambda data: data * other)
    return a._again(bcoo_multiply_dense(a._coordinates(), other))


def add(a: Any, other: Any) -> Any:
    """The sum of two sparse arrays of one shape and layout."""
    from functrax.experimental.sparse.convert import bcoo_add

    if not is_sparse(other):
        raise not_sparse("addition of a dense array", other)
    if a.shape != other.shape:
        raise ArgumentError(
            "addition of sparse arrays: the shapes differ",
            got=f"{a.shape} and {other.shape}",
            fix="sparse.bcoo_broadcast_in_dim",
        )
    return a._again(bcoo_add(a._coordinates(), other._coordinates()))
