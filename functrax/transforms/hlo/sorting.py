"""Rules of sorts: a ``sort`` with the order of ``lax.sort`` as its comparison.

NaN comes after all numbers, the two zeros are equal, complex numbers go by real part first.
``top_k`` has the total order of floats, in which they are as their bits are.

Start at :func:`sort`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import ordering
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.elementwise import real_pair
from functrax.transforms.hlo.rules import rule


@rule(ordering.Sort)
def sort(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """Arrays sorted together, by the first ones."""
    return _sorted(w, operands, eqn.params["dimension"], eqn.params["num_keys"], "LT")


@rule(ordering.TopK)
def top_k(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """The first ones of the array and its positions, sorted with the largest in front."""
    (x,), axis = operands, eqn.params["axis"]
    both = _sorted(w, [x, w.iota(x.shape, axis, dtypes.int32)], axis, 1, "GT")
    shape = eqn.outvars[0].aval.shape
    parts = ", ".join(f"[0:{n}]" for n in shape)
    return [w.op("slice", ShapedArray(shape, v.dtype), v, slice=f"{{{parts}}}") for v in both]


def _sorted(
    w: Computation, operands: Sequence[Node], axis: int, num_keys: int, direction: str
) -> list[Node]:
    types = tuple(x.aval for x in operands)
    key = ("sort", direction, num_keys, *(x.dtype for x in operands))
    out = w.op(
        "sort",
        types if len(types) > 1 else types[0],
        *operands,
        dimensions=(axis,),
        is_stable=True,
        to_apply=w.shared(key, "before", lambda inner: _order(inner, types, num_keys, direction)),
    )
    return w.members(out) if len(types) > 1 else [out]


def _order(w: Computation, types: Sequence[ShapedArray], num_keys: int, direction: str) -> Node:
    """Whether the first of two rows comes before the second; downwards in total order."""
    pairs = [(w.parameter(t), w.parameter(t)) for t in (ShapedArray((), a.dtype) for a in types)]
    keys = [
        parts
        for x, y in pairs[:num_keys]
        for parts in zip(real_pair(w, x), real_pair(w, y), strict=True)
    ]
    before: Node | None = None
    for x, y in reversed(keys):
        how = {"type": "TOTALORDER"} if dtypes.is_float(x.dtype) else {}
        a, b = (x, y) if direction == "GT" else (_comparable(w, x), _comparable(w, y))
        first = w.compare(direction, a, b, **how)
        if before is not None:
            later = w.elementwise("and", w.compare("EQ", a, b, **how), before)
            first = w.elementwise("or", first, later)
        before = first
    assert before is not None
    return before


def _comparable(w: Computation, x: Node) -> Node:
    """A float for which the order of all bit patterns is that of numbers."""
    if not dtypes.is_float(x.dtype):
        return x
    zero, nan = w.constant(0, x.dtype), w.constant(math.nan, x.dtype)
    one_zero = w.select(w.compare("EQ", x, zero), zero, x)
    return w.select(w.compare("NE", x, x), nan, one_zero)
