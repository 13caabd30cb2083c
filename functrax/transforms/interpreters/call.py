"""``Call``: a primitive that runs a program it holds, and the rules that all such share.

``jit`` and ``checkpoint`` are calls.  Their derivative, batched form and transpose are calls of
derived programs, so a call stays a call through every transformation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from functrax.backends.device import run_jaxpr
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.tracing.primitive import Avals, HigherOrder, Linear, Ops, Tangents, Value
from functrax.core.tracing.stage import Derived
from functrax.core.tracing.trace import current
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.batching import batch_jaxpr
from functrax.transforms.interpreters.forward import jvp_jaxpr
from functrax.transforms.interpreters.linearize import (
    PartialTrace,
    Saveable,
    is_not_reindex,
    split_jaxpr,
)
from functrax.transforms.interpreters.transpose import transpose_jaxpr


class Call(HigherOrder):
    """Runs ``jaxpr``, a program without constants."""

    is_call = True
    takes_deferred = True  # raw values go into the program as they are

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def shape_rule(self, *avals: ShapedArray, jaxpr: Jaxpr, **params: Any) -> Avals:
        wanted = [a.strip_weak_type() for a in jaxpr.in_avals]
        if [a.strip_weak_type() for a in avals] != wanted:
            raise ShapeError(
                f"{self.name}: operands do not fit the program",
                got=f"{[a.str_short() for a in avals]} for {[a.str_short() for a in wanted]}",
                fix="operands of the types that the program was traced for",
            )
        return tuple(jaxpr.out_avals)

    def reference(self, *values: Any, jaxpr: Jaxpr, **params: Any) -> Any:
        return run_jaxpr(jaxpr, values)

    def inlines(self, params: dict[str, Any]) -> Jaxpr:
        return params["jaxpr"]  # type: ignore[no-any-return]

    def call(self, derived: Derived, args: Ops, params: dict[str, Any]) -> list[Value]:
        """Call a derived program in place of this one."""
        outs = self.bind(*derived.consts, *args, jaxpr=derived.jaxpr, **params)
        return list(outs)

    def jvp(
        self, primals: Ops, tangents: Tangents, *, jaxpr: Jaxpr, **params: Any
    ) -> tuple[Any, Any]:
        nonzero = tuple(t is not None for t in tangents)
        derived = jvp_jaxpr(jaxpr, nonzero)
        outs = self.call(derived, [*primals, *(t for t in tangents if t is not None)], params)
        found = iter(outs[len(derived.flags) :])
        out_tangents = [next(found) if flag else None for flag in derived.flags]
        return outs[: len(derived.flags)], out_tangents

    def saveable(self, params: dict[str, Any]) -> Saveable:
        """What partial evaluation may keep as a residual."""
        return is_not_reindex

    def partial_eval(self, trace: PartialTrace, args: Ops, params: dict[str, Any]) -> list[Value]:
        """Call the known part now; record a call of the rest."""
        others = {k: v for k, v in params.items() if k != "jaxpr"}
        unknown = tuple(trace.is_unknown(x) for x in args)
        split = split_jaxpr(params["jaxpr"], unknown, self.saveable(params))
        known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
        with current(trace.parent):
            known_outs = self.call(split.known, known_args, others)
        num_known = split.out_unknown.count(False)
        residuals = [
            known_args[r] if r >= 0 else known_outs[num_known + ~r] for r in split.residuals
        ]
        unknown_args = [x for x, u in zip(args, unknown, strict=True) if u]
        operands = [*split.unknown.consts, *residuals, *unknown_args]
        unknown_outs: list[Value] = []
        if any(split.out_unknown):
            unknown_outs = trace.record(self, operands, {"jaxpr": split.unknown.jaxpr, **others})
        known, rest = iter(known_outs), iter(unknown_outs)
        return [next(rest) if u else next(known) for u in split.out_unknown]

    def transpose(
        self, cts: Tangents, *operands: Any, jaxpr: Jaxpr, **params: Any
    ) -> list[Value | None]:
        linear = tuple(isinstance(x, Linear) for x in operands)
        derived = transpose_jaxpr(jaxpr, linear, tuple(ct is not None for ct in cts))
        known = [x for x, lin in zip(operands, linear, strict=True) if not lin]
        found = iter(self.call(derived, [*known, *(c for c in cts if c is not None)], params))
        has_ct = iter(derived.flags)
        return [next(found) if lin and next(has_ct) else None for lin in linear]

    def batch_over_axis(
        self,
        axis_name: Hashable,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        jaxpr: Jaxpr,
        **params: Any,
    ) -> tuple[Any, Any]:
        """Batch the program, with its collectives over ``axis_name``."""
        derived = batch_jaxpr(jaxpr, size, tuple(batched), axis_name)
        return self.call(derived, args, params), derived.flags
