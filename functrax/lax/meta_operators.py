"""The meta-operators for index maps of the user's: ``reindex`` and ``reindex_reduce``.

Index maps are written as strings in Jittor's notation (``"i0"``, ``"i2 - i5"``, ``"@e0(i0)"``; the
grammar is in ``functrax.core.index.map_text``) or as a Python function of index expressions.
Division rounds down in both.

Start at :func:`reindex`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.index.expr import Condition, Dim, Index, IndexExpr, Load, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.index.map_text import negate, parse_conditions, parse_index_expr
from functrax.core.prims import mapped
from functrax.core.tracing.primitive import Value
from functrax.lax.operands import Shape, as_array, as_ints, static_scalar, value_of
from functrax.typing import ArrayLike

#: One string (or expression) for each axis, or a function of index expressions.
Indices: TypeAlias = "Sequence[str | Index] | Callable[..., Sequence[Index | Condition] | Index]"
Conditions: TypeAlias = "Sequence[str | Condition] | Callable[..., Sequence[Condition] | Condition]"

_OPS = {
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}


def reindex(
    x: ArrayLike,
    shape: Sequence[int],
    indices: Indices,
    *,
    conditions: Conditions = (),
    overflow_conditions: Conditions = (),
    fill_value: complex = 0,
    extras: Sequence[ArrayLike] = (),
) -> Array:
    """``out[i0, i1, ...] = x[indices(i0, i1, ...)]``, one element for each point of ``shape``.

    Where an index is out of bounds, or a condition does not hold, the element is ``fill_value``.

    Args:
      x: an array.
      shape: the shape of the result.
      indices: for each axis of ``x`` an expression of the result's indices: a list of strings, or
        a function that takes the indices (then a reader for each extra) and returns them.  They
        are made of indices, integers, ``+ - *``, and floor division ``/`` (``//`` in Python) and
        ``%`` by constants; ``xshape0``, ``yshape0`` are sizes of ``x`` and of the result.
      conditions: what must hold besides: strings, or a function as ``indices`` that returns
        comparisons.
      overflow_conditions: what must not hold, as in Jittor; each of them alone makes a point take
        the fill value.
      fill_value: a number.
      extras: integer arrays that the expressions read: ``"@e0(i1)"`` is element ``i1`` of the
        first one, as ``e0(i1)`` is in a function ``lambda i0, i1, e0: ...``.

    Returns:
      An array of shape ``shape``.  Its derivative by ``x`` is the :func:`reindex_reduce` by
      addition with the same map.

    Raises:
      ArgumentError: if an expression cannot be read, or there is not one for each axis.
      DTypeError: if an extra is not of an integer dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.reindex(np.arange(4), (3, 2), ("i0 + i1",))
    Array([[0, 1],
           [1, 2],
           [2, 3]], dtype=int32)
    >>> lax.reindex(np.arange(4), (3, 3), lambda i, j: (i - j,), fill_value=-1)
    Array([[ 0, -1, -1],
           [ 1,  0, -1],
           [ 2,  1,  0]], dtype=int32)
    >>> lax.reindex(np.arange(4), (2,), ("@e0(i0)",), extras=[np.array([3, 1])])
    Array([3, 1], dtype=int32)
    """
    value = value_of("reindex", x)
    given = _Notation("reindex", as_ints("reindex", shape), value.aval.shape, extras)
    given.xshape, given.yshape = value.aval.shape, given.domain
    index_map = given.index_map(value.aval.shape, indices, conditions, overflow_conditions)
    fill = static_scalar("reindex", fill_value, value.aval.dtype)
    return as_array(mapped.reindex.bind(value, *given.extras, map=index_map, fill=fill))


def reindex_reduce(
    x: ArrayLike,
    op: str,
    shape: Sequence[int],
    indices: Indices,
    *,
    conditions: Conditions = (),
    overflow_conditions: Conditions = (),
    extras: Sequence[ArrayLike] = (),
) -> Array:
    """``out[indices(i0, i1, ...)] op= x[i0, i1, ...]``, over all points of ``x``.

    Points with an index out of bounds, or a condition that does not hold, are left out.  An
    element that no point means is the identity of ``op``: 0 for "add", 1 for "mul", the lowest
    value for "max".

    Args:
      x: an array.
      op: "add", "mul", "max", "min", "and", "or", "xor"; NumPy's names and "sum" and "prod" work.
      shape: the shape of the result.
      indices: for each axis of the result an expression of the indices of ``x``; see
        :func:`reindex`.
      conditions: what must hold besides; see :func:`reindex`.
      overflow_conditions: what must not hold; see :func:`reindex`.
      extras: integer arrays that the expressions read; see :func:`reindex`.

    Returns:
      An array of shape ``shape``.  The derivative of "add" is :func:`reindex` with the same map;
      at ties of "max" and "min" the cotangent is shared evenly.

    Raises:
      ArgumentError: if the operation is unknown or an expression cannot be read.
      DTypeError: if the operation is not defined for the dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.reindex_reduce(np.array([3, 1, 4, 1, 5]), "max", (3,), ("i0/2",))
    Array([3, 4, 5], dtype=int32)
    """
    value = value_of("reindex_reduce", x)
    given = _Notation("reindex_reduce", value.aval.shape, as_ints("reindex_reduce", shape), extras)
    given.xshape, given.yshape = value.aval.shape, given.codomain
    index_map = given.index_map(given.codomain, indices, conditions, overflow_conditions)
    op = _OPS.get(op, op)
    return as_array(mapped.reindex_reduce.bind(value, *given.extras, map=index_map, op=op))


class _Notation:
    """Reads what users write as indices and conditions."""

    xshape: Shape
    yshape: Shape

    def __init__(
        self, name: str, domain: Shape, codomain: Shape, extras: Sequence[ArrayLike]
    ) -> None:
        self.name = name
        self.domain = domain
        self.codomain = codomain
        self.extras: list[Value] = [value_of(name, e) for e in extras]
        self.dims = [Dim(k) for k in range(len(domain))]

    def index_map(
        self, codomain: Shape, indices: Any, conditions: Any, overflow_conditions: Any
    ) -> IndexMap:
        """The map that is meant."""
        exprs, holding = self._indices(indices)
        if len(exprs) != len(codomain):
            raise ArgumentError(
                f"{self.name}: one index for each axis of the array is needed",
                got=f"{len(exprs)} indices for an array of shape {codomain}",
                fix=f"{len(codomain)} expressions",
            )
        holding += self._conditions(conditions)
        for overflow in self._each_condition(overflow_conditions):
            holding += negate(overflow)
        return IndexMap(self.domain, codomain, exprs, holding)

    def _indices(self, indices: Any) -> tuple[tuple[IndexExpr, ...], tuple[Condition, ...]]:
        if isinstance(indices, str):
            indices = (indices,)
        parts = self._call(indices) if callable(indices) else indices
        exprs: list[IndexExpr] = []
        holding: list[Condition] = []
        for part in parts:
            if isinstance(part, Condition):
                holding.append(part)
            elif isinstance(part, str):
                exprs.append(parse_index_expr(part, len(self.domain), **self._names()))
            else:
                exprs.append(as_expr(part))
        return tuple(exprs), tuple(holding)

    def _conditions(self, conditions: Any) -> tuple[Condition, ...]:
        return tuple(c for group in self._each_condition(conditions) for c in group)

    def _each_condition(self, conditions: Any) -> list[tuple[Condition, ...]]:
        """For each condition that the user wrote, those that together say the same."""
        if isinstance(conditions, (str, Condition)):
            conditions = (conditions,)
        parts = self._call(conditions) if callable(conditions) else conditions
        return [self._condition(part) for part in parts]

    def _condition(self, part: Any) -> tuple[Condition, ...]:
        if isinstance(part, Condition):
            return (part,)
        if isinstance(part, IndexExpr):
            return (part.ne(0),)
        if isinstance(part, str):
            return parse_conditions(part, len(self.domain), **self._names())
        raise ArgumentError(
            f"{self.name}: a condition is neither a string nor a comparison",
            got=repr(part),
            fix="'i0 % 2 == 0', or a function such as lambda i: ((i % 2).eq(0),)",
        )

    def _names(self) -> dict[str, Any]:
        ranks = [e.aval.ndim for e in self.extras]
        return {"xshape": self.xshape, "yshape": self.yshape, "load_ranks": ranks}

    def _call(self, function: Callable[..., Any]) -> Sequence[Any]:
        readers = [self._reader(k) for k in range(len(self.extras))]
        out = function(*self.dims, *readers)
        return out if isinstance(out, (tuple, list)) else (out,)

    def _reader(self, number: int) -> Callable[..., Load]:
        extra = self.extras[number].aval

        def read(*indices: Index) -> Load:
            if len(indices) != extra.ndim:
                raise ShapeError(
                    f"{self.name}: extra {number} is read with another number of indices",
                    got=f"{len(indices)} indices for {extra.str_short()}",
                    fix=f"{extra.ndim} indices",
                )
            return Load(number, indices)

        return read
