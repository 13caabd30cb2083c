"""Calls of functions that carry their own derivative rules, as every interpreter sees them.

:class:`CustomJVP` and :class:`CustomVJP` hold flat functions.  Eagerly the function just runs;
under differentiation the rule runs instead; under ``vmap`` function and rules are batched; in a
program they are an equation ``custom_jvp_call`` or ``custom_vjp_call`` that holds the function's
program and the rules themselves.

A ``custom_vjp`` is differentiated by :data:`custom_vjp_linear`, an operation that exists on a tape
only: it can be transposed (by the user's backward rule), never applied.

The decorators are in ``transforms/user_rules/``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from functrax.backends.device import run_jaxpr
from functrax.core.errors.typed import DifferentiationError
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import zeros
from functrax.core.records import record
from functrax.core.tracing.primitive import TRANSPOSE_ONLY, Avals, Opaque, Value
from functrax.core.tracing.stage import close, eval_jaxpr, stage
from functrax.core.tracing.trace import CustomCall, Trace, leaked, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.batching import (
    BatchTrace,
    BatchTracer,
    add_batch_axis,
    batch_flat,
    element_type,
)

Flat: TypeAlias = Callable[..., Sequence[Value]]
Backward: TypeAlias = Callable[..., Sequence[Value | None]]


class SymbolicZero:
    """A tangent or cotangent known to be zero, given to rules that ask for ``symbolic_zeros``."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def filled(value: Value | None, aval: ShapedArray, symbolic: bool) -> Value:
    """A tangent as a rule wants it: zeros are made, or given as :class:`SymbolicZero`."""
    if value is not None:
        return value
    if symbolic or not dtypes.is_inexact(aval.dtype):
        return SymbolicZero(aval)
    return zeros(aval)


def rule_origin(rule: Any) -> tuple[Any, ...]:
    """What tells a rule from others; each call of a function with rules makes new objects."""
    owner = getattr(rule, "__self__", rule)
    found: tuple[Any, ...] = getattr(owner, "origin", (owner,))
    return found


