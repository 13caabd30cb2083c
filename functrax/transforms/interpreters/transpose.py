"""Reverse mode's second half: a tape read backwards, each entry by its primitive's transpose.

``ct`` is a cotangent; ``None`` stands for zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.arithmetic import add
from functrax.core.prims.reindex import zeros
from functrax.core.tracing.primitive import Linear, Value
from functrax.core.tracing.stage import Derived, derive, eval_jaxpr
from functrax.core.tracing.trace import current, state
from functrax.transforms.interpreters.linearize import Entry, PartialTrace, Tape, UnknownTracer


def backward(tape: Tape, cts: Sequence[Value | None]) -> list[Value | None]:
    """The cotangents of a tape's inputs, given those of its outputs."""
    pending: dict[int, Value] = {}
    backward_from(tape, cts, pending)
    return [None if v is None else pending.get(id(v)) for v in tape.inputs]


def backward_from(tape: Tape, cts: Sequence[Value | None], pending: dict[int, Value]) -> None:
    """Add what the cotangents of a tape's outputs give to those in ``pending``, by tracers' ids."""
    for output, ct in zip(tape.outputs, cts, strict=True):
        if output is not None and ct is not None:
            accumulate(pending, id(output), ct)
    previous = state.source
    try:
        for entry in reversed(tape.entries):
            transpose_entry(tape.trace, entry, pending)
    finally:
        state.source = previous


def accumulate(pending: dict[int, Value], key: int, ct: Value) -> None:
    """Add a cotangent to what there is of a tracer's."""
    known = pending.get(key)
    pending[key] = ct if known is None else add.bind(known, ct)


def transpose_entry(trace: PartialTrace, entry: Entry, pending: dict[int, Value]) -> None:
    """Replace the cotangents of an operation's results by those of its operands."""
    ct: Any
    if entry.primitive.multiple_results:
        ct = [pending.pop(id(v), None) for v in entry.outputs]
        if all(x is None for x in ct):
            return
    else:
        ct = pending.pop(id(entry.outputs[0]), None)
        if ct is None:
            return
    state.source = entry.source
    linear = [type(x) is UnknownTracer and x._trace is trace for x in entry.inputs]
    operands = [Linear(x.aval) if lin else x for x, lin in zip(entry.inputs, linear)]
    found = entry.primitive.transpose(ct, *operands, **entry.params)
    for x, lin, x_ct in zip(entry.inputs, linear, found, strict=True):
        if lin and x_ct is not None:
            accumulate(pending, id(x), x_ct)


def transpose_jaxpr(
    jaxpr: Jaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...], fill: bool = False
) -> Derived:
    """The transpose of a program without constants that is linear in some inputs.

    Args:
      jaxpr: the program.
      linear: which inputs it is linear in.
      nonzero: which results have cotangents.
      fill: whether every linear input gets a cotangent, made of zeros if need be.

    Returns:
      A program from the other inputs and the given cotangents to the cotangents of the linear
      inputs that have one; its flags say which have one.
    """
    known_avals = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if not lin]
    ct_avals = [a for a, nz in zip(jaxpr.out_avals, nonzero, strict=True) if nz]

    def transposed(*args: Value) -> tuple[list[Value], tuple[bool, ...]]:
        known, given = iter(args), iter(args[len(known_avals) :])
        partial = PartialTrace(state.trace)
        inputs = [
            partial.new_input(a) if lin else next(known)
            for a, lin in zip(jaxpr.in_avals, linear, strict=True)
        ]
        with current(partial):
            outs = eval_jaxpr(jaxpr, (), *inputs)
        tape = Tape(partial, [x for x, lin in zip(inputs, linear, strict=True) if lin], outs)
        cts = backward(tape, [next(given) if nz else None for nz in nonzero])
        partial.end()
        if fill:
            avals = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if lin]
            cts = [zeros(a) if ct is None else ct for a, ct in zip(avals, cts, strict=True)]
        return [ct for ct in cts if ct is not None], tuple(ct is not None for ct in cts)

    key = ("transpose", linear, nonzero, fill)
    return derive(jaxpr, key, transposed, known_avals + ct_avals, "transpose")
