"""Staging: run a function on tracers and write down what it did, as a :class:`Jaxpr`.

:class:`StagingTrace` appends an equation for each operation.  Equal operations on equal operands
are shared as the program is built, so derivatives of derivatives do not repeat themselves.
Values that belong to other interpreters become constants.  :func:`stage` is the entry; it drops
equations whose results are not used.  :func:`eval_jaxpr` runs a program under the current
interpreter.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.source import user_line
from functrax.core.errors.typed import LeakedTracerError
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import state as options
from functrax.core.records import record
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Elementwise, Linear, Primitive, Value
from functrax.core.tracing.trace import EVAL, CustomCall, Trace, Tracer, current, leaked, state
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: Called with each program that :func:`stage` has finished (the checker, under test).
program_observers: list[Callable[[Jaxpr], None]] = []


class StagedTracer(Tracer):
    """A value of the program being written."""

    __slots__ = ("variable",)

    def __init__(self, trace: Trace, aval: ShapedArray) -> None:
        self._trace = trace
        self.aval = aval
        self.variable = Var(aval)

    def another(self) -> StagedTracer:
        """The same value as another object: callers tell values apart by ``is``, as in JAX."""
        made = StagedTracer.__new__(StagedTracer)
        made._trace, made.aval, made.variable = self._trace, self.aval, self.variable
        return made

    def origin(self) -> str:
        assert isinstance(self._trace, StagingTrace)
        lines = (f", at {e.source}" for e in self._trace.eqns if self.variable in e.outvars)
        return next(lines, ", as one of its arguments")


class StagingTrace(Trace):
    """Writes a program down."""

    __slots__ = ("constants", "eqns", "inlines_scalars", "shared", "touched")

    def __init__(self, name: str = "", inlines_scalars: bool = True) -> None:
        super().__init__(None, name)
        self.eqns: list[Eqn] = []
        #: Whether known scalars become literals; a program inside of another follows that one.
        self.inlines_scalars = inlines_scalars and getattr(state.trace, "inlines_scalars", True)
        self.shared: dict[Any, Any] = {}
        #: id of a constant, or of its variable -> (the constant, its tracer); holding the constant
        #: keeps the id valid.
        self.constants: dict[int, tuple[Any, StagedTracer]] = {}
        #: What the program reads and writes of references (``core/state/references.py``), if
        #: anything.
        self.touched: Any = None

    def end(self) -> None:
        # Both hold tracers, which hold the trace: a cycle that would keep the constants alive.
        super().end()
        self.shared = {}
        self.constants = {}
        self.touched = None

    def new_input(self, aval: ShapedArray) -> StagedTracer:
        """A tracer for an input of the program."""
        return StagedTracer(self, aval)

    def lift(self, x: Value) -> StagedTracer | Literal:
        """Make a constant of a value that belongs elsewhere."""
        if type(x) is Literal:
            return x
        if isinstance(x, Tracer) and not x._trace.alive:
            raise leaked(x)
        if (
            type(x) is ConcreteArray
            and not x.aval.shape
            and self.inlines_scalars
            and x.aval.dtype.names is None
        ):
            return Literal(x.value, x.aval)
        if type(x) is Linear:
            raise x.not_linear()
        # Objects of one value are one constant, but in programs that users take apart.
        key = id(x.variable) if type(x) is StagedTracer and self.inlines_scalars else id(x)
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = (x, StagedTracer(self, x.aval))
        return found[1]

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if options.eager_constant_folding and _are_known(args):
            with current(EVAL):
                return EVAL.process(primitive, args, params)
        operands = [
            x
            if type(x) is Literal or (type(x) is StagedTracer and x._trace is self)
            else self.lift(x)
            for x in args
        ]
        simpler = primitive.simplify(*operands, **params)
        if simpler is not None:
            return concrete(simpler)
        if isinstance(primitive, Elementwise) and all(type(x) is Literal for x in operands):
            folded = fold(primitive, operands, params)
            if folded is not None:
                return folded
        invars = tuple([x.variable if isinstance(x, StagedTracer) else x for x in operands])
        key = (primitive, invars, *params.items())
        pure = primitive.pure or not primitive.has_side_effects(params)
        if pure and (found := self.shared.get(key)) is not None:
            return found.another() if type(found) is StagedTracer else [x.another() for x in found]
        avals = primitive.infer(tuple([x.aval for x in operands]), params)
        result: Any
        outvars: tuple[Var, ...]
        if type(avals) is ShapedArray:
            result = StagedTracer(self, avals)
            outvars = (result.variable,)
        else:
            result = [StagedTracer(self, a) for a in avals]
            outvars = tuple([t.variable for t in result])
        self.eqns.append(Eqn(primitive, invars, outvars, params, state.source or user_line()))
        if pure:
            self.shared[key] = result
        return result

    def process_custom(self, call: CustomCall, args: Sequence[Any]) -> Sequence[Any]:
        if options.eager_constant_folding and _are_known(args):
            return call.function(*args)
        return call.stage(self, args)

    def atom(self, x: Value) -> Atom:
        """A value as an operand of the program."""
        own = type(x) is StagedTracer and x._trace is self
        operand = x if own else self.lift(x)
        return operand.variable if isinstance(operand, StagedTracer) else operand

    def finish(
        self, inputs: Sequence[StagedTracer], outputs: Sequence[Value], **names: Any
    ) -> tuple[Jaxpr, list[Any]]:
        """The program that computes ``outputs`` from ``inputs``, and its constants' values."""
        out_atoms = [self.atom(x) for x in outputs]
        eqns = live_eqns(self.eqns, out_atoms)
        used = {v for e in eqns for v in e.invars} | set(out_atoms)
        constants = [(c, t.variable) for c, t in self.constants.values() if t.variable in used]
        jaxpr = Jaxpr(
            [v for _, v in constants],
            [t.variable for t in inputs],
            out_atoms,
            eqns,
            self.name,
            **names,
        )
        return jaxpr, [c for c, _ in constants]


