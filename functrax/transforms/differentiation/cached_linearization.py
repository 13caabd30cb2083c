"""Reverse mode outside of ``jit``: what a function does is put on a tape, by C++ where it can.

``grad`` outside of ``jit`` must call the user's function each time, for it may do anything.  But
what one operation adds to the derivative follows from the operation and the types of its operands:
what is recorded forwards, which values are kept for later, and how the cotangents of the operands
follow from those of the results.  That is a *fragment*, derived once by the ordinary interpreters
(``linearize.py``, ``transpose.py``) from the primitive's rules, or from a whole library function
that has a recipe.  From then on ``native/eager_tape.cpp`` follows it: the same operations are
recorded, in the same order, with the same user's lines, as without it.

A :class:`GradTrace` is the interpreter, a :class:`GradTracer` an array with the number of its
tangent.  Operations without a fragment (those that hold programs, calls with rules of the user's
own, operands in memory that others may write to) go the ordinary way, one by one:
:class:`_Entry`.

``native/eager_gradient.cpp`` makes the interpreter and reads the tape backwards.

Start at :data:`gradient`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from functrax.backends import eager
from functrax.backends.eager import cached_traces
from functrax.backends.eager.settings import Setting, current_setting
from functrax.core import native
from functrax.core.arrays.operators import Array
from functrax.core.errors.source import SourceLine
from functrax.core.ir.jaxpr import Literal, Var
from functrax.core.options.config import Override
from functrax.core.prims.arithmetic import add
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Primitive, Value
from functrax.core.tracing.stage import StagedTracer, StagingTrace, close
from functrax.core.tracing.trace import EVAL, CustomCall, Trace, current, current_source, state
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.forward import JVPTrace, JVPTracer
from functrax.transforms.interpreters.linearize import (
    Entry,
    PartialTrace,
    Tape,
    UnknownTracer,
    is_not_reindex,
)
from functrax.transforms.interpreters.transpose import accumulate, backward_from, transpose_entry


class GradTracer(JVPTracer):
    """An array, and the number of its tangent on the tape of its trace."""

    __slots__ = ("line", "offset")

    def __init__(
        self, trace: Trace, primal: Value, tangent: int, source: SourceLine | None = None
    ) -> None:
        super().__init__(trace, primal, tangent)
        # The user's line; C++ puts what one is made of here, for few are ever looked at.
        self.line: Any = source
        self.offset: int | None = None

    def origin(self) -> str:
        line = self.line if self.offset is None else SourceLine(self.line, self.offset)
        return f", at {line}" if line else ", as one of its arguments"


class GradTrace(Trace):
    """Computes with arrays, and writes down what depends on those that have tangents.

    C++ makes them, with an ``EagerTape``.
    """

    __slots__ = ("tape",)
    tape: Any

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if any(map(self.is_own, args)):
            found = _recorded(primitive, args, params)
            if found is not NotImplemented:
                return found
        return _Entry(self, args).apply(primitive, params)

    def process_custom(self, call: CustomCall, args: Sequence[Any]) -> Sequence[Any]:
        return _Entry(self, args).call(call)

    def is_own(self, x: Any) -> bool:
        """Whether a value has a tangent on this tape."""
        return type(x) is GradTracer and x._trace is self


def _recorded(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of an operation that has a fragment; else ``NotImplemented``."""
    setting = current_setting()
    if setting is None or not primitive.pure or primitive.holds_programs:
        return NotImplemented
    try:
        eager.signature_of(primitive, setting, [x.aval for x in args], params)
    except Exception:  # the ordinary way raises what is to be raised
        return NotImplemented
    return native.extension.eager_tape_apply(primitive, args, params)  # type: ignore[union-attr]


