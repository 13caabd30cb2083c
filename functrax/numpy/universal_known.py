"""What the known universal functions have of their own: ``add.reduce`` is ``sum``, and the like.

Start at :data:`KNOWN`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from functrax.core.errors.typed import ArgumentError
from functrax.core.prims import cumulative as running, reduce as prims
from functrax.core.prims.arithmetic import stop_gradient
from functrax.core.tracing.primitive import Primitive, Value, literal
from functrax.core.types import dtypes
from functrax.numpy import analytic, bits, complex_parts, logic, powers, reductions, ufuncs
from functrax.numpy.at import At
from functrax.numpy.axes import many_axes
from functrax.numpy.creation import checked_dtype
from functrax.numpy.cumulative import cumprod, cumsum
from functrax.numpy.promote import convert, inexact, promote_dtypes, promoting, result
from functrax.numpy.shaping import squeeze

Function = Callable[..., Any]


class Ways(NamedTuple):
    """How a function is called and does what its methods do, where not by the general means."""

    call: Function | None = None
    reduce: Function | None = None
    accumulate: Function | None = None
    at: Function | None = None
    reduceat: Function | None = None
    running: Primitive | None = None  # accumulates the dtypes that it takes


def _extremum(reduction: Function) -> Function:
    def reduces(x: Value, axis: Any, dtype: Any, **options: Any) -> Value:
        return _converted(reduction(x, axis, **options), dtype)

    return reduces


def _converted(x: Value, dtype: Any) -> Value:
    return x if dtype is None else result(convert(x, checked_dtype(dtype)))


def _of_bits(function: Function, primitive: Primitive, identity: int) -> Function:
    """The reduction of integers by a bitwise function."""

    def reduces(x: Value, axis: Any, dtype: Any, **options: Any) -> Value:
        if x.aval.dtype not in dtypes.BOOL | dtypes.INTEGER:
            raise ArgumentError(
                f"{function.__name__}.reduce: takes integers and booleans",
                got=x.aval.str_short(),
                fix="x.astype(int)",
            )
        x = _converted(x, dtype)
        none = convert(identity, x.aval.dtype)
        return _by_primitive(function, primitive, x, none, axis, **options)

    return reduces


def _of_truths(function: Function, primitive: Primitive, identity: bool) -> Function:
    """The reduction of truth values by a logical function."""

    def reduces(x: Value, axis: Any, dtype: Any, **options: Any) -> Value:
        none = literal(identity, dtypes.bool_)
        found = _by_primitive(function, primitive, logic.truth(x), none, axis, **options)
        return _converted(found, dtype)

    return reduces


def _by_primitive(
    function: Function,
    primitive: Primitive,
    x: Value,
    none: Value,
    axis: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Value:
    name = f"{function.__name__}.reduce"
    axes = many_axes(name, axis, x.aval.ndim)
    if where is not None:
        x = logic.choose(reductions.mask_of(name, where, x.aval.ndim), x, none)
    found = reductions.keep(primitive.bind(x, axes=axes), x.aval.shape, axes, keepdims)
    return result(reductions.with_initial(name, function, found, initial))


def _of_powers(function: Function, exp: Function, log: Function) -> Function:
    """The logarithm of the sum of powers, relative to the largest one."""

    @promoting
    def reduces(x: Value, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Value:
        name = f"{function.__name__}.reduce"
        (x,) = promote_dtypes(name, _converted(x, dtype), kind=inexact)
        axes = many_axes(name, axis, x.aval.ndim)
        options = {"keepdims": True, "where": where}
        largest = reductions.max(complex_parts.real(x), axes, initial=-math.inf, **options)
        shift = stop_gradient.bind(logic.where(logic.isfinite(largest), largest, 0))
        total = reductions.sum(exp(ufuncs.subtract(x, shift)), axes, **options)
        found = ufuncs.add(log(total), shift)
        found = found if keepdims else squeeze(found, axes)
        return result(reductions.with_initial(name, function, found, initial))

    return reduces


def _added(x: Value, indices: Any, y: Value) -> Value:
    return _in_integers(x, y, lambda a, b: At(a)[indices].add(b))


def _multiplied(x: Value, indices: Any, y: Value) -> Value:
    return _in_integers(x, y, lambda a, b: At(a)[indices].multiply(b))


def _in_integers(x: Value, y: Value, update: Function) -> Value:
    """An update of booleans as one of integers, of which those that are not 0 are true."""
    if x.aval.dtype is not dtypes.bool_:
        return update(x, y)
    return logic.truth(update(convert(x, dtypes.int32), convert(logic.truth(y), dtypes.int32)))


def _subtracted(x: Value, indices: Any, y: Value) -> Value:
    return At(x)[indices].subtract(y)


KNOWN: Final[dict[str, Ways]] = {
    "add": Ways(reduce=reductions.sum, accumulate=cumsum, at=_added),
    "subtract": Ways(at=_subtracted),
    "multiply": Ways(reduce=reductions.prod, accumulate=cumprod, at=_multiplied),
    "negative": Ways(),
    "maximum": Ways(reduce=_extremum(reductions.max), running=running.cummax),
    "minimum": Ways(reduce=_extremum(reductions.min), running=running.cummin),
    "bitwise_and": Ways(reduce=_of_bits(bits.bitwise_and, prims.reduce_and, -1)),
    "bitwise_or": Ways(reduce=_of_bits(bits.bitwise_or, prims.reduce_or, 0)),
    "bitwise_xor": Ways(reduce=_of_bits(bits.bitwise_xor, prims.reduce_xor, 0)),
    "logical_and": Ways(reduce=_of_truths(logic.logical_and, prims.reduce_and, True)),
    "logical_or": Ways(reduce=_of_truths(logic.logical_or, prims.reduce_or, False)),
    "logical_xor": Ways(reduce=_of_truths(logic.logical_xor, prims.reduce_xor, False)),
    "logaddexp": Ways(
        reduce=_of_powers(analytic.logaddexp, analytic.exp, analytic.log),
        running=running.cumlogsumexp,
    ),
    "logaddexp2": Ways(reduce=_of_powers(analytic.logaddexp2, analytic.exp2, powers.log2)),
}