def _are_known(values: Sequence[Any]) -> bool:
    """Whether none of them is traced."""
    return not any(isinstance(x, Tracer) for x in values)


def fold(
    primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]
) -> ConcreteArray | None:
    """The scalar that an elementwise operation on literals gives; None for sizes without values."""
    if any(is_symbolic_dim(x.val) for x in operands):
        return None
    if options.strict:  # the bits that compiled code gives
        out = EVAL.process(primitive, operands, params)
        return out if type(out) is ConcreteArray else None
    aval = primitive.infer(tuple([x.aval for x in operands]), params)
    if type(aval) is not ShapedArray:
        return None
    with np.errstate(all="ignore"):
        value = primitive.reference(*(x.val for x in operands), **params)
    return ConcreteArray(np.asarray(value, aval.dtype), aval)


def live_eqns(eqns: Sequence[Eqn], outputs: Sequence[Atom], effects: bool = True) -> list[Eqn]:
    """The equations that the outputs need, and with ``effects`` those that have some, in order."""
    needed: set[Atom] = set(outputs)
    kept = []
    for eqn in reversed(eqns):
        acts = effects and eqn.primitive.has_side_effects(eqn.params)
        if acts or not needed.isdisjoint(eqn.outvars):
            needed.update(eqn.invars)
            kept.append(eqn)
    kept.reverse()
    return kept


@record(eq=False)
class Effects:
    """What a program does to references (``core/state/references.py``).

    Args:
      targets: what is written: references from outside, whose values are the last constants of the
        program; or numbers of arguments that are references.  The first results are the new values.
      hands_on: whether derivative rules get references, and may write to them later.
    """

    targets: tuple[Any, ...]
    hands_on: bool

    def read_only(self, name: str, consts: Sequence[Any]) -> list[Any]:
        """The constants of a program that must not write to references, with their values.

        Raises:
          ReferenceUseError: if it does.
        """
        raise NotImplementedError

    def hand_on(self) -> None:
        """Say of the program that is being written that it hands references on."""
        raise NotImplementedError


def stage(
    function: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    name: str = "fn",
    arg_names: Sequence[str] | None = None,
    inlines_scalars: bool = True,
) -> tuple[Jaxpr, list[Any]]:
    """Trace a function of flat values.

    Args:
      function: takes one tracer for each aval, returns a sequence of values.
      avals: the types of the inputs.
      name: what the program is called, in print and in errors.
      arg_names: names of the inputs, for print.
      inlines_scalars: whether known scalar arrays become literals, or are constants.

    Returns:
      The jaxpr and the values of its constants, which may be tracers of outer interpreters.

    Raises:
      ReferenceUseError: if the function writes to references from outside.
    """
    jaxpr, constants, effects = stage_with_references(
        function, avals, name, arg_names, inlines_scalars
    )
    if effects is None:
        return jaxpr, constants
    return jaxpr, effects.read_only(name, constants)


