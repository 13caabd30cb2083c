"""Batching: :class:`BatchTrace` carries arrays with one more axis, which is always axis 0.

``vmap`` moves the axes that the user names to the front on entry and back on exit; a transpose is
a reindex, so it fuses with what comes next.  The rules are the primitives' own.  A primitive that
communicates over a named axis (``is_collective``) is given the trace whose axis it names.

Start at :func:`batch_flat`; the user's ``vmap`` is in ``transforms/mapping/vmap.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from functrax.core.errors.source import user_line
from functrax.core.errors.typed import VmapMethodError
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import state as options
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Primitive, Value, like
from functrax.core.tracing.stage import Derived, check_leaks, derive, eval_jaxpr
from functrax.core.tracing.trace import CustomCall, Trace, Tracer, current, named_axis, state
from functrax.core.types.aval import ShapedArray


def element_type(aval: ShapedArray) -> ShapedArray:
    """The type of one element of a batch."""
    return ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type)


class BatchTracer(Tracer):
    """A value with a hidden leading axis."""

    __slots__ = ("value",)
    _trace: BatchTrace

    def __init__(self, trace: BatchTrace, value: Value) -> None:
        self._trace = trace
        self.aval = element_type(value.aval)
        self.value = value

    def origin(self) -> str:
        return self.value.origin() if isinstance(self.value, Tracer) else ""


class BatchTrace(Trace):
    """Applies each primitive's batching rule, under the parent.

    Traces with one ``tag`` are of one batch: the rules of a custom derivative run under a trace of
    their own, and may close over values of the trace that the function was called under.
    """

    __slots__ = ("axis_name", "size", "tag")
    parent: Trace

    def __init__(
        self, parent: Trace, size: int, axis_name: Hashable, name: str = "", tag: Any = None
    ) -> None:
        super().__init__(parent, name)
        self.size = size
        self.axis_name = axis_name
        self.tag = object() if tag is None else tag

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, batched = self.split(args)
        line = state.source
        state.trace = self.parent
        try:
            if not any(batched) and not self._concerns(primitive, params):
                return self.parent.process(primitive, values, params)
            if line is None:
                state.source = user_line()
            out, out_batched = self._batch(primitive, values, batched, params)
        finally:
            state.trace = self
            state.source = line
        if not primitive.multiple_results:
            return BatchTracer(self, out) if out_batched else out
        return self.join(out, out_batched)

    def process_custom(self, call: CustomCall, args: Sequence[Any]) -> Sequence[Any]:
        values, batched = self.split(args)
        with current(self.parent):
            if not any(batched) and not getattr(call, "may_close_over", False):
                return self.parent.process_custom(call, values)
            outs, out_batched = call.batch(self, values, batched)
        return self.join(outs, out_batched)

    def _concerns(self, primitive: Primitive, params: dict[str, Any]) -> bool:
        """Whether a primitive without batched operands still uses this trace's named axis."""
        if self.axis_name is None:
            return False
        return ("axis", self.axis_name) in primitive.effects(params)

    def _batch(
        self,
        primitive: Primitive,
        values: Sequence[Value],
        batched: Sequence[bool],
        params: dict[str, Any],
    ) -> tuple[Any, Any]:
        over_axis = getattr(primitive, "batch_over_axis", None)
        if over_axis is not None:
            return over_axis(self.axis_name, self.size, values, batched, **params)  # type: ignore[no-any-return]
        return primitive.batch(self.size, values, batched, **params)

    def split(self, args: Sequence[Value]) -> tuple[list[Value], list[bool]]:
        """The values of arguments, and which of them have the batch axis."""
        values, batched = [], []
        for x in args:
            own = type(x) is BatchTracer and x._trace.tag is self.tag
            values.append(x.value if own else x)
            batched.append(own)
        return values, batched

    def join(self, values: Sequence[Value], batched: Sequence[bool]) -> list[Value]:
        """Tracers for values with the batch axis; the others stay as they are."""
        return [BatchTracer(self, x) if b else x for x, b in zip(values, batched, strict=True)]


def batch_flat(
    function: Callable[..., Sequence[Value]],
    size: int,
    args: Sequence[Value],
    batched: Sequence[bool],
    axis_name: Hashable = None,
    tag: Any = None,
) -> tuple[list[Value], list[bool]]:
    """Apply a function of flat values to every element along axis 0 of the batched arguments."""
    trace = BatchTrace(state.trace, size, axis_name, getattr(function, "__name__", ""), tag)
    try:
        with current(trace), named_axis(axis_name, size):
            outs = function(*trace.join(args, batched))
        results = trace.split(outs)
    finally:
        trace.end()
    if options.check_tracer_leaks:
        del outs
        check_leaks(trace)
    return results


def add_batch_axis(x: Value, size: int) -> Value:
    """The same value for each element of the batch."""
    aval = x.aval
    dims = tuple(range(1, aval.ndim + 1))
    return broadcast_in_dim.bind(x, shape=(size, *aval.shape), dims=dims)


def row_of(x: Value, number: Value) -> Value:
    """The entry along axis 0 that has a traced number; the number is within the axis."""
    shape = x.aval.shape
    rest = tuple(Dim(i) for i in range(len(shape) - 1))
    pick = IndexMap(shape[1:], shape, (Load(0, []), *rest))
    return reindex.bind(x, number, map=pick, fill=like(x, 0))


def check_effects_of_choice(what: str, programs: Sequence[Jaxpr]) -> None:
    """Refuse calls of Python that would happen where an element did not choose them.

    Args:
      what: what would choose by element, as ``"in vmap-of-cond"``.
      programs: what would run for all elements.
    """
    if any("io" in program.effects for program in programs):
        raise VmapMethodError(
            f"IO effect not supported {what}. Elements choose differently, and all would be done "
            "for each",
            got="io_callback, which is called once for each time that it is come to",
            fix="take the callback out of it, or lax.map instead of vmap",
        )


def batch_jaxpr(
    jaxpr: Jaxpr,
    size: int,
    batched: tuple[bool, ...],
    axis_name: Hashable = None,
    filled: tuple[bool, ...] | None = None,
) -> Derived:
    """A program without constants, batched; the flags say which of its results are batched.

    The results in ``filled`` are batched in any case, repeated if need be.
    """

    def function(*args: Value) -> tuple[list[Value], tuple[bool, ...]]:
        outs, flags = batch_flat(
            lambda *xs: eval_jaxpr(jaxpr, (), *xs), size, args, batched, axis_name
        )
        if filled is None:
            return outs, tuple(flags)
        repeat = [fill and not b for b, fill in zip(flags, filled, strict=True)]
        outs = [add_batch_axis(x, size) if r else x for x, r in zip(outs, repeat, strict=True)]
        return outs, tuple(b or r for b, r in zip(flags, repeat, strict=True))

    avals = [
        ShapedArray((size, *a.shape), a.dtype, a.weak_type) if b else a
        for a, b in zip(jaxpr.in_avals, batched, strict=True)
    ]
    key = ("batch", size, batched, axis_name, filled, state.axis_env if jaxpr.effects else ())
    return derive(jaxpr, key, function, avals, "vmap")