class Batch:
    """A batched call: its function and its rules under the interpreter that batches.

    All results of a call have the batch axis, or none has.  With batched arguments all have; else
    the function or a rule, whichever runs first, tells: they may close over batched values.

    Args:
      trace: the interpreter.
      batched: which arguments have the batch axis.
    """

    __slots__ = ("trace", "whole")

    def __init__(self, trace: BatchTrace, batched: Sequence[bool]) -> None:
        self.trace = trace
        self.whole: bool | None = True if any(batched) else None

    def __call__(self, function: Flat, args: Sequence[Any], batched: Sequence[bool]) -> list[Value]:
        """Results of ``function``; where results have the axis, those without it are repeated."""
        trace, size = self.trace, self.trace.size
        flags = [b and not isinstance(x, SymbolicZero) for x, b in zip(args, batched, strict=True)]
        given = [
            SymbolicZero(element_type(x.aval)) if b and isinstance(x, SymbolicZero) else x
            for x, b in zip(args, batched, strict=True)
        ]
        outs, flags = batch_flat(function, size, given, flags, trace.axis_name, trace.tag)
        if self.whole is None:
            self.whole = any(flags)
        if self.whole:
            return [x if b else _repeated(x, size) for x, b in zip(outs, flags, strict=True)]
        for x, b in zip(outs, flags, strict=True):
            if b:
                raise leaked(BatchTracer(trace, x))
        return outs

    def origin(self, rule: Any, flags: Sequence[bool]) -> tuple[Any, ...]:
        """What tells a batched rule from others: see :func:`rule_origin`."""
        return (*rule_origin(rule), self.trace.size, self.trace.axis_name, tuple(flags))

    def call_below(
        self, call: CustomCall, args: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        """A call made of batched functions, under the interpreter below."""
        outs = self.trace.parent.process_custom(call, args)
        return outs, [bool(self.whole)] * len(outs)


def _repeated(x: Value, size: int) -> Value:
    if isinstance(x, SymbolicZero):
        return SymbolicZero(ShapedArray((size, *x.aval.shape), x.aval.dtype))
    return add_batch_axis(x, size)


@record(eq=False)
class CustomJVP:
    """A function with a forward rule.

    Args:
      function: flat.
      rule: takes primals and tangents (values, or symbolic zeros), returns results and tangents.
      name: the function's name.
      symbolic: whether the rule takes symbolic zeros.
      jaxpr: the function's program, once it has been staged.
      num_consts: how many leading arguments are constants of the program, unknown to the rule.
    """

    may_close_over: ClassVar[bool] = True  # batched values, with none among its arguments

    function: Flat
    rule: Flat
    name: str
    symbolic: bool = False
    jaxpr: Jaxpr | None = None
    num_consts: int = 0

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value | None]
    ) -> tuple[Sequence[Value], Sequence[Value | None]]:
        """Results and tangents by the rule."""
        primals, tangents = _without_constants(self, primals, tangents)
        given = [filled(t, p.aval, self.symbolic) for p, t in zip(primals, tangents, strict=True)]
        both = list(self.rule(*primals, *given))
        half = len(both) // 2
        return both[:half], [None if isinstance(t, SymbolicZero) else t for t in both[half:]]

    def batch(
        self, trace: BatchTrace, args: Sequence[Value], batched: Sequence[bool]
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        """Function and rule on batched arguments."""
        flags = batched[self.num_consts :]
        batch = Batch(trace, batched)

        def function(*xs: Value) -> list[Value]:
            return batch(self.function, xs, batched)

        def rule(*xs: Value) -> list[Value]:
            return batch(self.rule, xs, [*flags, *flags])

        rule.origin = batch.origin(self.rule, flags)  # type: ignore[attr-defined]
        inner = replace(self, function=function, rule=rule, jaxpr=None)
        return batch.call_below(inner, args)

    def partial_eval(self, trace: Trace, args: Sequence[Value]) -> Sequence[Value]:
        """The function; its rule was asked for its derivative, and this is part of that."""
        return self.function(*args)

    def stage(self, trace: Trace, args: Sequence[Value]) -> Sequence[Value]:
        """An equation ``custom_jvp_call``."""
        return stage_call(custom_jvp_call, self, trace, args)


@record(eq=False)
class CustomVJP:
    """A function with a forward pass and a backward rule.

    Args:
      function: flat.
      forward: takes the primals and, by keyword, which of them are ``perturbed``; returns the
        results, the residuals, and the backward rule for them.  That takes the residuals and
        cotangents of the results (values, or symbolic zeros), and returns cotangents of the primals
        (None for zero).
      name: the function's name.
      symbolic: whether the rules take symbolic zeros.
      jaxpr: the function's program, once it has been staged.
      num_consts: how many leading arguments are constants of the program, unknown to the rules.
    """

    may_close_over: ClassVar[bool] = True  # batched values, with none among its arguments

    function: Flat
    forward: Callable[..., tuple[Sequence[Value], Sequence[Value], Backward]]
    name: str
    symbolic: bool = False
    jaxpr: Jaxpr | None = None
    num_consts: int = 0

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value | None]
    ) -> tuple[Sequence[Value], Sequence[Value | None]]:
        """Results, and tangents that can be transposed only."""
        primals, tangents = _without_constants(self, primals, tangents)
        perturbed = tuple(t is not None for t in tangents)
        outs, residuals, backward = self.forward(*primals, perturbed=perturbed)
        out_avals = tuple(x.aval for x in outs)
        linear = custom_vjp_linear.bind(
            *residuals,
            *(t for t in tangents if t is not None),
            call=self,
            backward=backward,
            num_residuals=len(residuals),
            perturbed=perturbed,
            out_avals=out_avals,
        )
        found = zip(linear, out_avals, strict=True)
        return outs, [t if dtypes.is_inexact(a.dtype) else None for t, a in found]

    def batch(
        self, trace: BatchTrace, args: Sequence[Value], batched: Sequence[bool]
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        """Function and rules on batched arguments."""
        flags = batched[self.num_consts :]
        batch = Batch(trace, batched)

        def function(*xs: Value) -> list[Value]:
            return batch(self.function, xs, batched)

        def forward(
            *primals: Value, perturbed: tuple[bool, ...]
        ) -> tuple[Sequence[Value], Sequence[Value], Backward]:
            num_outs = 0
            backward: Backward

            def results_and_residuals(*xs: Value) -> list[Value]:
                nonlocal num_outs, backward
                outs, residuals, backward = self.forward(*xs, perturbed=perturbed)
                num_outs = len(outs)
                return [*outs, *residuals]

            both = batch(results_and_residuals, primals, flags)
            return both[:num_outs], both[num_outs:], functools.partial(batched_backward, backward)

        def batched_backward(backward: Backward, *given: Value) -> list[Value | None]:
            present: tuple[bool, ...] = ()

            def found(*xs: Value) -> list[Value]:
                nonlocal present
                cts = backward(*xs)
                present = tuple(ct is not None for ct in cts)
                return [ct for ct in cts if ct is not None]

            cts = iter(batch(found, given, [bool(batch.whole)] * len(given)))
            whole = [b or not batch.whole for b in flags]
            return [
                None if not p else next(cts) if w else reduce_sum.bind(next(cts), axes=(0,))
                for p, w in zip(present, whole, strict=True)
            ]

        forward.origin = batch.origin(self.forward, flags)  # type: ignore[attr-defined]
        inner = replace(self, function=function, forward=forward, jaxpr=None)
        return batch.call_below(inner, args)

    def partial_eval(self, trace: Trace, args: Sequence[Value]) -> Sequence[Value]:
        """The function; its rules were asked for its derivative, and this is part of that."""
        return self.function(*args)

    def stage(self, trace: Trace, args: Sequence[Value]) -> Sequence[Value]:
        """An equation ``custom_vjp_call``."""
        return stage_call(custom_vjp_call, self, trace, args)


def _without_constants(
    call: CustomJVP | CustomVJP, primals: Sequence[Value], tangents: Sequence[Value | None]
) -> tuple[Sequence[Value], Sequence[Value | None]]:
    """The arguments that the rules know; the constants must not be differentiated."""
    n = call.num_consts
    for p, t in zip(primals[:n], tangents[:n], strict=True):
        if t is not None:
            raise DifferentiationError(
                f"{call.name}: a function with a custom derivative closes over a value that is "
                "being differentiated",
                got=p.aval.str_short(),
                fix="pass the value as an argument; see functrax.closure_convert",
            )
    return primals[n:], tangents[n:]


def stage_call(
    primitive: CustomCallPrimitive, call: Any, trace: Trace, args: Sequence[Value]
) -> Sequence[Value]:
    """Write a call into a program: an equation that holds the function's program and the rules."""
    if call.jaxpr is None:
        jaxpr, consts = stage(call.function, [x.aval for x in args], call.name)
        # Constants that were arguments already (of an earlier staging) come after the new ones.
        call = replace(call, jaxpr=close(jaxpr), num_consts=len(consts) + call.num_consts)
        args = [*consts, *args]
    return trace.process(primitive, args, {"jaxpr": call.jaxpr, "call": call})  # type: ignore[no-any-return]


class CustomCallPrimitive(Opaque):
    """A call in a program; bound again, it is a call with rules again."""

    multiple_results = True
    pure = False
    holds_programs = True
    takes_deferred = True  # raw values go into the program as they are

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def bind(self, *args: Value, **params: Any) -> Any:
        jaxpr: Jaxpr = params["jaxpr"]
        function = lambda *xs: eval_jaxpr(jaxpr, (), *xs)  # noqa: E731
        call = replace(params["call"], function=function, jaxpr=jaxpr)
        return state.trace.process_custom(call, args)

    def shape_rule(self, *avals: ShapedArray, jaxpr: Jaxpr, call: Any) -> Avals:
        return tuple(jaxpr.out_avals)

    def reference(self, *values: Any, jaxpr: Jaxpr, call: Any) -> Any:
        return run_jaxpr(jaxpr, values)

    def inlines(self, params: dict[str, Any]) -> Jaxpr:
        return params["jaxpr"]  # type: ignore[no-any-return]

    def kept(self, eqn: Eqn) -> Eqn:
        """An equation of this primitive as files can hold it, with rules that are programs."""
        return eqn

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        jaxpr: Jaxpr = params["jaxpr"]
        return jaxpr.effects

    def jvp(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        raise AssertionError("custom calls are differentiated by Trace.process_custom")

    def batch(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        raise AssertionError("custom calls are batched by Trace.process_custom")


class CustomVJPLinear(Opaque):
    """The derivative of a ``custom_vjp``: residuals and tangents in; it can only be transposed."""

    name = "custom_vjp_linear"
    multiple_results = True
    holds_programs = True

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        return frozenset({TRANSPOSE_ONLY})

    def shape_rule(self, *avals: ShapedArray, out_avals: Any, **params: Any) -> Avals:
        return tuple(out_avals)

    def reference(self, *values: Any, call: CustomVJP, **params: Any) -> Any:
        raise self._forward_mode(call)

    def jvp(self, *args: Any, call: CustomVJP, **params: Any) -> tuple[Any, Any]:
        raise self._forward_mode(call)

    def batch(self, *args: Any, call: CustomVJP, **params: Any) -> tuple[Any, Any]:
        raise self._forward_mode(call)

    @staticmethod
    def _forward_mode(call: CustomVJP) -> DifferentiationError:
        return DifferentiationError(
            f"{call.name}: can't apply forward-mode autodiff (jvp) to a custom_vjp function.",
            got="jvp, jacfwd or hessian of a function that has a backward rule only",
            fix="grad, vjp or jacrev; or give the rule with custom_jvp, which serves both modes",
        )

    def transpose(
        self,
        cts: Sequence[Value | None],
        *operands: Any,
        call: CustomVJP,
        backward: Backward,
        num_residuals: int,
        perturbed: tuple[bool, ...],
        out_avals: tuple[ShapedArray, ...],
    ) -> list[Value | None]:
        given = [filled(c, a, call.symbolic) for c, a in zip(cts, out_avals, strict=True)]
        found = backward(*operands[:num_residuals], *given)
        wanted = [ct for ct, p in zip(found, perturbed, strict=True) if p]
        return [*(None for _ in range(num_residuals)), *wanted]


custom_jvp_call = CustomCallPrimitive("custom_jvp_call")
custom_vjp_call = CustomCallPrimitive("custom_vjp_call")
custom_vjp_linear = CustomVJPLinear()
