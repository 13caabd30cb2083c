"""Which indices of a program may be out of bounds, and which was: for ``checkify.index_checks``.

An index is read by a ``reindex`` or a ``scatter`` through its map.  Where it is clamped before, it
is looked at as it was, which is why the program is looked at and not only the operation.

Start at :func:`indices_read`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from functrax import numpy as jnp
from functrax.core.index.expr import Dim, IndexExpr, Load, Sum
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims.reindex import Reindexing


class ReadIndex(NamedTuple):
    """An index of an array: the value that holds it, its axis, and between what it has to be."""

    atom: Any
    axis: int
    size: int
    least: int
    most: int


def indices_read(eqn: Eqn, definitions: Mapping[Any, Eqn]) -> list[ReadIndex]:
    """The indices that an operation reads through its map, in the order of the axes.

    Args:
      eqn: a ``reindex`` or a ``scatter``.
      definitions: the equations of its program, by the values that they make.
    """
    index_map = eqn.params["map"]
    # The loads of a map are operands that come after the array and the updates, in their order.
    first = 2 if eqn.primitive.name == "scatter" else 1
    found = []
    for axis, (expr, size) in enumerate(zip(index_map.exprs, index_map.codomain, strict=True)):
        parts = _load_and_rest(expr, index_map.domain)
        if parts is None:
            continue
        load, least, most = parts
        atom = _before_clamp(eqn.invars[first + load.operand], definitions)
        found.append(ReadIndex(atom, axis, size, -least, size - 1 - most))
    return found


def _load_and_rest(expr: IndexExpr, domain: Sequence[int]) -> tuple[Load, int, int] | None:
    """The index in an expression, and the least and the largest of what is added to it."""
    if isinstance(expr, Load):
        return expr, 0, 0
    if not isinstance(expr, Sum):
        return None
    loads = [atom for atom, factor in expr.terms if isinstance(atom, Load) and factor == 1]
    rest = [(atom, factor) for atom, factor in expr.terms if not isinstance(atom, Load)]
    if len(loads) != 1 or len(rest) + 1 != len(expr.terms):
        return None
    least = most = expr.const
    for atom, factor in rest:
        if not isinstance(atom, Dim):
            return None
        reach = factor * (domain[atom.number] - 1)
        least, most = least + min(reach, 0), most + max(reach, 0)
    return loads[0], least, most


def _before_clamp(atom: Any, definitions: Mapping[Any, Eqn]) -> Any:
    """The value of which an operand is the clamped, converted or repeated form; or the operand."""
    now = atom
    while (eqn := definitions.get(now)) is not None:
        primitive = eqn.primitive
        if primitive.name == "clamp":
            return eqn.invars[1]
        if primitive.name != "convert_element_type" and (
            not isinstance(primitive, Reindexing) or len(eqn.invars) != 1
        ):
            break
        now = eqn.invars[0]
    return atom


def first_out_of_bounds(read: Sequence[tuple[ReadIndex, Any]]) -> tuple[Any, list[Any]]:
    """Whether indices are in bounds, and of the first that is not itself, its axis and its size."""
    shape = jnp.broadcast_shapes(*[jnp.shape(x) for _, x in read]) if _broadcast(read) else None
    columns = [
        jnp.ravel(x) if shape is None else jnp.ravel(jnp.broadcast_to(x, shape)) for _, x in read
    ]
    joined = jnp.concatenate if shape is None else _interleaved
    pairs = [
        (index, x.astype(jnp.promote_types(x.dtype, jnp.int32)))  # sizes are to be compared with
        for (index, _), x in zip(read, columns, strict=True)
    ]
    bad = joined([(x < index.least) | (x > index.most) for index, x in pairs])
    at = jnp.argmax(bad)
    shown = (
        joined([x.astype(jnp.int32) for _, x in pairs]),
        joined([jnp.full(x.shape, index.axis, jnp.int32) for index, x in pairs]),
        joined([jnp.full(x.shape, index.size, jnp.int32) for index, x in pairs]),
    )
    return ~bad.any(), [x[at] for x in shown]


def _broadcast(read: Sequence[tuple[ReadIndex, Any]]) -> bool:
    """Whether the indices are of one shape, or numbers, and so go together."""
    return len({jnp.shape(x) for _, x in read} - {()}) <= 1


def _interleaved(columns: Sequence[Any]) -> Any:
    return jnp.ravel(jnp.stack(columns, axis=-1))
