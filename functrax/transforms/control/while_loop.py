"""``while_loop``: a loop whose length is known only when it runs.

The primitive's operands are the condition's constants, the body's constants and the carries; its
parameter ``checkpoints`` says how many carries reverse mode may save.

Forward mode carries tangents beside the carries.  Reverse mode is in
``transforms/control/while_backward.py``.

Start at :class:`WhilePrimitive`; the user's functions are in ``transforms/control/user_loops.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functrax.backends.device import run_jaxpr
from functrax.core.errors.typed import ShapeError, VmapMethodError
from functrax.core.ir.jaxpr import Jaxpr, Var, programs_in
from functrax.core.prims.arithmetic import select_n
from functrax.core.prims.control import WhileLoop
from functrax.core.prims.reduce import reduce_or
from functrax.core.prims.reindex import broadcast_in_dim, zeros
from functrax.core.tracing.primitive import Avals, Linear, Value, spread
from functrax.core.tracing.stage import Derived, close, derive, eval_jaxpr, stage
from functrax.core.tracing.trace import current
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.residuals import hoist
from functrax.transforms.control.scan import chosen, merged, others, rearranged, split_three
from functrax.transforms.control.while_backward import DEFAULT_ROWS, while_cotangents
from functrax.transforms.interpreters.batching import batch_jaxpr, check_effects_of_choice
from functrax.transforms.interpreters.forward import jvp_jaxpr
from functrax.transforms.interpreters.linearize import PartialTrace, SplitJaxpr, split_jaxpr
from functrax.transforms.operations.user_checks import checks_where

Ops = Sequence[Value]
Tangents = Sequence["Value | None"]


def _check_no_checks_within(body: Jaxpr) -> None:
    """Refuse checks in programs of a body: they would be made of elements that are done."""
    within = [program for eqn in body.eqns for program in programs_in(eqn.params)]
    if any("check" in program.effects for program in within):
        raise VmapMethodError(
            "check does not support batched while-loops (checkify-of-vmap-of-while) where it is in "
            "a call or a branch: it would be made of elements that are done",
            got="a while_loop whose condition differs by element",
            fix="vmap outside: functrax.vmap(checkify(f))",
        )


class WhilePrimitive(WhileLoop):
    """While ``cond(carries)`` holds, ``carries = body(carries)``."""

    name = "while"

    def shape_rule(
        self,
        *avals: ShapedArray,
        cond: Jaxpr,
        body: Jaxpr,
        cond_consts: int,
        body_consts: int,
        checkpoints: int,
    ) -> Avals:
        of_cond, of_body, carry = split_three(avals, cond_consts, body_consts)
        predicate = cond.out_avals
        if len(predicate) != 1 or predicate[0].shape or predicate[0].dtype != dtypes.bool_:
            raise ShapeError(
                "while: the condition is not one scalar of bool",
                got=", ".join(a.str_short() for a in predicate),
                fix="a comparison, or .all() or .any() of one",
            )
        for given, program in (((*of_cond, *carry), cond), ((*of_body, *carry), body)):
            wanted = [a.strip_weak_type() for a in program.in_avals]
            if [a.strip_weak_type() for a in given] != wanted:
                raise ShapeError(
                    "while: operands do not fit the loop",
                    got=f"{[a.str_short() for a in given]} for {[a.str_short() for a in wanted]}",
                    fix="operands of the types that the loop was traced for",
                )
        return tuple(body.out_avals)

    def reference(
        self,
        *values: Any,
        cond: Jaxpr,
        body: Jaxpr,
        cond_consts: int,
        body_consts: int,
        checkpoints: int,
    ) -> Any:
        of_cond, of_body, carry = split_three(values, cond_consts, body_consts)
        while bool(np.asarray(run_jaxpr(cond, [*of_cond, *carry])[0])):
            carry = run_jaxpr(body, [*of_body, *carry])
        return [np.asarray(x) for x in carry]

    def jvp(
        self,
        primals: Ops,
        tangents: Tangents,
        *,
        cond: Jaxpr,
        body: Jaxpr,
        cond_consts: int,
        body_consts: int,
        checkpoints: int,
    ) -> tuple[Any, Any]:
        of_cond, of_body, carry = split_three(primals, cond_consts, body_consts)
        _, t_body, t_carry = split_three(tangents, cond_consts, body_consts)
        nz_b, nz_k = ([t is not None for t in part] for part in (t_body, t_carry))
        while True:
            derived = jvp_jaxpr(body, (*nz_b, *nz_k), tuple(nz_k))
            if list(derived.flags) == nz_k:
                break
            nz_k = [a or b for a, b in zip(nz_k, derived.flags, strict=True)]
        tangents_in = [
            zeros(p.aval) if t is None else t
            for p, t, nz in zip(carry, t_carry, nz_k, strict=True)
            if nz
        ]
        new_consts = [*derived.consts, *of_body, *chosen(t_body, nz_b)]
        outs = self.bind(
            *of_cond, *new_consts, *carry, *tangents_in,
            cond=_taking_more(cond, [t.aval for t in tangents_in]),
            body=_tangents_after_consts(derived, len(of_body), len(carry), sum(nz_b)),
            cond_consts=cond_consts,
            body_consts=len(new_consts),
            checkpoints=checkpoints,
        )  # fmt: skip
        found = iter(outs[len(carry) :])
        return outs[: len(carry)], [next(found) if nz else None for nz in nz_k]

    def batch_over_axis(
        self,
        mapped: Hashable,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        /,
        *,
        cond: Jaxpr,
        body: Jaxpr,
        cond_consts: int,
        body_consts: int,
        checkpoints: int,
    ) -> tuple[Any, Any]:
        """Batch both programs; where conditions differ, elements that are done stay as they are."""
        b_cond, b_body, b_carry = split_three(batched, cond_consts, body_consts)
        of_cond, of_body, carry = split_three(args, cond_consts, body_consts)
        was = list(b_carry)
        while True:
            test = batch_jaxpr(cond, size, (*b_cond, *b_carry), mapped)
            step = batch_jaxpr(body, size, (*b_body, *b_carry), mapped, tuple(b_carry))
            wanted = [a or b or test.flags[0] for a, b in zip(b_carry, step.flags, strict=True)]
            if wanted == b_carry:
                break
            b_carry = wanted
        carry = [
            spread(size, [x], [have or not want], literals=True)[0]
            for x, have, want in zip(carry, was, b_carry, strict=True)
        ]
        if test.flags[0]:
            check_effects_of_choice("in while_loop with batched predicate", (cond, body))
            _check_no_checks_within(body)
            step, test = _stepping_by_element(step, test, len(of_body), len(of_cond)), _any(test)
            of_body = [*of_body, *of_cond]
        outs = self.bind(
            *test.consts, *of_cond, *step.consts, *of_body, *carry,
            cond=test.jaxpr,
            body=step.jaxpr,
            cond_consts=len(test.consts) + len(of_cond),
            body_consts=len(step.consts) + len(of_body),
            checkpoints=checkpoints,
        )  # fmt: skip
        return outs, b_carry

    def partial_eval(self, trace: PartialTrace, args: Ops, params: dict[str, Any]) -> list[Value]:
        """Run the loop without the unknown carries; record the whole loop for these.

        What the body makes of constants alone is made once, in front of both.
        """
        unknown = [trace.is_unknown(x) for x in args]
        cond = params["cond"]
        of_cond, of_body, carry = split_three(args, params["cond_consts"], params["body_consts"])
        _, u_b, u_k = split_three(unknown, len(of_cond), len(of_body))
        before, body = hoist(params["body"], [*(not u for u in u_b), *[False] * len(carry)])
        with current(trace.parent):
            hoisted = eval_jaxpr(before, (), *others(of_body, u_b))
        of_body, u_b = [*hoisted, *of_body], [*[False] * len(hoisted), *u_b]
        split, u_k = split_carries(body, u_b, u_k)
        known = others(of_body, u_b)
        with current(trace.parent):
            outs = self.bind(
                *of_cond, *split.known.consts, *known, *others(carry, u_k),
                cond=without_inputs(cond, [False] * len(of_cond) + u_k),
                body=rearranged(
                    split.known.jaxpr, range(len(split.known.jaxpr.invars)), range(u_k.count(False))
                ),
                cond_consts=len(of_cond),
                body_consts=len(split.known.consts) + len(known),
                checkpoints=params["checkpoints"],
            )  # fmt: skip
        whole = {**params, "body": body, "body_consts": len(of_body)}
        everything = trace.record(self, [*of_cond, *of_body, *carry], whole)
        return merged(u_k, chosen(everything, u_k), outs)

    def transpose(
        self,
        cts: Tangents,
        *operands: Any,
        cond: Jaxpr,
        body: Jaxpr,
        cond_consts: int,
        body_consts: int,
        checkpoints: int,
    ) -> list[Value | None]:
        of_cond, of_body, carry = split_three(operands, cond_consts, body_consts)
        u_b = [isinstance(x, Linear) for x in of_body]
        split, u_k = split_carries(body, u_b, [isinstance(x, Linear) for x in carry])
        ct_consts, ct_carry = while_cotangents(
            without_inputs(cond, [False] * len(of_cond) + u_k),
            of_cond,
            split,
            body,
            others(of_body, u_b),
            others(carry, u_k),
            (*u_b, *u_k),
            [
                zeros(x.aval) if ct is None else ct
                for x, ct in zip(chosen(carry, u_k), chosen(cts, u_k), strict=True)
            ],
            [x.aval for x in chosen(of_body, u_b)],
            checkpoints,
            run_while,
        )
        nothing: list[None] = [None] * len(operands)
        return [
            *nothing[: len(of_cond)],
            *merged(u_b, ct_consts, nothing[: u_b.count(False)]),
            *merged(u_k, ct_carry, nothing[: u_k.count(False)]),
        ]


def split_carries(
    body: Jaxpr, u_consts: Sequence[bool], u_carry: Sequence[bool]
) -> tuple[SplitJaxpr, list[bool]]:
    """A body split into known and unknown, and which carries are unknown in some step."""
    flags = list(u_carry)
    while True:
        split = split_jaxpr(body, (*u_consts, *flags), moved=tuple(flags))
        if list(split.out_unknown) == flags:
            return split, flags
        flags = [a or b for a, b in zip(flags, split.out_unknown, strict=True)]


def without_inputs(jaxpr: Jaxpr, dropped: Sequence[bool]) -> Jaxpr:
    """The same program without inputs that it does not use (tangents, in a condition)."""
    return Jaxpr((), others(jaxpr.invars, dropped), jaxpr.outvars, jaxpr.eqns, jaxpr.name)


def _taking_more(jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> Jaxpr:
    """The same program with more inputs, which it does not use."""
    inputs = (*jaxpr.invars, *map(Var, avals))
    return Jaxpr((), inputs, jaxpr.outvars, jaxpr.eqns, jaxpr.name)


def _tangents_after_consts(
    derived: Derived, num_consts: int, num_carry: int, num_tangents: int
) -> Jaxpr:
    """A derivative's body with the constants' tangents among the constants."""
    primals = len(derived.consts) + num_consts
    tangents = primals + num_carry
    inputs = [
        *range(primals),
        *range(tangents, tangents + num_tangents),
        *range(primals, tangents),
        *range(tangents + num_tangents, len(derived.jaxpr.invars)),
    ]
    return rearranged(derived.jaxpr, inputs, range(len(derived.jaxpr.outvars)))


def _any(test: Derived) -> Derived:
    """A batched condition as one: whether it holds for any element."""

    def any_holds(*args: Value) -> tuple[list[Value], tuple[bool, ...]]:
        (holds,) = eval_jaxpr(test.jaxpr, (), *args)
        return [reduce_or.bind(holds, axes=(0,))], ()

    made = derive(test.jaxpr, "any", any_holds, test.jaxpr.in_avals, "any")
    return Derived(made.jaxpr, (*made.consts, *test.consts), ())


def _stepping_by_element(step: Derived, test: Derived, num_body: int, num_cond: int) -> Derived:
    """A batched body that leaves the elements alone for which the condition does not hold.

    It takes the constants of the body, then those of the condition, then the carries.
    """
    new_b, new_c = len(step.consts), len(test.consts)
    body_avals = step.jaxpr.in_avals
    cond_avals = test.jaxpr.in_avals
    carry_avals = body_avals[new_b + num_body :]

    def program(*args: Value) -> list[Value]:
        b, rest = args[:new_b], args[new_b:]
        c, rest = rest[:new_c], rest[new_c:]
        of_body, rest = rest[:num_body], rest[num_body:]
        of_cond, carry = rest[:num_cond], rest[num_cond:]
        (holds,) = eval_jaxpr(test.jaxpr, (), *c, *of_cond, *carry)
        with checks_where(holds):
            stepped = eval_jaxpr(step.jaxpr, (), *b, *of_body, *carry)

        def choose(old: Value, new: Value) -> Value:
            which = broadcast_in_dim.bind(holds, shape=old.aval.shape, dims=(0,))
            return select_n.bind(which, old, new)

        return [choose(old, new) for old, new in zip(carry, stepped, strict=True)]

    avals = [
        *body_avals[:new_b],
        *cond_avals[:new_c],
        *body_avals[new_b : new_b + num_body],
        *cond_avals[new_c : new_c + num_cond],
        *carry_avals,
    ]
    jaxpr, consts = stage(program, avals, step.jaxpr.name)
    assert not consts, "a program without constants gains none"
    return Derived(jaxpr, (*step.consts, *test.consts), ())


while_p = WhilePrimitive()


def run_while(
    cond: Callable[..., Value],
    body: Callable[..., Sequence[Value]],
    init: Sequence[Value],
    name: str = "while_loop",
    checkpoints: int = DEFAULT_ROWS,
) -> list[Value]:
    """A loop over flat values; the functions may close over others."""
    avals = [x.aval for x in init]
    test, of_cond = stage(lambda *xs: [cond(*xs)], avals, f"{name} condition")
    step, of_body = stage(body, avals, f"{name} body")
    outs: list[Value] = while_p.bind(
        *of_cond, *of_body, *init,
        cond=close(test),
        body=close(step),
        cond_consts=len(of_cond),
        body_consts=len(of_body),
        checkpoints=checkpoints,
    )  # fmt: skip
    return outs
