"""Running sums, products, extrema and log-sum-exps along an axis: opaque operations.

``cumsum`` is linear, and its transpose is ``cumsum`` from the other end.  The others compute
their tangents by doubling: after step ``k`` element ``i`` speaks for the ``2**k`` elements that
end with it, so ``log2(size)`` elementwise steps over slices do.  Being made of multiplications and
choices, these tangents can be differentiated again, to any order.

Start at :class:`Cumulative`; :func:`by_doubling` is the scheme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import AxisError, DTypeError
from functrax.core.prims.analytic import exp
from functrax.core.prims.arithmetic import add, div, max_, min_, mul, select_n, stop_gradient, sub
from functrax.core.prims.comparisons import ge, le
from functrax.core.prims.lowered_reductions import Fold
from functrax.core.prims.reduce import op_identity, wider
from functrax.core.prims.reindex import ones, rev
from functrax.core.prims.rounding import is_finite
from functrax.core.prims.shape_checks import check_axes
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Opaque,
    Ops,
    Sample,
    Tangents,
    Value,
    check_dtype,
    like,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: Joins what two neighbouring stretches say; the first comes earlier.
Join = Callable[[Ops, Ops], Sequence[Value]]


def _cut(x: Value, axis: int, start: int, limit: int) -> Value:
    ndim = x.aval.ndim
    low = tuple(start if i == axis else 0 for i in range(ndim))
    high = tuple(limit if i == axis else n for i, n in enumerate(x.aval.shape))
    return slice_.bind(x, start=low, limit=high, strides=(1,) * ndim)


def by_doubling(join: Join, values: Sequence[Value], axis: int) -> Sequence[Value]:
    """All prefixes along an axis of an associative operation on tuples of arrays.

    Args:
      join: takes two tuples of arrays, the earlier stretch first, and returns theirs together.
      values: arrays of one shape: what each element says by itself.
      axis: the axis.
    """
    size = values[0].aval.shape[axis]
    step = 1
    while step < size:
        earlier = [_cut(v, axis, 0, size - step) for v in values]
        later = [_cut(v, axis, step, size) for v in values]
        joined = join(earlier, later)
        values = [
            concatenate.bind(_cut(v, axis, 0, step), j, axis=axis)
            for v, j in zip(values, joined, strict=True)
        ]
        step *= 2
    return values


class Cumulative(Opaque):
    """Base: element ``i`` of the result is made of elements 0 to ``i``, or ``i`` to the last."""

    exact_on_integers = True
    #: The NumPy function of two arguments that accumulates.
    accumulator: np.ufunc
    #: The operation of scalars that does.
    op: str

    def reduction(self, x: ShapedArray) -> Fold:
        """How a kernel accumulates elements."""
        return Fold(self.op, x.dtype, wider(x.dtype), op_identity(self.op, x.dtype))

    def shape_rule(self, x: ShapedArray, *, axis: int, reverse: bool) -> Avals:
        check_dtype(self.name, x, self.accepts)
        check_axes(self.name, x, (axis,))
        return x

    def reference(self, x: Any, *, axis: int, reverse: bool) -> Any:
        wide = x.astype(wider(x.dtype))
        wide = np.flip(wide, axis) if reverse else wide
        out = self.accumulator.accumulate(wide, axis=axis, dtype=wide.dtype)
        return (np.flip(out, axis) if reverse else out).astype(x.dtype)

    def jvp(self, primals: Ops, tangents: Tangents, *, axis: int, reverse: bool) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x, axis=axis, reverse=reverse)
        if t is None or not dtypes.is_inexact(x.aval.dtype):
            return out, None
        if not reverse:
            return out, self.tangent(x, t, out, axis)
        x, t, last_first = (rev.bind(v, axes=(axis,)) for v in (x, t, out))
        return out, rev.bind(self.tangent(x, t, last_first, axis), axes=(axis,))

    def tangent(self, x: Value, t: Value, out: Value, axis: int) -> Value:
        """The tangent of the forward operation."""
        raise NotImplementedError

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, axis: int, reverse: bool
    ) -> tuple[Any, Any]:
        return self.bind(args[0], axis=axis + 1, reverse=reverse), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((2, 5),), {"axis": 1, "reverse": False}, distinct=True)
        yield Sample(((3, 2),), {"axis": 0, "reverse": True}, distinct=True)
        yield Sample(((0, 2),), {"axis": 0, "reverse": False})

    def bad_samples(self) -> Iterable[BadSample]:
        dtype = min(self.accepts, key=str)
        x = ShapedArray((3,), dtype)
        yield BadSample((x,), AxisError, self.name, {"axis": 1, "reverse": False})
        for refused in sorted(dtypes.ALL - self.accepts, key=str)[:1]:
            y = ShapedArray((3,), refused)
            yield BadSample((y,), DTypeError, self.name, {"axis": 0, "reverse": False})


class Cumsum(Cumulative):
    """Running sums; narrow floats are added up in a wider type."""

    name = "cumsum"
    op = "add"
    accepts = dtypes.NUMERIC
    accumulator = np.add

    def jvp(self, primals: Ops, tangents: Tangents, *, axis: int, reverse: bool) -> tuple[Any, Any]:
        t = tangents[0]
        out = self.bind(primals[0], axis=axis, reverse=reverse)
        return out, None if t is None else self.bind(t, axis=axis, reverse=reverse)

    def transpose(self, ct: Value, x: Any, *, axis: int, reverse: bool) -> list[Value | None]:
        return [self.bind(ct, axis=axis, reverse=not reverse)]


class Cumprod(Cumulative):
    """Running products."""

    name = "cumprod"
    op = "mul"
    accepts = dtypes.NUMERIC
    accumulator = np.multiply

    def tangent(self, x: Value, t: Value, out: Value, axis: int) -> Value:
        def join(earlier: Ops, later: Ops) -> Sequence[Value]:
            (x0, t0), (x1, t1) = earlier, later
            return mul(x0, x1), add(mul(t0, x1), mul(x0, t1))

        return by_doubling(join, (x, t), axis)[1]


class _CumulativeExtremum(Cumulative):
    """Running maxima or minima; NaN wins, and equal elements share the tangent evenly."""

    accepts = dtypes.BOOL | dtypes.INTEGER | dtypes.FLOATING
    larger: Callable[[Value, Value], Value]
    choose: Callable[[Value, Value], Value]

    def tangent(self, x: Value, t: Value, out: Value, axis: int) -> Value:
        zero, one = like(x, 0), like(x, 1)
        not_below = type(self).larger

        def join(earlier: Ops, later: Ops) -> Sequence[Value]:
            (x0, t0, n0), (x1, t1, n1) = earlier, later
            first = select_n(not_below(x0, x1), zero, one)
            second = select_n(not_below(x1, x0), zero, one)
            total = add(mul(t0, first), mul(t1, second))
            return type(self).choose(x0, x1), total, add(mul(n0, first), mul(n1, second))

        values = (stop_gradient(x), t, ones(x.aval))
        _, total, count = by_doubling(join, values, axis)
        return div(total, count)


class Cummax(_CumulativeExtremum):
    """Running maxima."""

    name = "cummax"
    op = "max"
    accumulator = np.maximum
    larger = staticmethod(ge)
    choose = staticmethod(max_)


class Cummin(_CumulativeExtremum):
    """Running minima."""

    name = "cummin"
    op = "min"
    accumulator = np.minimum
    larger = staticmethod(le)
    choose = staticmethod(min_)


class Cumlogsumexp(Cumulative):
    """Running ``log(sum(exp(x)))``, without overflow."""

    name = "cumlogsumexp"
    op = "logaddexp"
    accepts = dtypes.FLOATING
    accumulator = np.logaddexp

    def tangent(self, x: Value, t: Value, out: Value, axis: int) -> Value:
        """``sum of exp(x[j] - out[i]) t[j]`` over ``j <= i``, summed up relative to maxima.

        The maxima only set the scale, so they count as constants.
        """
        lowest = like(x, float(dtypes.finfo(x.aval.dtype).min))
        scale = max_(stop_gradient(x), lowest)

        def join(earlier: Ops, later: Ops) -> Sequence[Value]:
            (m0, t0), (m1, t1) = earlier, later
            m = max_(m0, m1)
            return m, add(mul(t0, exp(sub(m0, m))), mul(t1, exp(sub(m1, m))))

        scaled = mul(t, exp(sub(x, scale)))
        maximum, total = by_doubling(join, (scale, scaled), axis)
        finite = select_n(is_finite(out), maximum, out)
        return mul(total, exp(sub(maximum, finite)))


cumsum, cumprod = Cumsum(), Cumprod()
cummax, cummin, cumlogsumexp = Cummax(), Cummin(), Cumlogsumexp()