class _Entry:
    """One operation, the ordinary way: its derivative is written on a tape of its own."""

    def __init__(self, trace: GradTrace, args: Sequence[Any]) -> None:
        self.trace = trace
        self.primals: list[Value] = [x.primal if trace.is_own(x) else x for x in args]
        self.partial = PartialTrace(EVAL, trace.name)
        self.partial.direct = True
        numbers = [x.tangent if trace.is_own(x) else None for x in args]
        self.inputs: dict[int, UnknownTracer] = {
            n: self.partial.new_input(trace.tape.tangent_type(n)) for n in numbers if n is not None
        }
        self.tangents = [None if n is None else self.inputs[n] for n in numbers]
        self.line: SourceLine | None = None

    def apply(self, primitive: Primitive, params: dict[str, Any]) -> Any:
        """Apply a primitive."""
        self.line = state.source
        if self.inputs:
            self.line = state.source or current_source()
        previous = state.source
        state.trace = self.partial if self.inputs else EVAL
        state.source = self.line
        try:
            if not self.inputs:
                return EVAL.process(primitive, self.primals, params)
            out, tangent = primitive.jvp(self.primals, self.tangents, **params)
        finally:
            state.trace = self.trace
            state.source = previous
        if primitive.multiple_results:
            return self._finish(out, tangent)
        return self._finish([out], [tangent])[0]

    def call(self, call: CustomCall) -> Sequence[Any]:
        """Call a function that has a rule of its own."""
        if not self.inputs:
            with current(EVAL):
                return EVAL.process_custom(call, self.primals)
        self.line = current_source()
        with current(self.partial):
            outs, tangents = call.jvp(self.primals, self.tangents)
        return self._finish(outs, tangents)

    def _finish(self, outs: Sequence[Value], tangents: Sequence[Value | None]) -> list[Value]:
        """Results with their tangents; what their cotangents do goes on the tape."""
        tape = self.trace.tape
        numbers = {id(t): n for n, t in self.inputs.items()}
        new: dict[int, Value] = {}
        for t in tangents:
            if t is not None and id(t) not in numbers:
                numbers[id(t)] = tape.new_tangent(t.aval)
                new[id(t)] = t
        self.tape = Tape(self.partial, list(self.inputs.values()), list(new.values()))
        self.partial.end()
        if new:
            tape.add_entry(self.pull, tuple(self.inputs), tuple([numbers[k] for k in new]))
        return [
            out if t is None else GradTracer(self.trace, out, numbers[id(t)], self.line)
            for out, t in zip(outs, tangents, strict=True)
        ]

    def pull(self, cts: list[Value | None], so_far: list[Value | None]) -> list[Value | None]:
        """The cotangents of the operands: those that there are, and what the results' add."""
        pending = {
            id(x): ct for x, ct in zip(self.tape.inputs, so_far, strict=True) if ct is not None
        }
        backward_from(self.tape, cts, pending)
        return [pending.get(id(x)) for x in self.tape.inputs]


# ---- fragments ----------------------------------------------------------------------------------


