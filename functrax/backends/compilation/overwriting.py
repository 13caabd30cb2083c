"""Which arrays a kernel may write over while it reads them.

A kernel and its tree enter; pairs of its arrays leave, by which results take the memory of operands
that are not needed any more (``backends/executables/in_place.py``).

Start at :func:`overwrites`.
"""

from __future__ import annotations

import math
from typing import Any

from functrax.backends.kernels.ir import Kernel, Store, ordered
from functrax.backends.loops.tree import Function
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.scalars.scalar import Scalar
from functrax.core.types.symbolic_sizes import gcd


def overwrites(kernel: Kernel, tree: Function) -> tuple[tuple[int, int], ...]:
    """Pairs (written, read) of arrays of which each element is read where it is written, before."""
    if kernel.inner or tree.tile is not None:
        return ()
    written = [s.buffer for s in kernel.rows]
    if len(set(written)) != len(written):
        return ()
    one_point = len(written) == 1 and math.prod(kernel.extents[d] for d in kernel.outer) == 1
    places: dict[int, set[Any]] = {}
    loads: dict[int, set[Scalar]] = {}
    for node in kernel.nodes():
        if node.op == "load":
            buffer, address, has_offset, _ = node.attr
            offset = node.args[0] if has_offset else None
            places.setdefault(buffer, set()).add((address, offset))
            loads.setdefault(buffer, set()).add(node)
    pairs = []
    loaded: dict[int, set[Scalar]] = {}  # by the stores so far
    for store in kernel.rows:
        for node in ordered(store.values):
            if node.op == "load":
                loaded.setdefault(node.attr[0], set()).add(node)
        for i, done in loaded.items():
            if len(done) != len(loads[i]):
                continue  # a later store reads the same element once more, under a condition say
            x, y = kernel.operands[i], kernel.operands[store.buffer]
            alike = x.size == y.size and x.dtype.itemsize == y.dtype.itemsize
            if (one_point or all(_own_element(kernel, store, *p) for p in places[i])) and alike:
                pairs.append((store.buffer, i))
    return tuple(pairs)


def _own_element(kernel: Kernel, store: Store, address: IndexExpr, offset: Scalar | None) -> bool:
    """Whether no point reads here what another point stores."""
    if address != store.address:
        return False  # by the same loops, so that equal places are of one point
    if offset is None or store.offset is None:
        return offset is store.offset
    if _same_value(offset, store.offset, {}):
        return True
    # Rows of any number: points differ in their places inside a row.
    steps = {a.number: c for a, c in address.terms if isinstance(a, Dim)}
    inside = sum(abs(c) * (kernel.extents[d] - 1) for d, c in steps.items())
    return inside < gcd(_multiple(offset), _multiple(store.offset))


def _same_value(x: Scalar, y: Scalar, known: dict[tuple[int, int], bool]) -> bool:
    """Whether two values are one wherever both are wanted: loads differ in their guards alone."""
    if x is y:
        return True
    if x.op != y.op or x.dtype != y.dtype:
        return False
    key = (id(x), id(y))
    if key not in known:
        operands = list(zip(x.args, y.args))
        same = x.attr == y.attr and len(x.args) == len(y.args)
        if x.op == "load":  # the place, an offset if there is one, and perhaps a guard
            operands = operands[: x.attr[2]]
            same = x.attr[:3] == y.attr[:3]
        known[key] = same and all(_same_value(a, b, known) for a, b in operands)
    return known[key]


def _multiple(x: Scalar) -> int:
    """A number that an integer is a multiple of."""
    if x.op == "mul" and x.args[1].op in ("int", "const"):
        value: int = x.args[1].attr
        return abs(value)
    return 1