def stage_with_references(
    function: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    name: str = "fn",
    arg_names: Sequence[str] | None = None,
    inlines_scalars: bool = True,
) -> tuple[Jaxpr, list[Any], Effects | None]:
    """As :func:`stage`, for a function that may read and write references from outside.

    Returns:
      The jaxpr, its constants, and what it does to references; None if it knows of none.  Among
      the constants are references, which stand for their values.
    """
    trace = StagingTrace(name, inlines_scalars)
    inputs = [trace.new_input(a) for a in avals]
    effects: Effects | None = None
    try:
        with current(trace):
            outputs = function(*inputs)
            touched = trace.touched
            if touched is not None:
                effects = touched.effects()
                outputs = [*touched.finals(), *outputs]
            jaxpr, constants = trace.finish(inputs, outputs, arg_names=arg_names)
            if touched is not None:
                jaxpr, constants = touched.ordered(jaxpr, constants)
            del touched
    finally:
        trace.end()
    if effects is not None and effects.hands_on:
        effects.hand_on()
    for observe in program_observers:
        observe(jaxpr)
    if options.check_tracer_leaks:
        del inputs, outputs
        check_leaks(trace)
    return jaxpr, constants, effects


def check_leaks(trace: Trace) -> None:
    """Raise if a tracer of a finished trace is still reachable."""
    name = trace.name
    held = _tracers_of(trace)
    if held:
        del held
        gc.collect()  # what is held by garbage alone did not leak
        held = _tracers_of(trace)
    if held:
        holders = [type(r).__name__ for r in gc.get_referrers(*held) if r is not held]
        raise LeakedTracerError(
            f"Leaked trace {type(trace).__name__}: a traced value leaked out of {name}",
            got=f"{held[0]!r}, made while {name} was being traced{held[0].origin()}, still held "
            f"by: {', '.join(sorted(set(holders))) or 'a local'}",
            fix="return the value instead of storing it outside of the function",
        )


def _tracers_of(trace: Trace) -> list[Tracer]:
    return [t for t in gc.get_referrers(trace) if isinstance(t, Tracer)]


def close(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with its constants as leading inputs."""
    if not jaxpr.constvars:
        return jaxpr
    inputs = (*jaxpr.constvars, *jaxpr.invars)
    return Jaxpr((), inputs, jaxpr.outvars, jaxpr.eqns, jaxpr.name)


@record
class Derived:
    """A program made from another: its derivative, its transpose, its batched form.

    ``jaxpr`` has no constants; ``consts`` are the values of its leading inputs (arrays that a
    user's rule closed over).  ``flags`` says something of each result, as its maker documents.
    """

    jaxpr: Jaxpr
    consts: tuple[Value, ...]
    flags: tuple[bool, ...]


def derive(
    source: Jaxpr,
    key: Hashable,
    function: Callable[..., tuple[Sequence[Value], tuple[bool, ...]]],
    avals: Sequence[ShapedArray],
    name: str,
) -> Derived:
    """Stage a program made from ``source``, or find it where it is remembered.

    Args:
      source: the program it is made from, which remembers it.
      key: what is made, with all that it depends on.
      function: takes tracers, returns the results and the flags.
      avals: types of the function's inputs.
      name: what the made program is called, around the name of the source.
    """
    found = source.memo.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]
    flags: tuple[bool, ...] = ()

    def results(*args: Value) -> Sequence[Value]:
        nonlocal flags
        outs, flags = function(*args)
        return outs

    full_name = f"{name}({source.name})"
    jaxpr, consts, effects = stage_with_references(results, avals, full_name)
    if effects is not None:  # the values of references are those of this moment
        consts = effects.read_only(full_name, consts)
    derived = Derived(close(jaxpr), tuple(consts), flags)
    if effects is None and _are_known(consts):
        source.memo[key] = derived
    return derived


def is_staged() -> bool:
    """Whether what is done now becomes part of a program, below any other interpreters."""
    trace: Trace | None = state.trace
    while trace is not None and not isinstance(trace, StagingTrace):
        trace = trace.parent
    return trace is not None


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Value], *args: Value) -> list[Value]:
    """Run a program under the current interpreter; its equations keep their source lines."""
    env: dict[Atom, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    previous = state.source
    try:
        for eqn in jaxpr.eqns:
            operands = [x if type(x) is Literal else env[x] for x in eqn.invars]
            state.source = eqn.source or previous
            out = eqn.primitive.bind(*operands, **eqn.params)
            if eqn.primitive.multiple_results:
                env.update(zip(eqn.outvars, out, strict=True))
            else:
                env[eqn.outvars[0]] = out
    finally:
        state.source = previous
    return [x if type(x) is Literal else env[x] for x in jaxpr.outvars]