class _Fragment:
    """Derives what a function of flat arrays adds to a derivative.

    Args:
      tangents: for each argument the type of its tangent, or None.
      setting: with which its operations are recorded.
    """

    def __init__(self, tangents: Sequence[ShapedArray | None], setting: Setting) -> None:
        self.setting = setting
        self.known = StagingTrace("recorded")
        self.partial = PartialTrace(self.known)
        self.tangents = [None if t is None else self.partial.new_input(t) for t in tangents]
        self.positions = {id(t): n for n, t in enumerate(self.tangents) if t is not None}

    def derive(
        self,
        function: Callable[[Sequence[Value]], tuple[Sequence[Value], Sequence[Value | None]]],
        avals: Sequence[ShapedArray],
        shape: str,
    ) -> tuple[Any, ...]:
        """What ``eager_tape.cpp`` reads.

        Args:
          function: from arguments to results and tangents, under the interpreter ``partial``.
          avals: types of the arguments.
          shape: what contains the results: ``"single"``, ``"list"`` or ``"tuple"``.
        """
        inputs = [self.known.new_input(a) for a in avals]
        with Override("strict", True):  # numbers are computed as recorded operations are
            with current(self.partial):
                outs, tangents = function(inputs)
            new = {id(t): t for t in tangents if t is not None and id(t) not in self.positions}
            self.tape = Tape(self.partial, self.tangents, list(new.values()))
            self.definitions = {v: e for e in self.known.eqns for v in e.outvars}
            used = [x for e in self.tape.entries for x in e.inputs if type(x) is StagedTracer]
            self.residuals = self._sources([x.variable for x in used])
            with current(self.known):
                kept = [self._tracer_of(v) for v in self.residuals]
                jaxpr, consts = self.known.finish(inputs, [*outs, *kept])
        constants, steps, results = cached_traces.written(close(jaxpr), consts, self.setting)
        if len(steps) > eager.MAX_NODES or any(type(x) is Literal for x in results):
            raise cached_traces.NoRecipeError
        self.transposed(tuple([t.aval for t in new.values()]))  # it may have none
        places = {**self.positions, **{k: len(avals) + n for n, k in enumerate(new)}}
        return (
            constants,
            steps,
            results[: len(outs)],
            tuple([x.aval for x in outs]),
            shape,
            tuple([None if t is None else places[id(t)] for t in tangents]),
            tuple([t.aval for t in new.values()]),
            results[len(outs) :],
            self.transposed,
        )

    def _sources(self, variables: Sequence[Var]) -> list[Var]:
        """What variables are reindexed from: it is smaller, and reindexed again where needed."""
        found: dict[Var, None] = {}
        stack = list(reversed(variables))
        while stack:
            v = stack.pop()
            eqn = self.definitions.get(v)
            if eqn is None or is_not_reindex(eqn) or len(eqn.outvars) != 1:
                found[v] = None
            else:
                stack += reversed([x for x in eqn.invars if type(x) is Var])
        return list(found)

    def _tracer_of(self, variable: Var) -> StagedTracer:
        tracer = StagedTracer(self.known, variable.aval)
        tracer.variable = variable
        return tracer

    def _again(self, x: Value, here: dict[Var, Value]) -> Value:
        """A value that was recorded forwards, where the cotangents are computed."""
        if type(x) is not StagedTracer or x._trace is not self.known:
            return x
        return self._reindexed(x.variable, here)

    def _reindexed(self, variable: Var, here: dict[Var, Value]) -> Value:
        if variable not in here:
            eqn = self.definitions[variable]
            operands = [self._reindexed(x, here) if isinstance(x, Var) else x for x in eqn.invars]
            here[variable] = eqn.primitive.bind(*operands, **eqn.params)
        return here[variable]

    def transposed(self, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        """How cotangents of the arguments follow from those of the new tangents.

        Args:
          kinds: what is known of each cotangent: a type, a literal that it is, None for zero.

        Returns:
          Constants, steps, and for each cotangent of an argument that is to be added, in order, the
          number of the argument, the place of the cotangent or a literal, and its type.
        """
        trace = StagingTrace("transposed")
        found: list[tuple[int, Value]] = []
        inputs = [trace.new_input(v.aval) for v in self.residuals]
        here: dict[Var, Value] = dict(zip(self.residuals, inputs, strict=True))
        pending = _Contributions(self.positions, found)
        with Override("strict", True), current(trace):
            for out, kind in zip(self.tape.outputs, kinds, strict=True):
                ct = kind
                if type(kind) is ShapedArray:
                    ct = trace.new_input(kind)
                    inputs.append(ct)
                if out is not None and ct is not None:
                    accumulate(pending, id(out), ct)
            for entry in reversed(self.tape.entries):
                operands = [self._again(x, here) for x in entry.inputs]
                moved = Entry(entry.primitive, operands, entry.outputs, entry.params, None)
                transpose_entry(self.tape.trace, moved, pending)
            jaxpr, consts = trace.finish(inputs, [x for _, x in found])
        setting = current_setting() or self.setting
        constants, steps, results = cached_traces.written(close(jaxpr), consts, setting)
        contributions = [(n, y, x.aval) for (n, x), y in zip(found, results, strict=True)]
        return constants, steps, tuple(contributions)


class _Contributions(dict[int, Value]):
    """Pending cotangents; those of the arguments are listed, one by one, instead of added up."""

    def __init__(self, positions: dict[int, int], found: list[tuple[int, Value]]) -> None:
        super().__init__()
        self.positions = positions
        self.found = found

    def __setitem__(self, key: int, ct: Value) -> None:
        position = self.positions.get(key)
        if position is None:
            super().__setitem__(key, ct)
        else:
            self.found.append((position, ct))


def _fragment_of(
    signature: Any, literals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    """The fragment of a primitive; its operands are literals, or arrays that may have tangents."""
    primitive: Primitive = signature.primitive
    is_array = [x is None for x in literals]
    avals = [a for a, array in zip(signature.avals, is_array, strict=True) if array]
    fragment = _Fragment(
        [t for t, array in zip(tangents, is_array, strict=True) if array], signature.setting
    )

    def derivative(args: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value | None]]:
        rest, rest_tangents = iter(args), iter(fragment.tangents)
        primals = [next(rest) if array else x for x, array in zip(literals, is_array, strict=True)]
        given = [next(rest_tangents) if array else None for array in is_array]
        out, tangent = primitive.jvp(primals, given, **signature.params)
        return (out, tangent) if primitive.multiple_results else ([out], [tangent])

    try:
        shape = "list" if primitive.multiple_results else "single"
        return fragment.derive(derivative, avals, shape)
    except Exception:  # it goes the ordinary way, which raises what it raises
        return None


def _function_fragment(
    function: Callable[..., Any], tangents: tuple[Any, ...], *args: Any, **kwargs: Any
) -> tuple[Any, ...] | None:
    """The fragment of a library function with a recipe; None if it has none."""
    setting = current_setting()
    if setting is None:
        return None
    arrays = [x for x in (*args, *kwargs.values()) if isinstance(x, Array)]
    fragment = _Fragment(tangents, setting)
    shape = "single"

    def derivative(values: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value | None]]:
        nonlocal shape
        trace = JVPTrace(fragment.partial, "recorded")
        rest = iter(trace.join(values, fragment.tangents))
        given = [next(rest) if isinstance(x, Array) else x for x in args]
        named = {k: next(rest) if isinstance(x, Array) else x for k, x in kwargs.items()}
        with current(trace):
            out = function(*given, **named)
            if not isinstance(out, Array):
                shape = "list" if type(out) is list else "tuple"
            flat = [as_value(x) for x in ([out] if shape == "single" else out)]
        if shape != "single" and type(out) not in (tuple, list):
            raise cached_traces.NoRecipeError
        outs, found = trace.split(flat)
        return outs, found or [None] * len(outs)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # who warns is to be called
            made = fragment.derive(derivative, [x.aval for x in arrays], "")
    except Exception:  # it is called, and raises what it raises
        return None
    return (*made[:4], shape, *made[5:])


# ---- the transformation -------------------------------------------------------------------------


def _nothing(wanted: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Without C++ there is no tape."""
    return NotImplemented


#: The value of a function, the second part of its result (or None), and a tuple of gradients by the
#: chosen arguments; ``NotImplemented``, before anything was done, where no tape is used here.
#: Taken are ``(function, positions, has_aux, holomorphic, allow_int)``, the arguments, and those
#: that are named.
gradient: Callable[[tuple[Any, ...], tuple[Any, ...], dict[str, Any]], Any] = getattr(
    native.extension, "eager_gradient", _nothing
)


def _install() -> None:
    if native.extension is None:
        return
    native.extension.eager_tape_configure(GradTrace, GradTracer, _fragment_of, add.bind, EVAL)
    cached_traces.fragments.append(_function_fragment)


_install()
