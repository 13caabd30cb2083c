"""``scan``: a loop of known length that carries values and stacks results.

The primitive's operands are constants, carries and stacked inputs; its body is a program from
``(constants, carries, slices)`` to ``(carries, slices of the results)``, without constants of its
own.  The rules, in the order of this file: derivative, batching, partial evaluation, transpose.
Each looks first for which carries have tangents (are batched, are unknown): a fixed point, since
one carry may make another so in a later step.

In the backward pass a scan runs the other way.  What the forward pass must keep for it is stacked,
except for what does not change with the step, what is there anyway (slices of inputs, results), and
what is cheaper to compute again (``transforms/control/residuals.py``).

Start at :class:`Scan`; the user's functions are in ``transforms/control/user_loops.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from functrax.backends.device import run_jaxpr
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.arithmetic import add
from functrax.core.prims.control import ScanLoop
from functrax.core.prims.reindex import transpose_, zeros
from functrax.core.tracing.primitive import Avals, Linear, Value, spread
from functrax.core.tracing.stage import Derived, derive, eval_jaxpr
from functrax.core.tracing.trace import current, state
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.residuals import fewer_residuals, hoist, keep_exactly
from functrax.transforms.interpreters.batching import batch_jaxpr
from functrax.transforms.interpreters.forward import jvp_jaxpr
from functrax.transforms.interpreters.linearize import PartialTrace, SplitJaxpr, Tape, split_jaxpr
from functrax.transforms.interpreters.transpose import backward, transpose_jaxpr

Ops = Sequence[Value]
Tangents = Sequence["Value | None"]


def rearranged(jaxpr: Jaxpr, inputs: Sequence[int], outputs: Sequence[int]) -> Jaxpr:
    """The same program with its inputs and outputs in another order."""
    return Jaxpr(
        (),
        [jaxpr.invars[i] for i in inputs],
        [jaxpr.outvars[i] for i in outputs],
        jaxpr.eqns,
        jaxpr.name,
    )


def split_three(values: Sequence[Any], a: int, b: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Constants, carries and the rest."""
    return list(values[:a]), list(values[a : a + b]), list(values[a + b :])


