"""Reductions along axes in which all elements are copies of one.

Start at :func:`reduced_copies`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.backends.passes.algebra.rule import Made, New
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.options.config import state as options
from functrax.core.prims.arithmetic import add, mul
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, reshape
from functrax.core.types import dtypes

#: Dtypes whose sums are added up in a wider type, and rounded once; and up to how many equal
#: numbers such a sum is exact, and their number a number of the dtype.
_EXACT_COPIES = {dtypes.bfloat16: 2**8, dtypes.float16: 2**11, dtypes.float32: 2**24}


def reduced_copies(eqn: Eqn, made: Made) -> Any:
    """A reduction along axes that only repeat the operand, or have one element.

    The largest of equal numbers is that number; their sum, rounded once, is the product with how
    many they are; plus 0, for a sum begins with 0, and -0 + 0 is 0.
    """
    x = eqn.invars[0]
    aval, axes = x.aval, eqn.params["axes"]
    count = math.prod(aval.shape[k] for k in axes)
    if not count or not aval.size:
        return None
    source, dims = x, tuple(range(aval.ndim))
    if any(aval.shape[k] != 1 for k in axes):
        spread = made.by(broadcast_in_dim, x)
        if spread is None:
            return None
        source, dims = spread.invars[0], spread.params["dims"]
    sizes = dict(zip(dims, source.aval.shape))
    if type(source) is Literal or any(sizes.get(k, 1) != 1 for k in axes):
        return None
    value = _without_axes(source, dims, eqn)
    return value if eqn.primitive is not reduce_sum else _times(value, count, eqn)


def _without_axes(source: Atom, dims: tuple[int, ...], eqn: Eqn) -> Any:
    """``source`` as the result of the reduction of its broadcast."""
    axes, shape = eqn.params["axes"], eqn.outvars[0].aval.shape
    kept = [d for d in range(eqn.invars[0].aval.ndim) if d not in axes]
    left = tuple([n for n, d in zip(source.aval.shape, dims) if d not in axes])
    moved = tuple([kept.index(d) for d in dims if d not in axes])
    smaller = source if left == source.aval.shape else New(reshape, (source,), {"shape": left})
    if left == shape and moved == tuple(range(len(shape))):
        return smaller
    return New(broadcast_in_dim, (smaller,), {"shape": shape, "dims": moved})


def _times(value: Any, count: int, eqn: Eqn) -> Any:
    """The sum of ``count`` copies of a value, if it is exact."""
    aval = eqn.outvars[0].aval
    number = aval.update(shape=())
    if aval.dtype.kind in "iu":
        wrapped = np.asarray(count).astype(aval.dtype)
        return value if count == 1 else New(mul, (value, Literal(wrapped, number)))
    if count == 1:
        return New(add, (value, Literal(0, number)))
    if count > _EXACT_COPIES.get(aval.dtype, 0) or options.strict:
        return None  # where every sum is rounded as often as it adds
    return New(add, (New(mul, (value, Literal(count, number))), Literal(0, number)))
