"""Primitives that a user makes with JAX's interface, under every interpreter of functrax.

A :class:`Primitive` is a name with rules, in the tables of ``rules.py``.  Applied, it is a
:class:`UserCall`, a call that carries its own rules, as those of ``custom_jvp`` do.  In a program
it is an equation :data:`user_call`, which holds what the primitive's lowering does as a program,
for the compiler; its derivative, its transpose and its batched form are the user's rules.

Start at :class:`Primitive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import functrax.numpy as jnp
from functrax.compat.extension import rules
from functrax.compat.extension.lowering import LoweredFunction, LoweringRuleContext
from functrax.compat.extension.rules import UndefinedPrimal
from functrax.core.errors.typed import ArgumentError, DifferentiationError, FunctraxError
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.records import record
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Avals, Linear, Primitive as LanguagePrimitive, Value
from functrax.core.tracing.stage import close, stage
from functrax.core.tracing.trace import Trace, state
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.batching import BatchTrace
from functrax.transforms.interpreters.custom_call import (
    CustomCallPrimitive,
    CustomJVP,
    SymbolicZero,
    custom_jvp_call,
)
from functrax.transforms.interpreters.linearize import PartialTrace


class LoweringError(FunctraxError, NotImplementedError):
    """A primitive cannot be compiled, for it has no lowering that functrax knows."""


class Primitive:
    """An operation of the user's own, with JAX's interface.

    Args:
      name: what it is called in programs and errors.

    >>> from functrax import jit, numpy as jnp
    >>> from functrax.compat.extension import lowering, rules
    >>> cube_p = Primitive("cube")
    >>> _ = cube_p.def_impl(lambda x: x * x * x)
    >>> _ = cube_p.def_abstract_eval(lambda x: x)
    >>> _ = rules.register_lowering(cube_p, lowering.lower_fun(lambda x: x * x * x, False))
    >>> jit(cube_p.bind)(2.0)
    Array(8., dtype=float32, weak_type=True)
    """

    name: str
    multiple_results: bool = False
    call_primitive: bool = False
    map_primitive: bool = False
    ref_primitive: bool = False
    #: The primitive of functrax that this one shows, which has its rules in its class.
    own: LanguagePrimitive | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self._impl: Callable[..., Any] | None = None
        self._abstract_eval: Callable[..., Any] | None = None

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply it under the current interpreter: one result, or a list if it has several."""
        values = [as_value(x, f"an operand of {self.name}") for x in args]
        outs = state.trace.process_custom(UserCall(self, params), values)
        return list(outs) if self.multiple_results else outs[0]

    def bind_with_trace(
        self, trace: Trace, args: Sequence[Any], avals: Sequence[Any], params: dict[str, Any], /
    ) -> Any:
        """As :meth:`bind`, under an interpreter; the types are those of the arguments."""
        from functrax.core.tracing.trace import current

        with current(trace):
            return self.bind(*args, **params)

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """Say what it computes from arrays, outside of ``jit``; returns ``impl``."""
        self._impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval: Callable[..., Any]) -> Callable[..., Any]:
        """Say the types of the results, given those of the operands; returns its argument."""
        self._abstract_eval = abstract_eval
        return abstract_eval

    def def_effectful_abstract_eval(self, abstract_eval: Callable[..., Any]) -> Callable[..., Any]:
        """As :meth:`def_abstract_eval`, where the types come with a set of effects.

        What a program does besides computing follows from the lowering; the set is not used.
        """
        self._abstract_eval = lambda *avals, **params: abstract_eval(*avals, **params)[0]
        return abstract_eval

    def def_custom_bind(self, bind: Callable[..., Any]) -> Callable[..., Any]:
        """Replace :meth:`bind`; returns its argument."""
        self.bind = bind  # type: ignore[method-assign]
        return bind

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """What :meth:`bind` takes for the parameters of an equation."""
        return params

    def impl(self, *args: Any, **params: Any) -> Any:
        """What it computes from arrays."""
        if self._impl is None:
            raise LoweringError(
                f"{self.name}: evaluation rule not implemented",
                got=f"{self.name} applied to arrays",
                fix=f"{self.name}.def_impl(function)",
            )
        return self._impl(*args, **params)

    def abstract_eval(self, *avals: ShapedArray, **params: Any) -> Any:
        """The types of the results."""
        if self._abstract_eval is None:
            raise LoweringError(
                f"{self.name}: abstract evaluation rule not implemented",
                got=f"{self.name} traced with {', '.join(a.str_short() for a in avals)}",
                fix=f"{self.name}.def_abstract_eval(function from types to types)",
            )
        return self._abstract_eval(*avals, **params)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


