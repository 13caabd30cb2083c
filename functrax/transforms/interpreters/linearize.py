"""Linearization: the partial evaluation of a forward derivative.

:class:`PartialTrace` computes what is known in its parent, and writes what depends on a tangent
down on a :class:`Tape`.  A :class:`~functrax.transforms.interpreters.forward.JVPTrace` over a
``PartialTrace`` is linearization: primals are computed, tangents' operations are recorded.  The
tape is a linear program; applied forwards it is the derivative, read backwards
(``transforms/interpreters/transpose.py``) it is reverse mode.

Start at :func:`linearize_flat`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from functrax.core.errors.source import SourceLine
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import state as options
from functrax.core.prims.reindex import Reindexing, zeros
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive, Value
from functrax.core.tracing.stage import (
    Derived,
    StagedTracer,
    StagingTrace,
    check_leaks,
    close,
    eval_jaxpr,
)
from functrax.core.tracing.trace import (
    EVAL,
    CustomCall,
    Trace,
    Tracer,
    current,
    current_source,
    state,
)
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.forward import JVPTrace


class UnknownTracer(Tracer):
    """A value that depends on a tangent: an entry of the tape makes it, or it is an input."""

    __slots__ = ("source",)

    def __init__(self, trace: Trace, aval: ShapedArray, source: SourceLine | None = None) -> None:
        super().__init__(trace, aval)
        self.source = source

    def origin(self) -> str:
        return f", at {self.source}" if self.source else ", as one of its arguments"


class Entry:
    """One recorded operation; operands are unknown tracers of the tape or known values."""

    __slots__ = ("inputs", "outputs", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        inputs: Sequence[Value],
        outputs: Sequence[UnknownTracer],
        params: dict[str, Any],
        source: SourceLine | None,
    ) -> None:
        self.primitive = primitive
        self.inputs = inputs
        self.outputs = outputs
        self.params = params
        self.source = source


class PartialTrace(Trace):
    """Computes the known part in the parent, records the unknown part."""

    __slots__ = ("entries",)
    parent: Trace

    def __init__(self, parent: Trace, name: str = "") -> None:
        super().__init__(parent, name)
        self.entries: list[Entry] = []

    def end(self) -> None:
        # The tape has the entries that matter; here they would make a cycle with their tracers,
        # and keep the residuals alive until the garbage collector comes by.
        super().end()
        self.entries = []

    def new_input(self, aval: ShapedArray) -> UnknownTracer:
        """An unknown input."""
        return UnknownTracer(self, aval)

    def is_unknown(self, x: Value) -> bool:
        """Whether a value depends on an unknown input of this trace."""
        return type(x) is UnknownTracer and x._trace is self

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        for x in args:
            if type(x) is UnknownTracer and x._trace is self:
                break
        else:
            state.trace = self.parent
            try:
                return self.parent.process_once(primitive, args, params)
            finally:
                state.trace = self
        split = getattr(primitive, "partial_eval", None)
        if split is not None:
            return split(self, args, params)
        simpler = primitive.simplify(*args, **params)
        return self.record(primitive, args, params) if simpler is None else simpler

    def process_custom(self, call: CustomCall, args: Sequence[Any]) -> Sequence[Any]:
        if any(self.is_unknown(x) for x in args):
            return call.partial_eval(self, args)
        with current(self.parent):
            return self.parent.process_custom(call, args)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Write an operation on the tape."""
        avals = primitive.infer(tuple([x.aval for x in args]), params)
        line = state.source or current_source()
        if type(avals) is ShapedArray:
            out = UnknownTracer(self, avals, line)
            self.entries.append(Entry(primitive, args, (out,), params, line))
            return out
        outs = [UnknownTracer(self, a, line) for a in avals]
        self.entries.append(Entry(primitive, args, outs, params, line))
        return outs


