"""What a kernel reads and writes: addresses, strides, and which results go past the caches.

Start at :func:`accesses`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import eq

from functrax.backends.kernels.ir import Kernel, Store, ordered
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.scalars.scalar import Scalar
from functrax.core.types.size_bounds import roughly, surely


def accesses(kernel: Kernel) -> Iterator[tuple[IndexExpr, int, bool]]:
    """The address, the operand's number, and whether it is a store, of each access."""
    for node in kernel.nodes():
        if node.op == "load":
            yield node.attr[1], node.attr[0], False
    for store in kernel.stores():
        yield store.address, store.buffer, True


def coefficients(address: IndexExpr, rank: int) -> list[int]:
    """How far apart in memory neighbours along each dim are."""
    row = [0] * rank
    for atom, step in address.terms:
        if type(atom) is Dim and atom.number < rank:
            row[atom.number] = step
    return row


def coefficient(address: IndexExpr, d: int | None) -> int:
    """How far apart in memory neighbours along a dim are."""
    for atom, step in address.terms:
        if type(atom) is Dim and atom.number == d:
            return step
    return 0


def dims_of(value: Scalar) -> frozenset[int]:
    """The dims that a value depends on."""
    dims: set[int] = set()
    for node in ordered((value,)):
        if node.op == "load":
            dims |= node.attr[1].used_dims()
        elif node.op == "dim":
            dims.add(node.attr)
    return frozenset(dims)


def rows_read(values: Iterable[Scalar], d: int | None) -> list[tuple[int, IndexExpr]]:
    """The arrays and addresses of which values read neighbours along a dim, whatever holds."""
    found: dict[tuple[int, IndexExpr], None] = {}
    for node in ordered(values):
        if node.op == "load" and node.attr[2:] == (False, False):
            buffer, address = node.attr[:2]
            if coefficient(address, d) == 1:
                found[buffer, address] = None
    return list(found)


def address_along(kernel: Kernel, dims: Iterable[int]) -> tuple[IndexExpr, int]:
    """The number of a point of some dims, and how many there are."""
    place: IndexExpr = add_terms(0, ())
    points = 1
    for d in dims:
        place = place * kernel.extents[d] + Dim(d)
        points *= kernel.extents[d]
    return place, points


def is_streamed(kernel: Kernel, store: Store, aligned: bool = False) -> bool:
    """Whether a store of whole vectors goes past the caches: to a large array, in lines.

    That the array begins at a line is for the kernel to see when it runs.

    Args:
      kernel: with its vector dim and lanes.
      store: one of its stores.
      aligned: whether its rows begin with a short vector, up to a line.
    """
    if not is_large(kernel, store):
        return False
    size = kernel.operands[store.buffer].dtype.itemsize
    vector = size * kernel.lanes
    steps = [c for a, c in store.address.terms if a.dims_mask != 1 << (kernel.vector or 0)]
    whole = all(surely(eq, step * size % vector, 0) for step in (*steps, store.address.const))
    return vector % target().cache_line == 0 and (whole or aligned)


def is_large(kernel: Kernel, store: Store) -> bool:
    """Whether a store sets elements of an array too large to be of use in the caches."""
    operand = kernel.operands[store.buffer]
    if operand.scratch or store.offset or store.combine or store.guard:
        return False
    return roughly(operand.dtype.itemsize * operand.size) >= target().streamed_bytes