@record(eq=False)
class UserCall:
    """One application of a :class:`Primitive`.

    Args:
      primitive: what is applied.
      params: its parameters.
      num_consts: how many leading arguments are constants of the lowered program, unknown to rules.
      jaxpr: what the lowering does, once the call is part of a program.
      error: why there is no such program.
      out_avals: the types of the results, once the call is part of a program.
    """

    primitive: Primitive
    params: dict[str, Any]
    num_consts: int = 0
    jaxpr: Jaxpr | None = None
    error: Exception | None = None
    out_avals: tuple[ShapedArray, ...] = ()

    def function(self, *args: Any) -> Sequence[Any]:
        """What the primitive computes, under the bottom interpreter."""
        given = [concrete(x) for x in args[self.num_consts :]]
        out = self.primitive.impl(*given, **self.params)
        return [as_value(x) for x in self._listed(out)]

    def jvp(
        self, primals: Sequence[Value], tangents: Sequence[Value | None]
    ) -> tuple[Sequence[Value], Sequence[Value | None]]:
        """Results and tangents by the rule in ``ad.primitive_jvps``."""
        rule = rules.primitive_jvps.get(self.primitive)
        if rule is None:
            raise self._no_rule("Differentiation rule", "ad.primitive_jvps")
        given = tuple([concrete(x) for x in primals[self.num_consts :]])
        moved = tangents[self.num_consts :]
        zeroed = tuple([rules.as_tangent(t, p.aval) for p, t in zip(given, moved, strict=True)])
        outs, found = rule(given, zeroed, **self.params)
        results = [as_value(x) for x in self._listed(outs)]
        return results, [rules.from_tangent(t) for t in self._listed(found)]

    def with_rule(self) -> CustomJVP:
        """The call as one of a function with a derivative rule; it has no batching rule then."""
        alone = replace(self, num_consts=0)

        def rule(*args: Any) -> list[Any]:
            primals, tangents = args[: len(args) // 2], args[len(args) // 2 :]
            moved = [None if isinstance(t, SymbolicZero) else t for t in tangents]
            outs, found = alone.jvp(primals, moved)
            pairs = zip(outs, found, strict=True)
            return [*outs, *(SymbolicZero(x.aval) if t is None else t for x, t in pairs)]

        rule.origin = (  # type: ignore[attr-defined]
            self.primitive,
            tuple(sorted(self.params.items(), key=lambda item: item[0])),
        )
        return CustomJVP(
            self.function, rule, self.primitive.name, True, self.jaxpr, self.num_consts
        )

    def batch(
        self, trace: BatchTrace, args: Sequence[Value], batched: Sequence[bool]
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        """Results by the rule in one of the tables of ``batching``, the batch axis in front."""
        given = tuple([concrete(x) for x in args[self.num_consts :]])
        dims = tuple([0 if b else None for b in batched[self.num_consts :]])
        outs, found = self._batching_rule(trace)(given, dims, **self.params)
        if self.primitive.multiple_results:
            flat = [as_value(x) for x in outs]
            axes = list(found) if isinstance(found, Sequence) else [found] * len(flat)
        else:
            flat, axes = [as_value(outs)], [found]
        in_front = [x if d in (None, 0) else jnp.moveaxis(x, d, 0) for x, d in zip(flat, axes)]
        return in_front, [d is not None for d in axes]

    def _batching_rule(self, trace: BatchTrace) -> Callable[..., Any]:
        primitive = self.primitive
        axis = AxisData(trace.axis_name, trace.size)
        fancy = rules.fancy_primitive_batchers.get(primitive)
        if fancy is not None:
            return lambda args, dims, **params: fancy(axis, args, dims, **params)
        with_axis = rules.axis_primitive_batchers.get(primitive)
        if with_axis is not None:
            return lambda args, dims, **params: with_axis(
                axis.size, axis.name, None, args, dims, **params
            )
        plain = rules.primitive_batchers.get(primitive)
        if plain is None:
            raise self._no_rule("Batching rule", "batching.primitive_batchers")
        return plain

    def partial_eval(self, trace: PartialTrace, args: Sequence[Value]) -> Sequence[Value]:
        """The call on the tape: it is linear in what depends on a tangent."""
        call = self if self.out_avals else self._typed([x.aval for x in args])
        outs = trace.record(user_call, args, {"jaxpr": self.jaxpr, "call": call})
        return outs  # type: ignore[no-any-return]

    def stage(self, trace: Trace, args: Sequence[Value]) -> Sequence[Value]:
        """An equation ``user_call``."""
        call, operands = self, args
        if self.jaxpr is None:
            call, consts = self._lowered([x.aval for x in args])
            operands = [*consts, *args]
        params = {"jaxpr": call.jaxpr, "call": call}
        return trace.process(user_call, operands, params)  # type: ignore[no-any-return]

    def transposed(
        self, cts: Sequence[Value | None], operands: Sequence[Any]
    ) -> Sequence[Value | None]:
        """Cotangents of the operands by the rule in ``ad.primitive_transposes``."""
        rule = rules.primitive_transposes.get(self.primitive)
        if rule is None:
            raise self._no_rule("Transpose rule (for reverse-mode differentiation)",
                                "ad.primitive_transposes")  # fmt: skip
        given = [
            UndefinedPrimal(x.aval) if isinstance(x, Linear) else concrete(x)
            for x in operands[self.num_consts :]
        ]
        zeroed = [rules.as_tangent(ct, a) for ct, a in zip(cts, self.out_avals, strict=True)]
        several = self.primitive.multiple_results
        found = rule(zeroed if several else zeroed[0], *given, **self.params)
        cotangents = [None] * len(given) if found is None else list(found)
        return [*[None] * self.num_consts, *(rules.from_tangent(ct) for ct in cotangents)]

    def _typed(self, avals: Sequence[ShapedArray]) -> UserCall:
        """The call of operands of these types, with the types of its results."""
        found = self._listed(self.primitive.abstract_eval(*avals, **self.params))
        types = tuple(ShapedArray(a.shape, a.dtype, getattr(a, "weak_type", False)) for a in found)
        return replace(self, out_avals=types)

    def _lowered(self, avals: Sequence[ShapedArray]) -> tuple[UserCall, Sequence[Value]]:
        """The call with what its lowering does, or why there is none, and that one's constants."""
        typed = self._typed(avals)
        try:
            jaxpr, consts = stage(self._lowering(typed.out_avals), avals, self.primitive.name)
        except Exception as error:  # raised where the program is compiled, as JAX does
            return replace(typed, error=error), ()
        return replace(typed, jaxpr=close(jaxpr), num_consts=len(consts)), consts

    def _lowering(self, types: Sequence[ShapedArray]) -> Callable[..., Sequence[Value]]:
        name = self.primitive.name
        rule = rules.lowerings.get(self.primitive)
        if rule is None:
            raise self._cannot_be_compiled("has no lowering")

        def lowered(*args: Value) -> Sequence[Value]:
            given = [concrete(x) for x in args]
            ctx = LoweringRuleContext(self.primitive, [x.aval for x in args], types)
            if isinstance(rule, LoweredFunction):
                outs = [as_value(x) for x in rule(ctx, *given, **self.params)]
            else:
                outs = self._traced_rule(rule, ctx, given)
            for x, aval in zip(outs, types, strict=True):
                if (x.aval.shape, x.aval.dtype) != (aval.shape, aval.dtype):
                    raise ArgumentError(
                        f"{name}: its lowering gives another type than its abstract evaluation",
                        got=f"{x.aval.str_short()} for {aval.str_short()}",
                        fix="make the two rules agree",
                    )
            return outs

        return lowered

    def _traced_rule(
        self, rule: rules.Rule, ctx: LoweringRuleContext, args: Sequence[Any]
    ) -> list[Value]:
        """The results of a rule that was written for MLIR, and passes its values on."""
        try:
            out = rule(ctx, *args, **self.params)
            listed = out if isinstance(out, (list, tuple)) else [out]
            return [as_value(x[0] if isinstance(x, (list, tuple)) else x) for x in listed]
        except Exception as error:
            what = f"is lowered by {rule}, which writes MLIR"
            raise self._cannot_be_compiled(what) from error

    def _cannot_be_compiled(self, what: str) -> LoweringError:
        name = self.primitive.name
        return LoweringError(
            f"{name} cannot be compiled: it {what}",
            got=f"{name} in a program that is to be run",
            fix=f"mlir.register_lowering({name}, mlir.lower_fun(f, multiple_results="
            f"{self.primitive.multiple_results})), where f computes it by functions of jax",
        )

    def _listed(self, out: Any) -> list[Any]:
        return list(out) if self.primitive.multiple_results else [out]

    def _no_rule(self, what: str, table: str) -> DifferentiationError:
        name = self.primitive.name
        return UserRuleError(
            f"{what} for '{name}' not implemented",
            got=f"an application of {name}",
            fix=f"{table}[{name}] = rule",
        )


class UserRuleError(DifferentiationError, NotImplementedError):
    """A primitive of the user's has no rule for what is asked of it."""


@record
class AxisData:
    """What a batching rule is told of the mapped axis: its name, or None, and its size."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


class UserCallPrimitive(CustomCallPrimitive):
    """A user's primitive in a program; bound again, it is a call with rules again."""

    def bind(self, *args: Value, **params: Any) -> Any:
        return state.trace.process_custom(params["call"], args)

    def shape_rule(self, *avals: ShapedArray, jaxpr: Jaxpr | None, call: UserCall) -> Avals:
        return call.out_avals

    def reference(self, *values: Any, jaxpr: Jaxpr | None, call: UserCall) -> Any:
        return super().reference(*values, jaxpr=_needed(call), call=call)

    def inlines(self, params: dict[str, Any]) -> Jaxpr:
        return _needed(params["call"])

    def kept(self, eqn: Eqn) -> Eqn:
        """A call of what the lowering does, with the derivative rule that the user gave."""
        call: UserCall = eqn.params["call"]
        _needed(call)
        params = {"jaxpr": eqn.params["jaxpr"], "call": call.with_rule()}
        return Eqn(custom_jvp_call, eqn.invars, eqn.outvars, params, eqn.source)

    def effects(self, params: dict[str, Any]) -> Any:
        return frozenset() if params["jaxpr"] is None else super().effects(params)

    def transpose(
        self, cts: Sequence[Value | None], *operands: Any, jaxpr: Jaxpr | None, call: UserCall
    ) -> Sequence[Value | None]:
        return call.transposed(cts, operands)


def _needed(call: UserCall) -> Jaxpr:
    """What a call's lowering does; raises why there is none."""
    if call.jaxpr is None:
        assert call.error is not None, "a call on a tape is never compiled"
        raise call.error
    return call.jaxpr


user_call = UserCallPrimitive("user_call")