class Tape:
    """A linear program with its known values in place.

    ``inputs`` and ``outputs`` are unknown tracers of ``trace``; ``None`` stands for zero.
    """

    __slots__ = ("entries", "inputs", "outputs", "trace")

    def __init__(
        self,
        trace: PartialTrace,
        inputs: Sequence[UnknownTracer | None],
        outputs: Sequence[Value | None],
    ) -> None:
        self.trace = trace
        self.inputs = inputs
        # A linear result that depends on no input is zero.
        self.outputs = [t if trace.is_unknown(t) else None for t in outputs]
        self.entries = _live_entries(trace.entries, self.outputs)

    def apply(self, tangents: Sequence[Value | None]) -> list[Value | None]:
        """Run the program forwards, under the current interpreter; ``None`` is zero.

        An operation all of whose linear operands are zero is skipped.
        """
        env: dict[int, Value] = {
            id(v): t
            for v, t in zip(self.inputs, tangents, strict=True)
            if v is not None and t is not None
        }
        previous = state.source
        try:
            for entry in self.entries:
                state.source = entry.source
                self._apply_entry(entry, env)
        finally:
            state.source = previous
        return [None if v is None else env.get(id(v)) for v in self.outputs]

    def _apply_entry(self, entry: Entry, env: dict[int, Value]) -> None:
        unknown = [self.trace.is_unknown(x) for x in entry.inputs]
        if not any(id(x) in env for x, u in zip(entry.inputs, unknown, strict=True) if u):
            return
        operands = [
            (env[id(x)] if id(x) in env else zeros(x.aval)) if u else x
            for x, u in zip(entry.inputs, unknown, strict=True)
        ]
        out = entry.primitive.bind(*operands, **entry.params)
        outs = out if entry.primitive.multiple_results else [out]
        env.update(zip(map(id, entry.outputs), outs, strict=True))


def _live_entries(entries: Sequence[Entry], outputs: Sequence[Value | None]) -> list[Entry]:
    needed = {id(t) for t in outputs if t is not None}
    kept = []
    for entry in reversed(entries):
        outs = entry.outputs
        used = id(outs[0]) in needed if len(outs) == 1 else any(id(t) in needed for t in outs)
        if used or (not entry.primitive.pure and entry.primitive.effects(entry.params)):
            needed.update([id(x) for x in entry.inputs])
            kept.append(entry)
    kept.reverse()
    return kept


def linearize_flat(
    function: Callable[..., Sequence[Value]], primals: Sequence[Value], nonzero: Sequence[bool]
) -> tuple[list[Value], Tape]:
    """Results of a function of flat values, and its derivative there as a tape.

    Args:
      function: takes and returns flat values.
      primals: where.
      nonzero: which inputs have tangents; the tape's inputs are ``None`` for the others.
    """
    name = getattr(function, "__name__", "")
    partial = PartialTrace(state.trace, name)
    trace = JVPTrace(partial, name)
    partial.share_below()
    trace.direct = partial.direct = partial.parent is EVAL
    inputs = [
        partial.new_input(x.aval) if nz else None for x, nz in zip(primals, nonzero, strict=True)
    ]
    try:
        with current(trace):
            outs = function(*trace.join(primals, inputs))
        results, tangents = trace.split(outs)
        tape = Tape(partial, inputs, tangents or [None] * len(results))
    finally:
        trace.end()
        partial.end()
    if options.check_tracer_leaks:
        del outs
        check_leaks(trace)
    return results, tape


@record
class SplitJaxpr:
    """A program split into what is known and what is unknown.

    ``known`` maps the known inputs to the known results and ``num_saved`` residuals; ``unknown``
    maps all residuals and the unknown inputs to the unknown results.  ``residuals`` says where
    each residual comes from: a known input (its number), or a saved one (``~`` its number).
    """

    known: Derived
    unknown: Derived
    out_unknown: tuple[bool, ...]
    residuals: tuple[int, ...]


#: Whether the result of an equation may be kept as a residual, or is to be computed again.
Saveable: TypeAlias = Callable[[Eqn], bool]


def is_not_reindex(eqn: Eqn) -> bool:
    """Keep everything but reindexed values, whose source is kept instead."""
    return not isinstance(eqn.primitive, Reindexing)


def split_jaxpr(
    jaxpr: Jaxpr,
    unknown: tuple[bool, ...],
    saveable: Saveable = is_not_reindex,
    moved: tuple[bool, ...] | None = None,
) -> SplitJaxpr:
    """Partial evaluation of a program without constants.

    The results in ``moved`` are given by the unknown program, even if they are known.
    """
    key = ("split", unknown, saveable, moved)
    found = jaxpr.memo.get(key)
    if found is None:
        found = _Splitter(saveable, jaxpr.name).split(jaxpr, unknown, moved)
        if not any(isinstance(c, Tracer) for c in found.known.consts + found.unknown.consts):
            jaxpr.memo[key] = found
    return found


