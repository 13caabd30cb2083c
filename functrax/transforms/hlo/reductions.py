"""Rules of reductions, scatters and running reductions, and the computations that they apply.

Sums of products are written as contractions (``transforms/hlo/products/contractions.py``).

Start at :func:`reduce_axes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import cumulative, mapped, reduce
from functrax.core.prims.analytic import exp, log1p
from functrax.core.prims.arithmetic import abs_, add, max_, neg, select_n, sub
from functrax.core.prims.comparisons import eq
from functrax.core.prims.reduce import op_identity
from functrax.core.prims.reindex import rev
from functrax.core.scalars.scalar import Builder
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.computations.views import product_of, view_of
from functrax.transforms.hlo.equations import write_function
from functrax.transforms.hlo.indexing import scatter as write_scatter
from functrax.transforms.hlo.products.contractions import contraction, scattered_contraction
from functrax.transforms.hlo.products.conv_windows import window_reduction
from functrax.transforms.hlo.rules import rule
from functrax.transforms.hlo.scalars import load, write_scalars

_OPCODES: Final = {
    "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum",
    "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_OF_BOOLS: Final = {"add": "or", "mul": "and", "max": "or", "min": "and"}


def combiner(w: Computation, op: str, dtype: np.dtype[Any]) -> Computation:
    """The module's computation of an operation of two scalars; ``set`` is the second."""
    name = _OF_BOOLS.get(op, op) if dtype == dtypes.bool_ else op

    def write(inner: Computation) -> Node:
        scalar = ShapedArray((), dtype)
        x, y = inner.parameter(scalar, "x"), inner.parameter(scalar, "y")
        return y if op == "set" else inner.elementwise(_OPCODES[name], x, y)

    return w.shared((name, dtype), f"{name}_{dtype}", write)


