"""What all sparse arrays share, their errors, and how batches of them are worked on.

A sparse array is a few dense ones: the *data*, and the indices of where they are.  Everything here
is made of gathers and scatters, so ``jit``, ``vmap`` and derivatives follow.  An index that is out
of bounds stands for nothing: gathers fill with zeros there, scatters drop it.  So arrays may have
more room than they need, which they must where the number of entries depends on values.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import functrax.numpy as jnp
from functrax.core.errors.typed import ArgumentError, ConcretizationError, ShapeError
from functrax.core.tracing.trace import Tracer
from functrax.transforms.mapping.vmap import vmap


class SparseEfficiencyError(ArgumentError):
    """A layout that would store many more numbers than the array has."""


class SparseEfficiencyWarning(UserWarning):
    """A layout that stores many more numbers than the array has."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """JAX warns so of slow calls of a library for GPUs; there are none here."""


class SparseLayoutError(ArgumentError, NotImplementedError):
    """An operation that is not there for such a layout of a sparse array."""


class SparseInfo(NamedTuple):
    """What is known of a sparse array besides its buffers.

    Args:
      shape: its shape.
      indices_sorted: whether the indices are in lexicographic order.
      unique_indices: whether no index is there twice.
    """

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class JAXSparse(ABC):
    """An array that stores some of its elements; the others are zero."""

    data: Any
    shape: tuple[int, ...]
    __hash__ = None  # type: ignore[assignment]

    @property
    @abstractmethod
    def nse(self) -> int:
        """The number of elements that are stored (for each element of a batch)."""

    @abstractmethod
    def todense(self) -> Any:
        """The same as an array."""

    @abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The axes in another order."""

    @abstractmethod
    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The buffers, and what else there is to know."""

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def size(self) -> int:
        """The number of elements, zeros among them."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def T(self) -> Any:
        """The axes in reverse order."""
        return self.transpose()

    def block_until_ready(self) -> Any:
        """Wait until the buffers are computed."""
        for x in self.tree_flatten()[0]:
            x.block_until_ready()
        return self

    def _layout(self) -> str:
        return ""

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            shown = f"{name}({self.dtype}{list(self.shape)}, nse={self.nse}{self._layout()})"
        except (AttributeError, IndexError, TypeError):  # holds no arrays
            return f"{name}(<invalid>)"
        return f"{type(self.data).__name__}[{shown}]" if isinstance(self.data, Tracer) else shown

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise ArgumentError(
            "numpy: a sparse array does not become a dense one by itself",
            got=repr(self),
            fix="numpy.asarray(x.todense())",
        )

    # As long as Python finds these, NumPy and arrays leave products with us.
    __array_ufunc__ = None
    __array_priority__ = 200


def shape_of(shape: Sequence[Any]) -> tuple[int, ...]:
    """A shape as a tuple of integers."""
    return tuple(operator.index(n) for n in shape)


def known_number(what: str, x: Any) -> int:
    """A number of entries, which must be known where a program is traced."""
    if isinstance(x, Tracer):
        raise ConcretizationError(
            f"{what}: the number of stored elements depends on traced values",
            got=repr(x),
            fix="nse=n, with room for as many as there can be",
        )
    return operator.index(x)


def mismatch(what: str, got: str, fix: str) -> ShapeError:
    """The error for buffers that do not go together."""
    return ShapeError(f"{what}: the buffers do not go together", got=got, fix=fix)


def batched(
    function: Callable[..., Any], n_batch: int, *arrays: Any, shape: Sequence[int] | None = None
) -> Any:
    """Apply a function of single arrays to batches of them.

    Args:
      function: of as many arrays.
      n_batch: how many leading axes of each count elements; those of size 1 are repeated.
      shape: the sizes of these axes, where all arrays may have 1.
    """
    if not n_batch:
        return function(*arrays)
    sizes = jnp.broadcast_shapes(*(x.shape[:n_batch] for x in arrays), tuple(shape or ()))
    full = [jnp.broadcast_to(x, (*sizes, *x.shape[n_batch:])) for x in arrays]
    for _ in range(n_batch):
        function = vmap(function)
    return function(*full)


def columns(indices: Any) -> tuple[Any, ...]:
    """The indices of each axis."""
    return tuple(indices[..., i] for i in range(indices.shape[-1]))


def inside(indices: Any, shape: Sequence[int]) -> Any:
    """Which of the indices are in bounds."""
    limits = nowhere(shape, indices)
    return ((indices >= 0) & (indices < limits)).all(-1)


def nowhere(shape: Sequence[int], indices: Any) -> Any:
    """The index that stands for nothing, out of bounds along every axis, to broadcast to others."""
    return jnp.asarray(shape, indices.dtype).reshape(*_ones(indices.ndim - 1), len(shape))


def numbered(n: int, like: Any, axis: int) -> Any:
    """The integers below ``n`` along an axis, to broadcast to others."""
    axis %= like.ndim
    sizes = [*_ones(axis), n, *_ones(like.ndim - axis - 1)]
    return jnp.arange(n, dtype=like.dtype).reshape(sizes)


def _ones(n: int) -> list[int]:
    return [1] * n


def spread(mask: Any, like: Any) -> Any:
    """A mask of entries as one of their data."""
    return mask.reshape(*mask.shape, *(1 for _ in like.shape[mask.ndim :]))