class _Splitter:
    """Writes the known and the unknown program, and decides what passes between them."""

    def __init__(self, saveable: Saveable, name: str) -> None:
        self.saveable = saveable
        self.known = StagingTrace(f"known({name})")
        self.unknown = StagingTrace(f"unknown({name})")
        self.partial = PartialTrace(self.known)
        self.definitions: dict[Var, Eqn] = {}
        self.env: dict[Any, Value] = {}  # a value on the known side -> its twin on the unknown
        self.sources: list[StagedTracer] = []
        self.twins: list[StagedTracer] = []

    def split(
        self, jaxpr: Jaxpr, unknown: tuple[bool, ...], moved: tuple[bool, ...] | None
    ) -> SplitJaxpr:
        """Evaluate what is known, record the rest, and write both down."""
        partial = self.partial
        args: list[Value] = [
            (partial if u else self.known).new_input(a)
            for a, u in zip(jaxpr.in_avals, unknown, strict=True)
        ]
        with current(partial):
            outs = eval_jaxpr(jaxpr, (), *args)
        if moved is None:
            moved = (False,) * len(outs)
        out_unknown = tuple(partial.is_unknown(x) or m for x, m in zip(outs, moved, strict=True))
        inputs = [x for x, u in zip(args, unknown, strict=True) if u]
        tape = Tape(partial, inputs, [x for x, u in zip(outs, out_unknown, strict=True) if u])
        self.definitions = {v: e for e in self.known.eqns for v in e.outvars}
        unknown_inputs = [self.unknown.new_input(x.aval) for x in inputs]
        with current(self.unknown):
            replayed = iter(self._replay(tape, unknown_inputs))
            unknown_outs = [
                next(replayed) if partial.is_unknown(x) else self._twin(x)
                for x, u in zip(outs, out_unknown, strict=True)
                if u
            ]
        inputs_of_unknown = [*self.twins, *unknown_inputs]
        unknown_jaxpr, unknown_consts = self.unknown.finish(inputs_of_unknown, unknown_outs)
        known_inputs = [x for x, u in zip(args, unknown, strict=True) if not u]
        given = {x.variable: i for i, x in enumerate(known_inputs)}
        saved = [x for x in self.sources if x.variable not in given]
        known_outs = [x for x, u in zip(outs, out_unknown, strict=True) if not u]
        known_jaxpr, known_consts = self.known.finish(known_inputs, [*known_outs, *saved])
        given.update({x.variable: ~i for i, x in enumerate(saved)})
        residuals = tuple(given[x.variable] for x in self.sources)
        for trace in (self.known, self.unknown, partial):
            trace.end()
        return SplitJaxpr(
            Derived(close(known_jaxpr), tuple(known_consts), ()),
            Derived(close(unknown_jaxpr), tuple(unknown_consts), ()),
            out_unknown,
            residuals,
        )

    def _replay(self, tape: Tape, inputs: Sequence[StagedTracer]) -> list[Value]:
        env = self.env
        env.update({id(v): t for v, t in zip(tape.inputs, inputs, strict=True)})
        previous = state.source
        for entry in tape.entries:
            operands = [
                env[id(x)] if self.partial.is_unknown(x) else self._twin(x) for x in entry.inputs
            ]
            state.source = entry.source
            out = entry.primitive.bind(*operands, **entry.params)
            outs = out if entry.primitive.multiple_results else [out]
            env.update(zip(map(id, entry.outputs), outs, strict=True))
        state.source = previous
        return [env[id(v)] for v in tape.outputs if v is not None]

    def _twin(self, x: Value) -> Value:
        """A known value on the unknown side: computed there again, or passed as a residual."""
        if type(x) is Literal:
            return x
        if type(x) is not StagedTracer or x._trace is not self.known:
            return x
        if x.variable not in self.env:
            self._recompute_or_pass(x)
        return self.env[x.variable]

    def _recompute_or_pass(self, x: StagedTracer) -> None:
        stack: list[Atom] = [x.variable]
        while stack:
            var = stack[-1]
            eqn = self.definitions.get(var) if isinstance(var, Var) else None
            if isinstance(var, Literal) or var in self.env:
                stack.pop()
            elif eqn is None or eqn.primitive.has_side_effects(eqn.params) or self.saveable(eqn):
                self._pass(stack.pop())
            else:
                missing = [v for v in eqn.invars if type(v) is Var and v not in self.env]
                if missing:
                    stack.extend(missing)
                else:
                    stack.pop()
                    self._recompute(eqn)

    def _pass(self, var: Atom) -> None:
        source = self._tracer_of(var)
        twin = self.unknown.new_input(var.aval)
        self.sources.append(source)
        self.twins.append(twin)
        self.env[var] = twin

    def _tracer_of(self, var: Atom) -> StagedTracer:
        tracer = StagedTracer(self.known, var.aval)
        tracer.variable = var  # type: ignore[assignment]
        return tracer

    def _recompute(self, eqn: Eqn) -> None:
        operands = [x if type(x) is Literal else self.env[x] for x in eqn.invars]
        out = eqn.primitive.bind(*operands, **eqn.params)
        outs = out if eqn.primitive.multiple_results else [out]
        self.env.update(zip(eqn.outvars, outs, strict=True))