def chosen(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The values that the mask marks."""
    return [x for x, m in zip(values, mask, strict=True) if m]


def others(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The values that the mask does not mark."""
    return [x for x, m in zip(values, mask, strict=True) if not m]


def merged(mask: Sequence[bool], marked: Sequence[Any], unmarked: Sequence[Any]) -> list[Any]:
    """Undo :func:`chosen` and :func:`others`."""
    yes, no = iter(marked), iter(unmarked)
    return [next(yes) if m else next(no) for m in mask]


class Scan(ScanLoop):
    """Runs ``jaxpr`` once for each slice of the stacked inputs, in order, or in reverse."""

    name = "scan"

    def shape_rule(
        self,
        *avals: ShapedArray,
        jaxpr: Jaxpr,
        length: int,
        num_consts: int,
        num_carry: int,
        reverse: bool,
    ) -> Avals:
        consts, carry, stacked = split_three(avals, num_consts, num_carry)
        if any(a.ndim == 0 or a.shape[0] != length for a in stacked):
            raise ShapeError(
                "scan: a stacked input does not have the scan's length",
                got=f"{[a.str_short() for a in stacked]} for length {length}",
                fix="leading axes of one size, which is length",
            )
        slices = [ShapedArray(a.shape[1:], a.dtype) for a in stacked]
        given = [a.strip_weak_type() for a in (*consts, *carry, *slices)]
        wanted = [a.strip_weak_type() for a in jaxpr.in_avals]
        if given != wanted:
            raise ShapeError(
                "scan: operands do not fit the body",
                got=f"{[a.str_short() for a in given]} for {[a.str_short() for a in wanted]}",
                fix="operands of the types that the body was traced for",
            )
        outs = jaxpr.out_avals
        results = [ShapedArray((length, *a.shape), a.dtype, a.weak_type) for a in outs[num_carry:]]
        return (*outs[:num_carry], *results)

    def reference(
        self,
        *values: Any,
        jaxpr: Jaxpr,
        length: int,
        num_consts: int,
        num_carry: int,
        reverse: bool,
    ) -> Any:
        consts, carry, stacked = split_three(values, num_consts, num_carry)
        results = [np.empty((length, *a.shape), a.dtype) for a in jaxpr.out_avals[num_carry:]]
        for i in reversed(range(length)) if reverse else range(length):
            outs = run_jaxpr(jaxpr, [*consts, *carry, *(np.asarray(x)[i] for x in stacked)])
            carry = outs[:num_carry]
            for result, out in zip(results, outs[num_carry:], strict=True):
                result[i] = np.asarray(out)
        return [*(np.asarray(x) for x in carry), *results]

    def jvp(
        self,
        primals: Ops,
        tangents: Tangents,
        *,
        jaxpr: Jaxpr,
        num_consts: int,
        num_carry: int,
        **params: Any,
    ) -> tuple[Any, Any]:
        tc, tk, ts = split_three(tangents, num_consts, num_carry)
        nz_c, nz_k, nz_s = ([t is not None for t in part] for part in (tc, tk, ts))
        num_results = len(jaxpr.outvars) - num_carry
        while True:
            derived = jvp_jaxpr(jaxpr, (*nz_c, *nz_k, *nz_s), (*nz_k, *[False] * num_results))
            if list(derived.flags[:num_carry]) == nz_k:
                break
            nz_k = [a or b for a, b in zip(nz_k, derived.flags, strict=False)]
        pc, pk, ps = split_three(primals, num_consts, num_carry)
        tk = [zeros(p.aval) if t is None else t for p, t in zip(pk, tk, strict=True)]
        consts = [*derived.consts, *pc, *chosen(tc, nz_c)]
        carry = [*pk, *chosen(tk, nz_k)]
        body, results = _interleaved(derived, nz_c, nz_k, nz_s)
        outs = self.bind(
            *consts, *carry, *ps, *chosen(ts, nz_s),
            jaxpr=body, num_consts=len(consts), num_carry=len(carry), **params,
        )  # fmt: skip
        by_number = dict(zip(results, outs, strict=True))
        num_out = len(jaxpr.outvars)
        found = (by_number[i] for i in range(num_out, len(outs)))
        out_tangents = [next(found) if flag else None for flag in derived.flags]
        return [by_number[i] for i in range(num_out)], out_tangents

    def batch_over_axis(
        self,
        mapped: Hashable,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        /,
        *,
        jaxpr: Jaxpr,
        num_consts: int,
        num_carry: int,
        **params: Any,
    ) -> tuple[Any, Any]:
        """Batch the body, with its collectives over the axis ``mapped``."""
        const_b, carry_b, stacked_b = split_three(batched, num_consts, num_carry)
        num_results = len(jaxpr.outvars) - num_carry
        while True:
            filled = (*carry_b, *[False] * num_results)
            flags = (*const_b, *carry_b, *stacked_b)
            derived = batch_jaxpr(jaxpr, size, flags, mapped, filled)
            if list(derived.flags[:num_carry]) == carry_b:
                break
            carry_b = [a or b for a, b in zip(carry_b, derived.flags, strict=False)]
        consts, carry, stacked = split_three(args, num_consts, num_carry)
        was = batched[num_consts : num_consts + num_carry]
        carry = [
            spread(size, [x], [have or not want], literals=True)[0]
            for x, have, want in zip(carry, was, carry_b, strict=True)
        ]
        stacked = [_swap(x) if b else x for x, b in zip(stacked, stacked_b, strict=True)]
        outs = self.bind(
            *derived.consts, *consts, *carry, *stacked,
            jaxpr=derived.jaxpr, num_consts=len(derived.consts) + num_consts,
            num_carry=num_carry, **params,
        )  # fmt: skip
        results = [
            _swap(x) if b else x
            for x, b in zip(outs[num_carry:], derived.flags[num_carry:], strict=True)
        ]
        return [*outs[:num_carry], *results], derived.flags

    def partial_eval(self, trace: PartialTrace, args: Ops, params: dict[str, Any]) -> list[Value]:
        """Run what is known now, stacking what the rest needs; record a scan of the rest."""
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        same = {"length": params["length"], "reverse": params["reverse"]}
        known_consts = [i < num_consts and not trace.is_unknown(x) for i, x in enumerate(args)]
        before, jaxpr = hoist(params["jaxpr"], known_consts)
        with current(trace.parent):
            hoisted = eval_jaxpr(before, (), *chosen(args, known_consts))
        args, num_consts = [*hoisted, *args], len(hoisted) + num_consts
        unknown = [trace.is_unknown(x) for x in args]
        split, u_k = _split(jaxpr, unknown, num_consts, num_carry)
        u_c, _, u_s = split_three(unknown, num_consts, num_carry)
        consts, carry, stacked = split_three(args, num_consts, num_carry)
        known_c, known_k, known_s = others(consts, u_c), others(carry, u_k), others(stacked, u_s)
        split = fewer_residuals(split, len(known_c), len(known_k))

        # The known body gives out the residuals, step by step, except for those that are there.
        first_s = len(known_c) + len(known_k)
        new = len(split.known.consts)
        inner = split.known.jaxpr
        num_known = split.out_unknown.count(False)
        sources = {
            r: inner.invars[new + r] if r >= 0 else inner.outvars[num_known + ~r]
            for r in split.residuals
            if not (0 <= r < len(known_c) or r >= first_s)
        }
        results = inner.outvars[:num_known]
        out_vars = [*results, *(v for v in sources.values() if v not in results[len(known_k) :])]
        body = Jaxpr((), inner.invars, out_vars, inner.eqns, inner.name)
        with current(trace.parent):
            outs = self.bind(
                *split.known.consts, *known_c, *known_k, *known_s,
                jaxpr=body, num_consts=new + len(known_c), num_carry=len(known_k), **same,
            )  # fmt: skip
        by_var = dict(zip(out_vars[len(known_k) :], outs[len(known_k) :], strict=True))
        stacks = {r: by_var[v] for r, v in sources.items()}
        stacks.update({first_s + i: x for i, x in enumerate(known_s)})

        invariant = [0 <= r < len(known_c) for r in split.residuals]
        rest_consts = [
            *split.unknown.consts,
            *(known_c[r] for r in chosen(split.residuals, invariant)),
            *chosen(consts, u_c),
        ]
        rest_carry = chosen(carry, u_k)
        sliced = [stacks[r] for r in others(split.residuals, invariant)]
        rest: list[Value] = []
        if any(split.out_unknown):
            rest = trace.record(
                self,
                [*rest_consts, *rest_carry, *sliced, *chosen(stacked, u_s)],
                {
                    "jaxpr": _rest_body(split.unknown, invariant, sum(u_c), sum(u_k)),
                    "num_consts": len(rest_consts),
                    "num_carry": len(rest_carry),
                    **same,
                },
            )
        return merged(split.out_unknown, rest, outs[:num_known])

    def transpose(
        self,
        cts: Tangents,
        *operands: Any,
        jaxpr: Jaxpr,
        num_consts: int,
        num_carry: int,
        length: int,
        reverse: bool,
    ) -> list[Value | None]:
        linear = [isinstance(x, Linear) for x in operands]
        _, lin_k = _split(jaxpr, linear, num_consts, num_carry)
        if not all(lin_k):
            return self._transpose_rest(
                cts, operands, jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry,
                length=length, reverse=reverse,
            )  # fmt: skip
        lin_c, _, lin_s = split_three(linear, num_consts, num_carry)
        consts, carry, stacked = split_three(operands, num_consts, num_carry)
        ct_carry = [
            zeros(x.aval) if ct is None else ct
            for x, ct in zip(carry, cts[:num_carry], strict=True)
        ]
        ct_results = cts[num_carry:]
        given = tuple(ct is not None for ct in ct_results)
        derived = _transposed_body(jaxpr, lin_c, lin_s, num_carry, given)
        totals = [zeros(x.aval) for x in chosen(consts, lin_c)]
        outs = self.bind(
            *derived.consts, *others(consts, lin_c),
            *totals, *ct_carry,
            *others(stacked, lin_s), *(ct for ct in ct_results if ct is not None),
            jaxpr=derived.jaxpr,
            num_consts=len(derived.consts) + lin_c.count(False),
            num_carry=len(totals) + num_carry,
            length=length,
            reverse=not reverse,
        )  # fmt: skip
        ct_consts, ct_init, ct_stacked = split_three(outs, len(totals), num_carry)
        nothing: list[None] = [None] * len(operands)
        return [
            *merged(lin_c, ct_consts, nothing[: lin_c.count(False)]),
            *ct_init,
            *merged(lin_s, ct_stacked, nothing[: lin_s.count(False)]),
        ]

    def _transpose_rest(
        self, cts: Tangents, operands: Sequence[Any], **params: Any
    ) -> list[Value | None]:
        """Run the part that depends on no linear operand first, then transpose what is left."""
        partial = PartialTrace(state.trace)
        linear = [isinstance(x, Linear) for x in operands]
        args = [
            partial.new_input(x.aval) if lin else x for x, lin in zip(operands, linear, strict=True)
        ]
        with current(partial):
            outs = self.partial_eval(partial, args, params)
        tape = Tape(partial, chosen(args, linear), outs)
        found = backward(tape, cts)
        partial.end()
        nothing: list[None] = [None] * linear.count(False)
        return merged(linear, found, nothing)


def _interleaved(
    derived: Derived, nz_c: Sequence[bool], nz_k: Sequence[bool], nz_s: Sequence[bool]
) -> tuple[Jaxpr, list[int]]:
    """A derivative's body in scan's order; and which of its results each output is."""
    new = len(derived.consts)
    ends = [new + len(nz_c), new + len(nz_c) + len(nz_k), new + len(nz_c) + len(nz_k) + len(nz_s)]
    t_c = range(ends[2], ends[2] + sum(nz_c))
    t_k = range(t_c.stop, t_c.stop + sum(nz_k))
    t_s = range(t_k.stop, t_k.stop + sum(nz_s))
    inputs = [
        *range(ends[0]), *t_c, *range(ends[0], ends[1]), *t_k, *range(ends[1], ends[2]), *t_s,
    ]  # fmt: skip
    num_out, num_carry = len(derived.flags), len(nz_k)
    tangent_results = num_out + sum(derived.flags[:num_carry])
    outputs = [
        *range(num_carry),
        *range(num_out, tangent_results),
        *range(num_carry, num_out),
        *range(tangent_results, num_out + sum(derived.flags)),
    ]
    return rearranged(derived.jaxpr, inputs, outputs), outputs


def _split(
    jaxpr: Jaxpr, unknown: Sequence[bool], num_consts: int, num_carry: int
) -> tuple[SplitJaxpr, list[bool]]:
    """A body split into known and unknown, and which carries are unknown in some step."""
    u_c, u_k, u_s = split_three(unknown, num_consts, num_carry)
    num_results = len(jaxpr.outvars) - num_carry
    while True:
        moved = (*u_k, *[False] * num_results)
        split = split_jaxpr(jaxpr, (*u_c, *u_k, *u_s), keep_exactly, moved)
        if list(split.out_unknown[:num_carry]) == u_k:
            return split, u_k
        u_k = [a or b for a, b in zip(u_k, split.out_unknown, strict=False)]


def _rest_body(unknown: Derived, invariant: Sequence[bool], num_c: int, num_k: int) -> Jaxpr:
    """The unknown body with its inputs in scan's order: residuals are constants or slices."""
    new = len(unknown.consts)
    residuals = range(new, new + len(invariant))
    first = residuals.stop
    inputs = [
        *range(new),
        *chosen(residuals, invariant),
        *range(first, first + num_c + num_k),
        *others(residuals, invariant),
        *range(first + num_c + num_k, len(unknown.jaxpr.invars)),
    ]
    return rearranged(unknown.jaxpr, inputs, range(len(unknown.jaxpr.outvars)))


def _transposed_body(
    jaxpr: Jaxpr,
    lin_c: Sequence[bool],
    lin_s: Sequence[bool],
    num_carry: int,
    given: tuple[bool, ...],
) -> Derived:
    """The body of the backward scan.

    It carries the sums of the constants' cotangents and the carries' cotangents; it takes the
    residuals' slices and the given cotangents' slices.
    """
    linear = (*lin_c, *[True] * num_carry, *lin_s)
    nonzero = (*[True] * num_carry, *given)
    inner = transpose_jaxpr(jaxpr, linear, nonzero, fill=True)
    avals_c, avals_k, avals_s = split_three(jaxpr.in_avals, len(lin_c), num_carry)
    ct_avals = chosen(jaxpr.out_avals[num_carry:], given)
    groups = [
        others(avals_c, lin_c),
        chosen(avals_c, lin_c),
        avals_k,
        others(avals_s, lin_s),
        ct_avals,
    ]

    def body(*args: Value) -> tuple[list[Value], tuple[bool, ...]]:
        parts, rest = [], list(args)
        for group in groups:
            parts.append(rest[: len(group)])
            rest = rest[len(group) :]
        consts, totals, ct_carry, slices, ct_slices = parts
        cts = eval_jaxpr(inner.jaxpr, (), *inner.consts, *consts, *slices, *ct_carry, *ct_slices)
        ct_c, ct_k, ct_s = split_three(cts, len(totals), num_carry)
        sums = [add.bind(a, b) for a, b in zip(totals, ct_c, strict=True)]
        return [*sums, *ct_k, *ct_s], ()

    key = ("transposed scan", linear, num_carry, given)
    return derive(jaxpr, key, body, [a for group in groups for a in group], "transpose")


def _swap(x: Value) -> Value:
    """Exchange the batch axis and the axis of the steps."""
    return transpose_(x, (1, 0, *range(2, x.aval.ndim)))


scan_p = Scan()
