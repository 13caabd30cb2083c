"""Forward mode: :class:`JVPTrace` carries a tangent beside each value.

A value with a tangent is a :class:`JVPTracer`; every other value has the tangent zero, written
``None``.  The rules are the primitives' own; this file knows no primitive by name.  Reverse mode
is the same interpreter over a parent that writes the tangents' operations down
(``transforms/interpreters/linearize.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import state as options
from functrax.core.prims.reindex import zeros
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Primitive, Value
from functrax.core.tracing.stage import Derived, check_leaks, derive, eval_jaxpr
from functrax.core.tracing.trace import CustomCall, Trace, Tracer, current, current_source, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray


def zero_tangent(aval: ShapedArray) -> Any:
    """A zero of the tangent type of ``aval`` as users see it: NumPy's array for float0."""
    if dtypes.is_inexact(aval.dtype):
        return concrete(zeros(aval))
    return np.zeros(aval.shape, dtypes.float0)


class JVPTracer(Tracer):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Value, tangent: Value) -> None:
        self._trace = trace
        self.aval = primal.aval
        self.primal = primal
        self.tangent = tangent

    def __repr__(self) -> str:
        return f"Traced<{self.aval.str_short()}>with<jvp> of {self.primal!r}"

    def origin(self) -> str:
        known = (x.origin() for x in (self.primal, self.tangent) if isinstance(x, Tracer))
        return next(filter(None, known), "")

    def __bool__(self) -> bool:
        return bool(self.primal)

    def __int__(self) -> int:
        return int(self.primal)

    def __index__(self) -> int:
        return self.primal.__index__()  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return float(self.primal)

    def __complex__(self) -> complex:
        return complex(self.primal)

    def item(self, *args: Any) -> Any:
        """The known value, as a Python scalar."""
        return concrete(self.primal).item(*args)


class JVPTrace(Trace):
    """Applies each primitive's derivative rule, under the parent."""

    __slots__ = ()
    parent: Trace

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals, tangents = self.split(args)
        line = state.source
        state.trace = self.parent
        try:
            if tangents is None:
                return self.parent.process_once(primitive, primals, params)
            if line is None:
                state.source = current_source()
            out, tangent = primitive.jvp(primals, tangents, **params)
        finally:
            state.trace = self
            state.source = line
        if not primitive.multiple_results:
            return out if tangent is None else JVPTracer(self, out, tangent)
        return self.join(out, tangent)

    def process_custom(self, call: CustomCall, args: Sequence[Any]) -> Sequence[Any]:
        primals, tangents = self.split(args)
        with current(self.parent):
            if tangents is None:
                return self.parent.process_custom(call, primals)
            return self.join(*call.jvp(primals, tangents))

    def split(self, args: Sequence[Value]) -> tuple[list[Value], list[Value | None] | None]:
        """The primals and the tangents of values; no tangents at all when all are zero."""
        primals, tangents, found = [], [], False
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                found = True
            else:
                primals.append(x)
                tangents.append(None)
        return primals, tangents if found else None

    def join(self, primals: Sequence[Value], tangents: Sequence[Value | None]) -> list[Value]:
        """Values with their tangents; those whose tangent is zero stay as they are."""
        return [
            p if t is None else JVPTracer(self, p, t)
            for p, t in zip(primals, tangents, strict=True)
        ]


def jvp_flat(
    function: Callable[..., Sequence[Value]],
    primals: Sequence[Value],
    tangents: Sequence[Value | None],
    parent: Trace | None = None,
) -> tuple[list[Value], list[Value | None]]:
    """Results and tangents of a function of flat values."""
    trace = JVPTrace(parent or state.trace, getattr(function, "__name__", ""))
    trace.share_below()
    try:
        with current(trace):
            outs = function(*trace.join(primals, tangents))
        out_primals, out_tangents = trace.split(outs)
    finally:
        trace.end()
    if options.check_tracer_leaks:
        del outs
        check_leaks(trace)
    return out_primals, out_tangents or [None] * len(out_primals)


def jvp_jaxpr(
    jaxpr: Jaxpr, nonzero: tuple[bool, ...], filled: tuple[bool, ...] | None = None
) -> Derived:
    """The program of a program's derivative.

    Args:
      jaxpr: without constants.
      nonzero: which inputs have tangents.
      filled: which results get a tangent in any case, made of zeros if need be; none if None.

    Returns:
      A program from all primals and the nonzero tangents to all results and their nonzero
      tangents; its flags say which results have tangents.
    """
    avals = jaxpr.in_avals
    tangent_avals = [a for a, nz in zip(avals, nonzero, strict=True) if nz]

    def derivative(*args: Value) -> tuple[list[Value], tuple[bool, ...]]:
        given = iter(args[len(avals) :])
        tangents = [next(given) if nz else None for nz in nonzero]
        outs, out_tangents = jvp_flat(
            lambda *xs: eval_jaxpr(jaxpr, (), *xs), args[: len(avals)], tangents
        )
        if filled is not None:
            out_tangents = [
                zeros(x.aval) if t is None and fill else t
                for x, t, fill in zip(outs, out_tangents, filled, strict=True)
            ]
        found = [t for t in out_tangents if t is not None]
        return [*outs, *found], tuple(t is not None for t in out_tangents)

    return derive(jaxpr, ("jvp", nonzero, filled), derivative, avals + tangent_avals, "jvp")