def carried(op: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to compute in: sums and products of narrow floats are rounded once."""
    return dtypes.float32 if dtype in dtypes.HALF and op in ("add", "mul") else dtype


def _identity(w: Computation, op: str, dtype: np.dtype[Any]) -> Node:
    return w.constant(np.asarray(op_identity(op, dtype)).astype(dtype))


@rule(reduce.AxisReduce)
def reduce_axes(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A reduction of whole axes."""
    (x,), primitive, axes = operands, eqn.primitive, eqn.params["axes"]
    assert isinstance(primitive, reduce.AxisReduce)
    op, dtype = primitive.op, carried(primitive.op, x.dtype)
    if op == "add":
        product = product_of(w, x)
        found = None if product is None else contraction(w, product, axes)
        if found is not None:
            return found
    view = view_of(w, x)
    if view.fill is None or view.fill == np.asarray(op_identity(op, x.dtype)).astype(x.dtype):
        view = replace(view, base=w.convert(view.base, dtype))
        start, apply = _identity(w, op, dtype), combiner(w, op, dtype)
        found = window_reduction(w, view, axes, start, apply)
        if found is not None:
            return w.convert(found, x.dtype)
    return w.convert(_reduced(w, w.convert(x, dtype), op, axes), x.dtype)


def _reduced(w: Computation, x: Node, op: str, axes: Sequence[int]) -> Node:
    shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    return w.op(
        "reduce",
        ShapedArray(shape, x.dtype),
        x,
        _identity(w, op, x.dtype),
        dimensions=tuple(axes),
        to_apply=combiner(w, op, x.dtype),
    )


@rule(reduce.ArgReduce)
def arg_reduce(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A reduction of pairs of element and place."""
    (x,), axis, aval = operands, eqn.params["axis"], eqn.outvars[0].aval
    primitive = eqn.primitive
    assert isinstance(primitive, reduce.ArgReduce)
    reduction = primitive.reduction(x.aval, **eqn.params)
    kinds, place = reduction.carries, reduction.place
    assert reduction.identity is not None

    def write(inner: Computation) -> Node:
        parts = [inner.parameter(ShapedArray((), d)) for d in (*kinds, *kinds)]
        b = Builder()
        one, here, other, there = (load(b, k, part) for k, part in enumerate(parts))
        joined = reduction.combine(b, (one, here), (other, there))
        return inner.tuple(write_scalars(inner, joined, parts, ()))

    starts = [w.constant(np.asarray(v).astype(d)) for v, d in zip(reduction.identity, kinds)]
    pair = w.op(
        "reduce",
        tuple(ShapedArray(aval.shape, d) for d in kinds),
        w.convert(x, kinds[0]),
        w.iota(x.shape, axis, place),
        *starts,
        dimensions=(axis,),
        to_apply=w.shared((reduction.name, *kinds), f"{reduction.name}_{kinds[0]}", write),
    )
    return w.convert(w.members(pair)[1], aval.dtype)


@rule(mapped.ReindexReduceMap)
def reindex_reduce(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A scatter into an array full of the identity."""
    (x, *loads), index_map, op = operands, eqn.params["map"], eqn.params["op"]
    product = product_of(w, x)
    if op == "add" and product is not None and not loads:
        found = scattered_contraction(w, product, index_map)
        if found is not None:
            return found
    start = w.spread(_identity(w, op, x.dtype), index_map.codomain)
    return _scattered(w, eqn, start, x, loads)


@rule(mapped.Scatter)
def scatter(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A scatter; XLA on CPUs takes updates in row-major order, so the last one stays."""
    x, updates, *loads = operands
    return _scattered(w, eqn, x, updates, loads)


def _scattered(w: Computation, eqn: Eqn, x: Node, updates: Node, loads: list[Node]) -> Node:
    index_map, op = eqn.params["map"], eqn.params["op"]
    dtype = carried(op, x.dtype)
    wide, terms = w.convert(x, dtype), w.convert(updates, dtype)
    out = write_scatter(w, wide, terms, index_map, loads, combiner(w, op, dtype))
    return w.convert(out, x.dtype)


@rule(cumulative.Cumulative)
def running(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A window that ends, or starts, with each element."""
    (x,), primitive = operands, eqn.primitive
    axis, reverse = eqn.params["axis"], eqn.params["reverse"]
    assert isinstance(primitive, cumulative.Cumulative)
    op, size = primitive.op, x.shape[axis]
    if 0 in x.shape:
        return x
    wide = w.convert(x, carried(op, x.dtype))
    before, after = (0, size - 1) if reverse else (size - 1, 0)
    sizes = "x".join(str(size if k == axis else 1) for k in range(len(x.shape)))
    pads = "x".join(f"{before}_{after}" if k == axis else "0_0" for k in range(len(x.shape)))
    out = w.op(
        "reduce-window",
        wide.aval,
        wide,
        _identity(w, op, wide.dtype),
        window=f"{{size={sizes} pad={pads}}}",
        to_apply=combiner(w, op, wide.dtype),
    )
    return w.convert(out, x.dtype)


@rule(cumulative.Cumlogsumexp)
def cumlogsumexp(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """By doubling: each step joins stretches of twice as many elements."""
    axis, reverse = eqn.params["axis"], eqn.params["reverse"]

    def function(x: Value) -> list[Value]:
        turned = rev.bind(x, axes=(axis,)) if reverse else x
        (out,) = cumulative.by_doubling(_log_add_exp, (turned,), axis)
        return [rev.bind(out, axes=(axis,)) if reverse else out]

    return write_function(w, function, *operands)


def _log_add_exp(earlier: Sequence[Value], later: Sequence[Value]) -> Sequence[Value]:
    (x,), (y,) = earlier, later
    total = add(max_(x, y), log1p(exp(neg(abs_(sub(x, y))))))
    twice = add(x, like(x, math.log(2)))  # of infinities, whose difference is NaN, too
    return (select_n(eq(x, y), total, twice),)
